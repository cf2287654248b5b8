/** The dock at the foot of the page: training as a slider over its own curves, with its phases and spikes. */

import { untracked } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { count } from "../draw/format";
import { pathOf, PhaseBands } from "../draw/PhaseBands";
import { place, TimeAxis } from "../draw/TimeAxis";
import { useWidth } from "../draw/width";
import type { Curves, ModelEntry } from "../data/types";
import { setColour } from "../state/labels";
import { model, ownWeights } from "../state/snapshot";
import { change, entry, index, playing, shown } from "../state/store";
import { fetchBeside, weightsAt } from "../state/models";

/** Milliseconds a checkpoint stays while playing. */
const PACE = 220;
const HEIGHT = 46;

export function Timeline() {
  const { ref, width } = useWidth<HTMLDivElement>(800);
  const own = entry.value;
  const { steps } = own;
  const at = steps.indexOf(shown.step.value);
  usePlayback(steps, at);
  useFetchingAhead();
  const go = (i: number): void => change({ step: steps[Math.min(steps.length - 1, Math.max(0, i))] });
  return (
    <section class="dock" id="timeline" aria-label="Training slider" data-step={shown.step.value} data-loaded={ownWeights.value ? "yes" : "no"}>
      <div class="dock-row">
        <button type="button" class="play" aria-label={playing.value ? "Pause" : "Play training"} onClick={() => togglePlay(at, steps)}>
          {playing.value ? "❚❚" : "▶"}
        </button>
        <div class="step" aria-live="off">
          <span class="step-name">training step</span>
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
  const x = (step: number): number => place(step, last) * width;
  const curves: Curves = model.value?.curves ?? own.wall;
  const still = useMemo(() => <StillCurve width={width} own={own} curves={curves} x={x} last={last} />, [width, own, curves]);
  return (
    <svg width={width} height={HEIGHT + 18} viewBox={`0 0 ${width} ${HEIGHT + 18}`} aria-hidden="true" class="dock-curve">
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
      {index.value.rules.wall.map((name) => (
        <path key={name} d={pathOf(curves, name, x, y)} style={{ stroke: setColour(name) }} class="curve" />
      ))}
      {own.steps.map((s) => <line key={s} x1={x(s)} x2={x(s)} y1={HEIGHT - 4} y2={HEIGHT} class="notch" />)}
      <TimeAxis width={width} y={HEIGHT} last={last} />
    </>
  );
}

function Jumps({ own }: { own: ModelEntry }) {
  const buttons = own.phases.spikes.flatMap((s) => {
    const [number, [before, after]] = [s.name === "first" ? "1st" : "2nd", s.checkpoints];
    return [
      { short: `↤ ${number}`, name: `${number} spike: jump to just before it`, step: before },
      { short: `${number} ↦`, name: `${number} spike: jump to just after it`, step: after },
    ];
  });
  const last = own.steps.at(-1) ?? 0;
  return (
    <div class="jumps" role="group" aria-label="Jump to">
      {[...buttons, { short: "end", name: "end of training: jump to it", step: last }].map((b) => (
        <button key={b.name} type="button" title={`${b.name} (step ${count(b.step)})`} aria-label={b.name} aria-pressed={shown.step.value === b.step} onClick={() => change({ step: b.step })}>
          {b.short}
        </button>
      ))}
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
