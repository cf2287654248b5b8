/** Accuracy on the fixed set of 512 prompts, a few at a time so that the page stays quick, remembered by what was asked. */

import { signal, type Signal } from "@preact/signals";
import type { Specification } from "../interventions/specification";
import { toJson } from "../interventions/specification";
import { forward } from "../model/forward";
import { argmax } from "../model/matrix";
import { modelOf, weightsAt } from "./models";
import { changed } from "./snapshot";
import { entryOf } from "./store";
import type { At } from "./view";

export interface Score {
  readonly right: number;
  readonly n: number;
  readonly bySet: readonly { readonly name: string; readonly right: number; readonly n: number }[];
}

/** Milliseconds of work before the page gets its turn, and of rest before the first: what moves comes first. */
const SLICE = 10;
const REST = 150;
const KEPT = 200;
const known = new Map<string, Signal<Score | undefined>>();
const queue: (() => boolean)[] = [];
let running = false;

export function scoreOf(at: At, list: Specification): Score | undefined {
  const name = `${at.model}@${at.step} ${toJson(list)}`;
  const found = known.get(name);
  if (found) return found.value;
  // Reading these here makes whoever asks come back when the weights are there.
  const model = modelOf(at.model);
  const made = changed(weightsAt(at.model, at.step), model, entryOf(at.model).task, list, at);
  if (!model || !made) return undefined;
  const slot = signal<Score | undefined>(undefined);
  known.set(name, slot);
  if (known.size > KEPT) known.delete([...known.keys()][0]);
  const { prompts, labels, sets } = model.exam;
  const right = new Uint8Array(prompts.length);
  let i = 0;
  enqueue(() => {
    const { logits } = forward(made.weights, prompts[i], { edits: made.edits, index: i });
    right[i] = Number(argmax(logits) === labels[i]);
    if (++i < prompts.length) return false;
    const count = (from: number, to: number): number => right.subarray(from, to).reduce((a, b) => a + b, 0);
    slot.value = {
      right: count(0, right.length),
      n: right.length,
      bySet: sets.map(([set, from, to]) => ({ name: set, right: count(from, to), n: to - from })),
    };
    return true;
  });
  return slot.value;
}

/** Work that says when it is done; the newest goes first, as it is what is being looked at. */
function enqueue(work: () => boolean): void {
  queue.push(work);
  if (running) return;
  running = true;
  setTimeout(run, REST);
}

function run(): void {
  const until = performance.now() + SLICE;
  while (queue.length && performance.now() < until) {
    const work = queue[queue.length - 1];
    if (work()) queue.splice(queue.indexOf(work), 1);
  }
  running = queue.length > 0;
  if (running) setTimeout(run);
}
