/** The parts of the answer's logits as waves over all answers, largest first, and their sum below. */

import { line } from "d3-shape";
import { partName, totalOf, type Part } from "../model/waves";
import type { Answer } from "../state/snapshot";

interface Props {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly parts: readonly Part[];
  readonly answer: Answer;
}

/** Room for the names on the left, in pixels. */
const LABELS = 36;
const SHORT = { direct: "direct", other: "others" } as const;

export function Waves({ x, y, width, height, parts, answer }: Props) {
  const N = answer.probabilities.length;
  if (!parts.length) return null;
  const total = totalOf(parts, N);
  const shown = parts.slice(0, Math.min(parts.length, height > 230 ? 6 : 4));
  const sum = height * 0.3;
  const each = (height - sum) / shown.length;
  const most = Math.max(...shown.map((p) => Math.max(...p.logits.map(Math.abs)))) || 1;
  const left = width > 100 ? LABELS : 0;
  const px = (c: number): number => left + ((c + 0.5) / N) * (width - left);
  const curve = (p: Part, mid: number, tall: number, scale: number): string => line<number>().x(px).y((c) => mid - (p.logits[c] / scale) * tall)([...p.logits.keys()]) ?? "";
  const peak = px(answer.prediction);
  return (
    <g transform={`translate(${x},${y})`} class="waves" pointer-events="none">
      <line x1={peak} x2={peak} y1={0} y2={height} class={`peak ${answer.prediction === answer.truth ? "right" : "wrong"}`} />
      {shown.map((p, i) => (
        <g key={i}>
          <path d={curve(p, (i + 0.5) * each, each * 0.46, most)} class="wave" />
          {left > 0 && <text x={0} y={(i + 0.5) * each} class="tick start small-tick">{typeof p.frequency === "number" ? `k = ${p.frequency}` : SHORT[p.frequency ?? "other"]}<title>{partName(p)}</title></text>}
        </g>
      ))}
      <line x1={0} x2={width} y1={height - sum} y2={height - sum} class="axis" />
      <path d={curve(total, height - sum * 0.42, sum * 0.5, Math.max(...total.logits.map(Math.abs)) || 1)} class="wave total" />
      {left > 0 && <text x={0} y={height - sum * 0.42} class="tick start small-tick">sum</text>}
    </g>
  );
}
