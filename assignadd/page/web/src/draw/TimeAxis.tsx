/** Training steps along an axis: where each step stands, ticks with numbers, and what they count. */

import { shortStep } from "./format";

/** Where a step stands, from 0 to 1: early steps get more room than late ones. */
export function place(step: number, last: number): number {
  return last > 0 ? Math.sqrt(Math.min(step, last) / last) : 0;
}

/** The step at a place. */
export function stepAt(share: number, last: number): number {
  return last * share * share;
}

const ROUND = [1, 2, 5, 10];

/** Round steps that stand at least `apart` of the axis from each other. */
export function ticksOf(last: number, apart: number): number[] {
  const found = [0];
  for (let i = 1; i * apart <= 1 + 1e-9; i++) {
    const wanted = stepAt(i * apart, last);
    const unit = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
    const round = ROUND.map((r) => r * unit).reduce((best, r) => (Math.abs(place(r, last) - i * apart) < Math.abs(place(best, last) - i * apart) && r <= last ? r : best), unit);
    if (round <= last && place(round, last) - place(found[found.length - 1], last) >= 0.7 * apart) found.push(round);
  }
  return found;
}

/** Drawn at the foot of a chart of this width. */
export function TimeAxis({ width, y, last, title = "" }: { width: number; y: number; last: number; title?: string }) {
  return (
    <g transform={`translate(0,${y})`} class="time-axis">
      <line x1={0} x2={width} y1={0} y2={0} class="axis" />
      {ticksOf(last, 44 / width).map((s) => {
        const x = place(s, last) * width;
        return (
          <g key={s}>
            <line x1={x} x2={x} y1={0} y2={4} class="axis strong" />
            <text x={x} y={11} class={`tick ${s === 0 ? "start" : x > width - 12 ? "end" : "middle"}`}>{shortStep(s)}</text>
          </g>
        );
      })}
      {title && <text x={width / 2} y={25} class="tick middle">{title}</text>}
    </g>
  );
}
