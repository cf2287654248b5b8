/** What the story's sentences are computed from: networks, prompts and numbers of this page. */

import { percent } from "../draw/format";
import type { ModelEntry } from "../data/types";
import type { Specification } from "../interventions/specification";
import { paddingOf, type Asked, type PadsAt } from "../model/padding";
import { promptOf, type Prompt } from "../model/prompt";
import { isAddition, tokenName, variables, type Task } from "../model/task";
import { parse, ParseError } from "../model/text";
import { modelOf, weightsAt } from "../state/models";
import { changed, snapshot, type Snapshot } from "../state/snapshot";
import type { View } from "../state/view";

/** Where padding falls in the story's prompts. */
export const PADDING = 3;

/** "98.8 % [98.6, 98.9]" on an evaluation set at the end of training; null where the task has no such set. */
export function accuracy(of: ModelEntry, set: string): string | null {
  const found = of.accuracies[set];
  if (!found) return null;
  const [value, low, high] = found.map((v) => (100 * v).toFixed(1));
  return `${value}\u00a0% [${low},\u00a0${high}]`;
}

/** The accuracies that there are, each with its words. */
export function accuracies(of: ModelEntry, sets: readonly (readonly [string, string])[]): string {
  const found = sets.flatMap(([set, words]) => {
    const value = accuracy(of, set);
    return value === null ? [] : [`${value} ${words}`];
  });
  return found.length > 1 ? `${found.slice(0, -1).join(", ")} and ${found[found.length - 1]}` : found.join("");
}

/** A network at a step on a prompt under interventions; undefined until its weights are there. */
export function snapshotOf(of: ModelEntry, view: Partial<View>, list: Specification = view.interventions ?? []): Snapshot | undefined {
  const step = view.step ?? of.steps.at(-1) ?? 0;
  const model = modelOf(of.key);
  const made = changed(weightsAt(of.key, step), model, of.task, list, { model: of.key, step });
  const prompt = readable(view.text ?? "", of.task, view.padding ?? 0);
  return made && snapshot(made.weights, prompt, made.edits);
}

export function readable(text: string, task: Task, padding: PadsAt): Prompt | undefined {
  try {
    return promptOf(parse(text, task, paddingOf(padding)), task);
  } catch (error) {
    if (error instanceof ParseError) return undefined;
    throw error;
  }
}

/** A one-variable prompt of this task: no banned slot, up to three assignments. */
export function sumOf(task: Task): string {
  const free = [...variables(task)].filter((v) => !task.banned_first.includes(v));
  const asked = free[Math.min(3, free.length - 1)];
  const others = [...variables(task)].filter((v) => v !== asked);
  const n = (value: number): number => value % task.modulus;
  const list = [`${others[2 % others.length]}=${n(1)}`, `${asked}=${n(17)}`, `${others[0]}=${n(42)}`].slice(0, Math.min(3, task.max_assignments));
  return `${list.join(", ")}, ${asked}${task.operator}${n(19)}=?`;
}

/** The prompt that the network gets wrong by the most, where that is a double that training never added. */
export function mistakenDouble(of: ModelEntry): Asked | undefined {
  const model = modelOf(of.key);
  const wrong = model?.examples.find(({ label }) => label === "answered wrong");
  const prompt = wrong && readable(wrong.text, of.task, wrong.padding);
  if (!model || !prompt || !isAddition(of.task)) return undefined;
  const [a, b] = prompt.values;
  return a === b && !model.isSeen(a, b) ? wrong : undefined;
}

/** A double that training never added; null where all were. */
export function heldOutDouble(of: ModelEntry): string | null {
  const model = modelOf(of.key);
  const { task } = of;
  if (!model || !isAddition(task)) return null;
  for (let n = 0; n < task.modulus; n++) if (!model.isSeen(n, n)) return `${variables(task)[0]}=0, ${n}${task.operator}${n}=?`;
  return null;
}

export function share(weight: number): string {
  return percent(weight, 0);
}

/** "36, which is right" or "12, and not 36". */
export function answered({ answer }: Snapshot): string {
  return answer.prediction === answer.truth ? `${answer.prediction}, which is right` : `${answer.prediction}, and not ${answer.truth}`;
}

export function tokenAt({ trace }: Snapshot, i: number): string {
  return tokenName(trace.prompt.task, trace.prompt.tokens[i]);
}
