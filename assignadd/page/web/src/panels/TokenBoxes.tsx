/** The prompt's tokens, each in a box of its own that can be edited. */

import { roleClass } from "../draw/roles";
import { isVariable, tokenName } from "../model/task";
import { asked } from "../model/padding";
import { isTextForm } from "../model/text";
import type { Prompt } from "../model/prompt";
import { prompt, text } from "../state/snapshot";
import { change, hovered } from "../state/store";

export function TokenBoxes() {
  const now = prompt.value;
  if (!now) return null;
  const { task } = now;
  const words = text.value.trim().split(/\s+/);
  const typed = !isTextForm(text.value, task) && words.length === task.length ? words : null;
  const names = typed ?? now.tokens.map((t) => tokenName(task, t));
  const edit = (i: number, word: string): void => {
    const shown = names.map((name, j) => (i === j ? word.trim() || "." : name));
    change(asked(shown.join(" "), task));
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
