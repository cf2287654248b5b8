/** Prompts as people type them, in the package's two forms: `c=1, b=17, b+19=?` and `c 1 . b 17 + b 19 =`. */

import { equals, isNumber, isVariable, operatorToken, pad, prefix, tokenName, variables, firstVariable, type Task } from "./task";

const TEXT_WORD = /[A-Za-z]+|[0-9]+|\S/gu;
const TOKEN_WORD = /\S+/gu;
const PADS = [".", "PAD"];

/** Where the text goes wrong (columns from 1), what is expected there, and what stands there. */
export class ParseError extends Error {
  constructor(
    readonly column: number,
    readonly expected: string,
    readonly got: string,
  ) {
    const shown = got === "" ? "the end" : `'${got.length <= 20 ? got : `${got.slice(0, 20)}...`}'`;
    super(`expected ${expected}, got ${shown}`);
  }
}

/** The gaps of a text form's padding: how many PADs stand before each assignment, and behind the last. */
export type Gaps = readonly number[];
export type Padding = (pads: number, gaps: number) => Gaps;

export const inFront: Padding = (pads, gaps) => [pads, ...Array<number>(gaps - 1).fill(0)];

export function parse(text: string, task: Task, padding: Padding = inFront): number[] {
  if (!text.trim()) throw new ParseError(1, "a sequence such as a=1, a+0=?", "");
  return isTextForm(text, task) ? readText(new Reader(text, TEXT_WORD, task), padding) : readTokens(new Reader(text, TOKEN_WORD, task));
}

/** The token form has no comma, no `v=n`, and a space on either side of the operator. */
export function isTextForm(text: string, { operator }: Task): boolean {
  const sign = operator.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  return new RegExp(`,|\\p{L}\\s*=\\s*[^\\s?]|[\\p{L}\\p{N}_]${sign}[\\p{L}\\p{N}_]`, "u").test(text);
}

/** Two numbers alone, such as `17+19=?`, with the assignment that every sequence has put in front; null for all other texts. */
export function withAssignment(text: string, task: Task): string | null {
  const words = [...text.matchAll(TEXT_WORD)].map((m) => m[0]);
  const [first, sign, second, ...rest] = words;
  const isBare = /^[0-9]+$/.test(first ?? "") && sign === task.operator && /^[0-9]+$/.test(second ?? "") && ["", "=", "=?"].includes(rest.join(""));
  return isBare ? `${variables(task)[0]}=0, ${first}${sign}${second}=?` : null;
}

/** The text form; where the PADs stood is lost. */
export function render(tokens: readonly number[], task: Task): string {
  const p = prefix(task);
  const assigned = [...assignments(tokens, task)].map(([v, n]) => `${tokenName(task, v)}=${tokenName(task, n)}`);
  return [...assigned, `${tokenName(task, tokens[p + 1])}${task.operator}${tokenName(task, tokens[p + 2])}=?`].join(", ");
}

export function renderTokens(tokens: readonly number[], task: Task): string {
  return tokens.map((t) => tokenName(task, t)).join(" ");
}

/** Each variable of the prefix that a number follows directly, with that number. */
export function assignments(tokens: readonly number[], task: Task): Map<number, number> {
  const found = new Map<number, number>();
  for (let i = 0; i + 1 < prefix(task); i++)
    if (isVariable(task, tokens[i]) && isNumber(task, tokens[i + 1])) found.set(tokens[i], tokens[i + 1]);
  return found;
}

class Reader {
  readonly assigned = new Map<string, number>();
  private readonly words: { column: number; word: string }[];
  private readonly numbers = new Map<string, number>();
  private readonly variables = new Map<string, number>();
  private at = 0;

  constructor(
    text: string,
    word: RegExp,
    readonly task: Task,
  ) {
    for (let n = 0; n < task.modulus; n++) this.numbers.set(String(n), n);
    [...variables(task)].forEach((letter, i) => this.variables.set(letter, firstVariable(task) + i));
    const end = { column: text.trimEnd().length + 1, word: "" };
    this.words = [...[...text.matchAll(word)].map((m) => ({ column: m.index + 1, word: m[0] })), end, end];
  }

