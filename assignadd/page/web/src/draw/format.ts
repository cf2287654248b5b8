/** Numbers as text. */

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

export function percent(share: number, digits = 1): string {
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

/** Points of a percentage, always with a sign. */
export function points(change: number): string {
  const value = 100 * change;
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(value).toFixed(1)} pts`;
}

export function fixed(x: number, digits = 2): string {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "—";
  return x.toFixed(digits).replace("-", "−");
}

/** A step on a crowded axis: 12k, 500. */
export function shortStep(step: number): string {
  return step >= 1000 ? `${Number((step / 1000).toFixed(1))}k` : String(step);
}
