/** Training in small charts: the nine accuracies and the progress measures, with the slider's step as a cursor. */

import { useMemo } from "preact/hooks";
import { BLUE, GREEN, PURPLE, VERMILION } from "../draw/colour";
import { percent, shortStep } from "../draw/format";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import type { Curves, ModelEntry } from "../data/types";
import { model } from "../state/snapshot";
import { change, entry, nearest, shown } from "../state/store";
import { pathOf, PhaseBands, place } from "./Timeline";

interface Chart {
  readonly title: string;
  readonly curves: Curves;
  readonly lines: readonly { readonly name: string; readonly colour: string; readonly dash?: string }[];
}

const BY_VARS = [BLUE, VERMILION, GREEN] as const;
const MEASURES: readonly (readonly [string, string])[] = [
  ["ov2_mlp2_accuracy", "OV2–MLP2 adds alone"],
  ["qk1_num_to_prev_var", "QK1: number → previous"],
  ["qk2_ov1_var_identity", "QK2: variable to itself"],
  ["attn_l1_equal_to_operands", "layer 1: = → operands"],
  ["attn_l1_num_to_prev", "layer 1: number → variable"],
  ["attn_l2_equal_to_values", "layer 2: = → values"],
  ["probe_l1_var_from_num", "probe reads the variable"],
];

export function TrainingPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const data = model.value;
  const own = entry.value;
  const charts = useMemo(() => (data ? [...accuracyCharts(data.curves), ...measureCharts(data.measures)] : []), [data]);
  const columns = Math.max(2, Math.min(6, Math.floor(width / 176)));
  const gap = 16;
  const w = (width - gap * (columns - 1)) / columns;
  const h = 78;
  const rowHeight = h + 44;
  const height = Math.ceil(charts.length / columns) * rowHeight;
  return (
    <Panel
      id="training"
      title="Training"
      numbers={data && (() => ({ step: shown.step.value, accuracies: data.curves, measures: data.measures, phases: own.phases }))}
      lead={own.phases.summary[0].toUpperCase() + own.phases.summary.slice(1) + ". Pick a moment in any chart."}
    >
      <p class="legend"><span style={{ "--c": BLUE }}>numbers only</span><span style={{ "--c": VERMILION }}>1 variable</span><span style={{ "--c": GREEN }}>2 variables</span><span style={{ "--c": PURPLE }}>from the weights</span></p>
      <div ref={ref} data-summary={own.phases.summary}>
        {data && (
          <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Accuracies and progress measures along training">
            {charts.map((c, i) => (
              <SmallChart key={c.title} chart={c} own={own} x={(i % columns) * (w + gap)} y={Math.floor(i / columns) * rowHeight} w={w} h={h} />
            ))}
          </svg>
        )}
      </div>
    </Panel>
  );
}

function accuracyCharts(curves: Curves): Chart[] {
  return Object.keys(curves.values).map((name) => ({ title: name, curves, lines: [{ name, colour: BY_VARS[Number(name[0])] ?? PURPLE }] }));
}

function measureCharts(curves: Curves): Chart[] {
  return MEASURES.flatMap(([name, title]) => {
    const lines = name in curves.values
      ? [{ name, colour: PURPLE }]
      : [0, 1, 2].filter((n) => `${name} (${n}-var)` in curves.values).map((n) => ({ name: `${name} (${n}-var)`, colour: BY_VARS[n] }));
    return lines.length ? [{ title, curves, lines }] : [];
  });
}

function SmallChart({ chart, own, x, y, w, h }: { chart: Chart; own: ModelEntry; x: number; y: number; w: number; h: number }) {
  const last = own.steps.at(-1) ?? 0;
  const px = (step: number): number => place(Math.min(step, last), last) * w;
  const py = (share: number): number => h - share * (h - 2);
  const pick = (event: PointerEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    change({ step: nearest(own.steps, last * share * share) });
  };
  const at = indexOfNearest(chart.curves.steps, shown.step.value);
  const only = chart.lines.length === 1 ? chart.curves.values[chart.lines[0].name][at] : null;
  const still = useMemo(
    () => (
      <>
        <PhaseBands own={own} x={px} height={h} labels={false} />
        <line x1={0} x2={w} y1={h} y2={h} class="axis" />
        <line x1={0} x2={w} y1={py(1)} y2={py(1)} class="axis" />
        {chart.lines.map((l) => <path key={l.name} d={pathOf(chart.curves, l.name, px, py)} style={{ stroke: l.colour }} class="curve" />)}
      </>
    ),
    [chart, own, w, h],
  );
  return (
    <g transform={`translate(${x},${y})`} class="small" data-chart={chart.title}>
      <text x={0} y={11} class="tick start strong">{chart.title}</text>
      <g transform="translate(0,22)">
        {still}
        <line x1={px(shown.step.value)} x2={px(shown.step.value)} y1={0} y2={h} class="now" />
        {chart.lines.map((l) => {
          const value = chart.curves.values[l.name][at];
          return value != null && <circle key={l.name} cx={px(shown.step.value)} cy={py(value)} r={3} style={{ fill: l.colour }} class="point" data-name={l.name} data-value={value} />;
        })}
        {only != null && w > 60 + 6 * chart.title.length && <text x={w} y={-11} class="tick end">{percent(only, 0)}</text>}
        <text x={0} y={h + 9} class="tick start">0</text>
        <text x={w} y={h + 9} class="tick end">{shortStep(last)}</text>
        <rect x={0} y={0} width={w} height={h} class="target" onClick={(e) => pick(e as unknown as PointerEvent)} />
      </g>
    </g>
  );
}

function indexOfNearest(steps: readonly number[], step: number): number {
  return steps.indexOf(nearest(steps, step));
}
