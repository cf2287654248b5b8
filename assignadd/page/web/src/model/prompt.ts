/** A prompt: its tokens, what each is for, and the answer to it. */

import { answerOf, isNumber, isVariable, pad, prefix, tokenName, type Task } from "./task";

export const SINGLE_ROLES = ["equals", "plus", "first", "second", "first_value", "second_value", "first_variable", "second_variable"] as const;
export const ROLES = [...SINGLE_ROLES, "assigned", "variables", "distractors", "pads"] as const;
export type Role = (typeof ROLES)[number];
/** A position, or a role that stands where the prompt has it. */
export type Place = Role | number;

export interface Prompt {
  readonly task: Task;
  readonly tokens: readonly number[];
  readonly values: readonly [number, number];
  /** Where each operand's value stands: behind its variable in the prefix, or in the slot where it is a literal. */
  readonly valuePositions: readonly [number, number];
  readonly isVariable: readonly [boolean, boolean];
  readonly answer: number;
}

export function promptOf(tokens: readonly number[], task: Task): Prompt {
  const slots = operandSlots(task);
  const operands = slots.map((s) => tokens[s]);
  const named = operands.map((t) => isVariable(task, t));
  const at = slots.map((slot, i) => (named[i] ? tokens.indexOf(operands[i]) + 1 : slot));
  const [n, m] = at.map((p) => tokens[p]);
  return {
    task,
    tokens,
    values: [n, m],
    valuePositions: [at[0], at[1]],
    isVariable: [named[0], named[1]],
    answer: answerOf(task, n, m),
  };
}

export function operandSlots(task: Task): [number, number] {
  return [prefix(task) + 1, prefix(task) + 2];
}

/** The positions that a place names in this prompt; none where it has no such token. */
export function positionsOf(prompt: Prompt, place: Place): number[] {
  const { task, tokens, valuePositions } = prompt;
  const assigned = (): number[] => upTo(prefix(task)).filter((i) => isNumber(task, tokens[i]));
  if (typeof place === "number") return [place];
  switch (place) {
    case "equals":
      return [task.length - 1];
    case "plus":
      return [prefix(task)];
    case "first":
    case "second":
      return [operandSlots(task)[place === "first" ? 0 : 1]];
    case "first_value":
    case "second_value":
      return [valuePositions[place === "first_value" ? 0 : 1]];
    case "first_variable":
    case "second_variable": {
      const i = place === "first_variable" ? 0 : 1;
      return prompt.isVariable[i] ? [valuePositions[i] - 1] : [];
    }
    case "assigned":
      return assigned();
    case "distractors":
      return assigned().filter((i) => !valuePositions.includes(i));
    case "variables":
      return upTo(prefix(task)).filter((i) => isVariable(task, tokens[i]));
    case "pads":
      return upTo(task.length).filter((i) => tokens[i] === pad(task));
  }
}

/** Which operands stand in a slot that training never put them in. */
export function bannedSlots(prompt: Prompt): ("first" | "second")[] {
  const { task, tokens, isVariable: named } = prompt;
  const letters = operandSlots(task).map((s) => tokenName(task, tokens[s]));
  const found: ("first" | "second")[] = [];
  if (named[0] && task.banned_first.includes(letters[0])) found.push("first");
  if (named[1] && task.banned_second.includes(letters[1])) found.push("second");
  return found;
}

interface Edge {
  readonly layer: 1 | 2;
  readonly query: number;
  readonly key: number;
  readonly why: string;
}

/** The edges that the paper's circuit needs on this prompt. */
export function expectedEdges(prompt: Prompt): Edge[] {
  const { task, valuePositions } = prompt;
  const last = task.length - 1;
  const copies = positionsOf(prompt, "assigned").map((i) => edge(1, i, i - 1, "an assigned number copies the variable before it"));
  const operands = operandSlots(task).map((s) => edge(1, last, s, "= reads which operands are asked for"));
  const values = valuePositions.map((p) => edge(2, last, p, "= fetches the operand's value"));
  return [...copies, ...operands, ...values];
}

function edge(layer: 1 | 2, query: number, key: number, why: string): Edge {
  return { layer, query, key, why };
}

/** Whether an expected key is among its row's heaviest, of which there are as many as are expected of this query; a tie is not enough. */
export function edgeHolds(pattern: Float32Array, T: number, edges: readonly Edge[], one: Edge): boolean {
  const row = pattern.subarray(one.query * T, (one.query + 1) * T);
  const wanted = edges.filter((e) => e.layer === one.layer && e.query === one.query).length;
  const rivals = row.reduce((n, w, k) => n + Number(k !== one.key && w >= row[one.key]), 0);
  return rivals < wanted;
}

function upTo(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}
