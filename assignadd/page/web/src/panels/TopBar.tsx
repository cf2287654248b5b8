/** The head of the page: what is shown, where to, and in which light. */

import { opened } from "../glossary/Term";
import { model } from "../state/snapshot";
import { announcement, change, comparable, entry, index, shown, trains } from "../state/store";
import { enterStory, leaveStory } from "../state/story";
import type { Theme } from "../state/view";
import { copy, pickModel, scrollTo } from "./actions";
import { hasPopulation } from "./PopulationPanel";
import { followed } from "./WallPanel";

const THEMES: readonly Theme[] = ["auto", "light", "dark"];

/** The panels that this page has, by id and name. */
function sections(): (readonly [string, string])[] {
  return [
    ["circuit", "Circuit"], ["break", "Break it"], ["attention", "Attention"], ["weights", "Weights"], ["neurons", "Neurons"],
    ...(trains.value ? [["training", "Training"] as const] : []),
    ...(comparable(entry.value).length > 1 || trains.value ? [["compare", "Compare"] as const] : []),
    ...(followed().length ? [["wall", "Seeds"] as const] : []),
    ...(hasPopulation() ? [["population", "Many seeds"] as const] : []),
  ];
}

export function TopBar() {
  const changes = shown.interventions.value.length;
  const inStory = shown.section.value !== null;
  return (
    <header class="top">
      <a class="brand" href="#ask" aria-label="Assign & Add: to the top" onClick={(e) => jump(e, "top")}>
        <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><circle cx="12" cy="12" r="10.5" class="brand-ring" /><path d="M12 3v9l6 4" class="brand-hand" /></svg>
        <span>Assign <em>&amp;</em> Add</span>
      </a>
      {inStory ? <span class="spring" /> : (
        <nav aria-label="Panels">
          {sections().map(([id, name]) => (
            <a key={id} href={`#${id}`} onClick={(e) => jump(e, id)}>
              {name}
              {id === "break" && changes > 0 && <span class="count">{changes}</span>}
            </a>
          ))}
        </nav>
      )}
      <div class="top-tools">
        {!inStory && <SeedPicker />}
        <button type="button" id="story-button" class="primary" aria-pressed={inStory} onClick={() => (inStory ? leaveStory() : enterStory())}>{inStory ? "Leave the story" : "Read the story"}</button>
        <button type="button" class="quiet" onClick={() => (opened.value = "all")}>Words</button>
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
      <span class="sr">Network</span>
      <span class={`dot ${entry.value.binds ? "good" : "bad"}`} aria-hidden="true" />
      <select value={shown.model.value} onChange={(e) => pickModel(e.currentTarget.value)}>
        {runs.map((run) => (
          <optgroup key={run} label={run}>
            {models.filter((m) => m.run === run).map((m) => (
              <option key={m.key} value={m.key}>seed {m.seed}{m.binds ? "" : " · does not bind"}</option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

function jump(event: Event, id: string): void {
  event.preventDefault();
  scrollTo(id);
}
