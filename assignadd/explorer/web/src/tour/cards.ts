/** The paper's story in cards; each sets the page to where its sentence can be seen. */

import type { Index, ModelEntry } from "../data/types";
import { variables, type Task } from "../model/task";
import type { View } from "../state/view";

export interface Card {
  readonly title: string;
  readonly text: string;
  /** Claims of the ledger that speak to it. */
  readonly claims: readonly string[];
  /** The panel to look at. */
  readonly panel: string;
  /** Where the card stands, so as not to cover what it speaks of. */
  readonly side: "left" | "right";
  readonly set: Partial<View>;
}

/** The cards that this page's models can show. */
export function cardsOf(index: Index): Card[] {
  const bound = index.models.find((m) => m.binds && m.phases.spikes.length) ?? index.models.find((m) => m.binds);
  const unbound = index.models.find((m) => !m.binds);
  return [...(bound ? boundCards(bound) : []), ...(unbound ? unboundCards(unbound, bound) : [])];
}

function boundCards(m: ModelEntry): Card[] {
  const { task } = m;
  const last = m.steps.at(-1) ?? 0;
  const at = (step: number): Partial<View> => ({ model: m.key, step, interventions: [], compare: null, padding: 3 });
  const sum = sumOf(task);
  const [first, second] = m.phases.spikes;
  const cards: Card[] = [
    {
      title: "A sum with names in it",
      text: "The network reads assignments and padding, then a sum whose operands may be variables. It was never shown some pairs of numbers, nor some variables in some slots, and answers those too.",
      claims: ["over-98-2-var-add-restricted", "new-positions-99.6"],
      panel: "ask",
      side: "right",
      set: { ...at(last), text: sum },
    },
    {
      title: "One adder for everything",
      text: "Take the two numbers' OV2 outputs, add them, send them through the MLP alone: no attention, no residual stream. This isolated adder already gives the answers, and literals and variables share it.",
      claims: ["ov-mlp-99.94"],
      panel: "answer",
      side: "left",
      set: { ...at(last), text: sum },
    },
    {
      title: "The adder thinks in waves",
      text: "A neuron's input over all pairs (n, m) is a cosine of n plus a cosine of m. Look beyond the best one: many neurons mix frequencies, yet a few frequencies carry nearly all of it.",
      claims: ["fourier-best-neuron", "fourier-median-neuron"],
      panel: "neurons",
      side: "right",
      set: { ...at(last), text: sum, ordering: "share" },
    },
    {
      title: "Every value learns its name",
      text: "In layer 1 each assigned number looks one step back and copies the variable it belongs to, while = looks at the two operand slots and copies what is asked for.",
      claims: ["attn-l1-num-to-prev", "attn-l1-equal-to-operands"],
      panel: "attention",
      side: "right",
      set: { ...at(last), text: sum, shape: "arcs" },
    },
    {
      title: "Then = fetches the values",
      text: "In layer 2, = holds a copied variable and so does the right number. QK2 matches a copied variable with itself: the dark diagonal. The value's OV2 output lands where the adder reads.",
      claims: ["attn-l2-equal-to-values", "qk2-identity"],
      panel: "weights",
      side: "left",
      set: { ...at(last), text: sum },
    },
    {
      title: "Cut one edge",
      text: "If that account is right, then without the edge from = to the first value every kind of sum must fail, and it does. Take the chip back to repair it.",
      claims: ["attention-mass"],
      panel: "break",
      side: "right",
      set: { ...at(last), text: sum, interventions: [{ action: "cut", layer: 2, query: "equals", key: "first_value" }] },
    },
  ];
  if (first)
    cards.push(
      {
        title: "Addition comes first",
        text: "Just before the first spike the network adds numbers it never saw added, and still gets this sum with a variable wrong.",
        claims: ["addition-first-held-out"],
        panel: "ask",
        side: "left",
        set: { ...at(first.before), text: m.telling.first ?? sum, shape: "arcs" },
      },
      {
        title: "Then binding, in a jump",
        text: "One checkpoint later the same sum comes out right: = looks at the right places. Compare the two sides of the spike.",
        claims: ["first-spike"],
        panel: "compare",
        side: "left",
        set: { ...at(first.after), text: m.telling.first ?? sum, compare: { model: m.key, step: first.before } },
      },
    );
  if (second)
    cards.push({
      title: "Refinement, last of all",
      text: "Variables in slots that training never put them in come later still. Here everything else is solved, and this sum is not; one checkpoint on it is.",
      claims: ["binding-before-refinement", "every-seed-refines"],
      panel: "attention",
      side: "right",
      set: { ...at(second.before), text: m.telling.second ?? bannedSumOf(task), shape: "arcs", compare: { model: m.key, step: second.after } },
    });
  return cards;
}

function unboundCards(m: ModelEntry, bound: ModelEntry | undefined): Card[] {
  const sum = m.telling.end ?? sumOf(m.task);
  const at: Partial<View> = { model: m.key, step: m.steps.at(-1) ?? 0, interventions: [], compare: null, padding: 3, text: sum };
  const same = bound && JSON.stringify(bound.task) === JSON.stringify(m.task) ? bound : undefined;
  return [
    {
      title: "Not every seed gets there",
      text: "Same data law, same settings, another seed: this one adds as well as any other and never learns to look a variable up. The paper expected its findings to hold across initialisations.",
      claims: ["every-seed-binds", "every-seed-adds"],
      panel: "attention",
      side: "right",
      set: { ...at, shape: "arcs" },
    },
    {
      title: "What it never builds",
      text: "Side by side with a seed that binds: the adder is there in both. What is missing is the routing, the edges in layer 1 and the diagonal of QK2.",
      claims: ["every-binding-seed-identity"],
      panel: same ? "compare" : "weights",
      side: "left",
      set: { ...at, ...(same && { compare: { model: same.key, step: same.steps.at(-1) ?? 0 } }) },
    },
  ];
}

/** A one-variable sum of this task: no banned slot, up to three assignments. */
function sumOf(task: Task): string {
  const free = [...variables(task)].filter((v) => !task.banned_first.includes(v));
  const asked = free[Math.min(3, free.length - 1)];
  const others = [...variables(task)].filter((v) => v !== asked);
  const n = (value: number): number => value % task.modulus;
  const list = [`${others[2 % others.length]}=${n(1)}`, `${asked}=${n(17)}`, `${others[0]}=${n(42)}`].slice(0, Math.min(3, task.max_assignments));
  return `${list.join(", ")}, ${asked}+${n(19)}=?`;
}

function bannedSumOf(task: Task): string {
  const slot = task.banned_second || task.banned_first;
  if (!slot) return sumOf(task);
  const asked = slot[slot.length - 1];
  const other = [...variables(task)].filter((v) => v !== asked)[2];
  const n = (value: number): number => value % task.modulus;
  const list = [`${asked}=${n(17)}`, `${other}=${n(42)}`].slice(0, task.max_assignments);
  return `${list.join(", ")}, ${task.banned_second ? `${n(19)}+${asked}` : `${asked}+${n(19)}`}=?`;
}
