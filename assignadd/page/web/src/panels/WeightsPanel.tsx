/** Score tables read off the weights: QK1 on all embeddings, QK1 on positions, QK2 on copied variables. */

import { useMemo, useState } from "preact/hooks";
import { ColourBar } from "../draw/ColourBar";
import { diverging } from "../draw/colour";
import { fixed } from "../draw/format";
import { HeatMap, type Cell, type Mark } from "../draw/HeatMap";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { Term } from "../glossary/Term";
import { qk1Positions, qk1Table, variableMatches } from "../model/circuit";
import { argmax, row, rowsOf, type Matrix } from "../model/matrix";
import { firstVariable, prefix, tokenName, variables, vocabularySize, type Task } from "../model/task";
import type { Weights } from "../model/weights";
import { currentWeights } from "../state/snapshot";
import { entry, hovered } from "../state/store";

interface Tables {
  readonly table: Matrix;
  readonly positions: Matrix;
  readonly matches: Matrix;
}
type Which = keyof Tables;

function tablesOf(w: Weights, task: Task): Tables {
  return { table: qk1Table(w), positions: qk1Positions(w, task), matches: variableMatches(w, task) };
}

export function WeightsPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const [over, setOver] = useState<(Cell & { which: Which }) | null>(null);
  const { task } = entry.value;
  const weights = currentWeights.value;
  const tables = useMemo(() => weights && tablesOf(weights, task), [weights, task]);
  const letters = [...variables(task)];
  const cursorOf = (which: Which) => (c: Cell | null): void => {
    setOver(c && { ...c, which });
    hovered.value = c && variableAt(task, which, c);
  };
  const stacked = width < 760;
  // Side by side, the two small tables under each other are as tall as the big one.
  const big = stacked ? width - 46 : (width - 110) / 1.5;
  const small = stacked ? width - 40 : (big - 86) / 2;
  return (
    <Panel
      id="weights"
      title="Weights"
      numbers={tables && (() => ({ qk1: listsOf(tables.table), qk1_positions: listsOf(tables.positions), qk2_variables: listsOf(tables.matches) }))}
      lead={<>Who asks for whom, before any prompt: the <Term id="score">score</Term> of a row for a column. Green attracts, brown repels. Point at a variable to follow it through every panel.</>}
    >
      <div ref={ref}>
        {tables && <Figure tables={tables} task={task} letters={letters} width={width} big={big} small={small} stacked={stacked} over={over} cursorOf={cursorOf} />}
        <p class="readout" role="status">{tables && over ? said(tables, task, over) : "Point at a cell for its score."}</p>
      </div>
    </Panel>
  );
}

interface FigureProps {
  readonly tables: Tables;
  readonly task: Task;
  readonly letters: readonly string[];
  readonly width: number;
  readonly big: number;
  readonly small: number;
  readonly stacked: boolean;
  readonly over: (Cell & { which: Which }) | null;
  readonly cursorOf: (which: Which) => (c: Cell | null) => void;
}

function Figure({ tables, task, letters, width, big, small, stacked, over, cursorOf }: FigureProps) {
  const left = 44;
  const top = 40;
  const n = tables.table.rows;
  const cell = big / n;
  const P = prefix(task);
  const x2 = stacked ? 30 : left + big + 76;
  const yPositions = stacked ? top + big + 86 : top;
  const yMatches = yPositions + small + 84;
  const height = stacked ? yMatches + small + 42 : Math.max(top + big + 40, yMatches + small + 42);
  const at = (which: Which): Cell | null => (over?.which === which ? over : null);
  const link = (label: string): string => (hovered.value === label ? "linked" : "");
  return (
    <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Score tables of the weights">
      <text x={stacked ? 0 : left} y={14} class="label">Layer 1: scores between all tokens and positions<title>C QK1 Cᵀ</title></text>
      <HeatMap x={left} y={top} cell={cell} values={tables.table.data} rows={n} cols={n} scale={diverging(spread(tables.table.data))} title="QK1 over all embeddings" cursor={at("table")} onCursor={cursorOf("table")}>
        <Blocks task={task} cell={cell} n={n} />
      </HeatMap>
      <ColourBar x={left} y={top + big + 10} width={big} scale={diverging(spread(tables.table.data))} unit="score" />
      <text x={x2} y={yPositions - 26} class="label">Layer 1: which position a position asks for<title>P QK1 Pᵀ</title></text>
      <HeatMap
        x={x2} y={yPositions} cell={small / P} values={tables.positions.data.map((v, i) => (admissible(Math.floor(i / P), i % P) ? v : NaN))} rows={P} cols={P}
        scale={diverging(spread(tables.positions.data))} title="QK1 over positions" cursor={at("positions")} onCursor={cursorOf("positions")}
        rowLabels={range(P)} colLabels={range(P)} marks={positionMarks(tables.positions, P)}
      />
      <ColourBar x={x2} y={yPositions + small + 22} width={small} scale={diverging(spread(tables.positions.data))} unit="score" />
      <text x={x2} y={yMatches - 26} class="label">Layer 2: which copied names match<title>(E OV1) QK2 (E OV1)ᵀ</title></text>
      <HeatMap
        x={x2} y={yMatches} cell={small / letters.length} values={tables.matches.data} rows={letters.length} cols={letters.length}
        scale={diverging(spread(tables.matches.data))} title="QK2 over copied variables" cursor={at("matches")} onCursor={cursorOf("matches")}
        rowLabels={letters} colLabels={letters} labelClass={link} marks={matchMarks(tables.matches)}
      />
      <ColourBar x={x2} y={yMatches + small + 22} width={small} scale={diverging(spread(tables.matches.data))} unit="score" />
    </svg>
  );
}

