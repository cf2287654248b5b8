/** Fourier features of the addition circuit: the package's basis, and every neuron's best wave of one frequency. */

import { matmul, matrix, row, slice, type Matrix } from "./matrix";
import type { Weights } from "./weights";

/** A frequency is the network's where it holds at least this part of an equal share of the preactivations' power. */
const LEAST_SHARE = 0.5;

/** Orthonormal rows: constant, cos 1, sin 1, cos 2, sin 2, ... */
function fourierBasis(N: number): Matrix {
  const basis = matrix(N, N);
  for (let r = 0; r < N; r++) {
    const k = (r + 1) >> 1;
    const scale = k === 0 || 2 * k === N ? Math.sqrt(1 / N) : Math.sqrt(2 / N);
    for (let n = 0; n < N; n++) {
      const angle = (2 * Math.PI * ((k * n) % N)) / N;
      basis.data[r * N + n] = scale * (k > 0 && r % 2 === 0 ? Math.sin(angle) : Math.cos(angle));
    }
  }
  return basis;
}

const frequencyOfRow = (r: number): number => (r + 1) >> 1;

/** OV2(e_n) W_in: every neuron's preactivation from one operand n; that of a pair is the sum of two rows. */
function numberPreactivations(w: Weights, N: number): Matrix {
  return matmul(matmul(slice(w.W_E, 0, N), w.OV2), w.W_in);
}

export interface Wave {
  readonly neuron: number;
  readonly frequency: number;
  /** Part of the variance over all pairs that A cos(2 pi k n / N + alpha) + the same of m explains. */
  readonly share: number;
  readonly amplitude: number;
  readonly phase: number;
  /** The mean preactivation, which the fit adds. */
  readonly mean: number;
  readonly power: number;
}

export interface Spectrum {
  readonly waves: readonly Wave[];
  /** Share of each frequency (entry k - 1) in the power of all preactivations. */
  readonly shares: Float64Array;
  readonly preactivations: Matrix;
}

const remembered = new WeakMap<Weights, Spectrum>();

/** Of the circuit (OV2(n) + OV2(m)) W_in, symmetric in its operands. */
export function spectrumOf(w: Weights, N: number): Spectrum {
  const known = remembered.get(w);
  if (known) return known;
  const made = measured(w, N);
  remembered.set(w, made);
  return made;
}

function measured(w: Weights, N: number): Spectrum {
  const x = numberPreactivations(w, N);
  const coefficients = matmul(fourierBasis(N), x);
  const h = x.cols;
  const K = Math.floor(N / 2);
  const shares = new Float64Array(K);
  const waves: Wave[] = [];
  for (let j = 0; j < h; j++) {
    const power = new Float64Array(K);
    for (let r = 1; r < N; r++) power[frequencyOfRow(r) - 1] += coefficients.data[r * h + j] ** 2;
    const total = power.reduce((a, b) => a + b, 0);
    let best = 0;
    for (let k = 0; k < K; k++) {
      shares[k] += power[k];
      if (power[k] > power[best]) best = k;
    }
    const cosine = coefficients.data[(2 * best + 1) * h + j];
    const sine = 2 * best + 2 < N ? coefficients.data[(2 * best + 2) * h + j] : 0;
    const unit = Math.sqrt((2 * (best + 1) === N ? 1 : 2) / N);
    waves.push({
      neuron: j,
      frequency: best + 1,
      share: total > 0 ? power[best] / total : 0,
      amplitude: unit * Math.hypot(cosine, sine),
      phase: Math.atan2(-sine, cosine),
      mean: (2 * coefficients.data[j]) / Math.sqrt(N),
      power: total,
    });
  }
  const all = shares.reduce((a, b) => a + b, 0);
  if (all > 0) for (let k = 0; k < K; k++) shares[k] /= all;
  return { waves, shares, preactivations: x };
}

export function networkFrequencies(shares: Float64Array): number[] {
  return [...shares.keys()].filter((k) => shares[k] >= LEAST_SHARE / shares.length).map((k) => k + 1);
}

/** What one operand n adds to a neuron. */
export function oneOperand(s: Spectrum, neuron: number): Float64Array {
  const { rows, cols, data } = s.preactivations;
  return Float64Array.from({ length: rows }, (_, n) => data[n * cols + neuron]);
}

/** The neuron's wave at n, whole or not. */
export function waveAt(wave: Wave, N: number, n: number): number {
  return wave.mean / 2 + wave.amplitude * Math.cos((2 * Math.PI * wave.frequency * n) / N + wave.phase);
}

/** A neuron's map over (n, m), and its fit. */
export function neuronMap(s: Spectrum, neuron: number): { map: Float32Array; fit: Float32Array } {
  const own = oneOperand(s, neuron);
  const N = own.length;
  const fitted = own.map((_, n) => waveAt(s.waves[neuron], N, n));
  const outer = (f: Float64Array): Float32Array => Float32Array.from({ length: N * N }, (_, i) => f[Math.floor(i / N)] + f[i % N]);
  return { map: outer(own), fit: outer(fitted) };
}

/** What each number's embedding has in these frequencies, a row per number. */
export function embeddingComponents(w: Weights, N: number, frequencies: readonly number[]): Matrix {
  const basis = fourierBasis(N);
  const coefficients = matmul(basis, slice(w.W_E, 0, N));
  const out = matrix(N, w.W_E.cols);
  for (let r = 1; r < N; r++) {
    if (!frequencies.includes(frequencyOfRow(r))) continue;
    for (let n = 0; n < N; n++) {
      const b = basis.data[r * N + n];
      const to = row(out, n);
      const from = row(coefficients, r);
      for (let i = 0; i < to.length; i++) to[i] += b * from[i];
    }
  }
  return out;
}
