/** The task's numbers, and token ids: numbers 0..N-1, then the operator, `=`, PAD, then the variables. */

export interface Task {
  readonly modulus: number;
  readonly n_vars: number;
  readonly length: number;
  readonly max_assignments: number;
  readonly banned_first: string;
  readonly banned_second: string;
  /** How the operation is written: `+`. */
  readonly operator: string;
  /** The answer for values n and m at n N + m. */
  readonly answers: ArrayLike<number>;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

export const operatorToken = (t: Task): number => t.modulus;
export const equals = (t: Task): number => t.modulus + 1;
export const pad = (t: Task): number => t.modulus + 2;
export const firstVariable = (t: Task): number => t.modulus + 3;
export const vocabularySize = (t: Task): number => firstVariable(t) + t.n_vars;
export const variables = (t: Task): string => LETTERS.slice(0, t.n_vars);
export const prefix = (t: Task): number => t.length - 4;
export const isNumber = (t: Task, token: number): boolean => token < t.modulus;
export const isVariable = (t: Task, token: number): boolean => token >= firstVariable(t);

/** How a token is written: `17`, `b`, the operator, `=`, and `.` for PAD. */
export function tokenName(t: Task, token: number): string {
  if (isVariable(t, token)) return LETTERS[token - firstVariable(t)];
  if (isNumber(t, token)) return String(token);
  return token === operatorToken(t) ? t.operator : token === equals(t) ? "=" : ".";
}

export function answerOf(t: Task, n: number, m: number): number {
  return t.answers[n * t.modulus + m];
}

/** Whether every answer is the sum of the two values modulo N. */
export function isAddition(t: Task): boolean {
  const N = t.modulus;
  return Array.from({ length: N * N }, (_, i) => t.answers[i] === (Math.floor(i / N) + (i % N)) % N).every(Boolean);
}
