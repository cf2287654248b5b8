/** Matrices as flat arrays, row by row, and the few products that a forward pass needs. */

export interface Matrix {
  readonly rows: number;
  readonly cols: number;
  readonly data: Float32Array;
}

export function matrix(rows: number, cols: number, data: Float32Array = new Float32Array(rows * cols)): Matrix {
  return { rows, cols, data };
}

export function row(m: Matrix, i: number): Float32Array {
  return m.data.subarray(i * m.cols, (i + 1) * m.cols);
}

export function rowsOf(m: Matrix): Float32Array[] {
  return Array.from({ length: m.rows }, (_, i) => row(m, i));
}

/** out += x @ m, for a row vector x; four rows at a time, so that `out` is read and written a quarter as often. */
export function addProduct(out: Float32Array, x: Float32Array, m: Matrix): void {
  const { rows, cols, data } = m;
  let i = 0;
  for (; i + 3 < rows; i += 4) {
    const [a, b, c, d] = [x[i], x[i + 1], x[i + 2], x[i + 3]];
    if (a === 0 && b === 0 && c === 0 && d === 0) continue;
    const base = i * cols;
    for (let j = 0; j < cols; j++) {
      const at = base + j;
      out[j] += a * data[at] + b * data[at + cols] + c * data[at + 2 * cols] + d * data[at + 3 * cols];
    }
  }
  for (; i < rows; i++) for (let j = 0; j < cols; j++) out[j] += x[i] * data[i * cols + j];
}

export function product(x: Float32Array, m: Matrix): Float32Array {
  const out = new Float32Array(m.cols);
  addProduct(out, x, m);
  return out;
}

/** Every row of a through b. */
export function matmul(a: Matrix, b: Matrix): Matrix {
  const out = matrix(a.rows, b.cols);
  for (let i = 0; i < a.rows; i++) addProduct(row(out, i), row(a, i), b);
  return out;
}

/** a @ b^T. */
export function matmulTransposed(a: Matrix, b: Matrix): Matrix {
  const out = matrix(a.rows, b.rows);
  const columns = rowsOf(b);
  rowsOf(a).forEach((x, i) => columns.forEach((y, j) => (out.data[i * b.rows + j] = dot(x, y))));
  return out;
}

export function dot(x: Float32Array, y: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

/** out += a x. */
export function addScaled(out: Float32Array, a: number, x: Float32Array): void {
  for (let i = 0; i < out.length; i++) out[i] += a * x[i];
}

/** Rows from..to-1 as a matrix that shares their memory. */
export function slice(m: Matrix, from: number, to: number): Matrix {
  return matrix(to - from, m.cols, m.data.subarray(from * m.cols, to * m.cols));
}

export function stacked(a: Matrix, b: Matrix): Matrix {
  const data = new Float32Array(a.data.length + b.data.length);
  data.set(a.data);
  data.set(b.data, a.data.length);
  return matrix(a.rows + b.rows, a.cols, data);
}

/** In place; entries of -Infinity get nothing, and a row of nothing else stays all zero. */
export function softmax(scores: Float32Array): void {
  let most = -Infinity;
  for (const s of scores) most = Math.max(most, s);
  if (most === -Infinity) {
    scores.fill(0);
    return;
  }
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += scores[i] = Math.exp(scores[i] - most);
  for (let i = 0; i < scores.length; i++) scores[i] /= sum;
}

export function argmax(x: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < x.length; i++) if (x[i] > x[best]) best = i;
  return best;
}
