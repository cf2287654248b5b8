/** Where a sum is typed: the text, the answer beside it, what kind of sum it is, and some to begin with. */

import { percent } from "../draw/format";
import { Term } from "../glossary/Term";
import { bannedSlots, operandSlots, type Prompt } from "../model/prompt";
import { tokenName } from "../model/task";
import { asked } from "../model/padding";
import { isTextForm, render } from "../model/text";
import type { Model } from "../state/models";
import { current, model, prompt, reading, stale, text } from "../state/snapshot";
import { change, entry, shown } from "../state/store";
import { TokenBoxes } from "./TokenBoxes";

export function PromptBar() {
  const error = reading.value?.error ?? null;
  const note = reading.value?.error === null ? reading.value.note : "";
  return (
    <section class="ask" id="ask" aria-label="Prompt" data-tokens={prompt.value?.tokens.join(" ")} data-error={error?.column}>
      <div class="ask-line">
        <label for="prompt">Ask the network</label>
        <div class="field" style={{ "--letters": Math.max(text.value.length, 1) }}>
          <input
            id="prompt"
            type="text"
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            value={text.value}
            aria-invalid={error !== null}
            aria-describedby="prompt-error"
            onInput={(e) => change({ text: e.currentTarget.value.slice(0, 400) || " " })}
            onChange={tidy}
          />
          <p id="prompt-error" class="error" role="status" hidden={!error && !note}>
            {error && (
              <>
                <span class="caret" aria-hidden="true">{" ".repeat(error.column - 1)}▲</span>
                <span class="why">column {error.column}: {error.message}</span>
              </>
            )}
            {note && <span class="note">{note}</span>}
          </p>
        </div>
        <Says />
      </div>
      <div class="ask-foot">
        {prompt.value && model.value && !stale.value && <Badges prompt={prompt.value} model={model.value} />}
        <div class="chips" role="group" aria-label="Examples">
          <span class="chips-label">Try</span>
          {model.value?.examples.map((e) => (
            <button
              key={e.label}
              type="button"
              class={`chip ${e.label === "answered wrong" ? "warn" : ""}`}
              aria-pressed={text.value === e.text}
              title={e.text}
              onClick={() => change({ text: e.text, padding: e.padding })}
            >
              {e.label}
            </button>
          ))}
        </div>
      </div>
      <details class="tokens-fold">
        <summary>Tokens, one by one</summary>
        <TokenBoxes />
        <button type="button" class="quiet" onClick={reroll} title="Let the padding fall elsewhere, as in training">⟳ Re-roll padding</button>
      </details>
    </section>
  );
}

/** The answer beside the prompt, announced when it changes. */
function Says() {
  const now = current.value;
  const data = now && { "data-prediction": now.answer.prediction, "data-truth": now.answer.truth, "data-margin": now.answer.margin, "data-circuit": now.circuit.prediction };
  const right = now?.answer.prediction === now?.answer.truth;
  return (
    <p id="says" class={`says ${stale.value ? "none" : right ? "right" : "wrong"}`} role="status" data-ready={now ? "yes" : "no"} data-stale={stale.value} {...data}>
      {now && !stale.value && (
        <>
          <span class="sr">The network answers </span>
          <span class="says-number">{now.answer.prediction}</span>
          <span class="says-words">
            {right ? "✓ right" : `✗ it is ${now.answer.truth}`}
            <small>probability {percent(now.answer.probabilities[now.answer.prediction])}</small>
          </span>
        </>
      )}
      {now && stale.value && <span class="says-words">no answer<small>below: the last prompt that could be read</small></span>}
    </p>
  );
}

function Badges({ prompt, model }: { prompt: Prompt; model: Model }) {
  const [n, m] = prompt.values;
  const named = prompt.isVariable.filter(Boolean).length;
  const seen = model.isSeen(n, m);
  const banned = bannedSlots(prompt);
  const letters = operandSlots(prompt.task).map((s) => tokenName(prompt.task, prompt.tokens[s]));
  const kind = seen ? "seen pair" : n === m ? "held-out double" : model.isSeen(m, n) ? "held out, other order seen" : "held out in both orders";
  return (
    <ul class="badges" aria-label="About this sum" data-vars={named} data-seen={seen} data-banned={banned.join(" ")}>
      <li class="badge">{named === 0 ? "no variables" : named === 1 ? "1 variable" : "2 variables"}</li>
      <li class={`badge ${seen ? "" : "novel"}`}>
        {n} {prompt.task.operator} {m}: <Term id="seen">{kind}</Term>
      </li>
      {banned.map((slot) => (
        <li key={slot} class="badge novel">
          {letters[slot === "first" ? 0 : 1]} {slot}: <Term id="banned">banned slot</Term>
        </li>
      ))}
    </ul>
  );
}

/** Tokens that were typed become the text that all prompts are shown as, once the field is left. */
function tidy(): void {
  const { task } = entry.value;
  if (!isTextForm(text.value, task) && reading.value?.error === null) change(asked(text.value, task));
}

function reroll(): void {
  const now = prompt.value;
  if (!now) return;
  const before = typeof shown.padding.value === "number" ? shown.padding.value : 0;
  const seed = 1 + ((before + Math.floor(Math.random() * 997)) % 998);
  change({ text: isTextForm(text.value, now.task) ? shown.text.value : render(now.tokens, entry.value.task), padding: seed });
}
