/** Where both layers look on this prompt: heat maps or arcs, with the edges that the circuit needs ticked or crossed. */

import { useState } from "preact/hooks";
import { Arcs, type Over } from "../draw/Arcs";
import { diverging, sequential } from "../draw/colour";
import { fixed } from "../draw/format";
import { HeatMap, type Cell, type Mark } from "../draw/HeatMap";
import { Choice, Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { edgeHolds, expectedEdges, SINGLE_ROLES, positionsOf, type Place, type Prompt } from "../model/prompt";
import { tokenName } from "../model/task";
import { current, type Snapshot } from "../state/snapshot";
import { addIntervention, change, hovered, shown } from "../state/store";

export function AttentionPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(760);
  const [over, setOver] = useState<Over | null>(null);
  const now = current.value;
  const quantity = shown.quantity.value;
  const shape = shown.shape.value;
  return (
    <Panel
      id="attention"
      title="Attention"
      numbers={now && (() => attentionNumbers(now))}
      lead={
        <>
          In layer 1 every assigned number copies the variable before it and <code>=</code> reads the operands; in layer 2{" "}
          <code>=</code> fetches the two values. Pick an edge to cut it.
        </>
      }
      controls={
        <>
          <Choice label="How to draw attention" options={[["arcs", "Arcs"], ["maps", "Heat maps"]]} value={shape} onChange={(s) => change({ shape: s })} />
          {shape === "maps" && (
            <Choice label="What to draw" options={[["weights", "Weights"], ["scores", "Scores"]]} value={quantity} onChange={(q) => change({ quantity: q })} />
          )}
        </>
      }
    >
      <div ref={ref}>
        {now && (shape === "arcs" ? <Arcs width={width} snapshot={now} over={over} onOver={setOver} onPick={cut} /> : <Maps width={width} snapshot={now} over={over} onOver={setOver} />)}
        <p class="readout" role="status">{now && readout(now, over)}</p>
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

function Maps({ width, snapshot, over, onOver }: { width: number; snapshot: Snapshot; over: Over | null; onOver: (o: Over | null) => void }) {
  const stacked = width < 560;
  const T = snapshot.trace.prompt.task.length;
  const margin = { left: 30, top: 24, bottom: 24, gap: 24 };
  const side = stacked ? width - margin.left - 8 : (width - 2 * margin.left - margin.gap) / 2;
  const cell = Math.min(side / T, 40);
  const [w, h] = [margin.left + cell * T, margin.top + cell * T + margin.bottom];
  const height = stacked ? 2 * h + 8 : h;
  return (
    <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Attention of both layers as heat maps">
      {([1, 2] as const).map((layer) => (
        <LayerMap
          key={layer}
          layer={layer}
          x={margin.left + (stacked ? 0 : (layer - 1) * (w + margin.gap))}
          y={margin.top + (stacked ? (layer - 1) * (h + 8) : 0)}
          cell={cell}
          snapshot={snapshot}
          over={over}
          onOver={onOver}
        />
      ))}
    </svg>
  );
}

interface LayerProps {
  readonly layer: 1 | 2;
  readonly x: number;
  readonly y: number;
  readonly cell: number;
  readonly snapshot: Snapshot;
  readonly over: Over | null;
  readonly onOver?: (over: Over | null) => void;
}

export function LayerMap({ layer, x, y, cell, snapshot, over, onOver }: LayerProps) {
  const { trace } = snapshot;
  const { prompt } = trace;
  const T = prompt.task.length;
  const pattern = trace.patterns[layer - 1].data;
  const scores = trace.scores[layer - 1].data;
  const asScores = shown.quantity.value === "scores";
  const most = scores.reduce((m, s) => (Number.isFinite(s) ? Math.max(m, Math.abs(s)) : m), 0);
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
        values={asScores ? scores : pattern}
        rows={T}
        cols={T}
        scale={asScores ? diverging(most) : sequential(1)}
        title={`Attention of layer ${layer}`}
        rowLabels={names}
        colLabels={names}
        labelClass={(label) => (hovered.value === label ? "linked" : "")}
        marks={marks}
        cursor={over?.layer === layer ? over : null}
        {...(onOver && {
          onCursor: (c: Cell | null) => onOver(c && c.col <= c.row ? { ...c, layer } : null),
          onPick: (c: Cell) => c.col <= c.row && cut({ ...c, layer }),
        })}
      />
    </>
  );
}

/** Cuts an edge, named by the roles of its ends where they have one. */
function cut({ layer, row, col }: Over): void {
  const now = current.value;
  if (now) addIntervention({ action: "cut", layer, query: placeAt(now.trace.prompt, row), key: placeAt(now.trace.prompt, col) });
}

function placeAt(prompt: Prompt, position: number): Place {
  return SINGLE_ROLES.find((role) => positionsOf(prompt, role).includes(position)) ?? position;
}

function readout({ trace }: Snapshot, over: Over | null): string {
  const { prompt } = trace;
  const T = prompt.task.length;
  const name = (i: number): string => `${tokenName(prompt.task, prompt.tokens[i]).replace(".", "PAD")} at ${i}`;
  if (!over) return "Point at an edge for its numbers.";
  const i = over.row * T + over.col;
  const edge = expectedEdges(prompt).find((e) => e.layer === over.layer && e.query === over.row && e.key === over.col);
  const [weight, score] = [trace.patterns[over.layer - 1].data[i], trace.scores[over.layer - 1].data[i]];
  return `Layer ${over.layer}: ${name(over.row)} looks at ${name(over.col)} with weight ${fixed(weight, 4)}, score ${fixed(score, 3)}${edge ? ` (expected: ${edge.why})` : ""}.`;
}
