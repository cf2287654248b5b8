/** What becomes of networks that differ in one thing from the paper's, from the tables of the package's studies. */

import { signal } from "@preact/signals";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { count, percent } from "../draw/format";
import type { Study } from "../data/types";
import { Term } from "../glossary/Term";
import { shade } from "../state/labels";
import { index } from "../state/store";

const chosen = signal("");
const [HEAD, FOOT, APART] = [20, 34, 9];

export function StudiesPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(900);
  const { studies } = index.value;
  const study = studies.find((s) => s.name === chosen.value) ?? studies[0];
  const names = Math.min(0.4 * width, 6 * Math.max(...study.cells.map((c) => c.length)) + 14);
  const row = APART * study.outcomes.length + 12;
  const height = HEAD + row * study.cells.length + FOOT;
  return (
    <Panel
      id="studies"
      title="Other tasks and networks"
      numbers={() => study}
      lead={<>{study.question} Lines are <Term id="interval">intervals</Term>; the other rows differ from the one in bold.</>}
      legend={study.outcomes.map((o) => ({ colour: shade(o.colour), label: `share of networks that ${o.name}`, title: o.name }))}
      controls={
        <label class="picker">
          <span>Study</span>
          <select value={study.name} onChange={(event) => (chosen.value = event.currentTarget.value)}>
            {studies.map((s) => <option key={s.name} value={s.name}>{s.title}</option>)}
          </select>
        </label>
      }
    >
      <div ref={ref} data-study={study.name}>
        <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={said(study)}>
          <Rows study={study} left={names} width={width - names - 60} row={row} />
        </svg>
        <p class="readout">{study.found}</p>
        <p class="readout">{study.method.replaceAll("`", "")} {study.cells.length} settings, {count(study.steps)} steps each. <code>{study.command}</code> has every number.</p>
      </div>
    </Panel>
  );
}

function said(study: Study): string {
  const rows = study.cells.map((cell, i) => {
    const shares = study.outcomes.flatMap((o) => (o.shares[i] ? [`${percent(o.shares[i][0], 0)} ${o.name}`] : []));
    return `${cell}: ${shares.join(", ") || "not tested"}`;
  });
  return `${study.title}. ${rows.join("; ")}.`;
}

/** A row for each cell, with a dot and an interval for each outcome. */
function Rows({ study, left, width, row }: { study: Study; left: number; width: number; row: number }) {
  const x = (share: number): number => left + share * width;
  const foot = HEAD + row * study.cells.length;
  const most = Math.floor((left - 12) / 5.7);
  return (
    <>
      <text x={left + width + 52} y={8} class="tick end">networks</text>
      {[0, 0.5, 1].map((v) => (
        <g key={v}>
          <line x1={x(v)} x2={x(v)} y1={HEAD} y2={foot} class="axis" />
          <text x={x(v)} y={foot + 12} class="tick middle">{100 * v} %</text>
        </g>
      ))}
      {study.cells.map((cell, i) => {
        const middle = HEAD + row * (i + 0.5);
        return (
          <g key={cell}>
            <text x={left - 10} y={middle} class={`tick end ${cell === study.reference ? "strong" : ""}`}><title>{cell}</title>{cell.length > most ? `${cell.slice(0, most - 1)}…` : cell}</text>
            <text x={left + width + 52} y={middle} class="tick end">{study.models[i]}</text>
            {study.outcomes.map((o, j) => {
              const found = o.shares[i];
              const y = middle + APART * (j - (study.outcomes.length - 1) / 2);
              return found && (
                <g key={o.name} style={{ stroke: shade(o.colour), fill: shade(o.colour) }}>
                  <line x1={x(found[1])} x2={x(found[2])} y1={y} y2={y} stroke-width={1.6} />
                  <circle cx={x(found[0])} cy={y} r={3.2}><title>{`${cell}: ${percent(found[0], 0)} [${percent(found[1], 0)}, ${percent(found[2], 0)}] ${o.name}`}</title></circle>
                </g>
              );
            })}
          </g>
        );
      })}
      <text x={left + width / 2} y={foot + 26} class="tick middle">share of networks</text>
    </>
  );
}
