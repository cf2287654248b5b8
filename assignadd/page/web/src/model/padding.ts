/** Where PADs fall for a seed: the package's own law, Philox4x32-10 and its padding stream. */

import type { Padding } from "./text";
import { inFront } from "./text";

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
