/** The story, section by section: a question, sentences computed from this page's networks, something to try. */

import { count, fixed, percent } from "../draw/format";
import type { Index, ModelEntry } from "../data/types";
import { networkFrequencies, spectrumOf } from "../model/fourier";
import type { Asked } from "../model/padding";
import { operandSlots } from "../model/prompt";
import { isAddition } from "../model/task";
import { adderMistakes, partName, partsOf } from "../model/waves";
import { doubles } from "../panels/PopulationPanel";
import { summary } from "../panels/TrainingPanel";
import { addIntervention } from "../state/interventions";
import { modelOf } from "../state/models";
import { change } from "../state/store";
import type { View } from "../state/view";
import { accuracies, accuracy, answered, heldOutDouble, mistakenDouble, PADDING, readable, share, snapshotOf, sumOf, tokenAt } from "./facts";

export type Figure = "circuit" | "step" | "break" | "curve" | "population";
export interface Try {
  readonly label: string;
  readonly act: () => void;
}
export interface Section {
  /** The package says which claims of the ledger speak to it, by this id (`page.history`). */
  readonly id: string;
  readonly title: string;
  /** What the page shows beside it, the first at the top. */
  readonly figures: readonly Figure[];
  readonly set: Partial<View>;
  /** Computed from `set`, so that it stays true while the reader tries things. */
  readonly sentences: () => readonly (string | null | undefined)[];
  readonly tries: () => readonly Try[];
  /** Why a claim that the section quotes comes out as it does, by the claim's id. */
  readonly reasons?: Readonly<Record<string, () => string | null>>;
}

/** The claim that tells the accuracy on a set: where it is quoted, no sentence gives that number again. */
const TOLD_BY: Readonly<Record<string, string>> = {
  "1-var add-restricted": "over-98-1-var-add-restricted",
  "2-var add-restricted": "over-98-2-var-add-restricted",
  "1-var var-restricted": "over-98-1-var-var-restricted",
  "0-var doubles": "held-out-pairs-99.4:doubles",
};

/** The sections that this page's networks can show. */
export function sectionsOf(index: Index): Section[] {
  const told = index.models.find((m) => m.key === index.story) ?? index.models[0];
  const other = index.models.find((m) => m.task === told.task && !m.binds);
  const moving = told.steps.length > 1 ? told : index.models.find((m) => m.steps.length > 1 && m.binds);
  return [
    ...howSections(told, index),
    ...(moving ? [when(moving, moving === told, index)] : []),
    ...(index.population?.census || (other && told.binds) ? [always(told, other, index)] : []),
    ...(accuracy(told, "0-var doubles") ? [unseen(told, index)] : []),
    ending(told),
  ];
}

function at(m: ModelEntry, part: Partial<View> = {}): Partial<View> {
  return { model: m.key, step: m.steps.at(-1) ?? 0, interventions: [], compare: null, padding: PADDING, text: sumOf(m.task), node: "answer", ...part };
}

function example(m: ModelEntry, label: string): Try[] {
  const found = modelOf(m.key)?.examples.find((e) => e.label === label);
  return found ? [{ label: `${label}: ${found.text}`, act: () => change({ text: found.text, padding: found.padding }) }] : [];
}

/** Those of the sets whose accuracy no claim of the story tells. */
function untold(index: Index, sets: readonly (readonly [string, string])[]): readonly (readonly [string, string])[] {
  const quoted = new Set(index.ledger.map((claim) => claim.id));
  return sets.filter(([set]) => !quoted.has(TOLD_BY[set]));
}

