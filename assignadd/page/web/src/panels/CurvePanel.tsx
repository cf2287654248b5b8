/** One curve of training: the accuracy that says whether the network binds, with the slider's step as a cursor. */

import { count, percent } from "../draw/format";
import { Panel } from "../draw/Panel";
import { bandLegend, pathOf, PhaseBands } from "../draw/PhaseBands";
import { place, stepAt, TimeAxis } from "../draw/TimeAxis";
import { useWidth } from "../draw/width";
import { setColour, setLabel } from "../state/labels";
import { model } from "../state/snapshot";
import { change, entry, index, nearest, shown } from "../state/store";

const HEIGHT = 170;
const LEFT = 42;

export function CurvePanel() {
  const { ref, width } = useWidth<HTMLDivElement>(800);
  const own = entry.value;
  const { rules } = index.value;
  const name = rules.binding_set;
  const curves = model.value?.curves;
  const last = own.steps.at(-1) ?? 0;
  const w = width - LEFT - 8;
  const x = (step: number): number => place(step, last) * w;
  const y = (share: number): number => 4 + (1 - share) * (HEIGHT - 4);
  const at = curves && curves.steps.indexOf(nearest(curves.steps, shown.step.value));
  const value = at === undefined ? undefined : curves?.values[name]?.[at];
  const pick = (event: MouseEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    change({ step: nearest(own.steps, stepAt((event.clientX - box.left) / box.width, last)) });
  };
  return (
    <Panel
      id="curve"
      title="When it comes"
      numbers={curves && (() => ({ steps: curves.steps, accuracy: curves.values[name], phases: own.phases }))}
      lead={`Right answers, ${setLabel(name)}. The upright line is the step shown: choose another one here.`}
      legend={[{ colour: setColour(name), label: setLabel(name) }, ...bandLegend(own, rules)]}
    >
      <div ref={ref}>
        {curves && (
          <svg class="figure" viewBox={`0 0 ${width} ${HEIGHT + 34}`} width={width} height={HEIGHT + 34} role="group" aria-label={`Accuracy along training, ${setLabel(name)}`}>
            <g transform={`translate(${LEFT},0)`} class="small">
              <PhaseBands own={own} x={x} height={HEIGHT} labels />
              {[0, 0.5, 1].map((v) => (
                <g key={v}>
                  <line x1={0} x2={w} y1={y(v)} y2={y(v)} class="axis" />
                  <text x={-6} y={Math.max(y(v), 8)} class="tick end">{100 * v} %</text>
                </g>
              ))}
              <path d={pathOf(curves, name, x, y)} style={{ stroke: setColour(name) }} class="curve thick" />
              <TimeAxis width={w} y={HEIGHT} last={last} title="training step (stretched early)" />
              <line x1={x(shown.step.value)} x2={x(shown.step.value)} y1={0} y2={HEIGHT} class="now" />
              {value != null && <circle cx={x(shown.step.value)} cy={y(value)} r={4} style={{ fill: setColour(name) }} class="point" data-value={value} />}
              <rect width={w} height={HEIGHT} class="target" onClick={pick} />
            </g>
          </svg>
        )}
        <p class="readout" role="status">{value == null ? "" : `Step ${count(shown.step.value)}: ${percent(value)} right.`}</p>
      </div>
    </Panel>
  );
}
