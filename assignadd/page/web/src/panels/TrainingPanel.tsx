/** Training in small charts: the accuracies and the progress measures, with the slider's step as a cursor. */

import { useMemo } from "preact/hooks";
import { count, percent } from "../draw/format";
import { Panel } from "../draw/Panel";
import { bandLegend, pathOf, PhaseBands } from "../draw/PhaseBands";
import { place, stepAt, TimeAxis } from "../draw/TimeAxis";
import { useWidth } from "../draw/width";
import type { Curves, Index, ModelEntry } from "../data/types";
import { Term } from "../glossary/Term";
import { setColour, setLabel, shade } from "../state/labels";
import { model } from "../state/snapshot";
import { change, entry, index, nearest, shown } from "../state/store";

interface Chart {
  readonly key: string;
  readonly title: string;
  readonly unit: string;
  readonly curves: Curves;
  readonly lines: readonly { readonly name: string; readonly colour: string }[];
}

export function TrainingPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const data = model.value;
  const own = entry.value;
  const { rules } = index.value;
  const charts = useMemo(() => (data ? [...accuracyCharts(data.curves), ...measureCharts(data.measures, index.value.measures)] : []), [data]);
  const columns = Math.max(1, Math.min(5, Math.floor(width / 262)));
  const gap = 24;
  const w = (width - gap * (columns - 1)) / columns;
  const h = 78;
  const rowHeight = h + 62;
  const height = Math.ceil(charts.length / columns) * rowHeight;
  const byVars = ["0-var train", "1-var train", "2-var train"].filter((name) => data && name in data.curves.values);
  return (
    <Panel
      id="training"
      title="Training"
      numbers={data && (() => ({ accuracies: data.curves, measures: data.measures, phases: own.phases }))}
      lead={<>{summary(own, rules)} Choose a moment in any chart. The step axis is stretched early (square root); <Term id="measure">progress measures</Term> follow the accuracies.</>}
      legend={[...byVars.map((name) => ({ colour: setColour(name), label: setLabel(name).split(",")[0] })), ...bandLegend(own, rules)]}
    >
      <div ref={ref} data-summary={summary(own, rules)}>
        {data && (
          <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Accuracies and progress measures along training">
            {charts.map((c, i) => (
              <SmallChart key={c.key} chart={c} own={own} x={(i % columns) * (w + gap)} y={Math.floor(i / columns) * rowHeight} w={w} h={h} />
            ))}
          </svg>
        )}
      </div>
    </Panel>
  );
}

/** Whether the network binds, and when its skills came; a skill without an onset is not said to be missing. */
export function summary(own: ModelEntry, rules: Index["rules"]): string {
  const { onsets, spikes } = own.phases;
  const score = own.accuracies[rules.binding_set]?.[0] ?? 0;
  const end = `At the end this network ${own.binds ? "binds" : "does not bind"} (${percent(score)} of one-variable sums).`;
  const came = (["addition", "binding", "refinement"] as const).flatMap((name) => (onsets[name] === null ? [] : [`${name} from step ${count(onsets[name])}`]));
  const rises = spikes.map((s) => `${s.name} spike between steps ${count(s.before)} and ${count(s.after)}`);
  const found = [...came, ...rises].join(", ");
  return `${end} ${found ? `${found[0].toUpperCase()}${found.slice(1)}.` : `No skill stayed above its level for ${count(rules.lasting)} steps.`}`;
}

function accuracyCharts(curves: Curves): Chart[] {
  return Object.keys(curves.values).map((name) => ({ key: name, title: setLabel(name), unit: "of sequences", curves, lines: [{ name, colour: setColour(name) }] }));
}

/** A chart for each family of measures, in the order and the colours of the package's table. */
export function measureCharts(curves: Curves, table: Index["measures"]): Chart[] {
  const there = table.filter((m) => m.name in curves.values);
  return [...new Set(there.map((m) => m.family))].map((family) => {
    const lines = there.filter((m) => m.family === family);
    return { key: family, title: lines[0].title, unit: lines[0].unit, curves, lines: lines.map((m) => ({ name: m.name, colour: shade(m.colour) })) };
  });
}

function SmallChart({ chart, own, x, y, w, h }: { chart: Chart; own: ModelEntry; x: number; y: number; w: number; h: number }) {
  const last = own.steps.at(-1) ?? 0;
  const px = (step: number): number => place(step, last) * w;
  const py = (share: number): number => h - share * (h - 2);
  const pick = (event: PointerEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    change({ step: nearest(own.steps, stepAt((event.clientX - box.left) / box.width, last)) });
  };
  const at = indexOfNearest(chart.curves.steps, shown.step.value);
  const values = chart.lines.map((l) => chart.curves.values[l.name][at]);
  const words = chart.title.split(", ");
  const title = words.slice(0, Math.max(1, words.length - 1)).join(", ");
  const kind = words.slice(1).slice(-1);
  const still = useMemo(
    () => (
      <>
        <PhaseBands own={own} x={px} height={h} labels={false} />
        {[0, 0.5, 1].map((v) => <line key={v} x1={0} x2={w} y1={py(v)} y2={py(v)} class="axis" />)}
        {chart.lines.map((l) => <path key={l.name} d={pathOf(chart.curves, l.name, px, py)} style={{ stroke: l.colour }} class="curve" />)}
        <TimeAxis width={w} y={h} last={last} />
      </>
    ),
    [chart, own, w, h],
  );
  return (
    <g transform={`translate(${x},${y})`} class="small" data-chart={chart.key}>
      <text x={0} y={7} class="tick start strong">{title}<title>{chart.key}</title></text>
      <text x={0} y={20} class="tick start">{kind.map((k) => `${k}, `).join("")}{values.map((v) => (v == null ? "–" : percent(v, 0))).join(", ")} {chart.unit}</text>
      <g transform="translate(0,30)">
        {still}
        <line x1={px(shown.step.value)} x2={px(shown.step.value)} y1={0} y2={h} class="now" />
        {chart.lines.map((l) => {
          const value = chart.curves.values[l.name][at];
          return value != null && <circle key={l.name} cx={px(shown.step.value)} cy={py(value)} r={3} style={{ fill: l.colour }} class="point" data-name={l.name} data-value={value} />;
        })}
        <rect x={0} y={0} width={w} height={h} class="target" onClick={(e) => pick(e as unknown as PointerEvent)} />
      </g>
    </g>
  );
}

function indexOfNearest(steps: readonly number[], step: number): number {
  return steps.indexOf(nearest(steps, step));
}
