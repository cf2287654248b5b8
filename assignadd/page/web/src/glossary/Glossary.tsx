/** All words of the page in a dialog; the browser gives the focus back when it closes. */

import { useEffect, useRef } from "preact/hooks";
import { opened } from "./Term";
import { TERMS, type Entry } from "./terms";

export function Glossary() {
  const dialog = useRef<HTMLDialogElement>(null);
  const at = opened.value;
  useEffect(() => {
    if (at === null) return;
    if (!dialog.current?.open) dialog.current?.showModal();
    document.getElementById(`term-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const entries: readonly (readonly [string, Entry])[] = Object.entries(TERMS);
  return (
    <dialog ref={dialog} id="glossary" class="glossary" aria-labelledby="glossary-title" onClose={() => (opened.value = null)} onClick={(e) => e.target === dialog.current && dialog.current?.close()}>
      <header>
        <h2 id="glossary-title">Words</h2>
        <button type="button" class="quiet" onClick={() => dialog.current?.close()}>Close</button>
      </header>
      <dl tabIndex={0} aria-label="Glossary">
        {entries.map(([id, { word, meaning, code }]) => (
          <div key={id} id={`term-${id}`} class={id === at ? "looked-up" : ""}>
            <dt>{word}</dt>
            <dd>{meaning}{code && <> <code>{code}</code></>}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
