/** One model at one checkpoint on one prompt, with or without interventions: what every panel draws from. */

import { computed } from "@preact/signals";
import { resolve } from "../interventions/resolve";
import type { Specification } from "../interventions/specification";
import { circuitLogits } from "../model/circuit";
import { forward, probabilities, type Edits, type Trace } from "../model/forward";
import { argmax } from "../model/matrix";
import { scattered } from "../model/padding";
import { promptOf, type Prompt } from "../model/prompt";
import type { Task } from "../model/task";
import { parse, ParseError } from "../model/text";
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
export type Reading = { readonly prompt: Prompt; readonly error: null } | { readonly prompt: null; readonly error: ParseError };

export const model = computed<Model | undefined>(() => (index.value.models.length ? modelOf(shown.model.value) : undefined));

/** The text as the bar shows it: what was typed, or the model's first example. */
export const text = computed(() => shown.text.value || model.value?.examples[0]?.text || "");

export const reading = computed<Reading | undefined>(() => (text.value ? read(text.value, shown.padding.value, entry.value.task) : undefined));

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
const applied = computed(() => {
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

export const compared = computed(() => {
  const other = shown.compare.value;
  if (!other) return undefined;
  const { task } = entryOf(other.model);
  return snapshot(weightsAt(other.model, other.step), prompt.value && promptOf(prompt.value.tokens, task));
});

/** The weights after swaps, and the other interventions as edits; undefined until all that they need is there. */
export function changed(own: Weights | undefined, of: Model | undefined, task: Task, list: Specification, at: At) {
  if (!own || !of) return undefined;
  const swaps = [];
  for (const one of list) {
    if (one.action !== "swap") continue;
    const from = donor(one, at);
    if (!from) continue; // a checkpoint that this page does not have; its chip says so
    const weights = weightsAt(from.model, from.step);
    if (!weights) return undefined;
    swaps.push({ component: one.component, from: weights });
  }
  const weights = swapped(own, swaps);
  try {
    return { weights, edits: resolve(list, weights, task, of.reference) };
  } catch {
    return { weights, edits: undefined }; // a neuron or frequency that this network does not have
  }
}

/** Where a swap takes its weights from: the same model and step unless it names others. */
export function donor(swap: { step?: number | null; seed?: number | null; run?: string | null }, at: At): At | undefined {
  const own = entryOf(at.model);
  const run = swap.run ?? own.run;
  const seed = swap.seed ?? own.seed;
  const found = index.value.models.find((m) => m.run === run && m.seed === seed);
  const step = swap.step ?? (swap.run == null ? at.step : found?.steps.at(-1));
  return found && step !== undefined && found.steps.includes(step) ? { model: found.key, step } : undefined;
}

export function snapshot(weights: Weights | undefined, prompt: Prompt | undefined, edits?: Edits): Snapshot | undefined {
  if (!weights || !prompt) return undefined;
  if (weights.W_E.rows !== prompt.task.modulus + 3 + prompt.task.n_vars) return undefined; // a prompt of another task
  const trace = forward(weights, prompt, { edits, full: true });
  const [a, b] = prompt.values;
  return { weights, trace, answer: answerOf(trace.logits, prompt.answer), circuit: answerOf(circuitLogits(weights, a, b), prompt.answer) };
}

function answerOf(logits: Float32Array, truth: number): Answer {
  const others = Math.max(...logits.filter((_, i) => i !== truth));
  return { probabilities: probabilities(logits), prediction: argmax(logits), margin: logits[truth] - others, truth };
}

function read(text: string, padding: number, task: Task): Reading {
  try {
    return { prompt: promptOf(parse(text, task, scattered(padding)), task), error: null };
  } catch (error) {
    if (error instanceof ParseError) return { prompt: null, error };
    throw error;
  }
}
