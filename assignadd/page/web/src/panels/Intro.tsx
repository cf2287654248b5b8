/** What this page is about, in two sentences, and where the work comes from. */

import { percent } from "../draw/format";
import type { ModelEntry } from "../data/types";
import { Term } from "../glossary/Term";
import { isAddition, type Task } from "../model/task";
import { entry, index } from "../state/store";

export function Intro() {
  const own = entry.value;
  return (
    <section class="intro" aria-labelledby="page-title">
      <h1 id="page-title">How a small network looks variables up and {isAddition(own.task) ? "adds" : "computes"}</h1>
      <p class="tagline">
        This is a two-layer transformer that {learned(own)}. {evidence(own)} Type a {isAddition(own.task) ? "sum" : "question"}, see the{" "}
        <Term id="circuit">circuit</Term> that answers it, and cut its parts.
      </p>
      <p class="cite">
        Such networks are the subject of <cite>Assign and Add: A Mechanistic Study of Compositional Arithmetic</cite> (Exoo, Bietti, Sous;{" "}
        <a href="https://arxiv.org/abs/2605.31497" rel="noreferrer">arXiv 2605.31497</a>). This one runs in your browser.
      </p>
    </section>
  );
}

function operation(task: Task): string {
  return isAddition(task) ? `add modulo ${task.modulus}` : `compute n ${task.operator} m on the numbers 0 to ${task.modulus - 1}`;
}

function learned(own: ModelEntry): string {
  return own.binds ? `has learned to look variables up and ${operation(own.task)}` : `was trained to look variables up and ${operation(own.task)}, and does not look them up`;
}

/** Its accuracy on the set that decides whether a network binds. */
function evidence(own: ModelEntry): string {
  const found = own.accuracies[index.value.rules.binding_set];
  return found ? `At the end of training it answers ${percent(found[0])} of fresh prompts with one variable, of the kind it was trained on.` : "";
}
