/** What a saved figure or file was made from: network, step, prompt, interventions. */

import { describe } from "../interventions/words";
import { render, renderTokens } from "../model/text";
import { prompt } from "./snapshot";
import { entry, index, shown } from "./store";

export function provenance() {
  const { run, seed, task } = entry.value;
  return {
    assignadd: index.value.version,
    run,
    seed,
    step: shown.step.value,
    prompt: prompt.value && render(prompt.value.tokens, task),
    tokens: prompt.value && renderTokens(prompt.value.tokens, task),
    interventions: shown.interventions.value,
  };
}

/** The same in one line. */
export function provenanceLine(): string {
  const { run, seed, step } = provenance();
  const asked = prompt.value ? `; ${render(prompt.value.tokens, entry.value.task)}` : "";
  const changed = shown.interventions.value.map(describe).join("; ");
  return `${run}, seed ${seed}, step ${step.toLocaleString("en-US")}${asked}${changed ? `; changed: ${changed}` : ""}`;
}
