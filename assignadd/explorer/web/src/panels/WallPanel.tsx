/** Every seed with its curves: who learned what, and when. */

import { shortStep } from "../draw/format";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import type { ModelEntry } from "../data/types";
import { index, shown } from "../state/store";
import { DOCK_SETS, pathOf, PhaseBands, place } from "./Timeline";
import { scrollTo } from "./actions";
import { pickModel } from "./TopBar";

export function WallPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const { models } = index.value;
  const binding = models.filter((m) => m.binds).length;
  const columns = Math.max(2, Math.min(models.length, Math.floor(width / 190)));
  const gap = 16;
  const w = Math.min(300, (width - gap * (columns - 1)) / columns);
  const h = 84;
  const row = h + 52;
  const height = Math.ceil(models.length / columns) * row;
  return (
    <Panel
      id="wall"
      title="All seeds"
      numbers={() => models.map(({ run, seed, binds, phases, wall }) => ({ run, seed, binds, phases, ...wall }))}
      lead={`${binding} of ${models.length} learned to look variables up. Pick one to see it everywhere above.`}
    >
      <p class="legend">{DOCK_SETS.map(([name, colour, label]) => <span key={name} style={{ "--c": colour }}>{label}</span>)}</p>
      <div ref={ref}>
        <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Curves of every seed">
          {models.map((m, i) => <Seed key={m.key} m={m} x={(i % columns) * (w + gap)} y={Math.floor(i / columns) * row} w={w} h={h} />)}
        </svg>
      </div>
    </Panel>
  );
}

function Seed({ m, x, y, w, h }: { m: ModelEntry; x: number; y: number; w: number; h: number }) {
  const last = m.steps.at(-1) ?? 0;
  const px = (step: number): number => place(Math.min(step, last), last) * w;
  const py = (share: number): number => h - share * (h - 4);
  const pick = (): void => {
    pickModel(m.key);
    scrollTo("ask");
  };
  return (
    <g
      transform={`translate(${x},${y})`}
      class={`seed ${m.key === shown.model.value ? "chosen" : ""}`}
      tabIndex={0}
      role="button"
      aria-pressed={m.key === shown.model.value}
      aria-label={`${m.run}, seed ${m.seed}: ${m.phases.summary}`}
      onClick={pick}
      onKeyDown={(e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), pick())}
      data-seed={m.key}
    >
      <text x={0} y={12} class="tick start strong">seed {m.seed}</text>
      <text x={w} y={12} class={`tick end ${m.binds ? "does" : "never"}`}>{m.binds ? "binds" : "never binds"}</text>
      <g transform="translate(0,24)">
        <rect width={w} height={h} class="seed-back" rx={4} />
        <PhaseBands own={m} x={px} height={h} labels={false} />
        {DOCK_SETS.map(([name, colour]) => <path key={name} d={pathOf(m.wall, name, px, py)} style={{ stroke: colour }} class="curve" />)}
        {DOCK_SETS.map(([name, colour]) => <circle key={name} cx={px(m.wall.steps.at(-1) ?? 0)} cy={py(m.wall.values[name]?.at(-1) ?? 0)} r={3} style={{ fill: colour }} class="point" />)}
        <rect width={w} height={h} class="seed-frame" rx={4} />
        <text x={0} y={h + 9} class="tick start">{m.run.length > 26 ? `${m.run.slice(0, 25)}…` : m.run}</text>
        <text x={w} y={h + 9} class="tick end">{shortStep(last)}</text>
      </g>
    </g>
  );
}
