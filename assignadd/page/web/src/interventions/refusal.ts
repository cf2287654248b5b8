/** Why the package would refuse an intervention on a network, in its words; null for one that it accepts. */

import type { ModelEntry } from "../data/types";
import type { Place } from "../model/prompt";
import { parse, ParseError } from "../model/text";
import { placeOfKey, type Intervention } from "./specification";

export function refusal(one: Intervention, own: ModelEntry, models: readonly ModelEntry[]): string | null {
  if (one.action === "swap") return refusedSwap(one, own, models);
  const { task } = own;
  const outside = placesOf(one).find((p) => typeof p === "number" && p >= task.length);
  if (outside !== undefined) return `position = ${outside}: expected 0 to ${task.length - 1}`;
  if (!("hook" in one)) return null;
  const neurons = own.matrices.find(([name]) => name === "W_in")?.[2] ?? 0;
  const frequencies = Math.floor(task.modulus / 2);
  if (one.neurons?.some((j) => j >= neurons)) return `neurons = [${one.neurons.join(", ")}]: expected neurons from 0 to ${neurons - 1}`;
  if (one.frequencies?.some((k) => k > frequencies)) return `frequencies = [${one.frequencies.join(", ")}]: expected frequencies from 1 to ${frequencies}`;
  try {
    if (one.source != null) parse(one.source, task);
  } catch (error) {
    if (error instanceof ParseError) return `source, column ${error.column}: ${error.message}`;
    throw error;
  }
  return null;
}

function refusedSwap(one: { run?: string | null; seed?: number | null; step?: number | null }, own: ModelEntry, models: readonly ModelEntry[]): string | null {
  const from = models.find((m) => m.run === (one.run ?? own.run) && m.seed === (one.seed ?? own.seed));
  const name = `${one.run ?? own.run}, seed ${one.seed ?? own.seed}`;
  if (!from) return `${name} is not on this page`;
  if (from.task !== own.task) return `${name} has another task than ${own.run}, seed ${own.seed}: weights are swapped within one task`;
  if (one.step != null && !from.steps.includes(one.step)) return `${name} has no checkpoint of step ${one.step} on this page`;
  return null;
}

function placesOf(one: Exclude<Intervention, { action: "swap" }>): readonly Place[] {
  if (one.action === "cut") return [one.query, one.key];
  if (one.action === "pattern") return [one.query, ...Object.keys(one.weights).map(placeOfKey)];
  return one.positions ?? [];
}
