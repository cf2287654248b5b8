/** Interventions as data: the package's own specification, read as strictly as the package reads it. */

import { HOOKS, type Hook } from "../model/forward";
import { ROLES, type Place, type Role } from "../model/prompt";
import { COMPONENTS, type Component } from "../model/weights";

export interface Replace {
  readonly action: "zero" | "mean" | "resample" | "patch";
  readonly hook: Hook;
  readonly positions?: readonly Place[] | null;
  readonly neurons?: readonly number[] | null;
  readonly frequencies?: readonly number[] | null;
  readonly source?: string | null;
}
export interface Cut {
  readonly action: "cut";
  readonly layer: 1 | 2;
  readonly query: Place;
  readonly key: Place;
}
export interface Pattern {
  readonly action: "pattern";
  readonly layer: 1 | 2;
  readonly query: Place;
  readonly weights: Readonly<Record<string, number>>;
}
export interface Swap {
  readonly action: "swap";
  readonly component: Component;
  readonly step?: number | null;
  readonly seed?: number | null;
  readonly run?: string | null;
}
export type Intervention = Replace | Cut | Pattern | Swap;
export type Specification = readonly Intervention[];

export const NEURON_HOOKS: readonly Hook[] = ["blocks.1.mlp.hook_pre", "blocks.1.mlp.hook_post"];

const FIELDS: Record<string, { all: readonly string[]; needed: readonly string[] }> = {
  replace: { all: ["action", "hook", "positions", "neurons", "frequencies", "source"], needed: ["hook"] },
  cut: { all: ["action", "layer", "query", "key"], needed: ["layer", "query", "key"] },
  pattern: { all: ["action", "layer", "query", "weights"], needed: ["layer", "query", "weights"] },
  swap: { all: ["action", "component", "step", "seed", "run"], needed: ["component"] },
};

/** From parsed JSON; throws one line that names the field at fault. */
export function specification(values: unknown): Specification {
  if (!Array.isArray(values)) throw new Error("expected a list of interventions");
  return values.map((value, i) => intervention(`interventions[${i}]`, value));
}

function intervention(name: string, value: unknown): Intervention {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${name}: expected an object`);
  const given = new Map(Object.entries(value));
  const action = given.get("action");
  const kind = action === "cut" || action === "pattern" || action === "swap" ? action : "replace";
  if (kind === "replace" && !isOneOf(action, ["zero", "mean", "resample", "patch"])) throw new Error(`${name}.action: unknown action`);
  const { all, needed } = FIELDS[kind];
  for (const key of given.keys()) if (!all.includes(key)) throw new Error(`${name}.${key}: no such field`);
  for (const key of needed) if (!given.has(key)) throw new Error(`${name}.${key}: missing`);
  for (const [key, v] of given)
    if (!(CHECKS[key](v) || (v === null && !needed.includes(key) && key !== "action"))) throw new Error(`${name}.${key}: not accepted`);
  const one = value as Intervention; // every field was checked above
  checkTogether(name, one);
  return one;
}

function checkTogether(name: string, one: Intervention): void {
  if (one.action === "swap" && one.step == null && one.seed == null && one.run == null)
    throw new Error(`${name}.step: expected a step, a seed or a run`);
  if ("hook" in one) {
    if ((one.source == null) === (one.action === "patch")) throw new Error(`${name}.source: expected for a patch alone`);
    if (one.neurons != null && !NEURON_HOOKS.includes(one.hook)) throw new Error(`${name}.neurons: only at the MLP's hooks`);
    if (one.frequencies != null && one.hook !== "hook_embed" && !NEURON_HOOKS.includes(one.hook))
      throw new Error(`${name}.frequencies: only at hook_embed and the MLP's hooks`);
  }
}

const isOneOf = (x: unknown, accepted: readonly unknown[]): boolean => accepted.includes(x);
const isWhole = (x: unknown, least: number): boolean => typeof x === "number" && Number.isInteger(x) && x >= least;
const isPlace = (x: unknown): boolean => (typeof x === "string" ? isOneOf(x, ROLES) : isWhole(x, 0));
const isListOf = (accepts: (x: unknown) => boolean) => (x: unknown): boolean => Array.isArray(x) && x.length > 0 && x.every(accepts);

const CHECKS: Record<string, (x: unknown) => boolean> = {
  action: (x) => typeof x === "string",
  hook: (x) => isOneOf(x, HOOKS),
  positions: isListOf(isPlace),
  neurons: isListOf((x) => isWhole(x, 0)),
  frequencies: isListOf((x) => isWhole(x, 1)),
  source: (x) => typeof x === "string",
  layer: (x) => x === 1 || x === 2,
  query: isPlace,
  key: isPlace,
  weights: (x) =>
    typeof x === "object" && x !== null && !Array.isArray(x) &&
    Object.entries(x).every(([k, v]) => (isOneOf(k, ROLES) || /^[0-9]+$/.test(k)) && typeof v === "number" && v >= 0 && v <= 1),
  component: (x) => isOneOf(x, Object.keys(COMPONENTS)),
  step: (x) => isWhole(x, 0),
  seed: (x) => isWhole(x, 0),
  run: (x) => typeof x === "string",
};

export function placeOfKey(key: string): Place {
  return /^[0-9]+$/.test(key) ? Number(key) : (key as Role);
}

/** JSON as the package reads it, what is null left out. */
export function toJson(spec: Specification, indent?: number): string {
  return JSON.stringify(spec, (_, v: unknown) => (v === null ? undefined : v), indent);
}
