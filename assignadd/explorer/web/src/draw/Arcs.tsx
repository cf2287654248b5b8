/** Attention as arcs over the tokens: layer 1 above, layer 2 below, as thick as they are heavy. */

import { edgeHolds, expectedEdges, positionsOf, type Prompt } from "../model/prompt";
import { isVariable, tokenName } from "../model/task";
import type { Snapshot } from "../state/snapshot";
import { hovered } from "../state/store";
import type { Cell } from "./HeatMap";
import { roleClass } from "./roles";

/** A cell of one layer's pattern. */
export interface Over extends Cell {
  readonly layer: 1 | 2;
}

/** Lighter edges are left out of the picture; the numbers have them all. */
const LEAST = 0.04;

interface Props {
  readonly width: number;
  readonly snapshot: Snapshot;
  readonly over: Over | null;
  readonly onOver: (over: Over | null) => void;
  readonly onPick: (over: Over) => void;
}

export function Arcs({ width, snapshot, over, onOver, onPick }: Props) {
  const { trace } = snapshot;
  const { prompt } = trace;
  const T = prompt.task.length;
  const step = width / T;
  const box = Math.min(34, step - 3);
  const rise = Math.min(150, width * 0.3);
  const middle = rise + 22;
  const height = 2 * middle + box;
  const x = (i: number): number => (i + 0.5) * step;
  const edges = expectedEdges(prompt);
  const isExpected = (layer: 1 | 2, q: number, k: number): boolean => edges.some((e) => e.layer === layer && e.query === q && e.key === k);
  const drawn = ([1, 2] as const).flatMap((layer) =>
    edgesFrom(trace.patterns[layer - 1].data, T, askingRows(prompt, layer)).filter((e) => e.weight >= LEAST || isExpected(layer, e.row, e.col)).map((e) => ({ ...e, layer })),
  );
  return (
    <svg class="figure arcs" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Attention of both layers as arcs">
      <text x={0} y={12} class="label">Layer 1</text>
      <text x={0} y={height - 4} class="label">Layer 2, from =</text>
      {drawn.sort((a, b) => a.weight - b.weight).map((e) => {
        const up = e.layer === 1;
        const y = up ? middle : middle + box;
        const bend = (0.18 + (0.82 * (e.row - e.col)) / (T - 1)) * rise * (up ? -1 : 1);
        const self = e.row === e.col;
        const d = self
          ? `M${x(e.row) - 4},${y} C${x(e.row) - 12},${y + bend * 1.3} ${x(e.row) + 12},${y + bend * 1.3} ${x(e.row) + 4},${y}`
          : `M${x(e.row)},${y} C${x(e.row)},${y + bend * 1.3} ${x(e.col)},${y + bend * 1.3} ${x(e.col)},${y}`;
        const expected = isExpected(e.layer, e.row, e.col);
        const isOver = over?.layer === e.layer && over.row === e.row && over.col === e.col;
        const where: Over = { layer: e.layer, row: e.row, col: e.col };
        return (
          <g
            key={`${e.layer},${e.row},${e.col}`}
            class={`edge ${expected ? roleClass(prompt, e.col) : "stray"} ${isOver ? "over" : ""}`}
            tabIndex={expected ? 0 : -1}
            role="button"
            aria-label={`Cut layer ${e.layer}, ${tokenName(prompt.task, prompt.tokens[e.row])} at ${e.row} to ${tokenName(prompt.task, prompt.tokens[e.col])} at ${e.col}, weight ${e.weight.toFixed(3)}`}
            onPointerEnter={() => onOver(where)}
            onPointerLeave={() => onOver(null)}
            onFocus={() => onOver(where)}
            onBlur={() => onOver(null)}
            onClick={() => onPick(where)}
            onKeyDown={(event) => event.key === "Enter" && onPick(where)}
          >
            <path d={d} class="hit" />
            <path d={d} class="line" style={{ strokeWidth: `${Math.max(0.75, e.weight * 9)}px` }} data-weight={e.weight} />
          </g>
        );
      })}
      {edges.map((e) => {
        const up = e.layer === 1;
        const holds = edgeHolds(trace.patterns[e.layer - 1].data, T, edges, e);
        const bend = (0.18 + (0.82 * (e.query - e.key)) / (T - 1)) * rise * (up ? -1 : 1);
        const [cx, cy] = [(x(e.query) + x(e.key)) / 2, (up ? middle : middle + box) + bend * 0.975];
        return (
          <text key={`${e.layer},${e.query},${e.key}`} x={cx} y={cy} class={`verdict ${holds ? "holds" : "fails"}`} data-layer={e.layer} data-query={e.query} data-key={e.key}>
            {holds ? "✓" : "✗"}
          </text>
        );
      })}
      {prompt.tokens.map((t, i) => {
        const name = tokenName(prompt.task, t);
        return (
          <g key={i} class={`token ${roleClass(prompt, i)} ${hovered.value === name ? "linked" : ""}`} transform={`translate(${x(i) - box / 2},${middle})`} onPointerEnter={() => (hovered.value = isVariable(prompt.task, t) ? name : null)} onPointerLeave={() => (hovered.value = null)}>
            <rect width={box} height={box} rx={5} />
            <text x={box / 2} y={box / 2} style={{ fontSize: `${Math.min(15, box * 0.5)}px` }}>{name}</text>
          </g>
        );
      })}
    </svg>
  );
}

/** The queries whose attention reaches the answer: `=`, and in layer 1 the assigned numbers. */
function askingRows(prompt: Prompt, layer: 1 | 2): number[] {
  const equals = positionsOf(prompt, "equals");
  return layer === 1 ? [...positionsOf(prompt, "assigned"), ...equals] : equals;
}

function edgesFrom(pattern: Float32Array, T: number, rows: readonly number[]): { row: number; col: number; weight: number }[] {
  return rows.flatMap((row) => Array.from({ length: row + 1 }, (_, col) => ({ row, col, weight: pattern[row * T + col] })));
}
