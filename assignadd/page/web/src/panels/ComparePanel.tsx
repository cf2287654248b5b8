/** Two seeds or two steps side by side on the same prompt. */

import { Clock } from "../draw/Clock";
import { diverging } from "../draw/colour";
import { count, fixed } from "../draw/format";
import { HeatMap } from "../draw/HeatMap";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { Term } from "../glossary/Term";
import { variableMatches } from "../model/circuit";
import { variables } from "../model/task";
import { compared, current, type Snapshot } from "../state/snapshot";
import { change, comparable, entry, entryOf, hovered, index, nameOf, shown } from "../state/store";
import type { At } from "../state/view";
import { LayerMap } from "./AttentionPanel";
import { matchMarks, listsOf, spread } from "./WeightsPanel";

export function ComparePanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const other = shown.compare.value;
  const own = entry.value;
  const isForeign = other !== null && entryOf(other.model).task !== own.task;
  const sides = [{ at: { model: shown.model.value, step: shown.step.value }, snapshot: current.value }, ...(other ? [{ at: other, snapshot: compared.value }] : [])];
  const numbers = other && current.value && compared.value ? () => sides.map((s) => s.snapshot && { ...s.at, ...numbersOf(s.snapshot) }) : undefined;
  const changes = shown.interventions.value.length;
  return (
    <Panel
      id="compare"
      title="Compare"
      numbers={numbers}
      lead={<>The same prompt in two networks of one task, or in one network at two moments, each with its answer on a <Term id="clock">clock</Term>.{changes ? ` The ${changes === 1 ? "intervention is" : `${changes} interventions are`} applied to both.` : ""}</>}
      controls={<Pickers other={other} />}
    >
      <div ref={ref} data-other={compared.value?.answer.prediction} data-own={current.value?.answer.prediction}>
        {isForeign && other && <p class="error-line" role="alert">{nameOf(entryOf(other.model))} has another task than {nameOf(own)}; networks of different tasks are not compared.</p>}
        {other && !isForeign && <Figure width={width} sides={sides} />}
      </div>
    </Panel>
  );
}

function Pickers({ other }: { other: At | null }) {
  const own = entry.value;
  const steps = other ? entryOf(other.model).steps : [];
  const spike = own.phases.spikes[0];
  const unlike = comparable(own).find((m) => m.binds !== own.binds);
  const set = (compare: At | null): void => change({ compare });
  return (
    <>
      <label class="picker">
        <span>with</span>
        <select value={other?.model ?? ""} aria-label="Compare with" onChange={(e) => set(e.currentTarget.value ? { model: e.currentTarget.value, step: other?.step ?? shown.step.value } : null)}>
          <option value="">nothing</option>
          {index.value.models.map((m) => <option key={m.key} value={m.key} disabled={m.task !== own.task}>{nameOf(m)}{m.task === own.task ? "" : " (another task)"}</option>)}
        </select>
      </label>
      {other && steps.length > 1 && (
        <label class="picker">
          <span>at step</span>
          <select value={other.step} aria-label="Compare at step" onChange={(e) => set({ ...other, step: Number(e.currentTarget.value) })}>
            {steps.map((s) => <option key={s} value={s}>{count(s)}</option>)}
          </select>
        </label>
      )}
      {spike && <button type="button" class="chip" onClick={() => set({ model: own.key, step: spike.checkpoints[0] })}>this network before its first spike</button>}
      {unlike && <button type="button" class="chip" onClick={() => set({ model: unlike.key, step: unlike.steps.at(-1) ?? 0 })}>{own.binds ? "one that does not bind" : "one that binds"}</button>}
    </>
  );
}

function numbersOf(s: Snapshot) {
  return {
    prediction: s.answer.prediction, truth: s.answer.truth, margin: s.answer.margin, probabilities: s.answer.probabilities,
    patterns: s.trace.patterns.map(listsOf), qk2_variables: listsOf(variableMatches(s.weights, s.trace.prompt.task)),
  };
}

function Figure({ width, sides }: { width: number; sides: readonly { at: At; snapshot: Snapshot | undefined }[] }) {
  const across = width >= 820 ? 4 : 2;
  const gap = 38;
  const side = Math.min(232, (width - gap * across) / across);
  const head = 34;
  const rows = 4 / across;
  const one = head + rows * (side + 58);
  const height = one * sides.length;
  return (
    <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Two networks on the same prompt">
      {sides.map(({ at, snapshot }, i) => {
        const { run, seed } = entryOf(at.model);
        const slot = (k: number): { x: number; y: number } => ({ x: 30 + (k % across) * (side + gap), y: i * one + head + 22 + Math.floor(k / across) * (side + 58) });
        return (
          <g key={i}>
            {i > 0 && <line x1={0} x2={width} y1={i * one} y2={i * one} class="axis" />}
            <text x={0} y={i * one + 22} class="label">
              {width >= 600 && `${run}, `}seed {seed}, step {count(at.step)}{snapshot && `: answers ${snapshot.answer.prediction}`}{snapshot && width >= 600 && `, margin ${fixed(snapshot.answer.margin)}`}
            </text>
            {snapshot && <Side snapshot={snapshot} slot={slot} side={side} />}
          </g>
        );
      })}
    </svg>
  );
}

function Side({ snapshot, slot, side }: { snapshot: Snapshot; slot: (k: number) => { x: number; y: number }; side: number }) {
  const { task } = snapshot.trace.prompt;
  const matches = variableMatches(snapshot.weights, task);
  const letters = [...variables(task)];
  const clock = slot(0);
  return (
    <>
      <Clock x={clock.x - 30} y={clock.y - 10} size={side + 20} prompt={snapshot.trace.prompt} answer={snapshot.answer} />
      <LayerMap layer={1} {...slot(1)} cell={side / task.length} snapshot={snapshot} />
      <LayerMap layer={2} {...slot(2)} cell={side / task.length} snapshot={snapshot} />
      <text x={slot(3).x} y={slot(3).y - 9} class="label">Copied variables</text>
      <HeatMap
        {...slot(3)} cell={side / letters.length} values={matches.data} rows={letters.length} cols={letters.length} scale={diverging(spread(matches.data))}
        title="QK2 over copied variables" rowLabels={letters} colLabels={letters} marks={matchMarks(matches)} labelClass={(l) => (hovered.value === l ? "linked" : "")}
      />
    </>
  );
}
