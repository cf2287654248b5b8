/** The adder's neurons as waves: which frequency each has, how pure it is, its map beside its fit; pick one to remove it. */

import { line } from "d3-shape";
import { useMemo } from "preact/hooks";
import { ColourBar } from "../draw/ColourBar";
import { diverging } from "../draw/colour";
import { count, percent } from "../draw/format";
import { HeatMap } from "../draw/HeatMap";
import { Choice, Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { networkFrequencies, neuronMap, oneOperand, spectrumOf, waveAt, type Spectrum, type Wave } from "../model/fourier";
import { Term } from "../glossary/Term";
import { currentWeights } from "../state/snapshot";
import { addIntervention } from "../state/interventions";
import { change, entry, shown } from "../state/store";
import type { Ordering } from "../state/view";
import { spread } from "./WeightsPanel";

const LISTED = 24;

export function NeuronsPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1100);
  const weights = currentWeights.value;
  const N = entry.value.task.modulus;
  const spectrum = useMemo(() => weights && spectrumOf(weights, N), [weights, N]);
  const list = useMemo(() => (spectrum ? ordered(spectrum, shown.ordering.value) : []), [spectrum, shown.ordering.value]);
  const chosen = spectrum?.waves[shown.neuron.value ?? -1] ?? list[0];
  const own = spectrum ? networkFrequencies(spectrum.shares) : [];
  const numbers = spectrum && (() => ({
    frequencies: own,
    shares: spectrum.shares,
    neurons: spectrum.waves,
    chosen: chosen && { neuron: chosen.neuron, ...neuronMap(spectrum, chosen.neuron) },
  }));
  return (
    <Panel
      id="neurons"
      title="Fourier neurons"
      numbers={numbers}
      lead={
        spectrum ? (
          <>
            {count(own.length)} of {spectrum.shares.length} <Term id="frequency">frequencies</Term> hold {percent(own.reduce((s, k) => s + spectrum.shares[k - 1], 0))} of what the {count(spectrum.waves.length)} neurons compute from the two operands. A pure neuron is one cosine of n plus one of m.
          </>
        ) : undefined
      }
      controls={
        <>
          <Choice label="Order of the list" options={[["power", "Strongest"], ["share", "Purest"], ["frequency", "By frequency"]]} value={shown.ordering.value} onChange={(ordering) => change({ ordering })} />
          {chosen !== undefined && (
            <>
              <button type="button" onClick={() => removeNeuron(chosen.neuron)}>Remove neuron {chosen.neuron}</button>
              <button type="button" onClick={() => removeFrequency(chosen.frequency)}>Remove frequency {chosen.frequency}</button>
            </>
          )}
        </>
      }
    >
      <div class="neurons" data-frequencies={own.join(" ")} data-neuron={chosen?.neuron} data-share={chosen?.share}>
        <ol class="neuron-list" aria-label="Neurons">
          {list.slice(0, LISTED).map((w) => (
            <li key={w.neuron}>
              <button type="button" aria-pressed={chosen?.neuron === w.neuron} onClick={() => change({ neuron: w.neuron })}>
                <span>{w.neuron}</span>
                <span class="k">k = {w.frequency}</span>
                <span class="bar" style={{ "--share": String(w.share) }} aria-hidden="true" />
                <span class="share">{percent(w.share, 0)}</span>
              </button>
            </li>
          ))}
        </ol>
        <div ref={ref} class="neuron-figure">{spectrum && chosen && <Figure width={width} spectrum={spectrum} own={own} chosen={chosen} N={N} />}</div>
      </div>
    </Panel>
  );
}

function removeNeuron(neuron: number): void {
  addIntervention({ action: "zero", hook: "blocks.1.mlp.hook_post", neurons: [neuron] });
}

function removeFrequency(frequency: number): void {
  addIntervention({ action: "zero", hook: "blocks.1.mlp.hook_post", frequencies: [frequency] });
}

function ordered(s: Spectrum, by: Ordering): Wave[] {
  const keys: Readonly<Record<Ordering, (w: Wave) => number>> = {
    power: (w) => -w.power,
    share: (w) => -w.share,
    frequency: (w) => w.frequency - w.share,
  };
  return [...s.waves].sort((a, b) => keys[by](a) - keys[by](b));
}

