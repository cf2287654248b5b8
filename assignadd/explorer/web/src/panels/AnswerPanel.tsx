/** What the network says: a clock face and bars, its margin, and what the isolated adder says. */

import { useState } from "preact/hooks";
import { Clock } from "../draw/Clock";
import { fixed, percent } from "../draw/format";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { current, plain, type Answer } from "../state/snapshot";
import { shown } from "../state/store";

export function AnswerPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(360);
  const now = current.value;
  const before = shown.interventions.value.length ? plain.value : undefined;
  const numbers = now && (() => ({
    prompt: now.trace.prompt.tokens,
    truth: now.answer.truth,
    prediction: now.answer.prediction,
    margin: now.answer.margin,
    probabilities: now.answer.probabilities,
    isolated_circuit: { prediction: now.circuit.prediction, margin: now.circuit.margin, probabilities: now.circuit.probabilities },
    without_interventions: before && { prediction: before.answer.prediction, margin: before.answer.margin, probabilities: before.answer.probabilities },
  }));
  const size = Math.min(width, 340);
  const bars = 96;
  return (
    <Panel id="answer" title="Answer" numbers={numbers}>
      <div ref={ref} data-prediction={now?.answer.prediction} data-truth={now?.answer.truth} data-margin={now?.answer.margin} data-circuit={now?.circuit.prediction}>
        {now && (
          <>
            <svg class="figure" viewBox={`0 0 ${width} ${size + bars + 24}`} width={width} height={size + bars + 24} role="img" aria-label={describe(now.answer)}>
              <Clock x={(width - size) / 2} y={0} size={size} prompt={now.trace.prompt} answer={now.answer} ghost={before?.answer} />
              <Bars y={size + 8} width={width} height={bars} answer={now.answer} ghost={before?.answer} />
            </svg>
            <dl class="facts">
              <div><dt>probability of {now.answer.truth}</dt><dd>{percent(now.answer.probabilities[now.answer.truth])}</dd></div>
              <div><dt>margin (logits)</dt><dd>{fixed(now.answer.margin)}</dd></div>
              <div title="W_U MLP2(OV2 a + OV2 b): the adder alone, without attention and without the residual stream">
                <dt>isolated adder says</dt>
                <dd class={now.circuit.prediction === now.circuit.truth ? "good" : "bad"}>{now.circuit.prediction}</dd>
              </div>
            </dl>
          </>
        )}
      </div>
    </Panel>
  );
}

function describe(a: Answer): string {
  return `The network answers ${a.prediction} with probability ${percent(a.probabilities[a.prediction])}; the sum is ${a.truth}.`;
}

function Bars({ y, width, height, answer, ghost }: { y: number; width: number; height: number; answer: Answer; ghost?: Answer | undefined }) {
  const [over, setOver] = useState<number | null>(null);
  const N = answer.probabilities.length;
  const step = width / N;
  const top = 16;
  const tall = (p: number): number => p * (height - top);
  const shown = over ?? answer.prediction;
  return (
    <g transform={`translate(0,${y})`} onPointerLeave={() => setOver(null)}>
      <line x1={0} x2={width} y1={height} y2={height} class="axis" />
      {[...answer.probabilities].map((p, n) => (
        <g key={n} onPointerEnter={() => setOver(n)}>
          <rect x={n * step} y={0} width={step} height={height} fill="transparent" />
          {ghost && <rect x={n * step + 0.5} y={height - tall(ghost.probabilities[n])} width={Math.max(1, step - 1)} height={tall(ghost.probabilities[n])} class="ray ghost" />}
          <rect
            x={n * step + 0.5}
            y={height - Math.max(tall(p), 0.5)}
            width={Math.max(1, step - 1)}
            height={Math.max(tall(p), 0.5)}
            class={`ray ${n === answer.truth ? "right" : "wrong"}`}
            data-n={n}
            data-p={p}
          />
        </g>
      ))}
      <text x={Math.min(Math.max((shown + 0.5) * step, 46), width - 46)} y={10} class="tick middle strong">
        {shown}: {percent(answer.probabilities[shown], 2)}
      </text>
      {[0, Math.floor(N / 4), Math.floor(N / 2), Math.floor((3 * N) / 4), N - 1].map((n) => (
        <text key={n} x={(n + 0.5) * step} y={height + 12} class={`tick ${n === 0 ? "start" : n === N - 1 ? "end" : "middle"}`}>{n}</text>
      ))}
    </g>
  );
}
