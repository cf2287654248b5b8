/** What the page computes beside the forward pass: refusals, waves, effects of cuts, prompts of other tasks, sentences. */

import { expect, test } from "vitest";
import type { ModelEntry } from "../src/data/types";
import { ticksOf } from "../src/draw/TimeAxis";
import { refusal } from "../src/interventions/refusal";
import { resolve } from "../src/interventions/resolve";
import { specification } from "../src/interventions/specification";
import { forward } from "../src/model/forward";
import { effectsOf, marginOf, routesOf } from "../src/model/routes";
import { promptOf } from "../src/model/prompt";
import { isAddition, type Task } from "../src/model/task";
import { parse, render, withAssignment } from "../src/model/text";
import { circuitLogits } from "../src/model/circuit";
import { argmax } from "../src/model/matrix";
import { adderMistakes, partsOf, totalOf } from "../src/model/waves";
import { measureCharts, summary } from "../src/panels/TrainingPanel";
import { numbers, reference, weights } from "./numbers";

const { task } = numbers;
const N = task.modulus;
const own: ModelEntry = {
  key: "m0", run: "one", seed: 0, steps: [0, 100], task, matrices: numbers.matrices, binds: true, accuracies: { "1-var train": [0.97, 0.96, 0.98, 512] },
  phases: { onsets: { addition: null, binding: null, refinement: null }, spikes: [] }, wall: { steps: [], values: {} }, telling: { first: null, second: null, end: null },
};
const foreign: ModelEntry = { ...own, key: "m1", run: "two", task: { ...task, banned_first: "c" } };
const rules = { binding_set: "1-var train", binding_level: 0.95, lasting: 1000, wall: [], levels: { addition: 0.9, binding: 0.95, refinement: 0.95 } };

test.each([
  [{ action: "zero", hook: "blocks.1.mlp.hook_post", neurons: [9999] }, "neurons = [9999]: expected neurons from 0 to 63"],
  [{ action: "zero", hook: "blocks.1.mlp.hook_post", frequencies: [40] }, "frequencies = [40]: expected frequencies from 1 to 29"],
  [{ action: "cut", layer: 1, query: 99, key: 2 }, "position = 99: expected 0 to 15"],
  [{ action: "swap", component: "qk2", run: "two" }, "two, seed 0 has another task than one, seed 0: weights are swapped within one task"],
  [{ action: "swap", component: "qk2", step: 7 }, "one, seed 0 has no checkpoint of step 7 on this page"],
  [{ action: "cut", layer: 1, query: 15, key: 2 }, null],
  [{ action: "swap", component: "qk2", step: 100 }, null],
])("%j is refused as the package refuses it", (one, why) => {
  expect(refusal(specification([one])[0], own, [own, foreign])).toBe(why);
});

test("what the frequencies add up to is the logits less their mean", () => {
  for (const tokens of numbers.prompts.slice(0, 20)) {
    const trace = forward(weights, promptOf(tokens, task), { full: true });
    const total = totalOf(partsOf(weights, trace, N), N).logits;
    const mean = trace.logits.reduce((a, b) => a + b, 0) / N;
    trace.logits.forEach((v, c) => expect(Math.abs(v - mean - total[c])).toBeLessThan(1e-3));
  }
});

test("the adder's mistakes are the pairs that the isolated circuit gets wrong", () => {
  const small: Task = { ...task, answers: Array.from({ length: N * N }, (_, i) => (Math.floor(i / N) + 2 * (i % N)) % N) };
  const wrong = new Set(adderMistakes(weights, small).map(([n, m]) => n * N + m));
  for (let i = 0; i < N * N; i += 7) {
    const prediction = argmax(circuitLogits(weights, Math.floor(i / N), i % N));
    expect(wrong.has(i)).toBe(prediction !== small.answers[i]);
  }
  expect(wrong.size).toBeGreaterThan(0);
});

test("an edge's effect is what the same cut as an intervention takes from the margin", () => {
  const prompt = promptOf(numbers.prompts[0], task);
  const trace = forward(weights, prompt, { full: true });
  const routes = routesOf(trace);
  const effects = effectsOf(weights, trace, undefined, routes);
  expect(routes.length).toBeGreaterThan(4);
  routes.forEach(({ layer, query, key }, i) => {
    const edits = resolve([{ action: "cut", layer, query, key }], weights, task, reference);
    const margin = marginOf(forward(weights, prompt, { edits }).logits, prompt.answer);
    expect(marginOf(trace.logits, prompt.answer) - margin).toBeCloseTo(effects[i], 4);
  });
});

test("answers and the operator are the task's own", () => {
  const answers = Array.from({ length: N * N }, (_, i) => (((Math.floor(i / N) - (i % N)) % N) + N) % N);
  const minus: Task = { ...task, operator: "-", answers };
  const tokens = parse("b=4, b-9=?", minus);
  expect(promptOf(tokens, minus).answer).toBe((4 - 9 + N) % N);
  expect(render(tokens, minus)).toBe("b=4, b-9=?");
  expect(() => parse("b=4, b+9=?", minus)).toThrow("'-'");
  expect([isAddition(task), isAddition(minus)]).toEqual([true, false]);
});

test("two numbers alone get the assignment that every sequence has", () => {
  expect(withAssignment("17+19=?", task)).toBe("a=0, 17+19=?");
  expect(withAssignment(" 17 + 19 ", task)).toBe("a=0, 17+19=?");
  for (const text of ["b=4, b+1=?", "17+b=?", "17+19=?x", "+", ""]) expect(withAssignment(text, task)).toBeNull();
});

test("a network that binds is never said not to, whatever onsets it has", () => {
  const said = summary(own, rules);
  expect(said).toContain("binds (97.0\u00a0%");
  expect(said).toContain("No skill stayed above its level for 1,000 steps");
  expect(summary({ ...own, binds: false }, rules)).toContain("does not bind");
});

test("charts of measures have the labels, order and families of the package's table", () => {
  const table = [
    { name: "x (1-var)", family: "x", title: "what x is", label: "", unit: "of pairs", colour: "#D55E00" },
    { name: "x (2-var)", family: "x", title: "what x is", label: "", unit: "of pairs", colour: "#009E73" },
    { name: "y", family: "y", title: "why", label: "", unit: "", colour: "#222222" },
  ];
  const charts = measureCharts({ steps: [0], values: { y: [0], "x (2-var)": [0], "x (1-var)": [1], z: [2] } }, table);
  expect(charts.map((c) => [c.title, c.lines.map((l) => l.name)])).toEqual([["what x is", ["x (1-var)", "x (2-var)"]], ["why", ["y"]]]);
});

test("ticks of a time axis are round and apart", () => {
  const ticks = ticksOf(50_000, 0.12);
  expect(ticks[0]).toBe(0);
  expect(ticks.length).toBeGreaterThan(4);
  for (const t of ticks.slice(1)) expect([1, 2, 5]).toContain(t / 10 ** Math.floor(Math.log10(t)));
});
