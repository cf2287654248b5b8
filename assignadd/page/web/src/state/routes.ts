/** The edges of the circuit on the page's prompt, each with the effect of cutting it. */

import { computed } from "@preact/signals";
import { effectsOf, routesOf, type Route } from "../model/routes";
import { partsOf } from "../model/waves";
import { applied, current } from "./snapshot";

export interface Weighed extends Route {
  /** How much the margin (in logits) falls when this edge alone is cut. */
  readonly effect: number;
}

export const routes = computed<readonly Weighed[]>(() => {
  const now = current.value;
  if (!now) return [];
  const found = routesOf(now.trace);
  const effects = effectsOf(now.weights, now.trace, applied.value?.edits, found);
  return found.map((route, i) => ({ ...route, effect: effects[i] }));
});

/** The answer's logits as a sum over frequencies. */
export const parts = computed(() => {
  const now = current.value;
  return now ? partsOf(now.weights, now.trace, now.trace.prompt.task.modulus) : [];
});
