/** The page's one view, how it changes, and its way into the address and back. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { Index, ModelEntry } from "../data/types";
import type { Intervention, Specification } from "../interventions/specification";
import { fromAddress, toAddress, type At, type View } from "./view";

const EMPTY: Index = { format: 0, version: "", models: [], ledger: [] };

export const index = signal<Index>(EMPTY);
export const view = signal<View>(usualView(EMPTY));
/** The step of the slider while it moves, before its checkpoint is there. */
export const playing = signal(false);
/** The letter of the variable under the pointer, wherever it is. */
export const hovered = signal<string | null>(null);
export const announcement = signal("");

const past = signal<readonly Specification[]>([]);
const future = signal<readonly Specification[]>([]);
export const canUndo = computed(() => past.value.length > 0);
export const canRedo = computed(() => future.value.length > 0);

/** Each part of the view on its own: whoever reads one is not called when another changes. */
export const shown = {
  model: computed(() => view.value.model),
  step: computed(() => view.value.step),
  text: computed(() => view.value.text),
  padding: computed(() => view.value.padding),
  interventions: computed(() => view.value.interventions),
  compare: computed(() => view.value.compare),
  quantity: computed(() => view.value.quantity),
  shape: computed(() => view.value.shape),
  neuron: computed(() => view.value.neuron),
  ordering: computed(() => view.value.ordering),
  card: computed(() => view.value.card),
  theme: computed(() => view.value.theme),
} as const;

export const entry = computed(() => entryOf(shown.model.value));

export function entryOf(key: string): ModelEntry {
  const found = index.value.models.find((m) => m.key === key) ?? index.value.models[0];
  if (!found) throw new Error("a page without models");
  return found;
}

/** The model to begin with: one that learned to bind variables, at its last checkpoint. */
function usualView(of: Index): View {
  const first = of.models.find((m) => m.binds) ?? of.models[0];
  return {
    model: first?.key ?? "", step: first?.steps.at(-1) ?? 0, text: "", padding: 0, interventions: [], compare: null,
    quantity: "weights", shape: "arcs", neuron: null, ordering: "power", card: null, theme: "auto",
  };
}

export function change(part: Partial<View>): void {
  view.value = legal({ ...view.value, ...part });
}

/** An existing model and one of its steps, the nearest one to that asked for. */
function legal(wanted: View): View {
  const { models } = index.value;
  const settle = (at: At): At | null => {
    const found = models.find((m) => m.key === at.model);
    return found ? { model: found.key, step: nearest(found.steps, at.step) } : null;
  };
  const own = settle(wanted) ?? settle(usualView(index.value)) ?? wanted;
  const other = wanted.compare && settle(wanted.compare);
  const isSame = other?.model === wanted.compare?.model && other?.step === wanted.compare?.step;
  return { ...wanted, ...own, compare: isSame ? wanted.compare : other };
}

export function nearest(steps: readonly number[], step: number): number {
  return steps.reduce((best, s) => (Math.abs(s - step) < Math.abs(best - step) ? s : best), steps[0]);
}

export function intervene(list: Specification): void {
  batch(() => {
    past.value = [...past.value, view.value.interventions];
    future.value = [];
    change({ interventions: list });
  });
}

export function addIntervention(one: Intervention): void {
  intervene([...view.value.interventions, one]);
}

export function removeIntervention(at: number): void {
  intervene(view.value.interventions.filter((_, i) => i !== at));
}

export function undo(): void {
  move(past, future);
}

export function redo(): void {
  move(future, past);
}

function move(from: typeof past, to: typeof past): void {
  const last = from.value.at(-1);
  if (last === undefined) return;
  batch(() => {
    to.value = [...to.value, view.value.interventions];
    from.value = from.value.slice(0, -1);
    change({ interventions: last });
  });
}

/** Takes the address as the view, and from then on keeps the two alike. */
export function followAddress(): void {
  const usual = usualView(index.value);
  view.value = legal(fromAddress(location.hash, usual));
  let due = 0;
  effect(() => {
    const address = `#${toAddress(view.value, usual)}`;
    clearTimeout(due);
    due = window.setTimeout(() => {
      if (location.hash !== address) history.replaceState(null, "", address);
    }, 120);
  });
  window.addEventListener("hashchange", () => {
    if (location.hash !== `#${toAddress(view.value, usual)}`) view.value = legal(fromAddress(location.hash, usual));
  });
}
