/** A checkpoint's matrices, by the paper's letters, and what a forward pass precomputes from them once. */

import { matmul, matrix, stacked, type Matrix } from "./matrix";

type MatrixName = "W_E" | "W_pos" | "QK1" | "OV1" | "QK2" | "OV2" | "W_in" | "W_out" | "W_U";
export type Shapes = readonly (readonly [string, number, number])[];
export type Matrices = Readonly<Record<MatrixName, Matrix>>;

export interface Weights extends Matrices {
  /** C = [W_E; W_pos], the rows that layer 1 sees. */
  readonly C: Matrix;
  /** C QK1: what each row asks for. */
  readonly asks1: Matrix;
  /** C OV1: what each row writes when it is attended to. */
  readonly writes1: Matrix;
}

export const COMPONENTS = {
  embed: ["W_E", "W_pos"],
  qk1: ["QK1"],
  ov1: ["OV1"],
  qk2: ["QK2"],
  ov2: ["OV2"],
  mlp2: ["W_in", "W_out"],
  unembed: ["W_U"],
} as const satisfies Record<string, readonly MatrixName[]>;
export type Component = keyof typeof COMPONENTS;

export function weightsOf(m: Matrices): Weights {
  const C = stacked(m.W_E, m.W_pos);
  return { ...m, C, asks1: matmul(C, m.QK1), writes1: matmul(C, m.OV1) };
}

/** The same weights with some components of others. */
export function swapped(own: Weights, swaps: readonly { component: Component; from: Matrices }[]): Weights {
  if (!swaps.length) return own;
  const mixed: Record<MatrixName, Matrix> = { ...own };
  for (const { component, from } of swaps) for (const name of COMPONENTS[component]) mixed[name] = from[name];
  return weightsOf(mixed);
}

/** From the string of a checkpoint's script: float16 numbers, matrix by matrix. */
export function decodeMatrices(base64: string, shapes: Shapes): Matrices {
  const values = float16(base64);
  const found = new Map<string, Matrix>();
  let at = 0;
  for (const [name, rows, cols] of shapes) {
    found.set(name, matrix(rows, cols, values.subarray(at, at + rows * cols)));
    at += rows * cols;
  }
  if (at !== values.length) throw new Error(`a checkpoint holds ${values.length} numbers, not ${at}`);
  const named = (name: MatrixName): Matrix => {
    const m = found.get(name);
    if (!m) throw new Error(`a checkpoint without ${name}`);
    return m;
  };
  return {
    W_E: named("W_E"), W_pos: named("W_pos"), QK1: named("QK1"), OV1: named("OV1"), QK2: named("QK2"), OV2: named("OV2"),
    W_in: named("W_in"), W_out: named("W_out"), W_U: named("W_U"),
  };
}

let table: Float32Array | undefined;

function float16(base64: string): Float32Array {
  table ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => halfToNumber(bits));
  const bytes = atob(base64);
  const out = new Float32Array(bytes.length >> 1);
  for (let i = 0; i < out.length; i++) out[i] = table[bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8)];
  return out;
}

function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
