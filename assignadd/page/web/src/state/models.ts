/** Models and checkpoints as they arrive, kept for a while. */

import { signal, type Signal } from "@preact/signals";
import { decodePrompts, decodeReference, wholeNumbers, type Reference } from "../data/decode";
import { loadModel, loadWeights } from "../data/load";
import type { Curves } from "../data/types";
import { asked, type Asked } from "../model/padding";
import type { Prompt } from "../model/prompt";
import { decodeMatrices, weightsOf, type Weights } from "../model/weights";
import { entryOf } from "./store";

interface Exam {
  readonly prompts: readonly Prompt[];
  readonly labels: Int16Array;
  readonly sets: readonly (readonly [string, number, number])[];
}
interface Example extends Asked {
  readonly label: string;
}
export interface Model {
  readonly key: string;
  readonly curves: Curves;
  readonly measures: Curves;
  readonly examples: readonly Example[];
  readonly exam: Exam;
  readonly reference: Reference;
  isSeen(n: number, m: number): boolean;
}

/** Checkpoints in memory: each takes about 2 MB. */
const KEPT = 40;

export const problem = signal<string | null>(null);
const models = new Map<string, Signal<Model | undefined>>();
const checkpoints = new Map<string, Signal<Weights | undefined>>();

/** The model's data, once they are there. */
export function modelOf(key: string): Model | undefined {
  return slot(models, key, async () => {
    const { task } = entryOf(key);
    const data = await loadModel(key);
    const exam = { prompts: decodePrompts(data.exam.tokens, task), labels: wholeNumbers(data.exam.labels), sets: data.exam.sets };
    return {
      key, curves: data.curves, measures: data.measures, exam,
      examples: data.examples.map(({ label, text }) => ({ label, ...asked(text, task) })),
      reference: decodeReference(data.reference, task), isSeen: (n: number, m: number) => data.seen[n * task.modulus + m] === "1",
    };
  }).value;
}

/** The weights of a checkpoint, once they are there. */
export function weightsAt(key: string, step: number): Weights | undefined {
  const name = `${key}@${step}`;
  const found = slot(checkpoints, name, async () => weightsOf(decodeMatrices(await loadWeights(key, step), entryOf(key).matrices)));
  checkpoints.delete(name); // the most recent stand last
  checkpoints.set(name, found);
  for (const old of [...checkpoints.keys()].slice(0, Math.max(0, checkpoints.size - KEPT))) checkpoints.delete(old);
  return found.value;
}

/** Fetches the checkpoints beside this one, so that the next step along is there when it is wanted. */
export function fetchBeside(key: string, step: number): void {
  const { steps } = entryOf(key);
  const at = steps.indexOf(step);
  for (const i of [at + 1, at - 1]) if (steps[i] !== undefined) weightsAt(key, steps[i]);
}

function slot<T>(all: Map<string, Signal<T | undefined>>, name: string, load: () => Promise<T>): Signal<T | undefined> {
  const known = all.get(name);
  if (known) return known;
  const made = signal<T | undefined>(undefined);
  all.set(name, made);
  load().then(
    (value) => (made.value = value),
    (error: unknown) => {
      all.delete(name);
      problem.value = error instanceof Error ? error.message : String(error);
    },
  );
  return made;
}
