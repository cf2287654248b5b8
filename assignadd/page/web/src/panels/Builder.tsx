/** The form that makes an intervention, and a few worth trying first. */

import { useState } from "preact/hooks";
import { HOOKS, type Hook } from "../model/forward";
import { networkFrequencies, spectrumOf } from "../model/fourier";
import { ROLES, type Place } from "../model/prompt";
import { COMPONENTS } from "../model/weights";
import { componentWords, HOOK_WORDS, placeWords } from "../interventions/words";
import { NEURON_HOOKS, specification, type Intervention } from "../interventions/specification";
import { ownWeights } from "../state/snapshot";
import { addIntervention } from "../state/interventions";
import { comparable, entry, index, nameOf } from "../state/store";

const ACTIONS = [["zero", "Remove"], ["mean", "Average"], ["resample", "Resample"], ["patch", "Patch from a prompt"], ["cut", "Cut an edge"], ["pattern", "Set a pattern"], ["swap", "Swap weights"]] as const;
type Action = (typeof ACTIONS)[number][0];

interface Fields {
  action: Action;
  hook: Hook;
  place: string;
  neurons: string;
  frequencies: string;
  source: string;
  layer: string;
  query: string;
  key: string;
  first: string;
  second: string;
  component: string;
  donor: string;
  step: string;
}

const START: Fields = {
  action: "cut", hook: "blocks.1.hook_attn_out", place: "", neurons: "", frequencies: "", source: "c=1, b=17, b+19=?", layer: "2",
  query: "equals", key: "first_value", first: "0.5", second: "0.5", component: "mlp2", donor: "", step: "",
};

export function Builder() {
  const [fields, setFields] = useState(START);
  const [error, setError] = useState("");
  const set = (part: Partial<Fields>): void => {
    setError("");
    setFields({ ...fields, ...part });
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    try {
      const [one] = specification([made(fields)]);
      addIntervention(one);
    } catch (problem) {
      setError(problem instanceof Error ? problem.message.replace("interventions[0].", "") : String(problem));
    }
  };
  return (
    <>
      <form class="builder" onSubmit={submit} aria-label="New intervention">
        <Select label="Action" value={fields.action} options={ACTIONS} onChange={(action) => set({ action: action as Action })} />
        <Details fields={fields} set={set} />
        <button type="submit" class="primary">Add</button>
        {error && <p class="error-line" role="alert">{error}</p>}
      </form>
      <div class="chips" role="group" aria-label="Interventions to try">
        <span class="chips-label">Try</span>
        {suggestions().map(([label, one]) => <button key={label} type="button" class="chip" onClick={() => addIntervention(one)}>{label}</button>)}
      </div>
    </>
  );
}

function Details({ fields, set }: { fields: Fields; set: (part: Partial<Fields>) => void }) {
  const places = [["", "everywhere"], ...ROLES.map((r) => [r, placeWords(r)] as const)] as const;
  const somewhere = places.slice(1);
  const layers = [["1", "layer 1"], ["2", "layer 2"]] as const;
  const { action, hook } = fields;
  if (action === "cut")
    return (
      <>
        <Select label="Layer" value={fields.layer} options={layers} onChange={(layer) => set({ layer })} />
        <Select label="From" value={fields.query} options={somewhere} onChange={(query) => set({ query })} />
        <Select label="To" value={fields.key} options={somewhere} onChange={(key) => set({ key })} />
      </>
    );
  if (action === "pattern")
    return (
      <>
        <Select label="Layer" value={fields.layer} options={layers} onChange={(layer) => set({ layer })} />
        <Field label="= to first value" value={fields.first} onInput={(first) => set({ first })} />
        <Field label="= to second value" value={fields.second} onInput={(second) => set({ second })} />
      </>
    );
  if (action === "swap") {
    const donors = [["", "this network"], ...comparable(entry.value).map((m) => [m.key, nameOf(m)] as const)] as const;
    const steps = (index.value.models.find((m) => m.key === fields.donor) ?? entry.value).steps;
    return (
      <>
        <Select label="Component" value={fields.component} options={Object.keys(COMPONENTS).map((c) => [c, componentWords(c)] as const)} onChange={(component) => set({ component })} />
        <Select label="Taken from" value={fields.donor} options={donors} onChange={(donor) => set({ donor, step: "" })} />
        <Select label="At step" value={fields.step || String(steps[0])} options={steps.map((s) => [String(s), s.toLocaleString("en-US")] as const)} onChange={(step) => set({ step })} />
      </>
    );
  }
  const isMlp = NEURON_HOOKS.includes(hook);
  return (
    <>
      <Select label="What" value={hook} options={HOOKS.map((h) => [h, HOOK_WORDS[h]] as const)} onChange={(h) => set({ hook: h as Hook })} />
      <Select label="Where" value={fields.place} options={places} onChange={(place) => set({ place })} />
      {isMlp && <Field label="Neurons" value={fields.neurons} placeholder="all, or 3, 70" onInput={(neurons) => set({ neurons })} />}
      {(isMlp || hook === "hook_embed") && <Field label="Frequencies" value={fields.frequencies} placeholder="all, or 11, 20" onInput={(frequencies) => set({ frequencies })} />}
      {action === "patch" && <Field label="From the prompt" value={fields.source} wide onInput={(source) => set({ source })} />}
    </>
  );
}

