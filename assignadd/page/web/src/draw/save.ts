/** A panel's figure as SVG or PNG, with its legend and what it was made from, and its numbers as JSON; no server is needed. */

import type { LegendItem } from "./Legend";

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "letter-spacing", "image-rendering", "paint-order",
] as const;
const SVG = "http://www.w3.org/2000/svg";
/** Around a saved figure, and the height of a line of text below it. */
const MARGIN = 16;
const LINE = 17;

interface Saved {
  readonly text: string;
  readonly width: number;
  readonly height: number;
}
export interface Caption {
  readonly title: string;
  readonly made: string;
  readonly legend: readonly LegendItem[];
}

/** The figure with its styles written into it, on the page's background, above its caption. */
function standalone(svg: SVGSVGElement, caption: Caption): Saved {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  originals.forEach((from, i) => {
    const style = getComputedStyle(from);
    const to = copies[i];
    for (const name of ["class", "tabindex", "role"]) to.removeAttribute(name);
    to.setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const [w, h] = [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height];
  const lines = wrapped([caption.title, caption.made].join(" · "), Math.floor(w / 6.2));
  const [width, height] = [w + 2 * MARGIN, h + 2 * MARGIN + LINE * (lines.length + caption.legend.length)];
  const root = getComputedStyle(document.documentElement);
  const colour = (name: string): string => root.getPropertyValue(name).trim();
  set(copy, { xmlns: SVG, width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` });
  copy.prepend(element("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: colour("--card") }));
  caption.legend.forEach((item, i) => {
    const y = h + LINE * (i + 0.7);
    copy.append(element("rect", { x: 0, y: y - 2, width: 16, height: 4, fill: resolved(item.colour) }), text(item.label, 24, y, colour("--ink")));
  });
  lines.forEach((words, i) => copy.append(text(words, 0, h + LINE * (caption.legend.length + i + 0.9), colour("--soft"))));
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

function element(name: string, values: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  set(made, values);
  return made;
}

function set(to: Element, values: Record<string, string | number>): void {
  for (const [name, value] of Object.entries(values)) to.setAttribute(name, String(value));
}

function text(words: string, x: number, y: number, fill: string): SVGElement {
  const made = element("text", { x, y, fill, "font-family": "sans-serif", "font-size": 11, "dominant-baseline": "central" });
  made.textContent = words;
  return made;
}

/** A colour of the style sheet as the browser has it now. */
function resolved(colour: string): string {
  const probe = document.createElement("i");
  probe.style.color = colour;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Lines of at most so many characters. */
function wrapped(words: string, most: number): string[] {
  const lines: string[] = [""];
  for (const word of words.split(" ")) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length >= most) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}

export function saveSvg(svg: SVGSVGElement, name: string, caption: Caption): void {
  save(new Blob([standalone(svg, caption).text], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePng(svg: SVGSVGElement, name: string, caption: Caption, scale = 3): Promise<void> {
  const { text, width, height } = standalone(svg, caption);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob) save(blob, `${name}.png`);
}

export function saveJson(value: unknown, name: string): void {
  save(new Blob([`${toJson(value)}\n`], { type: "application/json" }), `${name}.json`);
}

/** Typed arrays as lists; numbers that JSON does not have as null. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) => {
    if (ArrayBuffer.isView(v)) return Array.from(v as unknown as ArrayLike<number>);
    return typeof v === "number" && !Number.isFinite(v) ? null : v;
  });
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
