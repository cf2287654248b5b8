/** Many seeds: how many bind and when, and how much data the skills need, from the package's tables. */

import { line } from "d3-shape";
import { fixed, percent, count } from "../draw/format";
import { Panel } from "../draw/Panel";
import { place, TimeAxis } from "../draw/TimeAxis";
import { useWidth } from "../draw/width";
import type { Census, Sweep } from "../data/types";
import { Term } from "../glossary/Term";
import { shade } from "../state/labels";
import { entry, entryOf, index } from "../state/store";

/** The population is of the story network's task. */
export function hasPopulation(): boolean {
  return index.value.population !== null && entryOf(index.value.story).task === entry.value.task;
}

const SIZE = { w: 330, h: 190, left: 40, foot: 46, head: 46 };

export function PopulationPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const { population } = index.value;
  if (!population) return null;
  const { census, sweeps } = population;
  const columns = Math.max(1, Math.min(3, Math.floor(width / 300)));
  const w = Math.min(SIZE.w, (width - 24 * (columns - 1)) / columns);
  const charts = [...(census ? [census] : []), ...sweeps];
  const row = SIZE.head + SIZE.h + SIZE.foot;
  const height = Math.ceil(charts.length / columns) * row;
  return (
    <Panel id="population" title="Many seeds" numbers={() => population} lead={<Lead census={census} />}>
      <div ref={ref} data-bind={census?.bind} data-seeds={census?.n}>
        <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={`${census ? said(census) : ""} ${sweeps.map(threshold).join(" ")}`}>
          {charts.map((c, i) => (
            <g key={i} transform={`translate(${(i % columns) * (w + 24)},${Math.floor(i / columns) * row})`}>
              {"skills" in c ? <Learned census={c} width={w} /> : <Amount sweep={c} width={w} />}
            </g>
          ))}
        </svg>
      </div>
    </Panel>
  );
}

function said(c: Census): string {
  return `${c.bind} of ${c.n} seeds bind within ${count(c.steps)} steps: ${percent(c.bind / c.n, 0)} [${percent(c.low, 0)}, ${percent(c.high, 0)}].`;
}

function threshold(s: Sweep): string {
  return s.threshold ? `Half of the seeds that bind succeed at ${fixed(s.threshold[0], 3)} [${fixed(s.threshold[1], 3)}, ${fixed(s.threshold[2], 3)}].` : "";
}

function Lead({ census }: { census: Census | null }) {
  return (
    <>
      {census && <>{said(census)} {doubles(census)} </>}
      Populations of the paper's task, trained apart from this page: a <Term id="census">census</Term> and two sweeps over the training data; <Term id="interval">intervals</Term> in brackets.
    </>
  );
}

export function doubles({ doubles: { binding, others } }: Census): string {
  const median = (m: readonly number[]): string => `${percent(m[0], 0)} [${percent(m[1], 0)}, ${percent(m[2], 0)}]`;
  return binding?.length && others?.length ? `Of the doubles n + n held out from training, the median seed that binds answers ${median(binding)}, the median seed that does not ${median(others)}.` : "";
}

/** The share of seeds that have learned each skill by a step. */
function Learned({ census, width }: { census: Census; width: number }) {
  const { h, left, head } = SIZE;
  const w = width - left;
  const y = (share: number): number => (1 - share) * h;
  return (
    <>
      <text x={0} y={10} class="label">When seeds learn each skill</text>
      <text x={0} y={27} class="tick start">share of {census.n} seeds that have it</text>
      <g transform={`translate(${left},${head})`}>
        <Shares w={w} y={y} />
        {census.skills.map((s, i) => {
          const points = s.steps.map((step, j) => `L${place(step, census.steps) * w},${y(j / census.n)}V${y((j + 1) / census.n)}`);
          return (
            <g key={s.name}>
              <path d={`M0,${y(0)}${points.join("")}H${w}`} style={{ stroke: shade(s.colour) }} class="curve" />
              <text x={w - 4} y={y(0) - 12 - 14 * (census.skills.length - 1 - i)} class="tick end hue" style={{ "--c": shade(s.colour) }}>{s.name}: {s.steps.length} of {census.n}</text>
            </g>
          );
        })}
        <TimeAxis width={w} y={h} last={census.steps} title="training step (stretched early)" />
      </g>
    </>
  );
}

/** The final accuracy of every seed against the amount of data. */
function Amount({ sweep, width }: { sweep: Sweep; width: number }) {
  const { h, left, head } = SIZE;
  const w = width - left - 6;
  const [least, most] = [sweep.settings[0], sweep.settings[sweep.settings.length - 1]];
  const x = (v: number): number => ((v - least) / (most - least)) * w;
  const y = (share: number): number => (1 - share) * h;
  const medians = sweep.settings.flatMap((s, i) => (sweep.medians[i].length ? [[x(s), y(sweep.medians[i][0])] as [number, number]] : []));
  const ticks = [least, (least + most) / 2, most];
  return (
    <>
      <text x={0} y={10} class="label">{sweep.title}</text>
      <text x={0} y={27} class="tick start">accuracy on {sweep.test}</text>
      <g transform={`translate(${left},${head})`}>
        <Shares w={w} y={y} />
        {sweep.threshold && <rect x={x(sweep.threshold[1])} width={Math.max(1, x(sweep.threshold[2]) - x(sweep.threshold[1]))} y={0} height={h} class="threshold-band" />}
        {sweep.threshold && <line x1={x(sweep.threshold[0])} x2={x(sweep.threshold[0])} y1={0} y2={h} class="now" />}
        {sweep.accuracies.map((values, i) => values.map((v, j) => <circle key={`${i} ${j}`} cx={x(sweep.settings[i]) + (j / values.length - 0.5) * 5} cy={y(v)} r={1.6} class="one-seed" />))}
        <path d={line()(medians) ?? ""} style={{ stroke: shade(sweep.colour) }} class="curve thick" />
        {sweep.threshold && <text x={x(sweep.threshold[0]) + 6} y={h - 12} class="tick start">half of those that bind: {fixed(sweep.threshold[0], 2)}</text>}
        {ticks.map((v) => <text key={v} x={x(v)} y={h + 11} class={`tick ${v === least ? "start" : v === most ? "end" : "middle"}`}>{fixed(v, 2)}</text>)}
        <text x={w / 2} y={h + 27} class="tick middle">{sweep.axis}</text>
      </g>
    </>
  );
}

function Shares({ w, y }: { w: number; y: (share: number) => number }) {
  return (
    <>
      {[0, 0.5, 1].map((v) => (
        <g key={v}>
          <line x1={0} x2={w} y1={y(v)} y2={y(v)} class="axis" />
          <text x={-6} y={y(v)} class="tick end">{100 * v} %</text>
        </g>
      ))}
    </>
  );
}
