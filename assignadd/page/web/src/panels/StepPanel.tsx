/** The computation of one node of the circuit on this prompt. */

import { Choice, Panel } from "../draw/Panel";
import { positionsOf, type Prompt } from "../model/prompt";
import { tokenName } from "../model/task";
import { parts } from "../state/routes";
import { current, stale, type Snapshot } from "../state/snapshot";
import { change, shown } from "../state/store";
import type { Node } from "../state/view";
import { AnswerStep, answerNumbers } from "./AnswerStep";
import { AttentionStep, attentionNumbers } from "./AttentionStep";
import { WavesStep } from "./WavesStep";

export function StepPanel() {
  const now = current.value;
  const node = shown.node.value;
  return (
    <Panel
      id="step"
      title={now ? titleOf(now.trace.prompt, node) : "One step"}
      numbers={now && (() => numbersOf(now, node))}
      controls={now && <Choice label="Step of the computation" options={optionsOf(now.trace.prompt)} value={nameOf(node)} onChange={(name) => change({ node: nodeOf(name) })} />}
    >
      <div class={stale.value ? "stale" : ""}>
        {now && typeof node !== "string" && <AttentionStep snapshot={now} layer={node.layer} query={node.query} />}
        {now && node === "mlp" && <WavesStep snapshot={now} />}
        {now && node === "answer" && <AnswerStep snapshot={now} />}
      </div>
    </Panel>
  );
}

function nameOf(node: Node): string {
  return typeof node === "string" ? node : `${node.layer}@${node.query}`;
}

function nodeOf(name: string): Node {
  if (name === "mlp" || name === "answer") return name;
  const [layer, query] = name.split("@").map(Number);
  return { layer: layer === 1 ? 1 : 2, query };
}

/** In the order of the computation. */
function optionsOf(prompt: Prompt): (readonly [string, string])[] {
  const last = prompt.task.length - 1;
  const numbers = positionsOf(prompt, "assigned").map((i) => [`1@${i}`, `Layer 1 at ${tokenName(prompt.task, prompt.tokens[i])}`] as const);
  return [...numbers, [`1@${last}`, "Layer 1 at ="], [`2@${last}`, "Layer 2 at ="], ["mlp", "MLP"], ["answer", "Answer"]];
}

function titleOf(prompt: Prompt, node: Node): string {
  if (node === "answer") return "Step: logits become an answer";
  if (node === "mlp") return "Step: the MLP's neurons as waves on the clock";
  return `Step: layer ${node.layer}, what ${tokenName(prompt.task, prompt.tokens[node.query])} attends to`;
}

function numbersOf(now: Snapshot, node: Node): unknown {
  if (node === "answer") return answerNumbers(now);
  if (node === "mlp") return { parts: parts.value };
  return attentionNumbers(now, node.layer, node.query);
}
