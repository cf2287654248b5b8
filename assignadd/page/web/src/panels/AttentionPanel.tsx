/** Attention of both layers between all tokens, as heat maps; the edges that the circuit needs are ticked or crossed. */

import { useRef, useState } from "preact/hooks";
import { ColourBar } from "../draw/ColourBar";
import { diverging, sequential, type Scale } from "../draw/colour";
import { fixed } from "../draw/format";
import { HeatMap, type Cell, type Mark } from "../draw/HeatMap";
import { Choice, Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { Term } from "../glossary/Term";
import { edgeHolds, expectedEdges } from "../model/prompt";
import { tokenName } from "../model/task";
import { isActive, toggleIntervention } from "../state/interventions";
import { settled, stale, type Snapshot } from "../state/snapshot";
import { change, hovered, shown } from "../state/store";
import { cutOf } from "./cuts";

/** A cell of one layer's pattern. */
interface Over extends Cell {
  readonly layer: 1 | 2;
}

export function AttentionPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(760);
  const cut = useRef<HTMLButtonElement>(null);
  const [over, setOver] = useState<Over | null>(null);
  const [picked, setPicked] = useState<Over | null>(null);
  const now = settled.value;
  const quantity = shown.quantity.value;
  const one = now && picked && cutOf(now.trace.prompt, { layer: picked.layer, query: picked.row, key: picked.col });
  const pick = (to: Over, byKeyboard: boolean): void => {
    setPicked(to);
    if (byKeyboard) setTimeout(() => cut.current?.focus());
  };
  return (
    <Panel
      id="attention"
      title="All attention"
      numbers={now && (() => attentionNumbers(now))}
      lead={<>Rows attend to columns. Outlined cells are the edges that the <Term id="circuit">circuit</Term> needs: ✓ where they are among the heaviest of their row. Choose a cell to cut it.</>}
      controls={<Choice label="What to draw" options={[["weights", "Weights"], ["scores", "Scores"]]} value={quantity} onChange={(q) => change({ quantity: q })} />}
    >
      <div ref={ref} class={stale.value ? "stale" : ""}>
        {now && <Maps width={width} snapshot={now} over={over ?? picked} onOver={setOver} onPick={pick} />}
        <div class="edge-bar">
          <p class="readout" role="status">{now && readout(now, over ?? picked)}</p>
          {one && <button ref={cut} type="button" class="primary" onClick={() => toggleIntervention(one)}>{isActive(one) ? "Restore this edge" : "✂ Cut this edge"}</button>}
        </div>
      </div>
    </Panel>
  );
}

function attentionNumbers({ trace }: Snapshot) {
  const { prompt } = trace;
  const T = prompt.task.length;
  const edges = expectedEdges(prompt);
  const rows = (m: Float32Array): number[][] => Array.from({ length: T }, (_, q) => [...m.subarray(q * T, (q + 1) * T)]);
  return {
    tokens: prompt.tokens.map((t) => tokenName(prompt.task, t)),
    layers: [0, 1].map((l) => ({ layer: l + 1, weights: rows(trace.patterns[l].data), scores: rows(trace.scores[l].data) })),
    expected: edges.map((e) => ({ layer: e.layer, query: e.query, key: e.key, holds: edgeHolds(trace.patterns[e.layer - 1].data, T, edges, e) })),
  };
}

interface MapsProps {
  readonly width: number;
  readonly snapshot: Snapshot;
  readonly over: Over | null;
  readonly onOver: (o: Over | null) => void;
  readonly onPick: (o: Over, byKeyboard: boolean) => void;
}

