/** Where PADs stand. For a seed it is the package's own law, Philox4x32-10 and its padding stream. */

import { isVariable, prefix, type Task } from "./task";
import { inFront, isTextForm, parse, ParseError, render, type Gaps, type Padding } from "./text";

/** A seed that scatters the PADs (0: all in front), or how many stand before each assignment and behind the last. */
export type PadsAt = number | Gaps;

/** A prompt as the page shows it: its text form, and where the PADs stand, which that form does not say. */
export interface Asked {
  readonly text: string;
  readonly padding: PadsAt;
}

export function paddingOf(at: PadsAt): Padding {
  if (typeof at === "number") return scattered(at);
  return (pads, gaps) => (at.length === gaps && at.reduce((a, b) => a + b, 0) === pads ? at : inFront(pads, gaps));
}

/** A list of tokens in the text form; any other text, and what cannot be read, unchanged. */
export function asked(text: string, task: Task): Asked {
  if (!text.trim() || isTextForm(text, task)) return { text, padding: 0 };
  try {
    const tokens = parse(text, task);
    return { text: render(tokens, task), padding: padsOf(tokens, task) };
  } catch (error) {
    if (error instanceof ParseError) return { text, padding: 0 };
    throw error;
  }
}

function padsOf(tokens: readonly number[], task: Task): PadsAt {
  const gaps = [0];
  for (let i = 0; i < prefix(task); i++) {
    if (isVariable(task, tokens[i])) gaps.push(0), i++; // its number follows
    else gaps[gaps.length - 1]++;
  }
  return gaps.slice(1).every((n) => n === 0) ? 0 : gaps;
}

const STREAM = 4;
const MULTIPLIERS = [0xd2511f53, 0xcd9e8d57] as const;
const WEYL = [0x9e3779b9, 0xbb67ae85] as const;
const ROUNDS = 10;

/** Each PAD falls into one of the gaps, uniformly and independently; seed 0 puts them all in front. */
export function scattered(seed: number): Padding {
  if (seed === 0) return inFront;
  return (pads, gaps) => {
    const counts = Array<number>(gaps).fill(0);
    for (let pad = 0; pad < pads; pad++) counts[Number((BigInt(firstWord(pad, seed)) * BigInt(gaps)) >> 32n)]++;
    return counts;
  };
}

/** The first 32-bit word for a row of the padding stream, at step 0 and block 0. */
function firstWord(row: number, seed: number): number {
  let [c0, c1, c2, c3] = [row, 0, 0, STREAM];
  let [k0, k1] = [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0];
  for (let round = 0; round < ROUNDS; round++) {
    const p0 = BigInt(c0) * BigInt(MULTIPLIERS[0]);
    const p1 = BigInt(c2) * BigInt(MULTIPLIERS[1]);
    const next0 = (high(p1) ^ c1 ^ k0) >>> 0;
    const next2 = (high(p0) ^ c3 ^ k1) >>> 0;
    [c0, c1, c2, c3] = [next0, low(p1), next2, low(p0)];
    k0 = (k0 + WEYL[0]) >>> 0;
    k1 = (k1 + WEYL[1]) >>> 0;
  }
  return c0;
}

const high = (x: bigint): number => Number(x >> 32n);
const low = (x: bigint): number => Number(x & 0xffffffffn);
