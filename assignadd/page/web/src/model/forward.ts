/**
 * The forward pass, with every activation that can be changed on the way.
 *
 * Layer 1 is read off the tables C QK1 and C OV1 unless the embeddings themselves are changed. From layer 2 on only the
 * row of `=` matters for the answer; `full` adds the other queries' patterns, for looking at.
 */

import { addProduct, addScaled, dot, product, row, rowsOf, slice, softmax, type Matrix, matrix } from "./matrix";
import type { Prompt } from "./prompt";
import { vocabularySize } from "./task";
import type { Weights } from "./weights";

export const HOOKS = [
  "hook_embed", "hook_pos_embed", "blocks.0.attn.hook_pattern", "blocks.0.hook_attn_out", "blocks.1.hook_resid_pre",
  "blocks.1.attn.hook_pattern", "blocks.1.hook_attn_out", "blocks.1.hook_resid_mid", "blocks.1.mlp.hook_pre",
  "blocks.1.mlp.hook_post", "blocks.1.hook_mlp_out", "blocks.1.hook_resid_post",
] as const;
export type Hook = (typeof HOOKS)[number];

/** Changes of a pass; each is called at its place with rows of an activation, the first of which is position `first`. */
export interface Edits {
  touches(hook: Hook): boolean;
  scores(layer: 1 | 2, rows: Matrix, first: number, prompt: Prompt): void;
  at(hook: Hook, rows: Matrix, first: number, prompt: Prompt, index: number): void;
}

export interface Trace {
  readonly prompt: Prompt;
  readonly logits: Float32Array;
  /** Scores and patterns of each layer, rows asking; -Infinity and 0 above the diagonal. Layer 2 from row `first2` on. */
  readonly scores: readonly [Matrix, Matrix];
  readonly patterns: readonly [Matrix, Matrix];
  readonly first2: number;
  readonly activations: ReadonlyMap<Hook, Matrix>;
}

export interface Options {
  readonly edits?: Edits | undefined;
  readonly full?: boolean;
  /** Which sequence of a batch this is, for interventions that take another one's activation. */
  readonly index?: number;
}

export function forward(w: Weights, prompt: Prompt, { edits, full = false, index = 0 }: Options = {}): Trace {
  const activations = new Map<Hook, Matrix>();
  const hooked = (hook: Hook, rows: Matrix, first = 0): Matrix => {
    edits?.at(hook, rows, first, prompt, index);
    activations.set(hook, rows);
    return rows;
  };
  const one = layer1(w, prompt, edits, hooked);
  const last = prompt.task.length - 1;
  const two = layer2(w, prompt, one.resid, full ? 0 : last, edits, hooked);
  const own = slice(one.resid, last, last + 1);
  const attention = matrix(1, own.cols);
  addProduct(attention.data, two.read, w.OV2);
  hooked("blocks.1.hook_attn_out", attention, last);
  const logits = tail(w, sum(own, attention), last, hooked);
  return { prompt, logits, scores: [one.scores, two.scores], patterns: [one.pattern, two.pattern], first2: full ? 0 : last, activations };
}

type Hooked = (hook: Hook, rows: Matrix, first?: number) => Matrix;

function layer1(w: Weights, prompt: Prompt, edits: Edits | undefined, hooked: Hooked) {
  const { tokens, task } = prompt;
  const T = task.length;
  const K = vocabularySize(task);
  const embed = matrix(T, w.C.cols);
  const position = matrix(T, w.C.cols);
  for (let t = 0; t < T; t++) {
    row(embed, t).set(row(w.W_E, tokens[t]));
    row(position, t).set(row(w.W_pos, t));
  }
  const x = sum(hooked("hook_embed", embed), hooked("hook_pos_embed", position));
  const changed = edits !== undefined && (edits.touches("hook_embed") || edits.touches("hook_pos_embed"));
  const through = (m: Matrix, table: Matrix): Matrix => {
    const out = matrix(T, w.C.cols);
    for (let t = 0; t < T; t++) {
      if (changed) addProduct(row(out, t), row(x, t), m);
      else {
        row(out, t).set(row(table, tokens[t]));
        addScaled(row(out, t), 1, row(table, K + t));
      }
    }
    return out;
  };
  const { scores, pattern } = attend(through(w.QK1, w.asks1), x, 1, 0, prompt, edits, hooked);
  const values = through(w.OV1, w.writes1);
  const out = matrix(T, w.C.cols);
  const written = rowsOf(values);
  rowsOf(out).forEach((own, q) => written.forEach((value, k) => addScaledWhere(own, pattern.data[q * T + k], value)));
  const resid = hooked("blocks.1.hook_resid_pre", sum(x, hooked("blocks.0.hook_attn_out", out)));
  return { scores, pattern, resid };
}

function layer2(w: Weights, prompt: Prompt, x: Matrix, first: number, edits: Edits | undefined, hooked: Hooked) {
  const T = prompt.task.length;
  const asks = matrix(T - first, x.cols);
  for (let q = first; q < T; q++) addProduct(row(asks, q - first), row(x, q), w.QK2);
  const { scores, pattern } = attend(asks, x, 2, first, prompt, edits, hooked);
  const read = new Float32Array(x.cols);
  rowsOf(x).forEach((value, k) => addScaledWhere(read, pattern.data[(T - 1 - first) * T + k], value));
  return { scores, pattern, read };
}

/** Causal attention of the queries from position `first` on. */
function attend(asks: Matrix, x: Matrix, layer: 1 | 2, first: number, prompt: Prompt, edits: Edits | undefined, hooked: Hooked) {
  const scores = matrix(asks.rows, x.rows);
  scores.data.fill(-Infinity);
  const keys = rowsOf(x);
  rowsOf(asks).forEach((ask, q) => {
    for (let k = 0; k <= first + q; k++) scores.data[q * x.rows + k] = dot(ask, keys[k]);
  });
  edits?.scores(layer, scores, first, prompt);
  const pattern = matrix(scores.rows, scores.cols, scores.data.slice());
  for (let q = 0; q < pattern.rows; q++) softmax(row(pattern, q));
  hooked(layer === 1 ? "blocks.0.attn.hook_pattern" : "blocks.1.attn.hook_pattern", pattern, first);
  return { scores, pattern };
}

/** MLP2 and the unembedding, at `=`. */
function tail(w: Weights, mid: Matrix, last: number, hooked: Hooked): Float32Array {
  hooked("blocks.1.hook_resid_mid", mid, last);
  const pre = matrix(1, w.W_in.cols, product(mid.data, w.W_in));
  hooked("blocks.1.mlp.hook_pre", pre, last);
  const post = hooked("blocks.1.mlp.hook_post", matrix(1, pre.cols, pre.data.map((v) => Math.max(v, 0))), last);
  const out = hooked("blocks.1.hook_mlp_out", matrix(1, mid.cols, product(post.data, w.W_out)), last);
  return product(hooked("blocks.1.hook_resid_post", sum(mid, out), last).data, w.W_U);
}

function sum(a: Matrix, b: Matrix): Matrix {
  const out = matrix(a.rows, a.cols, a.data.slice());
  addScaled(out.data, 1, b.data);
  return out;
}

function addScaledWhere(out: Float32Array, a: number, x: Float32Array): void {
  if (a !== 0) addScaled(out, a, x);
}

export function probabilities(logits: Float32Array): Float32Array {
  const p = logits.slice();
  softmax(p);
  return p;
}
