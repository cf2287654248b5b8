/** What the data files hold (written by the package's `explorer.export`). */

import type { Task } from "../model/task";
import type { Shapes } from "../model/weights";

interface Spike {
  readonly name: "first" | "second";
  readonly before: number;
  readonly after: number;
  readonly low: number;
  readonly high: number;
}
interface Phases {
  readonly summary: string;
  readonly onsets: Readonly<Record<"addition" | "binding" | "refinement", number | null>>;
  readonly spikes: readonly Spike[];
}
/** Curves over steps, by name; null where a value does not exist. */
export interface Curves {
  readonly steps: readonly number[];
  readonly values: Readonly<Record<string, readonly (number | null)[]>>;
}
export interface ModelEntry {
  readonly key: string;
  readonly run: string;
  readonly seed: number;
  readonly steps: readonly number[];
  readonly task: Task;
  readonly matrices: Shapes;
  readonly binds: boolean;
  readonly phases: Phases;
  readonly wall: Curves;
  /** Prompts that turn right across a spike, and one that stays wrong to the end. */
  readonly telling: Readonly<Record<"first" | "second" | "end", string | null>>;
}
export interface Claim {
  readonly id: string;
  readonly label: string;
  readonly claim: string;
  readonly paper: string;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
  readonly unit: string;
  readonly seeds: number;
  readonly verdict: string;
  readonly rule: string;
  readonly comment: string;
  readonly command: string;
  readonly by_seed: readonly { readonly seed: number; readonly value: number; readonly holds: boolean }[];
}
export interface Index {
  readonly format: number;
  readonly version: string;
  readonly models: readonly ModelEntry[];
  readonly ledger: readonly Claim[];
}
export interface Example {
  readonly label: string;
  readonly text: string;
}
export interface ModelData {
  readonly curves: Curves;
  readonly measures: Curves;
  /** A 1 for every ordered pair (n, m) that training may add. */
  readonly seen: string;
  readonly exam: { readonly tokens: string; readonly labels: string; readonly sets: readonly (readonly [string, number, number])[] };
  readonly reference: { readonly tokens: string; readonly order: readonly number[] };
  readonly examples: readonly Example[];
}
