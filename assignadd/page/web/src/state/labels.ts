/** Labels and colours of evaluation sets, from the package's tables. */

import { index } from "./store";

export function setLabel(name: string): string {
  return index.value.sets.find((s) => s.name === name)?.label ?? name;
}

/** A colour of the package's palette, in the shade that the theme has for it. */
export function shade(hex: string): string {
  const name = Object.entries(index.value.palette).find(([, hue]) => hue === hex)?.[0];
  return name ? `var(--${name})` : "var(--ink)";
}

export function setColour(name: string): string {
  return shade(index.value.sets.find((s) => s.name === name)?.colour ?? "");
}