function howSections(m: ModelEntry, index: Index): Section[] {
  const T = m.task.length;
  const base = at(m);
  const prompt = readable(sumOf(m.task), m.task, PADDING);
  const value = prompt?.valuePositions[0] ?? 0;
  const [first, second] = operandSlots(m.task);
  const cut = { action: "cut", layer: 2, query: "equals", key: "first_value" } as const;
  return [
    {
      id: "can", title: "Can it?", figures: ["circuit"], set: base,
      sentences: () => {
        const now = snapshotOf(m, base);
        return [
          "The prompt gives letters their numbers, then asks for two of them, or for a letter and a number. Nothing but the letter says which number is meant.",
          now && `Here the network answers ${answered(now)}.`,
          `Over ${count(m.accuracies["1-var train"]?.[3] ?? 0)} fresh prompts of each kind that training had it answers ${accuracies(m, [["1-var train", "with one variable"], ["2-var train", "with two"]])}. The harder test is with numbers that it never saw added.`,
          stated(accuracies(m, untold(index, [["1-var add-restricted", "with one variable"], ["2-var add-restricted", "with two"]])), "Of these it answers"),
        ];
      },
      tries: () => [...example(m, "two variables"), { label: `two numbers alone: 17${m.task.operator}19=?`, act: () => change({ text: `${17 % m.task.modulus}${m.task.operator}${19 % m.task.modulus}=?`, padding: 0 }) }],
    },
    {
      id: "names", title: "How does a number know its name?", figures: ["circuit", "step"], set: { ...base, node: { layer: 1, query: value } },
      sentences: () => {
        const now = snapshotOf(m, base);
        const pattern = now?.trace.patterns[0].data;
        return [
          "Layer 1 lets every token copy from earlier ones.",
          now && pattern && `On this prompt ${tokenAt(now, value)} gives ${share(pattern[value * T + value - 1])} of its attention to ${tokenAt(now, value - 1)}, the letter before it, and = gives ${share(pattern[(T - 1) * T + first])} to the first operand and ${share(pattern[(T - 1) * T + second])} to the second.`,
          "The boxes of layer 1 show what each token has read most.",
        ];
      },
      tries: () => [{ label: "stop all copying of names", act: () => addIntervention({ action: "cut", layer: 1, query: "assigned", key: "variables" }) }],
    },
    {
      id: "fetch", title: "How does = fetch the values?", figures: ["circuit", "step"], set: { ...base, node: { layer: 2, query: T - 1 } },
      sentences: () => {
        const now = snapshotOf(m, base);
        const pattern = now?.trace.patterns[1].data;
        const [a, b] = now?.trace.prompt.valuePositions ?? [0, 0];
        return [
          "In layer 2, = attends once more, and adds up what layer 2 writes for the tokens that it attends to.",
          now && pattern && `Here it gives ${share(pattern[(T - 1) * T + a])} of its attention to ${tokenAt(now, a)} at position ${a} and ${share(pattern[(T - 1) * T + b])} to ${tokenAt(now, b)} at position ${b}.`,
          "Below, the weighted sum is compared with what layer 2 writes for each number alone.",
        ];
      },
      tries: () => [{ label: "let = look at nothing but the two values", act: () => addIntervention({ action: "pattern", layer: 2, query: "equals", weights: { first_value: 0.5, second_value: 0.5 } }) }],
    },
    {
      id: "cause", title: "Is that really how?", figures: ["circuit", "break"], set: { ...base, interventions: [cut] },
      sentences: () => {
        const [plain, broken] = [snapshotOf(m, base), snapshotOf(m, base, [cut])];
        return [
          "If the account is right, the answer must depend on these edges. So one is cut: = may no longer look at the first value.",
          plain && broken && `The network answered ${answered(plain)}; with the cut it answers ${answered(broken)}. The margin of the right answer goes from ${fixed(plain.answer.margin, 1)} to ${fixed(broken.answer.margin, 1)} logits.`,
          "An edge in the figure is as wide as what its own cut takes from that margin.",
        ];
      },
      tries: () => [{ label: "take the cut back", act: () => change({ interventions: [] }) }, { label: "cut = off from the second value too", act: () => addIntervention({ ...cut, key: "second_value" }) }],
    },
    {
      id: "add", title: isAddition(m.task) ? "How does it add?" : "How does it compute?", figures: ["step", "circuit"], set: { ...base, node: "mlp" },
      sentences: () => {
        const now = snapshotOf(m, base);
        if (!now) return [];
        const { shares, waves } = spectrumOf(now.weights, m.task.modulus);
        const own = networkFrequencies(shares);
        const parts = partsOf(now.weights, now.trace, m.task.modulus);
        return [
          `The MLP turns the two values into an answer. ${own.length} of ${shares.length} frequencies hold ${percent(own.reduce((s, k) => s + shares[k - 1], 0), 0)} of what its ${count(waves.length)} neurons compute from the two operands.`,
          parts.length > 0 && `On this prompt the largest part is ${partName(parts[0])}: it adds ${fixed(parts[0].logits[now.answer.truth], 1)} logits to the right answer, relative to the mean answer.`,
          `Given the two numbers alone, without any attention, the adder says ${now.circuit.prediction}.`,
        ].filter((s) => s !== false);
      },
      tries: () => {
        const now = snapshotOf(m, base);
        const part = now && partsOf(now.weights, now.trace, m.task.modulus).find((p) => typeof p.frequency === "number");
        const k = part?.frequency;
        return typeof k === "number" ? [{ label: `remove frequency ${k}`, act: () => addIntervention({ action: "zero", hook: "blocks.1.mlp.hook_post", frequencies: [k] }) }] : [];
      },
      reasons: { "ov-mlp-99.94": () => whatTheAdderGetsWrong(m), "fourier-best-neuron:median": () => howPureNeuronsAre(m) },
    },
    {
      id: "new", title: "Does it remember, or does it know?", figures: ["circuit"], set: { ...base, ...textOf(m, "held-out pair") },
      sentences: () => [
        "Training left some pairs of numbers out, and never put some letters into one of the two slots.",
        stated(accuracies(m, untold(index, [["0-var add-restricted", "of literals with a held-out pair"], ["1-var var-restricted", "with one variable, in a banned slot"], ["2-var var-restricted (2)", "with two variables in banned slots"], ["2-var doubly held out (2)", "with two in banned slots and a held-out pair"]])), "Of such sums the network answers"),
      ],
      tries: () => [...example(m, "banned slot"), ...example(m, "both slots banned"), ...example(m, "answered wrong")],
    },
  ];
}

