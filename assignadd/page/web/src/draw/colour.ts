/** The two scales of heat maps, in the colours of the package's figures. */

import { signal } from "@preact/signals";
import { index } from "../state/store";

/** Whether the page is dark now; set by the theme, read by everything that paints pixels. */
export const dark = signal(false);

type Rgb = readonly [number, number, number];
/** From 0 to `most`, or from -`most` to `most` with nothing in the middle. */
export interface Scale {
  readonly kind: "sequential" | "diverging";
  readonly most: number;
}

export const sequential = (most: number): Scale => ({ kind: "sequential", most });
export const diverging = (most: number): Scale => ({ kind: "diverging", most });

const DARK: Rgb = [25, 28, 36];

/** The figures' colours; on a dark screen the middle of a scale, or its start, is dark and its ends are light. */
function stopsOf(kind: Scale["kind"]): readonly Rgb[] {
  const { shares, signed } = index.value.scales;
  const s = (kind === "sequential" ? shares : signed).map(rgb);
  if (!dark.value) return s;
  const mixed = (i: number): Rgb => between([DARK, s[i]], 0.45);
  return kind === "sequential" ? [DARK, mixed(7), s[6], s[4], s[1]] : [s[2], s[1], mixed(1), DARK, mixed(7), s[7], s[6]];
}

function rgb(hex: string): Rgb {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as unknown as Rgb;
}

function colouring({ kind, most }: Scale): (value: number) => Rgb {
  const stops = stopsOf(kind);
  if (kind === "sequential") return (v) => between(stops, most > 0 ? v / most : 0);
  return (v) => between(stops, most > 0 ? 0.5 + v / (2 * most) : 0.5);
}

function between(stops: readonly Rgb[], share: number): Rgb {
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const part = at - i;
  const [a, b] = [stops[i], stops[i + 1]];
  return [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, a[2] + (b[2] - a[2]) * part];
}

/** Values as a picture of one pixel each, to be drawn enlarged; NaN and infinities stay clear. */
export function picture(values: ArrayLike<number>, rows: number, cols: number, scale: Scale): string {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [cols, rows];
  const context = canvas.getContext("2d");
  if (!context) throw new Error("no 2D canvas");
  const image = context.createImageData(cols, rows);
  const colour = colouring(scale);
  for (let i = 0; i < rows * cols; i++) {
    if (!Number.isFinite(values[i])) continue;
    image.data.set(colour(values[i]), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
