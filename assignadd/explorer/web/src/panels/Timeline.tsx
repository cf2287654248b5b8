/** The dock at the foot of the page: training as a slider over its own curves, with its phases and spikes. */

import { untracked } from "@preact/signals";
import { line } from "d3-shape";
import { useEffect, useMemo } from "preact/hooks";
import { BLUE, GREEN, VERMILION } from "../draw/colour";
import { count, shortStep } from "../draw/format";
import { useWidth } from "../draw/width";
import type { Curves, ModelEntry } from "../data/types";
import { model, ownWeights } from "../state/snapshot";
import { change, entry, nearest, playing, shown } from "../state/store";
import { fetchBeside, weightsAt } from "../state/models";

/** Milliseconds a checkpoint stays while playing. */
const PACE = 220;
const HEIGHT = 46;
export const DOCK_SETS = [["0-var add-restricted", BLUE, "numbers"], ["1-var train", VERMILION, "1 variable"], ["2-var train", GREEN, "2 variables"]] as const;

/** Where a step stands: early steps get more room than late ones. */
export function place(step: number, last: number): number {
  return last > 0 ? Math.sqrt(step / last) : 0;
}

export function Timeline() {
  const { ref, width } = useWidth<HTMLDivElement>(800);
  const own = entry.value;
  const { steps } = own;
  const at = steps.indexOf(shown.step.value);
  usePlayback(steps, at);
  useFetchingAhead();
  const go = (i: number): void => change({ step: steps[Math.min(steps.length - 1, Math.max(0, i))] });
  return (
    <section class="dock" id="timeline" aria-label="Training" data-step={shown.step.value} data-loaded={ownWeights.value ? "yes" : "no"}>
      <div class="dock-row">
        <button type="button" class="play" aria-label={playing.value ? "Pause" : "Play training"} onClick={() => togglePlay(at, steps)}>
          {playing.value ? "❚❚" : "▶"}
        </button>
        <div class="step" aria-live="off">
          <span class="step-name">step</span>
          <output for="slider">{count(shown.step.value)}</output>
        </div>
        <div ref={ref} class="track">
          <Curve width={width} own={own} />
          <input
            id="slider"
            type="range"
            min={0}
            max={steps.length - 1}
            value={at}
            aria-label="Training step"
            aria-valuetext={`step ${count(shown.step.value)}`}
            onInput={(e) => {
              playing.value = false;
              go(Number(e.currentTarget.value));
            }}
            style={{ opacity: 0 }}
          />
          <PointerTrack width={width} own={own} />
        </div>
        <Jumps own={own} />
      </div>
    </section>
  );
}

/** The range input is for keys and readers; the pointer picks the checkpoint nearest to where it is. */
function PointerTrack({ width, own }: { width: number; own: ModelEntry }) {
  const last = own.steps.at(-1) ?? 0;
  const pick = (event: PointerEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / width));
    playing.value = false;
    change({ step: own.steps.reduce((best, s) => (Math.abs(place(s, last) - share) < Math.abs(place(best, last) - share) ? s : best), own.steps[0]) });
  };
  return (
    <div
      class="track-pointer"
      onPointerDown={(e) => {
        (e.currentTarget as HTMLElement).setPointerCapture(e.pointerId);
        pick(e);
      }}
      onPointerMove={(e) => e.buttons && pick(e)}
    />
  );
}

function Curve({ width, own }: { width: number; own: ModelEntry }) {
  const last = own.steps.at(-1) ?? 0;
  const x = (step: number): number => place(Math.min(step, last), last) * width;
  const curves: Curves = model.value?.curves ?? own.wall;
  const still = useMemo(() => <StillCurve width={width} own={own} curves={curves} x={x} last={last} />, [width, own, curves]);
  return (
    <svg width={width} height={HEIGHT + 14} viewBox={`0 0 ${width} ${HEIGHT + 14}`} aria-hidden="true" class="dock-curve">
      {still}
      <line x1={x(shown.step.value)} x2={x(shown.step.value)} y1={0} y2={HEIGHT} class="now" />
      <circle cx={x(shown.step.value)} cy={HEIGHT - 1} r={5.5} class="knob" />
    </svg>
  );
}

