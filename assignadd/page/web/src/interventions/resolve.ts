/** From a specification to changes of activations, for one model. The package's `interventions.edits` in the page. */

import type { Reference } from "../data/decode";
import { forward, type Edits, type Hook } from "../model/forward";
import { embeddingComponents, spectrumOf } from "../model/fourier";
import { matrix, row, type Matrix } from "../model/matrix";
import { positionsOf, promptOf, SINGLE_ROLES, type Prompt } from "../model/prompt";
import { isNumber, type Task } from "../model/task";
import { parse } from "../model/text";
import type { Weights } from "../model/weights";
import { placeOfKey, type Cut, type Pattern, type Replace, type Specification } from "./specification";

type RowEdit = (rows: Matrix, first: number, prompt: Prompt, index: number) => void;

/** Swaps are not seen here: `weights` are those after them. */
export function resolve(spec: Specification, weights: Weights, task: Task, reference: Reference): Edits | undefined {
  const cuts = spec.filter((one): one is Cut => one.action === "cut");
  const at = new Map<Hook, RowEdit[]>();
  const add = (hook: Hook, edit: RowEdit): void => void at.set(hook, [...(at.get(hook) ?? []), edit]);
  const on = new Recorder(weights, task, reference);
  for (const one of spec) {
    if (one.action === "pattern") add(one.layer === 1 ? "blocks.0.attn.hook_pattern" : "blocks.1.attn.hook_pattern", setRow(one));
    else if ("hook" in one) add(one.hook, replacement(one, on));
  }
  if (!cuts.length && !at.size) return undefined;
  return {
    touches: (hook) => at.has(hook),
    scores: (layer, rows, first, prompt) => cuts.forEach((cut) => cut.layer === layer && cutEdge(cut, rows, first, prompt)),
    at: (hook, rows, first, prompt, index) => at.get(hook)?.forEach((edit) => edit(rows, first, prompt, index)),
  };
}

function cutEdge(cut: Cut, rows: Matrix, first: number, prompt: Prompt): void {
  for (const q of positionsOf(prompt, cut.query))
    for (const k of positionsOf(prompt, cut.key)) if (q >= first && k < rows.cols) rows.data[(q - first) * rows.cols + k] = -Infinity;
}

/** What is not named gets nothing; weights that fall on one position add up; nothing looks ahead. */
function setRow(one: Pattern): RowEdit {
  return (rows, first, prompt) => {
    for (const q of positionsOf(prompt, one.query)) {
      if (q < first) continue;
      const target = row(rows, q - first);
      target.fill(0);
      for (const [key, weight] of Object.entries(one.weights))
        for (const k of positionsOf(prompt, placeOfKey(key))) if (k <= q) target[k] += weight;
    }
  };
}

/** The activations of the unchanged model that replacements are taken from. */
class Recorder {
  private readonly means = new Map<string, Matrix>();

  constructor(
    readonly weights: Weights,
    readonly task: Task,
    readonly reference: Reference,
  ) {}

  components(frequencies: readonly number[]): Matrix {
    return embeddingComponents(this.weights, this.task.modulus, frequencies);
  }

  /** A prompt's activation at a hook, and the position of its first row. */
  of(hook: Hook, prompt: Prompt): { rows: Matrix; first: number } {
    const rows = forward(this.weights, prompt).activations.get(hook);
    if (!rows) throw new Error(`the pass did not come by ${hook}`);
    return { rows, first: prompt.task.length - rows.rows };
  }

  /** Position by position, over the reference set. */
  mean(key: string, each: (prompt: Prompt) => Matrix): Matrix {
    const known = this.means.get(key);
    if (known) return known;
    const { prompts } = this.reference;
    const parts = prompts.map(each);
    const sum = new Float64Array(parts[0].data.length);
    for (const part of parts) for (let i = 0; i < sum.length; i++) sum[i] += part.data[i];
    const mean = matrix(parts[0].rows, parts[0].cols, Float32Array.from(sum, (v) => v / prompts.length));
    this.means.set(key, mean);
    return mean;
  }
}

/** What stands where an activation was: a matrix whose last row is that of `=`. */
type Value = (prompt: Prompt, index: number) => Matrix;

