import { expect, test } from "vitest";
import { resolve } from "../src/interventions/resolve";
import { specification } from "../src/interventions/specification";
import { forward } from "../src/model/forward";
import { spectrumOf } from "../src/model/fourier";
import { promptOf } from "../src/model/prompt";
import { swapped, type Weights } from "../src/model/weights";
import { numbers, other, reference, weights } from "./numbers";

const { task } = numbers;
const prompts = numbers.prompts.map((tokens) => promptOf(tokens, task));

function worst(found: ArrayLike<number>, wanted: readonly number[]): number {
  return wanted.reduce((most, w, i) => Math.max(most, Math.abs(w - found[i])), 0);
}

test.each(Object.keys(numbers.interventions))("logits under %s are PyTorch's", (name) => {
  const spec = specification(numbers.interventions[name]);
  const swaps = spec.flatMap((one) => (one.action === "swap" ? [{ component: one.component, from: other }] : []));
  const w: Weights = swapped(weights, swaps);
  const edits = resolve(spec, w, task, reference);
  prompts.forEach((prompt, index) => {
    expect(worst(forward(w, prompt, { edits, index }).logits, numbers.logits[name][index]), `prompt ${index}`).toBeLessThan(1e-3);
  });
});

test("looking at every position changes no answer, and patterns are PyTorch's", () => {
  prompts.forEach((prompt, index) => {
    const trace = forward(weights, prompt, { full: true });
    expect(worst(trace.logits, numbers.logits["nothing"][index])).toBeLessThan(1e-3);
    for (const layer of [0, 1]) expect(worst(trace.patterns[layer].data, numbers.patterns[layer][index].flat())).toBeLessThan(1e-4);
  });
});

test("interventions that do nothing to PyTorch's numbers are no test", () => {
  for (const name of Object.keys(numbers.interventions)) {
    if (name === "nothing") continue;
    const moved = numbers.logits[name].some((row, i) => worst(row, numbers.logits["nothing"][i]) > 1e-2);
    expect(moved, name).toBe(true);
  }
});

test("every neuron's frequency and share are the package's", () => {
  const { waves } = spectrumOf(weights, task.modulus);
  waves.forEach((wave, j) => {
    expect(wave.frequency).toBe(numbers.waves.frequency[j]);
    expect(Math.abs(wave.share - numbers.waves.share[j])).toBeLessThan(1e-4);
  });
});
