/** The two scales that heat maps use, in the palette's hues. */

import { signal } from "@preact/signals";

/** Whether the page is dark now; set by the theme, read by everything that paints pixels. */
export const dark = signal(false);

type Rgb = readonly [number, number, number];
/** From 0 to `most`, or from -`most` to `most` with nothing in the middle. */
export interface Scale {
  readonly kind: "sequential" | "diverging";
  readonly most: number;
}

const SEQUENTIAL: Readonly<Record<"light" | "dark", readonly Rgb[]>> = {
  light: [[250, 249, 246], [186, 214, 232], [86, 180, 233], [0, 114, 178], [4, 47, 84]],
  dark: [[27, 30, 38], [18, 61, 92], [0, 114, 178], [86, 180, 233], [226, 242, 252]],
};
const DIVERGING: Readonly<Record<"light" | "dark", readonly Rgb[]>> = {
  light: [[140, 55, 0], [213, 94, 0], [247, 205, 170], [250, 249, 246], [170, 208, 232], [0, 114, 178], [3, 57, 96]],
  dark: [[255, 190, 130], [213, 94, 0], [92, 48, 20], [27, 30, 38], [14, 58, 88], [40, 140, 205], [190, 228, 250]],
};

export const sequential = (most: number): Scale => ({ kind: "sequential", most });
export const diverging = (most: number): Scale => ({ kind: "diverging", most });

function colouring({ kind, most }: Scale): (value: number) => Rgb {
  const stops = (kind === "sequential" ? SEQUENTIAL : DIVERGING)[dark.value ? "dark" : "light"];
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