function replacement(one: Replace, on: Recorder): RowEdit {
  if (one.hook === "hook_embed" && one.frequencies != null) return componentEdit(one, one.frequencies, on);
  const chosen = chosenNeurons(one, on);
  const value = valueOf(one, on, one.hook, (prompt) => on.of(one.hook, prompt).rows);
  const source = sourceOf(one, on.task);
  return (rows, first, prompt, index) => {
    const from = value(prompt, index);
    for (const [p, at] of targets(one, prompt, source)) {
      if (p < first) continue;
      const own = row(rows, p - first);
      const other = row(from, at - (on.task.length - from.rows));
      if (chosen === undefined) own.set(other);
      else for (const j of chosen) own[j] = other[j];
    }
  };
}

/** Fourier components of the number embeddings, taken out and put in. */
function componentEdit(one: Replace, frequencies: readonly number[], on: Recorder): RowEdit {
  const table = on.components(frequencies);
  const nothing = new Float32Array(table.cols);
  const part = (token: number): Float32Array => (isNumber(on.task, token) ? row(table, token) : nothing);
  const ofPrompt = (prompt: Prompt): Matrix => {
    const m = matrix(prompt.task.length, table.cols);
    prompt.tokens.forEach((token, t) => row(m, t).set(part(token)));
    return m;
  };
  const value = valueOf(one, on, `components ${frequencies.join()}`, ofPrompt);
  const source = sourceOf(one, on.task);
  return (rows, _first, prompt, index) => {
    const from = value(prompt, index);
    for (const [p, at] of targets(one, prompt, source)) {
      const own = row(rows, p);
      const less = part(prompt.tokens[p]);
      const more = row(from, at);
      for (let i = 0; i < own.length; i++) own[i] += more[i] - less[i];
    }
  };
}

function valueOf(one: Replace, on: Recorder, key: string, of: (prompt: Prompt) => Matrix): Value {
  switch (one.action) {
    case "zero": {
      let zero: Matrix | undefined;
      return (prompt) => (zero ??= zerosLike(of(prompt)));
    }
    case "mean":
      return () => on.mean(key, of);
    case "resample":
      return (_, index) => of(on.reference.prompts[on.reference.order[index % on.reference.order.length]]);
    case "patch": {
      const source = sourceOf(one, on.task);
      const value = source && of(source);
      if (!value) throw new Error("a patch needs a source");
      return () => value;
    }
  }
}

function zerosLike(m: Matrix): Matrix {
  return matrix(m.rows, m.cols);
}

function sourceOf(one: Replace, task: Task): Prompt | undefined {
  return one.action === "patch" ? promptOf(parse(one.source ?? "", task), task) : undefined;
}

/**
 * Positions of the prompt to change, each with the position the value is read at: the same one, but for a patch at a role
 * of one token the source's own such token (and no change where the source has none).
 */
function targets(one: Replace, prompt: Prompt, source: Prompt | undefined): Map<number, number> {
  const found = new Map<number, number>();
  if (one.positions == null) {
    for (let p = 0; p < prompt.task.length; p++) found.set(p, p);
    return found;
  }
  for (const place of one.positions) for (const p of positionsOf(prompt, place)) found.set(p, p);
  if (!source) return found;
  for (const place of one.positions) {
    if (!(SINGLE_ROLES as readonly (string | number)[]).includes(place)) continue;
    const [at] = positionsOf(source, place);
    for (const p of positionsOf(prompt, place)) {
      if (at === undefined) found.delete(p);
      else if (found.has(p)) found.set(p, at);
    }
  }
  return found;
}

/** Neurons that are named, of these frequencies, or both at once; all where neither is said. */
function chosenNeurons(one: Replace, on: Recorder): readonly number[] | undefined {
  if (one.neurons == null && one.frequencies == null) return undefined;
  const h = on.weights.W_in.cols;
  let chosen = one.neurons ?? Array.from({ length: h }, (_, j) => j);
  const { frequencies } = one;
  if (frequencies != null) {
    const { waves } = spectrumOf(on.weights, on.task.modulus);
    chosen = chosen.filter((j) => frequencies.includes(waves[j].frequency));
  }
  return chosen;
}
