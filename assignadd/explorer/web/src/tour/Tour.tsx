/** The tour's card: a step of the story, and what paper and ledger say about it. */

import { useEffect, useRef } from "preact/hooks";
import { count, fixed, percent } from "../draw/format";
import type { Claim } from "../data/types";
import { scrollTo } from "../panels/actions";
import { change, index, shown } from "../state/store";
import { cardsOf } from "./cards";

export function Tour() {
  const cards = cardsOf(index.value);
  const at = shown.card.value;
  const ref = useRef<HTMLElement>(null);
  const entered = useRef(false);
  const card = at === null ? undefined : cards[Math.min(at, cards.length - 1)];
  const go = (to: number): void => {
    const next = cards[to];
    if (!next) return;
    change({ ...next.set, card: to });
    // Again when what the card asked for has been drawn, which may move everything below it.
    for (const pause of [30, 450]) setTimeout(() => scrollTo(next.panel), pause);
  };
  useEffect(() => {
    // Opened by its button, the tour begins; opened by an address, the address has the last word.
    if (at === 0 && entered.current) go(0);
    if (at !== null) ref.current?.focus({ preventScroll: true });
    entered.current = true;
  }, [at === null]);
  if (!card || at === null) return null;
  const claims = card.claims.flatMap((id) => index.value.ledger.filter((c) => c.id === id));
  return (
    <aside
      ref={ref}
      class="tour"
      id="tour"
      aria-label="Tour"
      tabIndex={-1}
      data-card={at}
      data-side={card.side}
      onKeyDown={(e) => {
        if (e.key === "Escape") change({ card: null });
        if (e.key === "ArrowRight") go(at + 1);
        if (e.key === "ArrowLeft") go(at - 1);
      }}
    >
      <header>
        <span class="tour-count">{at + 1} of {cards.length}</span>
        <button type="button" class="quiet" aria-label="Close the tour" onClick={() => change({ card: null })}>✕</button>
      </header>
      <h2>{card.title}</h2>
      <p>{card.text}</p>
      {claims.map((c) => <Verdict key={c.id} claim={c} />)}
      {!claims.length && <p class="tour-none">The ledger has no record on this for the networks of this page.</p>}
      <footer>
        <button type="button" onClick={() => go(at - 1)} disabled={at === 0}>← Back</button>
        <ol class="dots">
          {cards.map((c, i) => <li key={c.title}><button type="button" aria-label={`Card ${i + 1}: ${c.title}`} aria-current={i === at ? "step" : undefined} onClick={() => go(i)} /></li>)}
        </ol>
        <button type="button" class="primary" onClick={() => (at + 1 < cards.length ? go(at + 1) : change({ card: null }))}>{at + 1 < cards.length ? "Next →" : "Done"}</button>
      </footer>
    </aside>
  );
}

function Verdict({ claim }: { claim: Claim }) {
  const tone = claim.verdict === "holds" ? "good" : claim.verdict === "does not hold" ? "bad" : "mixed";
  return (
    <section class={`claim ${tone}`} data-claim={claim.id} data-verdict={claim.verdict} title={`${claim.rule}. ${claim.comment}`}>
      <p>{claim.claim.replaceAll("`", "")}</p>
      <dl>
        <div><dt>paper</dt><dd>{claim.paper}</dd></div>
        <div><dt>here</dt><dd>{measured(claim)}</dd></div>
        <div><dt>verdict</dt><dd class="said">{tone === "good" ? "✓ " : tone === "bad" ? "✗ " : "◐ "}{claim.verdict}</dd></div>
      </dl>
    </section>
  );
}

/** A claim about every seed has its share of the seeds; one about networks the median over this page's. */
function measured({ value, seeds, unit, n }: Claim): string {
  if (value === null) return "not measured";
  if (unit === "seeds") return `${percent(value, 0)} of ${count(n)} seeds`;
  const shown = Math.abs(value) <= 1 ? percent(value, 2) : Number.isInteger(value) ? count(value) : fixed(value, 1);
  return seeds > 1 ? `${shown} (median)` : shown;
}
