/** PyTorch's numbers, which `python -m tests.page.numbers FOLDER` writes; NUMBERS names the folder. */

import { readFileSync } from "node:fs";
import { decodeReference, decodeTask, type TaskFile } from "../src/data/decode";
import type { Specification } from "../src/interventions/specification";
import type { Task } from "../src/model/task";
import { decodeMatrices, weightsOf, type Shapes, type Weights } from "../src/model/weights";

interface NumbersFile {
  task: TaskFile;
  matrices: Shapes;
  weights: string;
  other: string;
  prompts: number[][];
  reference: { tokens: string; order: number[] };
  interventions: Record<string, Specification>;
  logits: Record<string, number[][]>;
  patterns: number[][][][];
  waves: { frequency: number[]; share: number[] };
  bare: Record<string, string | null>;
  texts: { text: string; tokens?: number[]; text_form?: string; token_form?: string; column?: number; expected?: string }[];
}

const folder = process.env.NUMBERS;
if (!folder) throw new Error("set NUMBERS to the folder that `python -m tests.page.numbers FOLDER` wrote");
const file = JSON.parse(readFileSync(`${folder}/numbers.json`, "utf8")) as NumbersFile;
export const numbers: Omit<NumbersFile, "task"> & { task: Task } = { ...file, task: decodeTask(file.task) };

export function weightsFrom(script: string): Weights {
  const data = /,"([^"]*)"\);/.exec(script)?.[1] ?? "";
  return weightsOf(decodeMatrices(data, numbers.matrices));
}

export const weights = weightsFrom(numbers.weights);
export const other = weightsFrom(numbers.other);
export const reference = decodeReference(numbers.reference, numbers.task);
