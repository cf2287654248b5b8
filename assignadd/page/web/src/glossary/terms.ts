/** The words of the page, explained; docs/names.md has the same words for the package. */

export interface Entry {
  readonly word: string;
  readonly meaning: string;
  /** The name in the code, in files and in the paper. */
  readonly code?: string;
}

export const TERMS = {
  bind: { word: "bind", meaning: "To look up the number that the prompt assigns to a variable. A network binds from the step on at which it answers 95 % of one-variable sums as in training, for 1,000 steps or to the end; it binds in the end if it still does.", code: "binds, 1-var train" },
  circuit: { word: "circuit", meaning: "The parts of the network that, according to the paper, compute the answer: in layer 1 numbers copy the name before them and = reads the operands, in layer 2 = fetches the two values, the MLP adds.", code: "QK1, OV1, QK2, OV2, MLP2" },
  seen: { word: "seen and held-out pairs", meaning: "Training adds only a part of all ordered pairs of numbers. A pair that it may add is seen, the others are held out; of a held-out pair the other order may be seen or not, and a double n + n has no other order.", code: "seen_fraction, add-restricted" },
  banned: { word: "banned slot", meaning: "Some variables never stand in one of the two operand slots during training. There the slot is banned for them.", code: "banned_first, banned_second, var-restricted" },
  margin: { word: "margin", meaning: "The logit of the right answer less the largest logit of another one. Above 0 the answer is right.", code: "logits[truth] - max(others)" },
  adder: { word: "isolated adder", meaning: "The answer computed from the embeddings of the two numbers alone: their layer 2 outputs are added and passed through the MLP, without attention and residual stream.", code: "W_U MLP2(OV2 a + OV2 b), ov2_mlp2_accuracy" },
  score: { word: "score", meaning: "How strongly a position asks for another one, before the softmax turns scores into attention weights.", code: "x_q QK x_k, hook_attn_scores" },
  weight: { word: "attention weight", meaning: "The share of its attention that a position gives to another one, from 0 to 1.", code: "hook_pattern" },
  frequency: { word: "frequency", meaning: "How many times a wave over the numbers 0 to N - 1 goes up and down. Neurons of the MLP are sorted by the frequency that explains most of their input.", code: "k, fourier_frequencies" },
  wave: { word: "wave", meaning: "What the neurons of one frequency k add together to the logit of every answer: a line over the answers 0 to N - 1 that goes up and down k times. Where the waves agree, an answer's logit is large." },
  clock: { word: "clock", meaning: "A face with the N answers as hours. One arc goes from 0 by the first value, the other on from there by the second, so that a sum ends at its right answer, which has a small ring; a bar outside the face is as long as that answer is probable." },
  intervention: { word: "intervention", meaning: "A change of the network while it computes: an activation removed or replaced, an edge of attention cut, weights taken from another network.", code: "assignadd.interventions" },
  exam: { word: "512 prompts", meaning: "Fixed prompts of all kinds, as many of each, on which the page counts right answers.", code: "Exam, EVAL_SETS" },
  spike: { word: "spike", meaning: "A sudden rise of the accuracy between two plateaus of training.", code: "first_spike, second_spike" },
  onset: { word: "onset", meaning: "The step from which an accuracy stays above its level for at least 1,000 steps.", code: "onset, LASTING" },
  measure: { word: "progress measure", meaning: "A number computed from weights or attention that follows one part of the circuit through training (paper, App. B).", code: "measures.progress" },
  seed: { word: "seed", meaning: "The number that fixes the initial weights, the pairs held out and the training data of a network.", code: "seed" },
  census: { word: "census", meaning: "Many networks that differ in nothing but their seed.", code: "assignadd sweep seeds" },
  interval: { word: "interval", meaning: "The 95 % confidence interval, in brackets: where the true value lies, given how many sequences, pairs or seeds were counted.", code: "Wilson interval" },
} as const satisfies Record<string, Entry>;

export type TermId = keyof typeof TERMS;
