/** The circuit on this prompt, as the map of the page: nodes open their computation, edges can be cut. */

import { useEffect, useRef, useState } from "preact/hooks";
import { CircuitFigure } from "../draw/CircuitFigure";
import { fixed, percent } from "../draw/format";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { describe } from "../interventions/words";
import { isAddition, tokenName, type Task } from "../model/task";
import { isActive, toggleIntervention } from "../state/interventions";
import { parts, routes, type Weighed } from "../state/routes";
import { current, plain, stale } from "../state/snapshot";
import { change, shown } from "../state/store";
import type { Node } from "../state/view";
import { scrollTo } from "./actions";
import { cutOf } from "./cuts";
import { Flow } from "./Flow";

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
  const [reached, setReached] = useState<number | null>(null);
  useEffect(() => setReached(null), [shown.section.value]);
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
        {now && <Flow snapshot={now} reached={reached} onReach={setReached} />}
        {now && (
          <CircuitFigure
            width={width}
            snapshot={now}
            before={before}
            routes={routes.value}
            parts={parts.value}
            node={shown.node.value}
            chosen={over ?? chosen}
            reached={reached}
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
        {now && <HowToRead task={now.trace.prompt.task} />}
      </div>
    </Panel>
  );
}

function HowToRead({ task }: { task: Task }) {
  const N = task.modulus;
  return (
    <dl class="how">
      <div>
        <dt>Waves</dt>
        <dd>In the box of the MLP every line runs over the {N} answers, 0 on the left. The neurons of one frequency k make one line, which goes up and down k times: high where they raise an answer, low where they lower it. “direct” is what passes the MLP by. At the foot is the sum of all; the dashed line stands at the network's answer.</dd>
      </div>
      <div>
        <dt>Clock</dt>
        <dd>The face has the {N} answers as hours. {isAddition(task) ? "One arc goes from 0 by the first value, the other on from there by the second: they end at the right answer, which has the small ring." : "The small ring is the right answer; the arcs are the two values."} A bar outside the face is as long as that answer is probable.</dd>
      </div>
    </dl>
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
