/** The story: a column that scrolls beside the figures it drives. */

import { computed } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { JSX } from "preact";
import { BreakPanel } from "../panels/BreakPanel";
import { CircuitPanel } from "../panels/CircuitPanel";
import { PopulationPanel, hasPopulation } from "../panels/PopulationPanel";
import { PromptBar } from "../panels/PromptBar";
import { StepPanel } from "../panels/StepPanel";
import { CurvePanel } from "../panels/CurvePanel";
import { modelOf } from "../state/models";
import { change, index, shown, trains } from "../state/store";
import { leaveStory } from "../state/story";
import { Ending } from "./Ending";
import { sectionsOf, type Figure, type Section } from "./sections";
import { Verdict } from "./Verdict";

const FIGURES: Readonly<Record<Figure, () => JSX.Element | null>> = {
  circuit: CircuitPanel, step: StepPanel, break: BreakPanel,
  curve: () => (trains.value ? <CurvePanel /> : null),
  population: () => (hasPopulation() ? <PopulationPanel /> : null),
};

/** Once the network that it is about is there: the sections take prompts from its data. */
export function Story() {
  return modelOf(index.value.story) ? <Sections /> : <p class="loading">Loading the network.</p>;
}

function Sections() {
  const sections = useMemo(() => sectionsOf(index.value), [index.value]);
  const at = Math.min(shown.section.value ?? 0, sections.length - 1);
  const column = useRef<HTMLDivElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const settled = useRef(-1);
  /** Whether the reader scrolls: until then the section stays at the top while sentences arrive above it. */
  const scrolls = useRef(false);
  const show = (to: number): void => {
    if (settled.current === to || !sections[to]) return;
    settled.current = to;
    change({ ...sections[to].set, section: to });
  };
  const articleAt = (i: number): HTMLElement | null | undefined => column.current?.querySelector<HTMLElement>(`[data-section="${i}"]`);
  const go = (to: number): void => {
    scrolls.current = false;
    show(to);
  };
  useLayoutEffect(() => {
    // Opened by its button, the story begins; opened by an address with a prompt, the address has the last word.
    if (shown.text.value === "") show(at);
    else settled.current = at;
  }, []);
  // Where a button, or Back and Forward, led: its heading comes to the top.
  useLayoutEffect(() => {
    if (settled.current !== at) scrolls.current = false;
    settled.current = at;
    stage.current?.scrollTo({ top: 0 });
    if (scrolls.current) return;
    articleAt(at)?.scrollIntoView({ block: "start" });
    articleAt(at)?.querySelector("h2")?.focus({ preventScroll: true });
  }, [at]);
  useEffect(() => {
    const seen = new IntersectionObserver(
      (all) => all.forEach((e) => e.isIntersecting && scrolls.current && show(Number((e.target as HTMLElement).dataset.section))),
      { root: column.current, rootMargin: "-12% 0px -80% 0px" },
    );
    const sized = new ResizeObserver(() => {
      if (!scrolls.current) articleAt(settled.current)?.scrollIntoView({ block: "start" });
    });
    for (const article of column.current?.querySelectorAll("[data-section]") ?? []) [seen, sized].forEach((o) => o.observe(article));
    return () => [seen, sized].forEach((o) => o.disconnect());
  }, []);
  const scrolling = (): void => {
    scrolls.current = true;
  };
  return (
    <main class="storied" data-figures={sections[at].figures.join(" ")} onWheel={scrolling} onTouchMove={scrolling}>
      <div class="story" id="story" ref={column} role="region" aria-label="The story" tabIndex={0} data-at={at} onPointerDown={scrolling} onKeyDown={(e) => (e.key === "Escape" ? leaveStory() : e.target === column.current && scrolling())}>
        <h1 class="sr">The story</h1>
        {sections.map((s, i) => <Told key={s.id} section={s} i={i} n={sections.length} isAt={i === at} go={go} />)}
      </div>
      <div class="stage" ref={stage} role="region" aria-label="What the story shows" tabIndex={0}>
        <PromptBar />
        {sections[at].figures.map((name) => {
          const Shown = FIGURES[name];
          return <Shown key={name} />;
        })}
      </div>
    </main>
  );
}

interface ToldProps {
  readonly section: Section;
  readonly i: number;
  readonly n: number;
  readonly isAt: boolean;
  readonly go: (to: number) => void;
}

function Told({ section, i, n, isAt, go }: ToldProps) {
  // Computed again when weights arrive, not when the view changes.
  const { sentences, tries, reasons } = useMemo(() => computed(() => ({
    sentences: section.sentences(),
    tries: section.tries(),
    reasons: Object.fromEntries(Object.entries(section.reasons ?? {}).map(([id, reason]) => [id, reason()])),
  })), [section]).value;
  const claims = index.value.ledger.filter((c) => c.section === section.id);
  return (
    <article data-section={i} class={isAt ? "told" : ""} aria-labelledby={`story-${section.id}`}>
      <p class="story-count">{i + 1} of {n}</p>
      <h2 id={`story-${section.id}`} tabIndex={-1}>{section.title}</h2>
      {sentences.map((words, j) => words && <p key={j}>{words}</p>)}
      {claims.map((c) => <Verdict key={c.id} claim={c} why={reasons[c.id]} />)}
      {section.id === "open" && <Ending />}
      {tries.length > 0 && (
        <div class="tries" role="group" aria-label={`Try: ${section.title}`}>
          <span class="chips-label">Try</span>
          {tries.map(({ label, act }) => (
            <button key={label} type="button" class="chip" onClick={() => { if (!isAt) go(i); act(); }}>{label}</button>
          ))}
        </div>
      )}
      <footer>
        {i > 0 && <button type="button" onClick={() => go(i - 1)}>← Back</button>}
        {i + 1 < n ? <button type="button" class="primary" onClick={() => go(i + 1)}>Next →</button> : <button type="button" class="primary" onClick={leaveStory}>Done: explore on your own</button>}
      </footer>
    </article>
  );
}