/** The intervention that the form says; whatever is wrong with it, `specification` finds. */
function made(f: Fields): unknown {
  const { action } = f;
  if (action === "cut") return { action, layer: Number(f.layer), query: f.query, key: f.key };
  if (action === "pattern")
    return { action, layer: Number(f.layer), query: "equals", weights: { first_value: Number(f.first), second_value: Number(f.second) } };
  if (action === "swap") {
    const from = index.value.models.find((m) => m.key === f.donor);
    const step = Number(f.step || (from ?? entry.value).steps[0]);
    const own = entry.value;
    return { action, component: f.component, step, ...(from && { seed: from.seed }), ...(from && from.run !== own.run && { run: from.run }) };
  }
  const isMlp = NEURON_HOOKS.includes(f.hook);
  return {
    action,
    hook: f.hook,
    ...(f.place && { positions: [f.place as Place] }),
    ...(isMlp && f.neurons.trim() && { neurons: numbers(f.neurons) }),
    ...((isMlp || f.hook === "hook_embed") && f.frequencies.trim() && { frequencies: numbers(f.frequencies) }),
    ...(action === "patch" && { source: f.source }),
  };
}

function numbers(text: string): number[] {
  return text.split(/[\s,]+/).filter(Boolean).map(Number);
}

function suggestions(): readonly (readonly [string, Intervention])[] {
  const own = entry.value;
  const spike = own.phases.spikes[0];
  const list: (readonly [string, Intervention])[] = [
    ["cut = off from the first value", { action: "cut", layer: 2, query: "equals", key: "first_value" }],
    ["stop the copying of variables", { action: "cut", layer: 1, query: "assigned", key: "variables" }],
    ["remove layer 1", { action: "zero", hook: "blocks.0.hook_attn_out" }],
    ["look at the two values alone", { action: "pattern", layer: 2, query: "equals", weights: { first_value: 0.5, second_value: 0.5 } }],
  ];
  if (ownWeights.value) {
    const frequency = strongest();
    list.push([`remove frequency ${frequency}`, { action: "zero", hook: "blocks.1.mlp.hook_post", frequencies: [frequency] }]);
  }
  if (spike) list.push(["layer 2's matching (QK2) of before the first spike", { action: "swap", component: "qk2", step: spike.checkpoints[0] }]);
  return list;
}

function strongest(): number {
  if (!ownWeights.value) return 1;
  const { shares } = spectrumOf(ownWeights.value, entry.value.task.modulus);
  return [...networkFrequencies(shares), 1].reduce((best, k) => (shares[k - 1] > shares[best - 1] ? k : best));
}

type Options = readonly (readonly [string, string])[];

function Select({ label, value, options, onChange }: { label: string; value: string; options: Options; onChange: (value: string) => void }) {
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {options.map(([key, name]) => <option key={key} value={key}>{name}</option>)}
      </select>
    </label>
  );
}

function Field({ label, value, placeholder, wide, onInput }: { label: string; value: string; placeholder?: string; wide?: boolean; onInput: (value: string) => void }) {
  return (
    <label class={wide ? "wide" : ""}>
      <span>{label}</span>
      <input type="text" value={value} placeholder={placeholder} spellcheck={false} onInput={(e) => onInput(e.currentTarget.value)} />
    </label>
  );
}