/** A sentence, if there is something to tell. */
function stated(what: string, beginning: string): string | null {
  return what ? `${beginning} ${what}.` : null;
}

function whatTheAdderGetsWrong(m: ModelEntry): string | null {
  const now = snapshotOf(m, at(m));
  const model = modelOf(m.key);
  if (!now || !model) return null;
  const wrong = adderMistakes(now.weights, m.task);
  if (!wrong.length) return null;
  const doubles = wrong.filter(([a, b]) => a === b && !model.isSeen(a, b));
  const names = wrong.slice(0, 8).map(([a, b]) => `${a}${m.task.operator}${b}`);
  const kind = doubles.length === wrong.length ? "all of them doubles n + n that training left out" : `${doubles.length} of them doubles n + n that training left out`;
  return `Why: it gets ${wrong.length} of the ${count(m.task.modulus ** 2)} pairs wrong (${names.join(", ")}${wrong.length > names.length ? ", …" : ""}), ${kind}. Every other pair comes out right. “What did the paper not see?” goes on from here.`;
}

function howPureNeuronsAre(m: ModelEntry): string | null {
  const now = snapshotOf(m, at(m));
  if (!now) return null;
  const { waves } = spectrumOf(now.weights, m.task.modulus);
  const pure = waves.filter((w) => w.share >= 0.9).length;
  return `Why: the paper shows its best neuron, and most others mix frequencies. Of the ${count(waves.length)} neurons ${count(pure)} reach 90 %. The wave of a frequency in the figure is what all its neurons add together; the network answers right with impure ones.`;
}

function promptOf(found: Asked | null | undefined): Partial<View> {
  return found ? { text: found.text, padding: found.padding } : {};
}

function textOf(m: ModelEntry, label: string): Partial<View> {
  return promptOf(modelOf(m.key)?.examples.find((e) => e.label === label));
}

