/** Where a sum is typed: the text, its tokens, what kind of sum it is, and some to begin with. */

import { roleClass } from "../draw/roles";
import { bannedSlots, operandSlots, type Prompt } from "../model/prompt";
import { isVariable, tokenName } from "../model/task";
import { isTextForm, render } from "../model/text";
import type { Model } from "../state/models";
import { model, prompt, reading, text } from "../state/snapshot";
import { change, entry, hovered, shown } from "../state/store";

export function PromptBar() {
  const error = reading.value?.error ?? null;
  return (
    <section class="ask" id="ask" aria-label="Prompt" data-tokens={prompt.value?.tokens.join(" ")} data-error={error?.column}>
      <div class="ask-line">
        <label for="prompt">Ask the network</label>
        <div class="field">
          <input
            id="prompt"
            type="text"
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            value={text.value}
            aria-invalid={error !== null}
            aria-describedby="prompt-error"
            onInput={(e) => change({ text: e.currentTarget.value.slice(0, 400) || " ", padding: shown.padding.value })}
          />
          <p id="prompt-error" class="error" role="status">
            {error && (
              <>
                <span class="caret" aria-hidden="true">{" ".repeat(error.column - 1)}▲</span>
                <span class="why">column {error.column}: {error.message}</span>
              </>
            )}
          </p>
        </div>
      </div>
      <Tokens />
      <div class="ask-foot">
        {prompt.value && model.value && <Badges prompt={prompt.value} model={model.value} />}
        <button type="button" class="quiet" onClick={reroll} title="Let the padding fall elsewhere, as in training">⟳ Re-roll padding</button>
      </div>
      <div class="chips" role="group" aria-label="Examples">
        <span class="chips-label">Try</span>
        {model.value?.examples.map((e) => (
          <button
            key={e.label}
            type="button"
            class={`chip ${e.label === "answered wrong" ? "warn" : ""}`}
            aria-pressed={text.value === e.text}
            title={e.text}
            onClick={() => change({ text: e.text, padding: 0 })}
          >
            {e.label}
          </button>
        ))}
      </div>
    </section>
  );
}

function Tokens() {
  const now = prompt.value;
  if (!now) return null;
  const { task } = now;
  const words = text.value.trim().split(/\s+/);
  const typed = !isTextForm(text.value) && words.length === task.length ? words : null;
  const names = typed ?? now.tokens.map((t) => tokenName(task, t));
  const edit = (i: number, word: string): void => {
    const shown = names.map((name, j) => (i === j ? word.trim() || "." : name));
    change({ text: shown.join(" "), padding: 0 });
  };
  return (
    <ol class="tokens" aria-label="Tokens">
      {names.map((name, i) => (
        <li key={i} class={`${roleClass(now, i)} ${hovered.value === name ? "linked" : ""}`} onPointerEnter={() => hoverToken(now, i)} onPointerLeave={() => (hovered.value = null)}>
          <input
            type="text"
            value={name}
            size={2}
            maxLength={4}
            spellcheck={false}
            autocomplete="off"
            aria-label={`Token ${i}`}
            onFocus={(e) => e.currentTarget.select()}
            onChange={(e) => edit(i, e.currentTarget.value)}
          />
          <span class="index" aria-hidden="true">{i}</span>
        </li>
      ))}
    </ol>
  );
}

function hoverToken(prompt: Prompt, i: number): void {
  hovered.value = isVariable(prompt.task, prompt.tokens[i]) ? tokenName(prompt.task, prompt.tokens[i]) : null;
}

function Badges({ prompt, model }: { prompt: Prompt; model: Model }) {
  const [n, m] = prompt.values;
  const named = prompt.isVariable.filter(Boolean).length;
  const seen = model.isSeen(n, m);
  const banned = bannedSlots(prompt);
  const letters = operandSlots(prompt.task).map((s) => tokenName(prompt.task, prompt.tokens[s]));
  return (
    <ul class="badges" aria-label="About this sum" data-vars={named} data-seen={seen} data-banned={banned.join(" ")}>
      <li class="badge">{named === 0 ? "no variables" : named === 1 ? "1 variable" : "2 variables"}</li>
      <li class={`badge ${seen ? "" : "novel"}`} title={seen ? "Training added this pair of numbers" : "Training never added this pair of numbers"}>
        {n} + {m}: {seen ? "seen pair" : n === m ? "held-out double" : model.isSeen(m, n) ? "held out, other order seen" : "held out in both orders"}
      </li>
      {banned.map((slot) => (
        <li key={slot} class="badge novel" title="Training never put this variable in this slot">
          {letters[slot === "first" ? 0 : 1]} {slot}: banned slot
        </li>
      ))}
    </ul>
  );
}

function reroll(): void {
  const now = prompt.value;
  if (!now) return;
  const seed = 1 + ((shown.padding.value + Math.floor(Math.random() * 997)) % 998);
  change({ text: isTextForm(text.value) ? shown.text.value : render(now.tokens, entry.value.task), padding: seed });
}
