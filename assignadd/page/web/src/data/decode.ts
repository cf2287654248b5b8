/** Tasks and prompts out of the strings of the data files. */

import { promptOf, type Prompt } from "../model/prompt";
import type { Task } from "../model/task";

export function wholeNumbers(base64: string): Int16Array {
  const bytes = atob(base64);
  return Int16Array.from({ length: bytes.length >> 1 }, (_, i) => bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8));
}

export function decodePrompts(base64: string, task: Task): Prompt[] {
  const tokens = wholeNumbers(base64);
  const T = task.length;
  return Array.from({ length: tokens.length / T }, (_, i) => promptOf([...tokens.subarray(i * T, (i + 1) * T)], task));
}

/** Sequences of the training law, and the fixed order in which a batch resamples them. */
export interface Reference {
  readonly prompts: readonly Prompt[];
  readonly order: readonly number[];
}

export function decodeReference(data: { tokens: string; order: readonly number[] }, task: Task): Reference {
  return { prompts: decodePrompts(data.tokens, task), order: data.order };
}

/** A task as the files have it: its answers as a string of whole numbers. */
export type TaskFile = Omit<Task, "answers"> & { readonly answers: string };

export function decodeTask(file: TaskFile): Task {
  return { ...file, answers: wholeNumbers(file.answers) };
}
