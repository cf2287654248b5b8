/** Neurons on the clock: what the neurons of each frequency add to every answer, and how the waves add up. */

import { fixed } from "../draw/format";
import { useWidth } from "../draw/width";
import { partName, totalOf, type Part } from "../model/waves";
import { parts } from "../state/routes";
import type { Snapshot } from "../state/snapshot";
import { change } from "../state/store";
import { scrollTo } from "./actions";

const FACES = 8;

export function WavesStep({ snapshot }: { snapshot: Snapshot }) {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const { answer, trace } = snapshot;
  const N = trace.prompt.task.modulus;
  const shown = parts.value.slice(0, FACES);
  if (!shown.length) return null;
  const total = totalOf(parts.value, N);
  const wide = width >= 700;
  const big = wide ? 300 : Math.min(width, 260);
  const columns = wide ? 4 : 3;
  const gap = 12;
  const left = wide ? big + 48 : 0;
  const small = Math.min(150, (width - left - gap * (columns - 1)) / columns);
  const rows = Math.ceil(shown.length / columns);
  const y0 = wide ? 0 : big + 40;
  const height = Math.max(wide ? big + 30 : 0, y0 + rows * (small + 26));
  const most = Math.max(...shown.map((p) => Math.max(...p.logits.map(Math.abs))));
  return (
    <div ref={ref}>
      <p class="lead">
        Each face has the {N} answers around it. A bulge means that the neurons of one frequency raise these answers' logits, a dent that they lower them.
        Added up they are largest at <b>{answer.prediction}</b>{answer.prediction === answer.truth ? "" : ` (the right answer is ${answer.truth})`}.
      </p>
      <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={`Logits of every answer as a sum of ${parts.value.length} parts; the largest is at ${answer.prediction}`}>
        <Face x={0} y={0} size={big} part={total} most={Math.max(...total.logits.map(Math.abs))} N={N} answer={answer.prediction} truth={answer.truth} numbers />
        <text x={big / 2} y={big + 14} class="label middle">all of them together: largest at {answer.prediction}</text>
        {shown.map((p, i) => {
          const [x, y] = [left + (i % columns) * (small + gap), y0 + Math.floor(i / columns) * (small + 26)];
          return (
            <g key={i} data-part={partName(p)}>
              <Face x={x} y={y} size={small} part={p} most={most} N={N} answer={answer.prediction} truth={answer.truth} />
              <text x={x + small / 2} y={y + small + 9} class="tick middle">{partName(p)}: {fixed(p.logits[answer.truth], 1)}</text>
            </g>
          );
        })}
      </svg>
      <p class="readout">Below each face: what the part adds to the logit of the right answer, {answer.truth}. <button type="button" class="link" onClick={openNeurons}>All neurons, one by one</button></p>
    </div>
  );
}

function openNeurons(): void {
  change({ section: null });
  setTimeout(() => scrollTo("neurons"));
}

interface FaceProps {
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly part: Part;
  readonly most: number;
  readonly N: number;
  readonly answer: number;
  readonly truth: number;
  readonly numbers?: boolean;
}

/** A closed curve around a clock face: outside the circle where logits are raised. */
function Face({ x, y, size, part, most, N, answer, truth, numbers }: FaceProps) {
  const R = size / 2;
  const rim = R * 0.62;
  const reach = R * (numbers ? 0.22 : 0.32);
  const at = (c: number, r: number): [number, number] => [r * Math.sin((2 * Math.PI * c) / N), -r * Math.cos((2 * Math.PI * c) / N)];
  const points = [...part.logits].map((v, c) => at(c, rim + (reach * v) / (most || 1)).map((n) => n.toFixed(1)).join(","));
  const every = Math.max(1, Math.round(N / 12));
  const [ax, ay] = at(answer, R - (numbers ? 22 : 3));
  return (
    <g transform={`translate(${x + R},${y + R})`} class="face">
      <circle r={rim} class="rim" />
      <path d={`M${points.join("L")}Z`} class={`bulge ${numbers ? "total" : ""}`} />
      <line x1={0} y1={0} x2={ax} y2={ay} class={`peak ${answer === truth ? "right" : "wrong"}`} />
      {numbers && Array.from({ length: Math.ceil(N / every) }, (_, i) => i * every).filter((n) => N - n >= every / 2 || n === 0).map((n) => {
        const [tx, ty] = at(n, R - 9);
        return <text key={n} x={tx} y={ty} class="tick middle">{n}</text>;
      })}
    </g>
  );
}
