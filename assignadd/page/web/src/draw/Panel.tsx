/** A panel: a title, a sentence, controls, one figure, and its three ways out. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { provenance, provenanceLine } from "../state/provenance";
import { Legend, type LegendItem } from "./Legend";
import { saveJson, savePng, saveSvg, type Caption } from "./save";

interface Props {
  readonly id: string;
  readonly title: string;
  readonly lead?: ComponentChildren;
  readonly controls?: ComponentChildren;
  readonly legend?: readonly LegendItem[];
  /** The numbers that the figure is drawn from, made when they are asked for; undefined while there are none. */
  readonly numbers: (() => unknown) | undefined;
  readonly children: ComponentChildren;
}

export function Panel({ id, title, lead, controls, legend = [], numbers, children }: Props) {
  const body = useRef<HTMLDivElement>(null);
  const name = `assignadd-${id}`;
  const withFigure = (use: (svg: SVGSVGElement, caption: Caption) => void) => () => {
    const svg = body.current?.querySelector<SVGSVGElement>("svg.figure");
    if (svg) use(svg, { title, made: provenanceLine(), legend });
  };
  return (
    <section class="panel" id={id} aria-labelledby={`${id}-title`} data-ready={numbers === undefined ? "no" : "yes"}>
      <header class="panel-head">
        <h2 id={`${id}-title`}>{title}</h2>
        <div class="saves" role="group" aria-label={`Save ${title}`}>
          <button type="button" onClick={withFigure((svg, caption) => saveSvg(svg, name, caption))} title="Save the figure as SVG">SVG</button>
          <button type="button" onClick={withFigure((svg, caption) => void savePng(svg, name, caption))} title="Save the figure as PNG">PNG</button>
          <button type="button" disabled={numbers === undefined} onClick={() => numbers && saveJson({ ...provenance(), data: numbers() }, name)} title="Save the numbers as JSON">JSON</button>
        </div>
      </header>
      {lead && <p class="lead">{lead}</p>}
      {controls && <div class="controls">{controls}</div>}
      <div ref={body} class="body">
        {children}
        {legend.length > 0 && <Legend items={legend} />}
      </div>
    </section>
  );
}

interface ChoiceProps<T extends string> {
  readonly label: string;
  readonly options: readonly (readonly [T, string])[];
  readonly value: T;
  readonly onChange: (value: T) => void;
}

/** One of a few, as buttons in a row. */
export function Choice<T extends string>({ label, options, value, onChange }: ChoiceProps<T>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([key, name]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>{name}</button>
      ))}
    </div>
  );
}
