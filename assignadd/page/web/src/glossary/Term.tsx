/** A word that opens the glossary at its entry. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { TERMS, type Entry, type TermId } from "./terms";

/** The entry that the glossary is open at; null while it is closed, "all" without an entry. */
export const opened = signal<TermId | "all" | null>(null);

export function Term({ id, children }: { id: TermId; children: ComponentChildren }) {
  const { meaning, code }: Entry = TERMS[id];
  return <button type="button" class="term" title={code ? `${meaning} In the code: ${code}.` : meaning} onClick={() => (opened.value = id)}>{children}</button>;
}
