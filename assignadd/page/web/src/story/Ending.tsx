/** The end of the story: what nobody knows yet, what to read, how to cite, what to do next. */

import { copy } from "../panels/actions";
import { index } from "../state/store";

const READING = [
  ["Assign and Add: A Mechanistic Study of Compositional Arithmetic", "Exoo, Bietti, Sous, 2026: the paper that this story retells", "https://arxiv.org/abs/2605.31497"],
  ["Progress measures for grokking via mechanistic interpretability", "Nanda and others, 2023: how a network adds on a clock, with waves", "https://arxiv.org/abs/2301.05217"],
  ["Grokking modular arithmetic", "Gromov, 2023: weights made by hand that add with waves", "https://arxiv.org/abs/2301.02679"],
  ["In-context learning and induction heads", "Olsson and others, 2022: heads that copy what stood beside a name", "https://arxiv.org/abs/2209.11895"],
] as const;

const ON = [
  ['assignadd ask "c=1, b=17, a=42, b+19=?"', "asks the same network in a terminal"],
  ["assignadd claims census-six", "judges every claim of the paper on six networks"],
  ["assignadd reproduce", "trains new ones, and writes a report"],
] as const;

export function Ending() {
  return (
    <>
      <h3>What is open</h3>
      <ul class="listed">
        <li>What decides at the start of training whether a seed will bind? Some changes make nearly every seed bind; why they do is not settled.</li>
        <li>Which training makes nearly every seed learn the whole task, held-out doubles and banned slots included? None that was tried does.</li>
        <li>Why are doubles harder than every other held-out pair? A part of the reason is found, and not all of it.</li>
        <li>Do large language models look variables up in this way? Nothing on this page says so: it has one small task.</li>
      </ul>
      <h3>What to read</h3>
      <ul class="listed">
        {READING.map(([title, about, address]) => <li key={address}><a href={address} rel="noreferrer">{title}</a><br />{about}.</li>)}
      </ul>
      <h3>How to cite</h3>
      <pre class="citation" tabIndex={0} aria-label="Citation in BibTeX">{citation()}</pre>
      <button type="button" onClick={() => void copy(citation(), "Citation copied")}>Copy the citation</button>
      <h3>Where to go on</h3>
      <ul class="listed">
        {ON.map(([command, what]) => <li key={command}><code>{command}</code> {what}.</li>)}
        <li>The folder <code>findings</code> of the source repository has what was found beyond the paper, a question to a page.</li>
      </ul>
    </>
  );
}

function citation(): string {
  return `@misc{exoo2026assign,
  title  = {Assign and Add: A Mechanistic
            Study of Compositional Arithmetic},
  author = {Exoo, Brady and Bietti, Alberto
            and Sous, John},
  year   = {2026},
  eprint = {2605.31497},
  archivePrefix = {arXiv},
}
@software{assignadd,
  title   = {assignadd: reproduce, question and
             extend Assign and Add},
  author  = {{The assignadd authors}},
  version = {${index.value.version}},
}`;
}
