/** What the weights alone say: the isolated adder, the score tables of QK1, and which copied variables match under QK2. */

import { addScaled, matmul, matmulTransposed, product, row, slice, type Matrix } from "./matrix";
import { firstVariable, prefix, type Task } from "./task";
import type { Weights } from "./weights";

/** Logits of W_U MLP2(OV2(a) + OV2(b)): no attention, no residual. */
export function circuitLogits(w: Weights, a: number, b: number): Float32Array {
  const x = row(w.W_E, a).slice();
  addScaled(x, 1, row(w.W_E, b));
  const post = product(product(x, w.OV2), w.W_in).map((v) => Math.max(v, 0));
  return product(product(post, w.W_out), w.W_U);
}

/** C QK1 C^T over all tokens, then all positions: rows ask, columns answer. */
export function qk1Table(w: Weights): Matrix {
  return matmulTransposed(w.asks1, w.C);
}

/** P_i QK1 P_j over the positions of the prefix. */
export function qk1Positions(w: Weights, task: Task): Matrix {
  const P = slice(w.W_pos, 0, prefix(task));
  return matmulTransposed(matmul(P, w.QK1), P);
}

/** (E_var OV1) QK2 (E_var OV1)^T. */
export function variableMatches(w: Weights, task: Task): Matrix {
  const x = slice(w.writes1, firstVariable(task), firstVariable(task) + task.n_vars);
  return matmulTransposed(matmul(x, w.QK2), x);
}
