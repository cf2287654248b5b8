/** The answer's logits as a sum of waves: what the neurons of each frequency add on one prompt. */

import type { Trace } from "./forward";
import { networkFrequencies, spectrumOf } from "./fourier";
import { addScaled, argmax, matmul, product, row, type Matrix } from "./matrix";
import { answerOf, type Task } from "./task";
import type { Weights } from "./weights";

export interface Part {
  /** A frequency of the network; null for the neurons of all others, and "direct" for what passes the MLP by. */
  readonly frequency: number | null | "direct";
  /** What it adds to the logit of each answer, less its mean. */
  readonly logits: Float32Array;
  /** The largest less the smallest of these. */
  readonly size: number;
}

const remembered = new WeakMap<Weights, Matrix>();

/** The parts, largest first; they add up to the logits less their mean. */
export function partsOf(w: Weights, trace: Trace, N: number): Part[] {
  const post = trace.activations.get("blocks.1.mlp.hook_post")?.data;
  const mid = trace.activations.get("blocks.1.hook_resid_mid")?.data;
  if (!post || !mid) return [];
  const { waves, shares } = spectrumOf(w, N);
  const own = networkFrequencies(shares);
  const sums = new Map<number | null, Float32Array>([...own, null].map((k) => [k, new Float32Array(N)]));
  const through = outputOf(w);
  waves.forEach(({ frequency }, j) => {
    const sum = sums.get(own.includes(frequency) ? frequency : null);
    const effect = row(through, j);
    if (sum && post[j] !== 0) for (let c = 0; c < N; c++) sum[c] += post[j] * effect[c];
  });
  const parts = [...sums].map(([frequency, logits]) => part(frequency, logits));
  return [...parts, part("direct", product(mid, w.W_U))].sort((a, b) => b.size - a.size);
}

/** What the parts add up to. */
export function totalOf(parts: readonly Part[], N: number): Part {
  return part(null, Float32Array.from({ length: N }, (_, c) => parts.reduce((sum, p) => sum + p.logits[c], 0)));
}

export function partName({ frequency }: Part): string {
  if (frequency === "direct") return "past the MLP";
  return frequency === null ? "other neurons" : `frequency ${frequency}`;
}

function part(frequency: Part["frequency"], logits: Float32Array): Part {
  const mean = logits.reduce((a, b) => a + b, 0) / logits.length;
  const centred = logits.map((v) => v - mean);
  return { frequency, logits: centred, size: Math.max(...centred) - Math.min(...centred) };
}

type Pair = readonly [number, number];
const mistakes = new WeakMap<Weights, readonly Pair[]>();

/** The pairs of numbers that the isolated adder gets wrong; it cannot tell n, m from m, n. */
export function adderMistakes(w: Weights, task: Task): readonly Pair[] {
  const known = mistakes.get(w);
  if (known) return known;
  const { preactivations } = spectrumOf(w, task.modulus);
  const found: Pair[] = [];
  for (let n = 0; n < task.modulus; n++) {
    for (let m = n; m < task.modulus; m++) {
      const neurons = row(preactivations, n).slice();
      addScaled(neurons, 1, row(preactivations, m));
      const prediction = argmax(product(neurons.map((v) => Math.max(v, 0)), outputOf(w)));
      const orders: readonly Pair[] = n === m ? [[n, n]] : [[n, m], [m, n]];
      found.push(...orders.filter(([a, b]) => prediction !== answerOf(task, a, b)));
    }
  }
  mistakes.set(w, found);
  return found;
}

/** W_out W_U: what each neuron does to each answer. */
function outputOf(w: Weights): Matrix {
  const known = remembered.get(w);
  if (known) return known;
  const made = matmul(w.W_out, w.W_U);
  remembered.set(w, made);
  return made;
}