/** The groups of tokens and positions, outlined and named. */
function Blocks({ task, cell, n }: { task: Task; cell: number; n: number }) {
  const K = vocabularySize(task);
  const groups = [["numbers", 0, task.modulus], [`${task.operator} = pad`, task.modulus, firstVariable(task)], ["vars", firstVariable(task), K], ["positions", K, n]] as const;
  const marked = hovered.value === null ? -1 : firstVariable(task) + variables(task).indexOf(hovered.value);
  return (
    <>
      {groups.map(([name, from, to]) => (
        <g key={name}>
          <line x1={from * cell} x2={from * cell} y1={0} y2={n * cell} class="divide" />
          <line y1={from * cell} y2={from * cell} x1={0} x2={n * cell} class="divide" />
          {to - from > 5 && <text x={((from + to) / 2) * cell} y={-8} class="tick middle">{name}</text>}
          {to - from > 5 && <text transform={`translate(-9,${((from + to) / 2) * cell}) rotate(-90)`} class="tick middle">{name}</text>}
        </g>
      ))}
      {marked >= firstVariable(task) && (
        <>
          <rect x={marked * cell} y={0} width={cell} height={n * cell} class="follow" />
          <rect y={marked * cell} x={0} height={cell} width={n * cell} class="follow" />
        </>
      )}
    </>
  );
}

/** The keys that count for a number at i: before it, and not i - 2, where no variable of its own can stand. */
function admissible(i: number, j: number): boolean {
  return j < i && j !== i - 2;
}

function positionMarks(m: Matrix, P: number): Mark[] {
  return Array.from({ length: P - 1 }, (_, k) => k + 1).map((i) => {
    const scores = [...row(m, i)].map((v, j) => (admissible(i, j) ? v : -Infinity));
    const best = argmax(scores);
    return { row: i, col: best, kind: best === i - 1 ? "holds" : "fails" };
  });
}

export function matchMarks(m: Matrix): Mark[] {
  return Array.from({ length: m.rows }, (_, i) => {
    const best = argmax(row(m, i));
    return { row: i, col: best, kind: best === i ? "holds" : "fails" };
  });
}

function variableAt(task: Task, which: Which, c: Cell): string | null {
  if (which === "positions") return null;
  const shift = which === "table" ? firstVariable(task) : 0;
  return variables(task)[c.row - shift] ?? variables(task)[c.col - shift] ?? null;
}

function said(tables: Tables, task: Task, over: Cell & { which: Which }): string {
  const m = tables[over.which];
  const K = vocabularySize(task);
  const name = (i: number): string => {
    if (over.which === "positions") return `position ${i}`;
    if (over.which === "matches") return variables(task)[i];
    return i < K ? `token ${tokenName(task, i).replace(".", "PAD")}` : `position ${i - K}`;
  };
  return `${name(over.row)} asks for ${name(over.col)} with score ${fixed(m.data[over.row * m.cols + over.col], 3)}.`;
}

/** The largest size, a few outliers aside, so that they do not bleach the rest. */
export function spread(values: Float32Array): number {
  const sizes = values.map(Math.abs).sort();
  return sizes[Math.floor(0.995 * (sizes.length - 1))] || 1;
}

export function listsOf(m: Matrix): number[][] {
  return rowsOf(m).map((r) => [...r]);
}

function range(n: number): string[] {
  return Array.from({ length: n }, (_, i) => String(i));
}
