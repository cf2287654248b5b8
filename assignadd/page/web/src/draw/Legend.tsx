/** What the colours of a figure mean, on the page and in a saved image. */

export interface LegendItem {
  readonly colour: string;
  readonly label: string;
  readonly title?: string;
}

export function Legend({ items }: { items: readonly LegendItem[] }) {
  return (
    <ul class="legend" aria-label="Legend">
      {items.map(({ colour, label, title }) => <li key={label} style={{ "--c": colour }} title={title}>{label}</li>)}
    </ul>
  );
}