function Maps({ width, snapshot, over, onOver, onPick }: MapsProps) {
  const stacked = width < 560;
  const T = snapshot.trace.prompt.task.length;
  const margin = { left: 30, top: 24, bottom: 44, gap: 24 };
  const side = stacked ? width - margin.left - 8 : (width - 2 * margin.left - margin.gap) / 2;
  const cell = Math.min(side / T, 30);
  const [w, h] = [margin.left + cell * T, margin.top + cell * T + margin.bottom];
  const height = stacked ? 2 * h + 8 : h;
  return (
    <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Attention of both layers as heat maps">
      {([1, 2] as const).map((layer) => {
        const [x, y] = [margin.left + (stacked ? 0 : (layer - 1) * (w + margin.gap)), margin.top + (stacked ? (layer - 1) * (h + 8) : 0)];
        return (
          <g key={layer}>
            <LayerMap layer={layer} x={x} y={y} cell={cell} snapshot={snapshot} over={over} onOver={onOver} onPick={onPick} />
            <ColourBar x={x} y={y + cell * T + 26} width={cell * T} scale={scaleOf(snapshot, layer)} unit={shown.quantity.value === "scores" ? "score" : "attention weight"} />
          </g>
        );
      })}
    </svg>
  );
}

function scaleOf({ trace }: Snapshot, layer: 1 | 2): Scale {
  if (shown.quantity.value === "weights") return sequential(1);
  return diverging(trace.scores[layer - 1].data.reduce((m, s) => (Number.isFinite(s) ? Math.max(m, Math.abs(s)) : m), 0));
}

interface LayerProps {
  readonly layer: 1 | 2;
  readonly x: number;
  readonly y: number;
  readonly cell: number;
  readonly snapshot: Snapshot;
  readonly over?: Over | null;
  readonly onOver?: (over: Over | null) => void;
  readonly onPick?: (over: Over, byKeyboard: boolean) => void;
}

export function LayerMap({ layer, x, y, cell, snapshot, over, onOver, onPick }: LayerProps) {
  const { trace } = snapshot;
  const { prompt } = trace;
  const T = prompt.task.length;
  const pattern = trace.patterns[layer - 1].data;
  const asScores = shown.quantity.value === "scores";
  const edges = expectedEdges(prompt);
  const marks: Mark[] = edges
    .filter((e) => e.layer === layer)
    .map((e) => ({ row: e.query, col: e.key, kind: edgeHolds(pattern, T, edges, e) ? "holds" : "fails" }));
  const names = prompt.tokens.map((t) => tokenName(prompt.task, t));
  return (
    <>
      <text x={x} y={y - 9} class="label">Layer {layer}{asScores ? ", scores" : ""}</text>
      <HeatMap
        x={x}
        y={y}
        cell={cell}
        values={asScores ? trace.scores[layer - 1].data : pattern}
        rows={T}
        cols={T}
        scale={scaleOf(snapshot, layer)}
        title={`Attention of layer ${layer}`}
        rowLabels={names}
        colLabels={names}
        labelClass={(label) => (hovered.value === label ? "linked" : "")}
        marks={marks}
        cursor={over?.layer === layer ? over : null}
        {...(onOver && { onCursor: (c: Cell | null) => onOver(c && { ...c, layer }) })}
        {...(onPick && { onPick: (c: Cell, byKeyboard: boolean) => c.col <= c.row && onPick({ ...c, layer }, byKeyboard) })}
      />
    </>
  );
}

function readout({ trace }: Snapshot, over: Over | null): string {
  const { prompt } = trace;
  const T = prompt.task.length;
  const name = (i: number): string => `${tokenName(prompt.task, prompt.tokens[i]).replace(".", "PAD")} at ${i}`;
  if (!over) return "Point at a cell for its numbers.";
  if (over.col > over.row) return `Layer ${over.layer}: ${name(over.row)} cannot look ahead to ${name(over.col)}.`;
  const i = over.row * T + over.col;
  const edge = expectedEdges(prompt).find((e) => e.layer === over.layer && e.query === over.row && e.key === over.col);
  const [weight, score] = [trace.patterns[over.layer - 1].data[i], trace.scores[over.layer - 1].data[i]];
  return `Layer ${over.layer}: ${name(over.row)} attends to ${name(over.col)} with weight ${fixed(weight, 4)}, score ${fixed(score, 3)}${edge ? ` (expected: ${edge.why})` : ""}.`;
}
