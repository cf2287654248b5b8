/** What the data files hold (written by the package's `page.export`). */

import type { Asked } from "../model/padding";
import type { Task } from "../model/task";
import type { Shapes } from "../model/weights";

interface Spike {
  readonly name: "first" | "second";
  /** The evaluations between which the accuracy rises, and the checkpoints on either side. */
  readonly before: number;
  readonly after: number;
  readonly checkpoints: readonly [number, number];
  readonly low: number;
  readonly high: number;
}
export type Skill = "addition" | "binding" | "refinement";
interface Phases {
  readonly onsets: Readonly<Record<Skill, number | null>>;
  readonly spikes: readonly Spike[];
}
/** Curves over steps, by name; null where a value does not exist. */
export interface Curves {
  readonly steps: readonly number[];
  readonly values: Readonly<Record<string, readonly (number | null)[]>>;
}
/** An accuracy, the ends of its 95 % interval, and the number of sequences. */
export type Accuracy = readonly [number, number, number, number];
export type Telling = "first" | "second" | "end";
export interface ModelEntry {
  readonly key: string;
  readonly run: string;
  readonly seed: number;
  readonly steps: readonly number[];
  /** One object for every network of the same task. */
  readonly task: Task;
  readonly matrices: Shapes;
  readonly binds: boolean;
  /** At the last checkpoint, by evaluation set. */
  readonly accuracies: Readonly<Record<string, Accuracy>>;
  readonly phases: Phases;
  readonly wall: Curves;
  /** Prompts that turn right across a spike, and one that stays wrong to the end. */
  readonly telling: Readonly<Record<Telling, Asked | null>>;
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
  /** The section of the story that quotes it. */
  readonly section: string;
}
/** A median and the ends of its 95 % interval; empty where there is none. */
type Median = readonly number[];
export interface Census {
  readonly name: string;
  readonly n: number;
  readonly bind: number;
  readonly low: number;
  readonly high: number;
  readonly steps: number;
  /** The steps at which a skill came, of the seeds in which it did. */
  readonly skills: readonly { readonly name: Skill; readonly colour: string; readonly steps: readonly number[] }[];
  readonly doubles: { readonly binding?: Median; readonly others?: Median };
}
export interface Sweep {
  readonly name: string;
  readonly title: string;
  readonly axis: string;
  readonly test: string;
  readonly colour: string;
  readonly steps: number;
  readonly settings: readonly number[];
  readonly accuracies: readonly (readonly number[])[];
  readonly medians: readonly Median[];
  /** For each setting, how many seeds bind, of how many. */
  readonly binding: readonly (readonly [number, number])[];
  readonly threshold: readonly [number, number, number] | null;
}
/** A record of the package's table of measures. */
interface Measure {
  readonly name: string;
  readonly family: string;
  readonly title: string;
  readonly label: string;
  readonly unit: string;
  readonly colour: string;
}
export interface Index {
  readonly format: number;
  readonly version: string;
  readonly models: readonly ModelEntry[];
  /** The network that the story is about, and what the package says of it and of many seeds of its task. */
  readonly story: string;
  readonly ledger: readonly Claim[];
  readonly population: { readonly census: Census | null; readonly sweeps: readonly Sweep[] } | null;
  readonly sets: readonly { readonly name: string; readonly label: string; readonly colour: string }[];
  readonly measures: readonly Measure[];
  readonly rules: {
    readonly binding_set: string;
    readonly binding_level: number;
    readonly lasting: number;
    /** The evaluation sets of the slider and of the small charts. */
    readonly wall: readonly string[];
    readonly levels: Readonly<Record<Skill, number>>;
  };
  readonly palette: Readonly<Record<string, string>>;
  /** Colours of heat maps, nine from the least to the largest value. */
  readonly scales: { readonly shares: readonly string[]; readonly signed: readonly string[] };
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