function Figure({ width, spectrum, own, chosen, N }: { width: number; spectrum: Spectrum; own: readonly number[]; chosen: Wave; N: number }) {
  const { map, fit } = useMemo(() => neuronMap(spectrum, chosen.neuron), [spectrum, chosen.neuron]);
  const top = 26;
  const gap = 26;
  const side = Math.min((width - gap - 4) / 2, 300);
  const xCurve = 2 * (side + gap);
  const scale = diverging(spread(map));
  const strip = 128;
  const yStrip = top + side + 74;
  const height = yStrip + strip + 40;
  return (
    <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={`Neuron ${chosen.neuron}: frequency ${chosen.frequency}, ${percent(chosen.share)} of its variance`}>
      <text x={0} y={14} class="label">Neuron {chosen.neuron} over (n, m)</text>
      <HeatMap x={0} y={top} cell={side / N} values={map} rows={N} cols={N} scale={scale} title="Preactivation" />
      <text x={side + gap} y={14} class="label">its wave, k = {chosen.frequency}</text>
      <HeatMap x={side + gap} y={top} cell={side / N} values={fit} rows={N} cols={N} scale={scale} title="Fit" />
      <text x={side / 2} y={top + side + 12} class="tick middle">m →</text>
      <text x={side + gap + side / 2} y={top + side + 12} class="tick middle">explains {percent(chosen.share)}</text>
      <ColourBar x={0} y={top + side + 26} width={side} scale={scale} unit="input of the neuron" />
      {width - xCurve > 160 && <OneOperand x={xCurve} y={top} width={width - xCurve} height={side} spectrum={spectrum} chosen={chosen} />}
      <Cloud y={yStrip} width={width} height={strip} spectrum={spectrum} own={own} chosen={chosen} />
    </svg>
  );
}

/** What one operand adds to the neuron, as dots, and the wave, as a line. */
function OneOperand({ x, y, width, height, spectrum, chosen }: { x: number; y: number; width: number; height: number; spectrum: Spectrum; chosen: Wave }) {
  const own = oneOperand(spectrum, chosen.neuron);
  const most = Math.max(...[...own].map(Math.abs));
  const dense = Array.from({ length: 10 * (own.length - 1) + 1 }, (_, i) => i / 10);
  const px = (n: number): number => ((n + 0.5) / own.length) * width;
  const py = (v: number): number => (height / 2) * (1 - (0.95 * v) / most);
  return (
    <g transform={`translate(${x},${y})`}>
      <text x={0} y={-12} class="label">from one operand</text>
      <rect width={width} height={height} class="frame" />
      <line x1={0} x2={width} y1={height / 2} y2={height / 2} class="axis" />
      <path d={line<number>().x(px).y((n) => py(waveAt(chosen, own.length, n)))(dense) ?? ""} class="wave" />
      {[...own].map((v, n) => <circle key={n} cx={px(n)} cy={py(v)} r={2.4} class="sample" />)}
      <text x={width / 2} y={height + 12} class="tick middle">n →</text>
    </g>
  );
}

/** Every neuron by frequency and purity, over the frequencies' shares of the power. */
function Cloud({ y, width, height, spectrum, own, chosen }: { y: number; width: number; height: number; spectrum: Spectrum; own: readonly number[]; chosen: Wave }) {
  const K = spectrum.shares.length;
  const step = width / K;
  const most = Math.max(...spectrum.shares);
  const strongest = Math.max(...spectrum.waves.map((w) => w.power));
  const up = (share: number): number => height - share * height;
  const spotOf = (w: Wave): [number, number, number] => [
    (w.frequency - 0.5) * step + (((w.neuron * 7919) % 101) / 101 - 0.5) * step * 0.7, // spread out, the same way every time
    up(w.share),
    1.2 + 3 * Math.sqrt(w.power / strongest),
  ];
  return (
    <g transform={`translate(0,${y})`}>
      <text x={0} y={-10} class="label">All neurons: frequency across, purity upwards</text>
      {[...spectrum.shares].map((share, i) => (
        <g key={i} class={`frequency ${own.includes(i + 1) ? "own" : ""}`}>
          <rect x={i * step} width={step - 1} y={up(share / most)} height={(share / most) * height} class="amount" />
          {(K <= 15 || (own.includes(i + 1) && (step > 15 || !own.includes(i)))) && <text x={(i + 0.5) * step} y={height + 11} class="tick middle">{i + 1}</text>}
        </g>
      ))}
      <text x={width / 2} y={height + 27} class="tick middle">{width < 480 ? "frequency (bars: share of the power; dots: neurons)" : "frequency (bars: its share of the power; dots: neurons, larger where stronger)"}</text>
      <path d={spectrum.waves.map((w) => dot(...spotOf(w))).join("")} class="neuron" />
      <path d={dot(...spotOf(chosen))} class="neuron chosen" />
      <rect
        x={0}
        y={-6}
        width={width}
        height={height + 6}
        class="target"
        onClick={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const [px, py] = [event.clientX - box.left, event.clientY - box.top - 6];
          const distance = (w: Wave): number => Math.hypot(spotOf(w)[0] - px, spotOf(w)[1] - py);
          change({ neuron: spectrum.waves.reduce((best, w) => (distance(w) < distance(best) ? w : best)).neuron });
        }}
      >
        <title>Click the nearest neuron to look at it</title>
      </rect>
    </g>
  );
}

/** A filled circle as part of a path. */
function dot(x: number, y: number, r: number): string {
  return `M${(x - r).toFixed(1)},${y.toFixed(1)}a${r.toFixed(1)},${r.toFixed(1)} 0 1,0 ${(2 * r).toFixed(1)},0a${r.toFixed(1)},${r.toFixed(1)} 0 1,0 ${(-2 * r).toFixed(1)},0`;
}
