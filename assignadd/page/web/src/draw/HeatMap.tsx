/** A heat map inside a figure: pixels as a picture, labels, marked cells, and a cursor for pointer and keyboard. */

import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { dark, picture, type Scale } from "./colour";

export interface Cell {
  readonly row: number;
  readonly col: number;
}
export interface Mark extends Cell {
  readonly kind: "holds" | "fails" | "box";
}
interface Props {
  readonly x: number;
  readonly y: number;
  /** Side of a cell. */
  readonly cell: number;
  readonly values: ArrayLike<number>;
  readonly rows: number;
  readonly cols: number;
  readonly scale: Scale;
  readonly title: string;
  readonly rowLabels?: readonly string[];
  readonly colLabels?: readonly string[];
  /** Class of a label, to link it with others. */
  readonly labelClass?: (label: string, position: number) => string;
  readonly marks?: readonly Mark[];
  readonly cursor?: Cell | null;
  readonly onCursor?: (cell: Cell | null) => void;
  readonly onPick?: (cell: Cell, byKeyboard: boolean) => void;
  readonly children?: ComponentChildren;
}

export function HeatMap(p: Props) {
  const { cell, rows, cols } = p;
  const [width, height] = [cell * cols, cell * rows];
  const isDark = dark.value;
  const image = useMemo(() => picture(p.values, rows, cols, p.scale), [p.values, rows, cols, isDark, p.scale.kind, p.scale.most]);
  const at = (event: PointerEvent): Cell | null => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * cols);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return row >= 0 && row < rows && col >= 0 && col < cols ? { row, col } : null;
  };
  const size = Math.min(11, Math.max(7, cell * 0.62));
  return (
    <g transform={`translate(${p.x},${p.y})`}>
      <image href={image} width={width} height={height} preserveAspectRatio="none" class="pixels" />
      <rect width={width} height={height} class="frame" />
      {p.rowLabels?.map((label, i) => (
        <text key={i} x={-5} y={(i + 0.5) * cell} class={`tick end ${p.labelClass?.(label, i) ?? ""}`} style={{ fontSize: `${size}px` }}>{label}</text>
      ))}
      {p.colLabels?.map((label, i) => (
        <text key={i} x={(i + 0.5) * cell} y={height + 5 + size * 0.6} class={`tick middle ${p.labelClass?.(label, i) ?? ""}`} style={{ fontSize: `${size}px` }}>{label}</text>
      ))}
      {p.children}
      {p.marks?.map((m) => (
        <g key={`${m.row},${m.col}`} class={`mark ${m.kind}`} transform={`translate(${m.col * cell},${m.row * cell})`}>
          <rect width={cell} height={cell} />
          {m.kind !== "box" && cell >= 12 && <text x={cell / 2} y={cell / 2} style={{ fontSize: `${cell * 0.62}px` }}>{m.kind === "holds" ? "✓" : "✗"}</text>}
        </g>
      ))}
      {p.cursor && <rect class="cursor" x={p.cursor.col * cell} y={p.cursor.row * cell} width={cell} height={cell} />}
      {p.onCursor && (
        <rect
          class="target"
          width={width}
          height={height}
          tabindex={0}
          role="application"
          aria-label={`${p.title}; arrow keys move between cells${p.onPick ? ", Enter chooses one" : ""}`}
          onPointerMove={(e) => p.onCursor?.(at(e))}
          onPointerLeave={() => p.onCursor?.(null)}
          onFocus={() => p.cursor ?? p.onCursor?.({ row: rows - 1, col: 0 })}
          onClick={(e) => {
            const found = at(e as unknown as PointerEvent);
            if (found) p.onPick?.(found, false);
          }}
          onKeyDown={(e) => {
            const now = p.cursor ?? { row: rows - 1, col: 0 };
            const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
            const move = moves[e.key];
            if (move) {
              e.preventDefault();
              p.onCursor?.({ row: clamp(now.row + move[0], rows), col: clamp(now.col + move[1], cols) });
            } else if ((e.key === "Enter" || e.key === " ") && p.cursor) {
              e.preventDefault();
              p.onPick?.(p.cursor, true);
            }
          }}
        />
      )}
    </g>
  );
}

function clamp(i: number, n: number): number {
  return Math.min(n - 1, Math.max(0, i));
}
