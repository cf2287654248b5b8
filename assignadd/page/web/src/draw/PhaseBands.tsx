/** The phases of training as bands behind curves, and curves over steps. */

import { line } from "d3-shape";
import type { Curves, Index, ModelEntry, Skill } from "../data/types";
import { count, percent } from "./format";
import type { LegendItem } from "./Legend";

const SKILLS: readonly Skill[] = ["addition", "binding", "refinement"];
const WORDS: Readonly<Record<Skill, string>> = {
  addition: "literal sums held out from training",
  binding: "one-variable sums as in training",
  refinement: "sums with variables in banned slots",
};

/** Each band begins where its skill came for good, and ends where the next one begins. */
export function PhaseBands({ own, x, height, labels }: { own: ModelEntry; x: (step: number) => number; height: number; labels: boolean }) {
  const { onsets } = own.phases;
  const last = own.steps.at(-1) ?? 0;
  const found = SKILLS.flatMap((name) => (onsets[name] === null ? [] : [{ name, from: onsets[name] }])).sort((a, b) => a.from - b.from);
  return (
    <>
      {found.map(({ name, from }, i) => {
        const to = found[i + 1]?.from ?? last;
        return (
          <g key={name} class={`phase phase-${name}`}>
            <rect x={x(from)} width={Math.max(0, x(to) - x(from))} y={0} height={height} />
            {labels && x(to) - x(from) > 66 && <text x={x(from) + 4} y={height - 8} class="tick start">{name}</text>}
          </g>
        );
      })}
    </>
  );
}

/** What the bands mean, for the skills that this network has. */
export function bandLegend(own: ModelEntry, { levels, lasting }: Index["rules"]): LegendItem[] {
  return SKILLS.filter((name) => own.phases.onsets[name] !== null).map((name) => ({
    colour: `var(--phase-${name})`,
    label: `band “${name}”: ${percent(levels[name], 0)} or more of ${WORDS[name]}, for ${count(lasting)} steps or to the end`,
  }));
}

export function pathOf(curves: Curves, name: string, x: (step: number) => number, y: (share: number) => number): string {
  const values = curves.values[name] ?? [];
  return line<number>().defined((i) => values[i] != null).x((i) => x(curves.steps[i])).y((i) => y(values[i] ?? 0))([...values.keys()]) ?? "";
}
