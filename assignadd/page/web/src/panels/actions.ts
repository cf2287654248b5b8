/** What the controls of several panels do. */

import { isReadable, text } from "../state/snapshot";
import { announcement, change, entry, index, shown } from "../state/store";

/** To a panel, or to the top. */
export function scrollTo(id: string): void {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const behavior = calm ? "auto" : "smooth";
  if (id === "top") scroll({ top: 0, behavior });
  else document.getElementById(id)?.scrollIntoView({ behavior, block: "start" });
}

export async function copy(words: string, said: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(words);
    announcement.value = said;
  } catch {
    announcement.value = "The browser did not allow copying";
  }
}

/** Another network, at its end when this one is at its end; the prompt stays if the other one can read it. */
export function pickModel(key: string): void {
  const next = index.value.models.find((m) => m.key === key);
  if (!next) return;
  const atEnd = shown.step.value === entry.value.steps.at(-1);
  const keeps = isReadable(text.value, next.task);
  change({ model: key, step: atEnd ? (next.steps.at(-1) ?? 0) : shown.step.value, ...(keeps ? { text: text.value } : { text: "", padding: 0 }) });
}
