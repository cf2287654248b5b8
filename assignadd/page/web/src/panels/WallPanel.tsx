/** Every network whose training is on the page, with its curves: who learned what, and when. */

import { Panel } from "../draw/Panel";
import { bandLegend, pathOf, PhaseBands } from "../draw/PhaseBands";
import { pressable } from "../draw/press";
import { place, TimeAxis } from "../draw/TimeAxis";
import { useWidth } from "../draw/width";
import type { ModelEntry } from "../data/types";
import { setColour, setLabel } from "../state/labels";
import { entry, index, shown } from "../state/store";
import { pickModel, scrollTo } from "./actions";
import { summary } from "./TrainingPanel";

/** The networks of the shown one's task that have more than one evaluation; none where there is nothing to set side by side. */
export function followed(): readonly ModelEntry[] {
  const found = index.value.models.filter((m) => m.task === entry.value.task && m.wall.steps.length > 1);
  return found.length > 1 ? found : [];
}

export function WallPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const models = followed();
  const binding = models.filter((m) => m.binds).length;
  const columns = Math.max(1, Math.min(models.length, Math.floor(width / 220)));
  const gap = 24;
  const w = Math.min(300, (width - gap * (columns - 1)) / columns);
  const h = 84;
  const row = h + 70;
  const height = Math.ceil(models.length / columns) * row;
  const { rules } = index.value;
  return (
    <Panel
      id="wall"
      title="Seeds on this page"
      numbers={() => models.map(({ run, seed, binds, phases, wall }) => ({ run, seed, binds, phases, ...wall }))}
      lead={`${binding} of the ${models.length} networks on this page bind at the end. Which networks a page has is a choice: this does not say how many seeds bind. Choose one to see it everywhere above.`}
      legend={[...rules.wall.map((name) => ({ colour: setColour(name), label: setLabel(name), title: name })), ...bandLegend(entry.value, rules)]}
    >
      <div ref={ref}>
        <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Curves of every network">
          {models.map((m, i) => <Seed key={m.key} m={m} x={(i % columns) * (w + gap)} y={Math.floor(i / columns) * row} w={w} h={h} />)}
        </svg>
      </div>
    </Panel>
  );
}

function Seed({ m, x, y, w, h }: { m: ModelEntry; x: number; y: number; w: number; h: number }) {
  const last = m.wall.steps.at(-1) ?? 0;
  const px = (step: number): number => place(step, last) * w;
  const py = (share: number): number => h - share * (h - 4);
  const { rules } = index.value;
  const pick = (): void => {
    pickModel(m.key);
    scrollTo("top");
  };
  return (
    <g transform={`translate(${x},${y})`} class={`seed ${m.key === shown.model.value ? "chosen" : ""}`} data-seed={m.key}>
      <text x={0} y={8} class="tick start strong">{m.run.length > 18 ? `${m.run.slice(0, 17)}…` : m.run}, seed {m.seed}</text>
      <text x={w} y={8} class={`tick end ${m.binds ? "does" : "never"}`}>{m.binds ? "binds" : "does not bind"}</text>
      <g transform="translate(0,20)">
        <rect width={w} height={h} class="seed-back" rx={4} />
        <PhaseBands own={m} x={px} height={h} labels={false} />
        {rules.wall.map((name) => <path key={name} d={pathOf(m.wall, name, px, py)} style={{ stroke: setColour(name) }} class="curve" />)}
        <rect width={w} height={h} class="seed-frame" rx={4} />
        <TimeAxis width={w} y={h} last={last} title="training step" />
      </g>
      <rect width={w} height={h + 46} class="press" aria-pressed={m.key === shown.model.value} {...pressable(`${m.run}, seed ${m.seed}. ${summary(m, rules)}`, pick)} />
    </g>
  );
}
