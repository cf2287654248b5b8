/** Attention of one query, step by step: scores, softmax, and what the weighted sum says. */

import { fixed, percent } from "../draw/format";
import { roleClass } from "../draw/roles";
import { useWidth } from "../draw/width";
import { dot, product, row, slice, type Matrix } from "../model/matrix";
import { firstVariable, tokenName, variables } from "../model/task";
import type { Snapshot } from "../state/snapshot";

interface Props {
  readonly snapshot: Snapshot;
  readonly layer: 1 | 2;
  readonly query: number;
}

export function AttentionStep({ snapshot, layer, query }: Props) {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const { prompt } = snapshot.trace;
  const { scores, weights } = attentionNumbers(snapshot, layer, query);
  const { names, cosines } = readBy(snapshot, layer, query);
  const T = prompt.task.length;
  const wide = width > 640;
  const left = wide ? 118 : 0;
  const step = (width - left) / T;
  const box = Math.min(32, step - 3);
  const tall = 70;
  const most = Math.max(...scores.filter(Number.isFinite).map(Math.abs), 1e-6);
  const second = wide ? 0 : 15; // the height of a heading's second line
  const zero = box + 34 + second + tall / 2;
  const yWeights = zero + tall / 2 + 46 + second;
  const yRead = yWeights + tall + 62 + second;
  const height = yRead + tall + 24;
  const x = (i: number): number => left + (i + 0.5) * step;
  const q = tokenName(prompt.task, prompt.tokens[query]);
  const heading = (y: number, words: string, code: string) => (
    <text x={0} y={y - second} class="label">{words} <tspan class="code-note" {...(!wide && { x: 0, dy: second, "font-size": "10.5px" })}>{code}</tspan></text>
  );
  const size = step < 26 ? { fontSize: "8.5px" } : {};
  return (
    <div ref={ref}>
      <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={`Layer ${layer}, scores and attention weights of ${q}: ${heaviest(snapshot, weights)}`}>
        {prompt.tokens.map((t, i) => (
          <g key={i} class={`token ${roleClass(prompt, i)} ${i > query ? "unseen" : ""}`} transform={`translate(${x(i) - box / 2},0)`}>
            <rect width={box} height={box} rx={5} />
            <text x={box / 2} y={box / 2} style={{ fontSize: `${Math.min(14, box * 0.52)}px` }}>{tokenName(prompt.task, t)}</text>
          </g>
        ))}
        {heading(box + 20 + second, "1. Scores:", `${q} asks, every earlier token answers (x_q QK${layer} x_k)`)}
        <line x1={left} x2={width} y1={zero} y2={zero} class="axis" />
        {scores.map((s, i) => Number.isFinite(s) && (
          <g key={i}>
            <rect x={x(i) - box / 2} width={box} y={s > 0 ? zero - (s / most) * (tall / 2) : zero} height={(Math.abs(s) / most) * (tall / 2)} class={`bar-score ${s > 0 ? "attracts" : "repels"}`} />
            <text x={x(i)} y={s > 0 ? zero + 8 : zero - 8} class="tick middle" style={size}>{fixed(s, 1)}</text>
          </g>
        ))}
        {heading(yWeights - 14, "2. Softmax:", "exp(score) / sum, a share of the attention")}
        <line x1={left} x2={width} y1={yWeights + tall} y2={yWeights + tall} class="axis" />
        {weights.map((w, i) => i <= query && (
          <g key={i} data-key={i} data-weight={w}>
            <rect x={x(i) - box / 2} width={box} y={yWeights + tall - w * (tall - 14)} height={w * (tall - 14)} class={`bar-weight ${roleClass(prompt, i)}`} />
            <text x={x(i)} y={yWeights + tall - w * (tall - 14) - 7} class="tick middle" style={size}>{w >= 0.005 ? percent(w, 0).replace(" %", step > 34 ? " %" : "") : "0"}</text>
          </g>
        ))}
        {heading(yRead - 26, "3. Weighted sum:", `what it writes, compared with OV${layer} of each ${layer === 1 ? "variable" : "number"} (cosine)`)}
        <Read x={left} y={yRead} width={width - left} height={tall} names={names} cosines={cosines} />
      </svg>
    </div>
  );
}

function Read({ x, y, width, height, names, cosines }: { x: number; y: number; width: number; height: number; names: readonly string[]; cosines: readonly number[] }) {
  const step = width / names.length;
  const top = [...cosines.keys()].sort((a, b) => cosines[b] - cosines[a]).slice(0, 2);
  return (
    <g transform={`translate(${x},${y})`}>
      <line x1={0} x2={width} y1={height} y2={height} class="axis" />
      {cosines.map((c, i) => (
        <g key={i}>
          <rect x={i * step + 0.5} width={Math.max(1, step - 1)} y={height - Math.max(0, c) * (height - 12)} height={Math.max(0, c) * (height - 12)} class={`bar-weight ${top.includes(i) ? "largest" : ""}`} />
          {top.includes(i) && <text x={(i + 0.5) * step} y={height - Math.max(0, c) * (height - 12) - 7} class="tick middle">{fixed(c, 2)}</text>}
          {(step > 15 || top.includes(i)) && <text x={(i + 0.5) * step} y={height + 11} class={`tick middle ${top.includes(i) ? "strong" : ""}`}>{names[i]}</text>}
        </g>
      ))}
    </g>
  );
}

export function attentionNumbers({ trace }: Snapshot, layer: 1 | 2, query: number): { scores: number[]; weights: number[] } {
  return { scores: [...row(trace.scores[layer - 1], query)], weights: [...row(trace.patterns[layer - 1], query)] };
}

function heaviest({ trace }: Snapshot, weights: readonly number[]): string {
  const { task, tokens } = trace.prompt;
  const top = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 2);
  return top.map((i) => `${percent(weights[i])} to ${tokenName(task, tokens[i])} at ${i}`).join(", ");
}

/** What a layer writes at a position, compared with what it writes for each variable (layer 1) or number (layer 2) alone. */
function readBy({ trace, weights: w }: Snapshot, layer: 1 | 2, query: number): { names: readonly string[]; cosines: readonly number[] } {
  const { task } = trace.prompt;
  const out = trace.activations.get(layer === 1 ? "blocks.0.hook_attn_out" : "blocks.1.hook_attn_out");
  const written: Matrix = layer === 1 ? slice(w.W_E, firstVariable(task), firstVariable(task) + task.n_vars) : slice(w.W_E, 0, task.modulus);
  const own = out && row(out, out.rows === 1 ? 0 : query);
  const cosine = (i: number): number => {
    if (!own) return 0;
    const alone = product(row(written, i), layer === 1 ? w.OV1 : w.OV2);
    return dot(own, alone) / (Math.sqrt(dot(own, own) * dot(alone, alone)) || 1);
  };
  const names = layer === 1 ? [...variables(task)] : Array.from({ length: task.modulus }, (_, n) => String(n));
  return { names, cosines: names.map((_, i) => cosine(i)) };
}
