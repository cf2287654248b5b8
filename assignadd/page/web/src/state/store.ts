/** The page's one view, how it changes, and its way into the address and back. */

import { batch, computed, effect, signal } from "@preact/signals";
import type { Index, ModelEntry } from "../data/types";
import { toJson, type Specification } from "../interventions/specification";
import { asked } from "../model/padding";
import { isTextForm } from "../model/text";
import { fromAddress, toAddress, type At, type View } from "./view";

const EMPTY: Index = {
  format: 0, version: "", models: [], story: "", ledger: [], population: null, sets: [], measures: [],
  rules: { binding_set: "", binding_level: 1, lasting: 0, wall: [], levels: { addition: 1, binding: 1, refinement: 1 } }, palette: {}, scales: { shares: [], signed: [] },
};

export const index = signal<Index>(EMPTY);
export const view = signal<View>(usualView(EMPTY));
/** Whether the slider moves by itself. */
export const playing = signal(false);
/** The letter of the variable under the pointer, wherever it is. */
export const hovered = signal<string | null>(null);
export const announcement = signal("");
/** Why the last intervention was not added. */
export const refused = signal<string | null>(null);

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
  node: computed(() => view.value.node),
  neuron: computed(() => view.value.neuron),
  ordering: computed(() => view.value.ordering),
  section: computed(() => view.value.section),
  theme: computed(() => view.value.theme),
} as const;

export const entry = computed(() => entryOf(shown.model.value));
/** Whether the network has more than one checkpoint. */
export const trains = computed(() => entry.value.steps.length > 1);

export function entryOf(key: string): ModelEntry {
  const found = index.value.models.find((m) => m.key === key) ?? index.value.models[0];
  if (!found) throw new Error("a page without models");
  return found;
}

/** The networks that may be compared with one, or give it weights: those of the same task. */
export function comparable(own: ModelEntry): readonly ModelEntry[] {
  return index.value.models.filter((m) => m.task === own.task);
}

export function nameOf({ run, seed }: ModelEntry): string {
  return `${run}, seed ${seed}`;
}

/** The model to begin with: the story's, at its last checkpoint. */
function usualView(of: Index): View {
  const first = of.models.find((m) => m.key === of.story) ?? of.models[0];
  return {
    model: first?.key ?? "", step: first?.steps.at(-1) ?? 0, text: "", padding: 0, interventions: [], compare: null,
    quantity: "weights", node: "answer", neuron: null, ordering: "power", section: null, theme: "auto",
  };
}

export function change(part: Partial<View>): void {
  view.value = legal({ ...view.value, ...part });
}

/** An existing model and one of its steps, the nearest one to that asked for; a node that the task has. */
function legal(wanted: View): View {
  const settle = (at: At): At | null => {
    const found = index.value.models.find((m) => m.key === at.model);
    return found ? { model: found.key, step: nearest(found.steps, at.step) } : null;
  };
  const own = settle(wanted) ?? settle(usualView(index.value)) ?? wanted;
  const other = wanted.compare && settle(wanted.compare);
  const isSame = other?.model === wanted.compare?.model && other?.step === wanted.compare?.step;
  const { node } = wanted;
  const length = index.value.models.find((m) => m.key === own.model)?.task.length ?? 0;
  const isThere = typeof node === "string" || (node.layer === 1 ? node.query < length : node.query === length - 1);
  return { ...wanted, ...own, compare: isSame ? wanted.compare : other, node: isThere ? node : "answer" };
}

export function nearest(steps: readonly number[], step: number): number {
  return steps.reduce((best, s) => (Math.abs(s - step) < Math.abs(best - step) ? s : best), steps[0]);
}

export function intervene(list: Specification): void {
  batch(() => {
    refused.value = null;
    past.value = [...past.value, view.value.interventions];
    future.value = [];
    change({ interventions: list });
  });
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

/** What Back and Forward move between. The step, the node and the like only change the address of where one is. */
const PLACE: readonly (keyof View)[] = ["model", "text", "padding", "interventions", "compare", "section"];
/** Milliseconds until a change is in the address; longer while something is typed, so that a prompt is one place. */
const PAUSE = { otherwise: 120, typing: 700 } as const;

/** Takes the address as the view, and from then on keeps the two alike. */
export function followAddress(): void {
  const usual = usualView(index.value);
  const read = (): View => {
    const found = legal(fromAddress(location.hash, usual));
    return { ...found, ...tokensAsText(found) };
  };
  view.value = read();
  let entered = placeOf(view.value);
  let known = location.hash; // as last read or written here
  let due = 0;
  const write = (): void => {
    if (location.hash !== known) return; // Back or Forward has just moved; what it moved to is read next
    const address = `#${toAddress(view.value, usual)}`;
    const place = placeOf(view.value);
    if (place !== entered) history.pushState(null, "", address);
    else if (location.hash !== address) history.replaceState(null, "", address);
    entered = place;
    known = location.hash;
  };
  effect(() => {
    void view.value;
    clearTimeout(due);
    due = window.setTimeout(write, document.activeElement?.id === "prompt" ? PAUSE.typing : PAUSE.otherwise);
  });
  window.addEventListener("hashchange", () => {
    known = location.hash;
    if (location.hash === `#${toAddress(view.value, usual)}`) return;
    const before = view.value.interventions;
    batch(() => {
      view.value = read();
      entered = placeOf(view.value);
      if (toJson(before) === toJson(view.value.interventions)) return;
      past.value = [...past.value, before];
      future.value = [];
    });
  });
}

function placeOf(of: View): string {
  const place = { ...of, ...tokensAsText(of) };
  return JSON.stringify(PLACE.map((part) => place[part]));
}

/** A prompt that is written as a list of tokens, in the form that all prompts are shown in. */
function tokensAsText({ model, text }: View): Partial<View> {
  const { task } = entryOf(model);
  return !text || isTextForm(text, task) ? {} : asked(text, task);
}
