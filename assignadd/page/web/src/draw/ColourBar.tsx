/** The scale of a heat map: its colours from end to end, and the numbers at the ends. */

import { useMemo } from "preact/hooks";
import { dark, picture, type Scale } from "./colour";
import { fixed } from "./format";

export function ColourBar({ x, y, width, scale, unit }: { x: number; y: number; width: number; scale: Scale; unit: string }) {
  const least = scale.kind === "diverging" ? -scale.most : 0;
  const isDark = dark.value;
  const image = useMemo(() => picture(Array.from({ length: 64 }, (_, i) => least + ((scale.most - least) * i) / 63), 1, 64, scale), [scale.kind, scale.most, isDark]);
  const digits = scale.most >= 10 ? 0 : scale.most >= 1 ? 1 : 2;
  const bar = Math.min(120, width * 0.4);
  return (
    <g transform={`translate(${x},${y})`} class="colour-bar">
      <text x={0} y={5} class="tick start">{fixed(least, digits)}</text>
      <image x={34} href={image} width={bar} height={9} preserveAspectRatio="none" />
      <text x={38 + bar} y={5} class="tick start">{fixed(scale.most, digits)} {unit}</text>
    </g>
  );
}
