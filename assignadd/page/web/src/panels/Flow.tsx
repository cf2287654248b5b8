/** The computation on one prompt, a step at a time: what the circuit's figure shows so far, and a sentence about what is new. */

import { fixed, percent } from "../draw/format";
import { operandSlots, positionsOf } from "../model/prompt";
import { isAddition, tokenName } from "../model/task";
import { partName, type Part } from "../model/waves";
import { parts } from "../state/routes";
import type { Snapshot } from "../state/snapshot";

interface Step {
  readonly name: string;
  readonly says: (now: Snapshot, parts: readonly Part[]) => string;
}

/** In the order of the computation; `reached` of the figure counts them. */
const STEPS: readonly Step[] = [
  { name: "Tokens", says: ({ trace }) => `The prompt becomes ${trace.prompt.tokens.length} tokens, padding in front or between. Each starts as a list of numbers that says which token it is and where it stands.` },
  { name: "Names are copied", says: copying },
  { name: "= reads the question", says: (now) => {
    const slots = operandSlots(now.trace.prompt.task);
    return `Also in layer 1, = reads the two operands that are asked for: ${attention(now, 1, slots)}.`;
  } },
  { name: "Values are fetched", says: (now) => `In layer 2, = looks for what goes with them. A number that holds the right name answers: ${attention(now, 2, now.trace.prompt.valuePositions)}.` },
  { name: "Waves add up", says: ({ answer, trace }, all) => `The MLP turns what was fetched into a score for each of the ${trace.prompt.task.modulus} answers. Neurons of one frequency make a wave over the answers${all.length ? `; the largest here, ${partName(all[0])}, adds ${fixed(all[0].logits[answer.truth], 1)} at ${answer.truth}` : ""}. Where the waves agree, their sum is high.` },
  { name: "Answer", says: ({ answer, trace }) => `The sum is highest at ${answer.prediction}: that is the answer, with probability ${percent(answer.probabilities[answer.prediction])}.${isAddition(trace.prompt.task) ? ` On the clock: ${trace.prompt.values[0]} hours from 0, then ${trace.prompt.values[1]} on, is ${answer.truth}.` : ` The right one is ${answer.truth}.`}` },
];

interface Props {
  readonly snapshot: Snapshot;
  readonly reached: number | null;
  readonly onReach: (step: number | null) => void;
}

export function Flow({ snapshot, reached, onReach }: Props) {
  const last = STEPS.length - 1;
  return (
    <div class="flow" role="group" aria-label="Step through this prompt" data-reached={reached ?? ""}>
      {reached === null ? <button type="button" class="primary" onClick={() => onReach(0)}>Step through this prompt</button> : (
        <>
          <button type="button" aria-label="Previous step" disabled={reached === 0} onClick={() => onReach(reached - 1)}>←</button>
          <button type="button" class="primary" aria-label="Next step" disabled={reached === last} onClick={() => onReach(reached + 1)}>→</button>
          <button type="button" onClick={() => onReach(null)}>Show all</button>
        </>
      )}
      <p role="status">{reached !== null && <><b>{reached + 1} of {STEPS.length}. {STEPS[reached].name}.</b> {STEPS[reached].says(snapshot, parts.value)}</>}</p>
    </div>
  );
}

function copying(now: Snapshot): string {
  const { prompt } = now.trace;
  const all = positionsOf(prompt, "assigned");
  const at = prompt.valuePositions.find((i) => all.includes(i)) ?? all[0];
  if (at === undefined) return "Nothing is assigned here, so no name is copied.";
  return `In layer 1 each assigned number copies the name before it: ${tokenName(prompt.task, prompt.tokens[at])} gives ${shareOf(now, 1, at, at - 1)} of its attention to ${tokenName(prompt.task, prompt.tokens[at - 1])}.`;
}

/** "26 % of its attention to 17, 32 % to 19", of `=`. */
function attention(now: Snapshot, layer: 1 | 2, keys: readonly number[]): string {
  const { task, tokens } = now.trace.prompt;
  const [first, ...rest] = keys.map((key) => [shareOf(now, layer, task.length - 1, key), tokenName(task, tokens[key])]);
  return [`${first[0]} of its attention goes to ${first[1]}`, ...rest.map(([share, name]) => `${share} to ${name}`)].join(", ");
}

function shareOf({ trace }: Snapshot, layer: 1 | 2, query: number, key: number): string {
  return percent(trace.patterns[layer - 1].data[query * trace.prompt.task.length + key], 0);
}
