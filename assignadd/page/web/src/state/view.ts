/** Everything that decides what the page shows, as one value, and that value as an address. */

import type { PadsAt } from "../model/padding";
import { specification, toJson, type Specification } from "../interventions/specification";

export type Theme = "auto" | "light" | "dark";
export type Ordering = "power" | "share" | "frequency";

/** A step of the computation: attention of one query, the MLP, the answer. */
export type Node = { readonly layer: 1 | 2; readonly query: number } | "mlp" | "answer";

export interface At {
  readonly model: string;
  readonly step: number;
}
export interface View extends At {
  /** The prompt as typed, and where its PADs stand. */
  readonly text: string;
  readonly padding: PadsAt;
  readonly interventions: Specification;
  readonly compare: At | null;
  readonly quantity: "weights" | "scores";
  /** The node of the circuit whose computation is shown. */
  readonly node: Node;
  /** The neuron that is looked at; null for the first in the list. */
  readonly neuron: number | null;
  readonly ordering: Ordering;
  /** The story's section, from 0; null when it is closed. */
  readonly section: number | null;
  readonly theme: Theme;
}

/** A short address: what is as in `usual` is left out. */
export function toAddress(view: View, usual: View): string {
  const out = new URLSearchParams();
  for (const [letter, part] of Object.entries(PARTS)) {
    const text = part.write(view);
    if (text !== part.write(usual) || letter === "m" || letter === "s") out.set(letter, text);
  }
  return out.toString();
}

/** What an address says; parts that make no sense are left as in `usual`. */
export function fromAddress(address: string, usual: View): View {
  const given = new URLSearchParams(address.replace(/^#/, ""));
  let view = usual;
  for (const [letter, part] of Object.entries(PARTS)) {
    const text = given.get(letter);
    if (text === null) continue;
    try {
      view = { ...view, ...part.read(text) };
    } catch {
      continue; // a hand-made or truncated address
    }
  }
  return view;
}

interface Part {
  write(view: View): string;
  read(text: string): Partial<View>;
}

const PARTS: Readonly<Record<string, Part>> = {
  m: { write: (v) => v.model, read: (t) => ({ model: t }) },
  s: { write: (v) => String(v.step), read: (t) => ({ step: whole(t) }) },
  p: { write: (v) => v.text, read: (t) => ({ text: t.slice(0, 400) }) },
  r: { write: (v) => (typeof v.padding === "number" ? String(v.padding) : v.padding.join(".")), read: (t) => ({ padding: t.includes(".") ? t.split(".").map(whole) : whole(t) }) },
  i: { write: (v) => toJson(v.interventions), read: (t) => ({ interventions: specification(JSON.parse(t)) }) },
  c: { write: (v) => (v.compare ? `${v.compare.model}@${v.compare.step}` : ""), read: (t) => ({ compare: t ? at(t) : null }) },
  q: { write: (v) => v.quantity, read: (t) => ({ quantity: oneOf(t, ["weights", "scores"]) }) },
  g: { write: (v) => (typeof v.node === "string" ? v.node : `${v.node.layer}@${v.node.query}`), read: (t) => ({ node: node(t) }) },
  n: { write: (v) => (v.neuron === null ? "" : String(v.neuron)), read: (t) => ({ neuron: t ? whole(t) : null }) },
  o: { write: (v) => v.ordering, read: (t) => ({ ordering: oneOf(t, ["power", "share", "frequency"]) }) },
  t: { write: (v) => (v.section === null ? "" : String(v.section)), read: (t) => ({ section: t ? whole(t) : null }) },
  d: { write: (v) => v.theme, read: (t) => ({ theme: oneOf(t, ["auto", "light", "dark"]) }) },
};

function whole(text: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new Error("not a whole number");
  return Number(text);
}

function oneOf<T extends string>(text: string, accepted: readonly T[]): T {
  const found = accepted.find((a) => a === text);
  if (found === undefined) throw new Error(`not one of ${accepted.join(", ")}`);
  return found;
}

function at(text: string): At {
  const [model, step] = text.split("@");
  return { model, step: whole(step) };
}

function node(text: string): Node {
  if (!text.includes("@")) return oneOf<"mlp" | "answer">(text, ["mlp", "answer"]);
  const [layer, query] = text.split("@");
  return { layer: layer === "1" ? 1 : 2, query: whole(query) };
}
