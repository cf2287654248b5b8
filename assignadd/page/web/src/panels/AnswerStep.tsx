/** From logits to the answer: every answer's probability, the margin, and what the isolated adder says. */

import { useState } from "preact/hooks";
import { fixed, percent } from "../draw/format";
import { useWidth } from "../draw/width";
import { Term } from "../glossary/Term";
import { plain, type Answer, type Snapshot } from "../state/snapshot";
import { shown } from "../state/store";

export function AnswerStep({ snapshot }: { snapshot: Snapshot }) {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const { answer, circuit } = snapshot;
  const before = shown.interventions.value.length ? plain.value?.answer : undefined;
  const height = 120;
  return (
    <div ref={ref}>
      <svg class="figure" viewBox={`0 0 ${width} ${height + 40}`} width={width} height={height + 40} role="img" aria-label={describe(answer)}>
        <Bars width={width} height={height} answer={answer} ghost={before} />
        <text x={width / 2} y={height + 31} class="tick middle">answer, and its probability: exp(logit) / sum over all {answer.probabilities.length} answers</text>
      </svg>
      <dl class="facts">
        <div><dt>probability of the right answer, {answer.truth}</dt><dd>{percent(answer.probabilities[answer.truth])}</dd></div>
        <div><dt><Term id="margin">margin</Term> of the right answer</dt><dd>{fixed(answer.margin)} logits</dd></div>
        <div>
          <dt><Term id="adder">isolated adder</Term> says</dt>
          <dd class={circuit.prediction === circuit.truth ? "good" : "bad"}>{circuit.prediction}</dd>
        </div>
      </dl>
    </div>
  );
}

export function answerNumbers({ trace, answer, circuit }: Snapshot) {
  const before = shown.interventions.value.length ? plain.value?.answer : undefined;
  return {
    truth: answer.truth,
    prediction: answer.prediction,
    margin: answer.margin,
    logits: trace.logits,
    probabilities: answer.probabilities,
    isolated_circuit: { prediction: circuit.prediction, margin: circuit.margin, probabilities: circuit.probabilities },
    without_interventions: before && { prediction: before.prediction, margin: before.margin, probabilities: before.probabilities },
  };
}

function describe(a: Answer): string {
  return `The network answers ${a.prediction} with probability ${percent(a.probabilities[a.prediction])}; the right answer is ${a.truth}.`;
}

function Bars({ width, height, answer, ghost }: { width: number; height: number; answer: Answer; ghost?: Answer | undefined }) {
  const [over, setOver] = useState<number | null>(null);
  const N = answer.probabilities.length;
  const step = width / N;
  const top = 16;
  const tall = (p: number): number => p * (height - top);
  const shown = over ?? answer.prediction;
  return (
    <g onPointerLeave={() => setOver(null)}>
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
