/** The circuit on this prompt, as the map of the page: nodes open their computation, edges can be cut. */

import { useRef, useState } from "preact/hooks";
import { CircuitFigure } from "../draw/CircuitFigure";
import { fixed, percent } from "../draw/format";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { describe } from "../interventions/words";
import { tokenName } from "../model/task";
import { isActive, toggleIntervention } from "../state/interventions";
import { parts, routes, type Weighed } from "../state/routes";
import { current, plain, stale } from "../state/snapshot";
import { change, shown } from "../state/store";
import type { Node } from "../state/view";
import { scrollTo } from "./actions";
import { cutOf } from "./cuts";

const LEGEND = [
  { colour: "var(--first)", label: "first operand: its name, its value" },
  { colour: "var(--second)", label: "second operand" },
  { colour: "var(--faint)", label: "other attention (weight at least 0.1)" },
  { colour: "var(--good)", label: "✓ an edge that the paper's circuit needs is among its token's heaviest; ✗ it is not" },
  { colour: "var(--ink)", label: "width: logits by which the margin of the right answer falls when the edge alone is cut" },
];

export function CircuitPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(1200);
  const cut = useRef<HTMLButtonElement>(null);
  const [picked, setPicked] = useState<string | null>(null);
  const [over, setOver] = useState<Weighed | null>(null);
  const now = current.value;
  const chosen = routes.value.find((r) => idOf(r) === picked) ?? null;
  const before = shown.interventions.value.length ? plain.value?.answer : undefined;
  const numbers = now && (() => ({ edges: routes.value, margin: now.answer.margin, prediction: now.answer.prediction, truth: now.answer.truth, waves: parts.value }));
  return (
    <Panel
      id="circuit"
      title="The circuit"
      numbers={numbers}
      lead="Read from the top. The wider an edge, the more the answer depends on it. Choose a box for its computation, an edge to cut it."
      legend={LEGEND}
    >
      <div ref={ref} class={stale.value ? "stale" : ""}>
        {now && (
          <CircuitFigure
            width={width}
            snapshot={now}
            before={before}
            routes={routes.value}
            parts={parts.value}
            node={shown.node.value}
            chosen={over ?? chosen}
            onOver={setOver}
            onNode={openNode}
            onRoute={(route, byKeyboard) => {
              setPicked(idOf(route));
              if (byKeyboard) setTimeout(() => cut.current?.focus());
            }}
          />
        )}
        <div class="edge-bar">
          <p class="readout" role="status">{said(over ?? chosen)}</p>
          {chosen && now && (
            <button ref={cut} type="button" class="primary" onClick={() => toggleIntervention(cutOf(now.trace.prompt, chosen))} title={describe(cutOf(now.trace.prompt, chosen))}>
              {isActive(cutOf(now.trace.prompt, chosen)) ? "Restore this edge" : "✂ Cut this edge"}
            </button>
          )}
        </div>
      </div>
    </Panel>
  );
}

function openNode(node: Node): void {
  change({ node });
  if (shown.section.value === null) scrollTo("step");
}

function idOf({ layer, query, key }: Weighed): string {
  return `${layer},${query},${key}`;
}

function said(route: Weighed | null): string {
  const now = current.value;
  if (!route || !now) return "Point at an edge, or choose one, for its numbers.";
  const { task, tokens } = now.trace.prompt;
  const name = (i: number): string => `${tokenName(task, tokens[i]).replace(".", "PAD")} (position ${i})`;
  const effect = `Cutting it alone changes the margin of the right answer by ${fixed(-route.effect, 1)} logits (now ${fixed(now.answer.margin, 1)}).`;
  return `Layer ${route.layer}: ${name(route.query)} gives ${percent(route.weight)} of its attention to ${name(route.key)}. ${effect}${route.why ? ` The paper's circuit needs it: ${route.why}.` : ""}`;
}
