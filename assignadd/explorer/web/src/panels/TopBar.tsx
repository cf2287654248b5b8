/** The head of the page: what is shown, where to, and in which light. */

import { copy, scrollTo } from "./actions";
import { announcement, change, entry, index, shown } from "../state/store";
import { model } from "../state/snapshot";
import type { Theme } from "../state/view";

const SECTIONS = [["ask", "Ask"], ["break", "Break it"], ["weights", "Weights"], ["neurons", "Neurons"], ["training", "Training"], ["compare", "Compare"], ["wall", "Seeds"]] as const;
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export function TopBar() {
  const changes = shown.interventions.value.length;
  return (
    <header class="top">
      <a class="brand" href="#" onClick={(e) => jump(e, "ask")}>
        <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><circle cx="12" cy="12" r="10.5" class="brand-ring" /><path d="M12 3v9l6 4" class="brand-hand" /></svg>
        <span>Assign <em>&amp;</em> Add</span>
      </a>
      <nav aria-label="Panels">
        {SECTIONS.map(([id, name]) => (
          <a key={id} href={`#${id}`} onClick={(e) => jump(e, id)}>
            {name}
            {id === "break" && changes > 0 && <span class="count">{changes}</span>}
          </a>
        ))}
      </nav>
      <div class="top-tools">
        <SeedPicker />
        <button type="button" class="primary" aria-pressed={shown.card.value !== null} onClick={() => change({ card: shown.card.value === null ? 0 : null })}>Tour</button>
        <button type="button" class="quiet" onClick={() => void copy(location.href, "Link copied")} title="Copy a link to exactly this view">Link</button>
        <button type="button" class="quiet" aria-label={`Colours: ${shown.theme.value}`} title={`Colours: ${shown.theme.value}`} onClick={() => change({ theme: THEMES[(THEMES.indexOf(shown.theme.value) + 1) % 3] })}>
          {shown.theme.value === "auto" ? "◐" : shown.theme.value === "light" ? "☀" : "☾"}
        </button>
      </div>
      <p class="sr" role="status">{announcement.value}</p>
    </header>
  );
}

function SeedPicker() {
  const { models } = index.value;
  const runs = [...new Set(models.map((m) => m.run))];
  return (
    <label class="picker" data-ready={model.value ? "yes" : "no"}>
      <span class="sr">Model</span>
      <span class={`dot ${entry.value.binds ? "good" : "bad"}`} aria-hidden="true" />
      <select value={shown.model.value} onChange={(e) => pickModel(e.currentTarget.value)}>
        {runs.map((run) => (
          <optgroup key={run} label={run}>
            {models.filter((m) => m.run === run).map((m) => (
              <option key={m.key} value={m.key}>seed {m.seed}{m.binds ? "" : " · never binds"}</option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

/** Another model, at the same step or the nearest it has; at the end when this one is at its end. */
export function pickModel(key: string): void {
  const next = index.value.models.find((m) => m.key === key);
  const atEnd = shown.step.value === entry.value.steps.at(-1);
  const sameTask = JSON.stringify(next?.task) === JSON.stringify(entry.value.task);
  change({ model: key, step: atEnd ? (next?.steps.at(-1) ?? 0) : shown.step.value, ...(sameTask ? {} : { text: "", padding: 0 }) });
}

function jump(event: Event, id: string): void {
  event.preventDefault();
  scrollTo(id);
}