/** The training of the story's network, or of another one on the page where that has a single checkpoint. */
function when(m: ModelEntry, told: boolean, index: Index): Section {
  const spike = m.phases.spikes[0];
  const shown = m.telling.first;
  const [before, after] = spike?.checkpoints ?? [];
  return {
    // The claims that are quoted under "when" are of the story's network.
    id: told ? "when" : "when-another", title: "When does it learn this?", figures: ["circuit", "curve"],
    set: at(m, { ...promptOf(shown), ...(before !== undefined && { step: before }) }),
    sentences: () => {
      const ends = shown && spike ? [before, after].map((step) => snapshotOf(m, { ...shown, step })) : [];
      return [
        told ? null : `The network above is here as it was at the end. Another one is here at ${m.steps.length} moments of its training: seed ${m.seed} of ${m.run}, with ${m.task.n_vars} variables and numbers below ${m.task.modulus}.`,
        summary(m, index.rules),
        spike && `At the first spike the mean accuracy on sums with variables goes from a plateau of ${percent(spike.low, 0)} to one of ${percent(spike.high, 0)}.`,
        ends[0] && ends[1] && `The sum in the figure: at step ${count(before)} the network answers ${answered(ends[0])}; at step ${count(after)} it answers ${answered(ends[1])}.`,
      ];
    },
    tries: () => [
      ...(spike ? [{ label: `just after the spike (step ${count(after)})`, act: () => change({ step: after }) }] : []),
      { label: "back to the first checkpoint, then press Play", act: () => change({ step: m.steps[0] }) },
    ],
  };
}

function always(told: ModelEntry, other: ModelEntry | undefined, index: Index): Section {
  const census = index.population?.census;
  const set = other ? at(other, promptOf(other.telling.end)) : at(told);
  return {
    id: "always", title: "Does every seed learn it?", figures: other ? ["circuit", "population"] : ["population", "circuit"], set,
    sentences: () => [
      census && `${census.bind < census.n ? "No" : "Yes"}: of ${census.n} networks that differ in their seed, ${census.bind} bind within ${count(census.steps)} steps, ${percent(census.bind / census.n, 0)} [${percent(census.low, 0)}, ${percent(census.high, 0)}].`,
      other && `Seed ${other.seed} of ${other.run} is one that does not: it answers ${accuracies(other, [["0-var add-restricted", "of held-out literal sums"], ["1-var train", "of trained sums with one variable"]])}.`,
      other && "Its circuit is in the figure: a ✗ marks an edge that the account needs and that is not among its token's heaviest.",
    ],
    tries: () => (other ? [{ label: `the same prompt in seed ${told.seed} of ${told.run}`, act: () => change({ model: told.key, step: told.steps.at(-1) ?? 0 }) }] : []),
  };
}

function unseen(m: ModelEntry, index: Index): Section {
  const census = index.population?.census;
  const double = heldOutDouble(m);
  const wrong = mistakenDouble(m);
  return {
    id: "unseen", title: "What did the paper not see?", figures: ["circuit"], set: at(m, wrong ? { text: wrong.text, padding: wrong.padding } : double ? { text: double, padding: 0 } : {}),
    sentences: () => [
      "Doubles: sums n + n that training left out.",
      stated(accuracies(m, untold(index, [["0-var doubles", "of the held-out doubles"]])), "This network answers"),
      stated(accuracies(m, [["0-var mirror seen", "where the other order was seen"], ["0-var neither order", "where neither was"]]), "Of other held-out pairs it answers"),
      census && doubles(census),
      "Nor did it see the seeds that stay stuck, those of the section before.",
    ],
    tries: () => (double ? [{ label: `a held-out double: ${double}`, act: () => change({ text: double, padding: 0, interventions: [] }) }, ...example(m, "answered wrong")] : example(m, "answered wrong")),
  };
}

/** The sentences are those of `Ending`. */
function ending(m: ModelEntry): Section {
  return { id: "open", title: "What is open, and where to go on", figures: ["circuit"], set: at(m), sentences: () => [], tries: () => [] };
}
