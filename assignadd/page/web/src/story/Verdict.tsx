/** A claim of the ledger: what the paper says, what is measured here, and the verdict. */

import { count, fixed, percent } from "../draw/format";
import type { Claim } from "../data/types";

export function Verdict({ claim, why }: { claim: Claim; why: string | null | undefined }) {
  const tone = claim.verdict === "holds" ? "good" : claim.verdict === "does not hold" ? "bad" : "mixed";
  return (
    <section class={`claim ${tone}`} data-claim={claim.id} data-verdict={claim.verdict} title={`${claim.id}. ${claim.rule}. ${claim.comment}`}>
      <p>{claim.claim.replaceAll("`", "")}</p>
      <dl>
        <div><dt>paper</dt><dd>{claim.paper}</dd></div>
        <div><dt>{claim.unit === "seeds" ? "many seeds" : "this network"}</dt><dd>{measured(claim)}</dd></div>
        <div><dt>verdict</dt><dd class="said">{tone === "good" ? "✓ " : tone === "bad" ? "✗ " : "◐ "}{claim.verdict}</dd></div>
      </dl>
      {why && <p class="why">{why}</p>}
    </section>
  );
}

function measured({ value, unit, n }: Claim): string {
  if (value === null) return "not measured";
  if (unit === "seeds") return `${percent(value, 0)} of ${count(n)} seeds`;
  return Math.abs(value) <= 1 ? percent(value, 2) : Number.isInteger(value) ? count(value) : fixed(value, 1);
}
