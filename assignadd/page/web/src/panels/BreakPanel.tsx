/** Interventions: add one, see what each does to the answer and to the accuracy, take it back, carry it off. */

import { points, percent } from "../draw/format";
import { Panel } from "../draw/Panel";
import { useWidth } from "../draw/width";
import { Term } from "../glossary/Term";
import { refusal } from "../interventions/refusal";
import { describe, toPython } from "../interventions/words";
import { toJson, type Intervention } from "../interventions/specification";
import { render, renderTokens } from "../model/text";
import { scoreOf, type Score } from "../state/exam";
import { setLabel } from "../state/labels";
import { changed, current, model, ownWeights, plain, prompt, snapshot } from "../state/snapshot";
import { canRedo, canUndo, entry, index, intervene, playing, redo, refused, removeIntervention, undo, shown } from "../state/store";
import { Builder } from "./Builder";
import { copy } from "./actions";

export function BreakPanel() {
  const { ref, width } = useWidth<HTMLDivElement>(900);
  const list = shown.interventions.value;
  const at = { model: shown.model.value, step: shown.step.value };
  const before = playing.value ? undefined : scoreOf(at, []);
  const after = list.length && !playing.value ? scoreOf(at, list) : before;
  const numbers = () => ({
    interventions: list,
    answer: { before: plain.value?.answer.prediction, after: current.value?.answer.prediction, truth: plain.value?.answer.truth },
    accuracy: { before, after },
  });
  return (
    <Panel
      id="break"
      title="Break it"
      numbers={before && numbers}
      lead={<>An <Term id="intervention">intervention</Term> removes, replaces or rewires a part. Here is what it does to the answer, and to the accuracy on <Term id="exam">{before?.n ?? 512} prompts</Term> of every kind.</>}
      legend={[
        { colour: "var(--faint)", label: "without interventions (open circle)" },
        { colour: "var(--good)", label: "with them: as good or better" },
        { colour: "var(--bad)", label: "with them: worse" },
      ]}
    >
      <Builder />
      {refused.value && <p class="error-line" role="alert">{refused.value}</p>}
      <ul class="changes" aria-label="Interventions" data-count={list.length}>
        {list.map((one, i) => <Change key={`${i} ${toJson([one])}`} one={one} at={i} before={before} />)}
        {!list.length && <li class="none">Nothing is changed.</li>}
      </ul>
      <div class="controls">
        <button type="button" onClick={undo} disabled={!canUndo.value}>↶ Undo</button>
        <button type="button" onClick={redo} disabled={!canRedo.value}>↷ Redo</button>
        <button type="button" onClick={() => intervene([])} disabled={!list.length}>Clear</button>
        <span class="spring" />
        <button type="button" class="quiet" onClick={() => void copy(toJson(list, 1), "Specification copied")}>Copy JSON</button>
        <button type="button" class="quiet" onClick={() => void copy(python(), "Python copied")}>Copy Python</button>
      </div>
      <div ref={ref} data-before={before && before.right / before.n} data-after={after && after.right / after.n}>
        <p class="verdict-line" role="status">{sentence(before, after)}</p>
        {before && <Dumbbells width={width} before={before} after={after ?? before} />}
      </div>
    </Panel>
  );
}

function python(): string {
  const { run, seed } = entry.value;
  const padding = shown.padding.value;
  const form = typeof padding === "number" ? render : renderTokens; // PADs that no seed puts there need the tokens
  const text = prompt.value ? form(prompt.value.tokens, prompt.value.task) : "";
  return toPython(shown.interventions.value, { run, seed, step: shown.step.value, text, padding: typeof padding === "number" ? padding : 0 });
}

function sentence(before: Score | undefined, after: Score | undefined): string {
  if (!before || !after) return "Counting the right answers.";
  const then = `${percent(after.right / after.n)} of ${after.n} prompts right`;
  return shown.interventions.value.length ? `${then}, ${percent(before.right / before.n)} without interventions.` : `${then}.`;
}

/** A chip: what is changed, and what that alone does. */
function Change({ one, at, before }: { one: Intervention; at: number; before: Score | undefined }) {
  const where = { model: shown.model.value, step: shown.step.value };
  const why = refusal(one, entry.value, index.value.models);
  const made = changed(ownWeights.value, model.value, entry.value.task, [one], where);
  const alone = made && snapshot(made.weights, prompt.value, made.edits);
  const own = plain.value;
  const score = playing.value ? undefined : scoreOf(where, [one]);
  const drop = before && score && score.right / score.n - before.right / before.n;
  return (
    <li class="change" data-answer={alone?.answer.prediction} data-accuracy={score && score.right / score.n}>
      <span class="what">{describe(one)}</span>
      {why && <span class="effect bad">not applied: {why}</span>}
      {!why && alone && own && (
        <span class={`effect ${alone.answer.prediction === own.answer.prediction ? "" : alone.answer.prediction === own.answer.truth ? "good" : "bad"}`} title="The answer with this alone">
          {alone.answer.prediction === own.answer.prediction ? `still ${own.answer.prediction}` : `${own.answer.prediction} → ${alone.answer.prediction}`}
        </span>
      )}
      {!made && <span class="effect">waiting for its weights</span>}
      {!why && <span class={`effect ${drop === undefined ? "" : drop < -0.005 ? "bad" : drop > 0.005 ? "good" : ""}`} title="Accuracy on the 512 prompts with this alone">{drop === undefined ? "…" : points(drop)}</span>}
      <button type="button" class="quiet" aria-label={`Take back: ${describe(one)}`} onClick={() => removeIntervention(at)}>✕</button>
    </li>
  );
}

/** The accuracy on each kind of prompt, before and after. */
function Dumbbells({ width, before, after }: { width: number; before: Score; after: Score }) {
  // On a narrow screen the name of each kind stands above its row, where it has room.
  const narrow = width < 480;
  const left = narrow ? 12 : 230;
  const right = width - 58;
  const row = narrow ? 34 : 20;
  const x = (share: number): number => left + share * (right - left);
  const height = before.bySet.length * row + 42;
  return (
    <svg class="figure" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label="Accuracy on each kind of prompt before and after">
      {[0, 0.25, 0.5, 0.75, 1].map((v) => (
        <g key={v}>
          <line x1={x(v)} x2={x(v)} y1={4} y2={height - 36} class="axis" />
          <text x={x(v)} y={height - 26} class="tick middle">{100 * v} %</text>
        </g>
      ))}
      <text x={(left + right) / 2} y={height - 9} class="tick middle">right answers</text>
      {before.bySet.map((set, i) => {
        const [a, b] = [set.right / set.n, after.bySet[i].right / after.bySet[i].n];
        const y = 4 + (narrow ? (i + 1) * row - 10 : (i + 0.5) * row);
        return (
          <g key={set.name} data-set={set.name} data-before={a} data-after={b}>
            <text x={narrow ? 0 : left - 10} y={narrow ? y - 15 : y} class={narrow ? "tick start above" : "tick end"}>{setLabel(set.name)}<title>{set.name}</title></text>
            <line x1={x(a)} x2={x(b)} y1={y} y2={y} class={`bell ${b < a ? "fell" : "rose"}`} />
            <circle cx={x(a)} cy={y} r={4} class="bell-before" />
            <circle cx={x(b)} cy={y} r={5} class={`bell-after ${b < a ? "fell" : "rose"}`} />
            <text x={right + 10} y={y} class="tick start">{percent(b, 0)}</text>
          </g>
        );
      })}
    </svg>
  );
}