/** What does not move with the step. */
function StillCurve({ width, own, curves, x, last }: { width: number; own: ModelEntry; curves: Curves; x: (step: number) => number; last: number }) {
  const y = (share: number): number => 4 + (1 - share) * (HEIGHT - 8);
  return (
    <>
      <PhaseBands own={own} x={x} height={HEIGHT} labels={width > 420} />
      {DOCK_SETS.map(([name, colour]) => (
        <path key={name} d={pathOf(curves, name, x, y)} style={{ stroke: colour }} class="curve" />
      ))}
      {own.steps.map((s) => <line key={s} x1={x(s)} x2={x(s)} y1={HEIGHT - 3} y2={HEIGHT} class="notch" />)}
      {[0, 0.03, 0.11, 0.25, 0.5, 1].map((share) => Math.round((share * last) / 100) * 100).filter((s, i, all) => all.indexOf(s) === i).map((s) => (
        <text key={s} x={x(s)} y={HEIGHT + 11} class={`tick ${s === 0 ? "start" : s >= last * 0.97 ? "end" : "middle"}`}>{shortStep(s)}</text>
      ))}
    </>
  );
}

/** Addition, binding, refinement: each begins where its skill came for good. */
export function PhaseBands({ own, x, height, labels }: { own: ModelEntry; x: (step: number) => number; height: number; labels: boolean }) {
  const { onsets } = own.phases;
  const last = own.steps.at(-1) ?? 0;
  const found = (["addition", "binding", "refinement"] as const).flatMap((name) => (onsets[name] === null ? [] : [{ name, from: onsets[name] }]));
  return (
    <>
      {found.map(({ name, from }, i) => {
        const to = found[i + 1]?.from ?? last;
        return (
          <g key={name} class={`phase phase-${name}`}>
            <rect x={x(from)} width={Math.max(0, x(to) - x(from))} y={0} height={height} />
            {labels && x(to) - x(from) > 56 && <text x={x(from) + 4} y={height - 7} class="tick start">{name}</text>}
          </g>
        );
      })}
    </>
  );
}

export function pathOf(curves: Curves, name: string, x: (step: number) => number, y: (share: number) => number): string {
  const values = curves.values[name] ?? [];
  return line<number>().defined((i) => values[i] != null).x((i) => x(curves.steps[i])).y((i) => y(values[i] ?? 0))([...values.keys()]) ?? "";
}

function Jumps({ own }: { own: ModelEntry }) {
  const { spikes } = own.phases;
  const buttons = spikes.flatMap((s) => [
    { label: `before the ${s.name} spike`, short: `${s.name === "first" ? "1st" : "2nd"} ↤`, step: nearest(own.steps, s.before) },
    { label: `after the ${s.name} spike`, short: "↦", step: nearest(own.steps, s.after) },
  ]);
  return (
    <div class="jumps" role="group" aria-label="Jump to">
      {buttons.map((b) => (
        <button key={b.label} type="button" title={`Jump to just ${b.label} (step ${count(b.step)})`} aria-label={`Jump to just ${b.label}`} aria-pressed={shown.step.value === b.step} onClick={() => change({ step: b.step })}>
          {b.short}
        </button>
      ))}
      <button type="button" title="Jump to the end of training" aria-label="Jump to the end of training" aria-pressed={shown.step.value === own.steps.at(-1)} onClick={() => change({ step: own.steps.at(-1) ?? 0 })}>
        end
      </button>
    </div>
  );
}

function togglePlay(at: number, steps: readonly number[]): void {
  if (!playing.value && at === steps.length - 1) change({ step: steps[0] });
  playing.value = !playing.value;
}

function useFetchingAhead(): void {
  const loaded = ownWeights.value !== undefined;
  useEffect(() => {
    if (!loaded) return undefined;
    const timer = setTimeout(() => untracked(() => fetchBeside(shown.model.value, shown.step.value)), 250);
    return () => clearTimeout(timer);
  }, [loaded, shown.model.value, shown.step.value]);
}

/** Moves on once the next checkpoint is there. */
function usePlayback(steps: readonly number[], at: number): void {
  const next = steps[at + 1];
  const ready = playing.value && next !== undefined && weightsAt(shown.model.value, next) !== undefined;
  useEffect(() => {
    if (!playing.value) return undefined;
    if (next === undefined) {
      playing.value = false;
      return undefined;
    }
    if (!ready) return undefined;
    const timer = setTimeout(() => change({ step: next }), PACE);
    return () => clearTimeout(timer);
  }, [next, ready, playing.value]);
}
