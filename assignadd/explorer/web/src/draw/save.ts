/** A panel's figure as SVG or PNG, and its numbers as JSON: files made here, with no server. */

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "letter-spacing", "image-rendering", "paint-order",
] as const;

/** Around a saved figure. */
const MARGIN = 16;

interface Saved {
  readonly text: string;
  readonly width: number;
  readonly height: number;
}

/** The figure with its styles written into it, on the page's background. */
function standalone(svg: SVGSVGElement): Saved {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  originals.forEach((from, i) => {
    const style = getComputedStyle(from);
    const to = copies[i];
    to.removeAttribute("class");
    to.removeAttribute("tabindex");
    to.setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const [width, height] = [svg.viewBox.baseVal.width + 2 * MARGIN, svg.viewBox.baseVal.height + 2 * MARGIN];
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const set = (element: Element, values: Record<string, string | number>): void =>
    Object.entries(values).forEach(([name, value]) => element.setAttribute(name, String(value)));
  set(copy, { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` });
  set(back, { x: -MARGIN, y: -MARGIN, width, height, fill: getComputedStyle(document.documentElement).getPropertyValue("--card").trim() });
  copy.prepend(back);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

export function saveSvg(svg: SVGSVGElement, name: string): void {
  save(new Blob([standalone(svg).text], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePng(svg: SVGSVGElement, name: string, scale = 3): Promise<void> {
  const { text, width, height } = standalone(svg);
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