  get word(): string {
    return this.words[this.at].word;
  }

  /** Whether `x+y` begins here, and not `v=n`; the operator decides, and where there is none, what x could be. */
  get atAddition(): boolean {
    const following = this.words[Math.min(this.at + 1, this.words.length - 1)].word;
    return following === this.task.operator || (following !== "=" && (this.numbers.has(this.word) || this.assigned.has(this.word)));
  }

  isAt(word: string): boolean {
    return this.word === word;
  }

  error(expected: string): ParseError {
    const { column, word } = this.words[this.at];
    return new ParseError(column, expected, word);
  }

  take(accepted: readonly string[], expected: string): void {
    if (!accepted.includes(this.word)) throw this.error(expected);
    this.at++;
  }

  finish(): void {
    if (this.word !== "") throw this.error("nothing after the addition");
  }

  newVariable(): number {
    if (this.assigned.has(this.word)) throw this.error("a variable that is not assigned yet");
    const most = Math.min(this.task.max_assignments, Math.floor(prefix(this.task) / 2));
    if (this.assigned.size === most && this.variables.has(this.word)) throw this.error(`the addition after at most ${most} assignments`);
    const name = this.word;
    const token = this.look(this.variables, `a variable among ${variables(this.task)}`);
    this.assigned.set(name, token);
    return token;
  }

  number(): number {
    return this.look(this.numbers, `a number from 0 to ${this.task.modulus - 1}`);
  }

  operand(first?: number): number {
    const accepted = new Map([...this.numbers, ...[...this.assigned].filter(([, token]) => token !== first)]);
    const other = first !== undefined && isVariable(this.task, first) ? ` other than ${tokenName(this.task, first)}` : "";
    return this.look(accepted, `a number from 0 to ${this.task.modulus - 1} or an assigned variable${other}`);
  }

  private look(accepted: ReadonlyMap<string, number>, expected: string): number {
    const token = accepted.get(this.word);
    if (token === undefined) throw this.error(expected);
    this.at++;
    return token;
  }
}

function readText(reader: Reader, padding: Padding): number[] {
  const assigned: [number, number][] = [];
  while (!reader.atAddition) {
    const variable = reader.newVariable();
    reader.take(["="], "'='");
    assigned.push([variable, reader.number()]);
    reader.take([","], "',' and then the addition");
  }
  if (!assigned.length) throw reader.error("an assignment such as a=1 before the addition");
  const first = reader.operand();
  reader.take([reader.task.operator], `'${reader.task.operator}'`);
  const second = reader.operand(first);
  reader.take(["="], "'='");
  reader.take(["?", ""], "'?' or the end");
  reader.finish();
  return [...padded(assigned, reader.task, padding), ...suffix(reader.task, first, second)];
}

function readTokens(reader: Reader): number[] {
  const { task } = reader;
  const found: number[] = [];
  while (!reader.isAt(task.operator)) {
    const tooLong = reader.error(`'${task.operator}' after at most ${prefix(task)} tokens`);
    if (PADS.includes(reader.word)) {
      reader.take(PADS, "'.'");
      found.push(pad(task));
    } else found.push(reader.newVariable(), reader.number());
    if (found.length > prefix(task)) throw tooLong;
  }
  if (!reader.assigned.size) throw reader.error("an assignment such as a 1 before the addition");
  reader.take([task.operator], `'${task.operator}'`);
  const first = reader.operand();
  const second = reader.operand(first);
  reader.take(["="], "'='");
  reader.finish();
  return [...Array<number>(prefix(task) - found.length).fill(pad(task)), ...found, ...suffix(task, first, second)];
}

function suffix(task: Task, first: number, second: number): number[] {
  return [operatorToken(task), first, second, equals(task)];
}

function padded(assigned: readonly [number, number][], task: Task, padding: Padding): number[] {
  const gaps = padding(prefix(task) - 2 * assigned.length, assigned.length + 1);
  return gaps.flatMap((gap, i) => [...Array<number>(gap).fill(pad(task)), ...(assigned[i] ?? [])]);
}
