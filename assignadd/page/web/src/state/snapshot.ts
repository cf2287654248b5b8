/** One model at one checkpoint on one prompt, with or without interventions: what every panel draws from. */

import { computed, effect, signal } from "@preact/signals";
import { refusal } from "../interventions/refusal";
import { resolve } from "../interventions/resolve";
import type { Specification } from "../interventions/specification";
import { circuitLogits } from "../model/circuit";
import { forward, probabilities, type Edits, type Trace } from "../model/forward";
import { argmax } from "../model/matrix";
import { paddingOf, type PadsAt } from "../model/padding";
import { marginOf } from "../model/routes";
import { promptOf, type Prompt } from "../model/prompt";
import { vocabularySize, type Task } from "../model/task";
import { parse, ParseError, withAssignment } from "../model/text";
import { swapped, type Weights } from "../model/weights";
import { modelOf, weightsAt, type Model } from "./models";
import { entry, entryOf, index, shown } from "./store";
import type { At } from "./view";

export interface Answer {
  readonly probabilities: Float32Array;
  readonly prediction: number;
  /** Logit of the right answer less the best other one. */
  readonly margin: number;
  readonly truth: number;
}
export interface Snapshot {
  readonly weights: Weights;
  readonly trace: Trace;
  readonly answer: Answer;
  readonly circuit: Answer;
}
export type Reading = { readonly prompt: Prompt; readonly error: null; readonly note: string } | { readonly prompt: null; readonly error: ParseError };

export const model = computed<Model | undefined>(() => (index.value.models.length ? modelOf(shown.model.value) : undefined));

/** The text as the bar shows it: what was typed, or the model's first example. */
export const text = computed(() => shown.text.value || model.value?.examples[0]?.text || "");

export const reading = computed<Reading | undefined>(() => (text.value ? read(text.value, shown.padding.value, entry.value.task) : undefined));

/** Whether the panels show an earlier prompt, because what is typed cannot be read. */
export const stale = computed(() => reading.value?.error != null);

/** The last prompt that could be read, or the model's first example: the panels show it while an error is typed. */
let lastGood: Prompt | undefined;
export const prompt = computed<Prompt | undefined>(() => {
  const { task } = entry.value;
  const example = model.value?.examples[0];
  const now = reading.value?.prompt;
  if (now) lastGood = now;
  else if (lastGood?.task !== task) lastGood = (example && read(example.text, 0, task).prompt) ?? undefined;
  return lastGood;
});

export const ownWeights = computed(() => (index.value.models.length ? weightsAt(shown.model.value, shown.step.value) : undefined));

/** Without interventions. */
export const plain = computed(() => snapshot(ownWeights.value, prompt.value));

/** The weights and edits of the view's interventions. */
export const applied = computed(() => {
  const own = ownWeights.value;
  const list = shown.interventions.value;
  if (!list.length) return own && { weights: own, edits: undefined };
  return changed(own, model.value, entry.value.task, list, { model: shown.model.value, step: shown.step.value });
});

/** The weights that the panels show: those of the checkpoint, with what was swapped in. */
export const currentWeights = computed(() => applied.value?.weights);

/** With the view's interventions. */
export const current = computed(() => {
  const made = applied.value;
  if (!made) return undefined;
  return made.edits || made.weights !== ownWeights.value ? snapshot(made.weights, prompt.value, made.edits) : plain.value;
});

/** `current` once it has stayed for a moment: for the panels further down, so that typing is answered at once. */
export const settled = signal<Snapshot | undefined>(undefined);
const SETTLING = 60;
let settling: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  const now = shown.model.value ? current.value : undefined;
  clearTimeout(settling);
  if (settled.peek() === undefined) settled.value = now;
  else settling = setTimeout(() => (settled.value = now), SETTLING);
});

/** The other network of a comparison, with the same interventions; undefined for one of another task. */
export const compared = computed(() => {
  const other = shown.compare.value;
  if (!other || entryOf(other.model).task !== entry.value.task) return undefined;
  const made = changed(weightsAt(other.model, other.step), modelOf(other.model), entry.value.task, shown.interventions.value, other);
  return made && snapshot(made.weights, prompt.value, made.edits);
});

/** The weights after swaps, and the other interventions as edits; undefined until all that they need is there. */
export function changed(own: Weights | undefined, of: Model | undefined, task: Task, list: Specification, at: At) {
  if (!own || !of) return undefined;
  const accepted = list.filter((one) => refusal(one, entryOf(at.model), index.value.models) === null); // the others' chips say why
  const swaps = [];
  for (const one of accepted) {
    if (one.action !== "swap") continue;
    const from = donor(one, at);
    const weights = from && weightsAt(from.model, from.step);
    if (!weights) return undefined;
    swaps.push({ component: one.component, from: weights });
  }
  const weights = swapped(own, swaps);
  return { weights, edits: resolve(accepted, weights, task, of.reference) };
}

/** Where a swap takes its weights from: the same model and step unless it names others. */
function donor(swap: { step?: number | null; seed?: number | null; run?: string | null }, at: At): At | undefined {
  const own = entryOf(at.model);
  const run = swap.run ?? own.run;
  const seed = swap.seed ?? own.seed;
  const found = index.value.models.find((m) => m.run === run && m.seed === seed);
  const step = swap.step ?? (swap.run == null ? at.step : found?.steps.at(-1));
  return found && step !== undefined && found.steps.includes(step) ? { model: found.key, step } : undefined;
}

export function snapshot(weights: Weights | undefined, prompt: Prompt | undefined, edits?: Edits): Snapshot | undefined {
  if (!weights || !prompt) return undefined;
  if (weights.W_E.rows !== vocabularySize(prompt.task)) return undefined; // the weights of another task are still shown
  const trace = forward(weights, prompt, { edits, full: true });
  const [a, b] = prompt.values;
  return { weights, trace, answer: answerFrom(trace.logits, prompt.answer), circuit: answerFrom(circuitLogits(weights, a, b), prompt.answer) };
}

function answerFrom(logits: Float32Array, truth: number): Answer {
  return { probabilities: probabilities(logits), prediction: argmax(logits), margin: marginOf(logits, truth), truth };
}

function read(text: string, padding: PadsAt, task: Task): Reading {
  const full = withAssignment(text, task);
  const note = full === null ? "" : `Read as ${full}: every sequence has an assignment.`;
  try {
    return { prompt: promptOf(parse(full ?? text, task, paddingOf(padding)), task), error: null, note };
  } catch (error) {
    if (error instanceof ParseError) return { prompt: null, error };
    throw error;
  }
}

/** Whether a text can be read as a prompt of a task. */
export function isReadable(text: string, task: Task): boolean {
  return read(text, 0, task).error === null;
}
