/** Interventions in words, for chips; and as the Python that does the same with the package. */

import type { Hook } from "../model/forward";
import type { Place } from "../model/prompt";
import { toJson, type Intervention, type Replace, type Specification } from "./specification";

export const HOOK_WORDS: Readonly<Record<Hook, string>> = {
  hook_embed: "token embeddings",
  hook_pos_embed: "position embeddings",
  "blocks.0.attn.hook_pattern": "layer 1 pattern",
  "blocks.0.hook_attn_out": "layer 1 output",
  "blocks.1.hook_resid_pre": "residual after layer 1",
  "blocks.1.attn.hook_pattern": "layer 2 pattern",
  "blocks.1.hook_attn_out": "layer 2 output",
  "blocks.1.hook_resid_mid": "residual before the MLP",
  "blocks.1.mlp.hook_pre": "neurons before ReLU",
  "blocks.1.mlp.hook_post": "neurons after ReLU",
  "blocks.1.hook_mlp_out": "MLP output",
  "blocks.1.hook_resid_post": "residual after the MLP",
};

const PLACE_WORDS: Readonly<Record<string, string>> = {
  equals: "=", plus: "+", first: "first slot", second: "second slot", first_value: "first value", second_value: "second value",
  first_variable: "first variable", second_variable: "second variable", assigned: "assigned numbers", variables: "assigned variables",
  distractors: "distractors", pads: "padding",
};

const COMPONENT_WORDS: Readonly<Record<string, string>> = {
  embed: "embeddings", qk1: "layer 1, where to look (QK1)", ov1: "layer 1, what to copy (OV1)", qk2: "layer 2, where to look (QK2)",
  ov2: "layer 2, what to copy (OV2)", mlp2: "MLP (MLP2)", unembed: "unembedding (W_U)",
};

export function componentWords(component: string): string {
  return COMPONENT_WORDS[component] ?? component;
}

export function placeWords(place: Place): string {
  return typeof place === "number" ? `position ${place}` : PLACE_WORDS[place];
}

export function describe(one: Intervention): string {
  switch (one.action) {
    case "cut":
      return `cut layer ${one.layer}: ${placeWords(one.query)} → ${placeWords(one.key)}`;
    case "pattern":
      return `set layer ${one.layer}, ${placeWords(one.query)}: ${Object.entries(one.weights).map(([k, w]) => `${w} ${PLACE_WORDS[k] ?? `position ${k}`}`).join(", ")}`;
    case "swap": {
      const from = [one.run, one.seed == null ? null : `seed ${one.seed}`, one.step == null ? null : `step ${one.step.toLocaleString("en-US")}`];
      return `${componentWords(one.component)} of ${from.filter(Boolean).join(", ")}`;
    }
    default:
      return describeReplace(one);
  }
}

function describeReplace(one: Replace): string {
  const verb = { zero: "remove", mean: "average", resample: "resample", patch: "patch" }[one.action];
  const neurons = one.neurons ? (one.neurons.length === 1 ? `neuron ${one.neurons[0]}` : `${one.neurons.length} neurons`) : null;
  const frequencies = one.frequencies ? `frequency ${one.frequencies.join(", ")}` : null;
  const what = [neurons, frequencies].filter(Boolean).join(" of ");
  const where = one.positions ? ` at ${one.positions.map(placeWords).join(", ")}` : "";
  const hook = HOOK_WORDS[one.hook];
  const from = one.source != null ? ` from “${one.source}”` : "";
  return `${verb} ${what ? `${what} (${hook})` : hook}${where}${from}`;
}

/** A script that answers the same prompt under the same interventions with the package's public names. */
export function toPython(spec: Specification, at: { run: string; seed: number; step: number; text: string; padding: number }): string {
  const py = (text: string): string => JSON.stringify(text);
  const swaps = spec.some((one) => one.action === "swap");
  // What a swap does not say is the network's own; of another run, the first model at its newest checkpoint.
  const donor = `

def donor(swap, index):
    if swap.run is not None:
        other = open_run(swap.run)
        return load_stack(other, swap.step).models(other.index_of(swap.seed))
    seed = ${at.seed} if swap.seed is None else swap.seed
    return load_stack(run, ${at.step} if swap.step is None else swap.step).models(run.index_of(seed))

`;
  return `import torch

from assignadd import load_stack, open_run, parse
from assignadd.interventions import apply, read_specification

run = open_run(${py(at.run)})
model = load_stack(run, step=${at.step}).models(run.index_of(${at.seed}))
interventions = read_specification(${py(toJson(spec))})
tokens = torch.tensor([parse(${py(at.text)}, run.config.task${at.padding ? `, padding=${at.padding}` : ""})])[None]
${swaps ? donor : ""}logits = apply(model, tokens, interventions${swaps ? ", donors=donor" : ""})
print(int(logits.argmax()))
`;
}
