/** The answer on a clock face of N hours: both operands as turns, every answer's probability as a ray. */

import { arc } from "d3-shape";
import { useMemo } from "preact/hooks";
import type { Prompt } from "../model/prompt";
import type { Answer } from "../state/snapshot";

interface Props {
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly prompt: Prompt;
  readonly answer: Answer;
  /** The answer without interventions, drawn faintly behind. */
  readonly ghost?: Answer | undefined;
}

export function Clock({ x, y, size, prompt, answer, ghost }: Props) {
  const N = prompt.task.modulus;
  const R = size / 2;
  const rim = R * 0.74;
  const reach = R - rim - 22;
  const angle = (n: number): number => (2 * Math.PI * n) / N;
  const at = (n: number, r: number): [number, number] => [r * Math.sin(angle(n)), -r * Math.cos(angle(n))];
  const ray = (n: number, p: number): string =>
    arc()({ innerRadius: rim, outerRadius: rim + reach * p, startAngle: angle(n - 0.42), endAngle: angle(n + 0.42) }) ?? "";
  const turn = (from: number, by: number, r: number): string =>
    arc()({ innerRadius: r - 2.5, outerRadius: r + 2.5, startAngle: angle(from), endAngle: angle(from + by) }) ?? "";
  const [a, b] = prompt.values;
  const face = useMemo(() => <Face N={N} rim={rim} R={R} at={at} />, [N, R]);
  const right = answer.prediction === answer.truth;
  const [tx, ty] = at(answer.truth, rim - 9);
  return (
    <g transform={`translate(${x + R},${y + R})`} class="clock">
      {face}
      <path d={turn(0, a, rim - 18)} class="turn-first" />
      <path d={turn(a, b, rim - 27)} class="turn-second" />
      {ghost && [...ghost.probabilities].map((p, n) => p > 0.002 && <path key={n} d={ray(n, p)} class="ray ghost" />)}
      {[...answer.probabilities].map((p, n) => p > 0.002 && <path key={n} d={ray(n, p)} class={`ray ${n === answer.truth ? "right" : "wrong"}`} />)}
      <circle cx={tx} cy={ty} r={4} class="truth" />
      <text y={-8} class={`prediction ${right ? "right" : "wrong"}`} style={{ fontSize: `${size * 0.15}px` }}>{answer.prediction}</text>
      <text y={size * 0.075} class="caption" style={{ fontSize: `${Math.min(12, size * 0.05)}px` }}>{right ? "✓ right" : `✗ should be ${answer.truth}`}</text>
    </g>
  );
}

/** What does not move: the rim, a tick for every hour, some hours by name. */
function Face({ N, rim, R, at }: { N: number; rim: number; R: number; at: (n: number, r: number) => [number, number] }) {
  const every = Math.max(1, Math.round(N / 12));
  const ticks = Array.from({ length: N }, (_, n) => {
    const [x1, y1] = at(n, rim);
    const [x2, y2] = at(n, rim - (n % every === 0 ? 5 : 2.5));
    return `M${x1},${y1}L${x2},${y2}`;
  });
  const named = Array.from({ length: Math.ceil(N / every) }, (_, i) => i * every).filter((n) => N - n >= every / 2 || n === 0);
  return (
    <>
      <circle r={rim} class="rim" />
      <path d={ticks.join("")} class="minute" />
      {named.map((n) => {
        const [x, y] = at(n, R - 12);
        return <text key={n} x={x} y={y} class="tick middle">{n}</text>;
      })}
    </>
  );
}
