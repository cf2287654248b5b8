/** All panels in the order of the story. */

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { dark } from "./draw/colour";
import { Glossary } from "./glossary/Glossary";
import { AttentionPanel } from "./panels/AttentionPanel";
import { BreakPanel } from "./panels/BreakPanel";
import { CircuitPanel } from "./panels/CircuitPanel";
import { ComparePanel } from "./panels/ComparePanel";
import { Intro } from "./panels/Intro";
import { NeuronsPanel } from "./panels/NeuronsPanel";
import { hasPopulation, PopulationPanel } from "./panels/PopulationPanel";
import { PromptBar } from "./panels/PromptBar";
import { StepPanel } from "./panels/StepPanel";
import { Timeline } from "./panels/Timeline";
import { TopBar } from "./panels/TopBar";
import { TrainingPanel } from "./panels/TrainingPanel";
import { followed, WallPanel } from "./panels/WallPanel";
import { WeightsPanel } from "./panels/WeightsPanel";
import { problem } from "./state/models";
import { ownWeights } from "./state/snapshot";
import { comparable, entry, index, redo, shown, trains, undo } from "./state/store";
import { Story } from "./story/Story";

export function App() {
  useTheme();
  useUndoKeys();
  return (
    <div class={trains.value ? "page docked" : "page"}>
      <TopBar />
      {problem.value && <p class="problem" role="alert">{problem.value}. The page needs the files it was written with beside it.</p>}
      {shown.section.value === null ? <Panels /> : <Story />}
      {trains.value && <Timeline />}
      <Glossary />
    </div>
  );
}

/** The answer and the circuit first; the panels below them once these are painted. */
function Panels() {
  const [painted, setPainted] = useState(false);
  const loaded = ownWeights.value !== undefined;
  useEffect(() => setPainted(painted || loaded), [loaded]);
  return (
    <main>
      <Intro />
      <PromptBar />
      <CircuitPanel />
      {painted && <LowerPanels />}
    </main>
  );
}

function LowerPanels() {
  return (
    <>
      <StepPanel />
      <BreakPanel />
      <AttentionPanel />
      <WeightsPanel />
      <NeuronsPanel />
      {trains.value && <TrainingPanel />}
      {(trains.value || comparable(entry.value).length > 1) && <ComparePanel />}
      {followed().length > 0 && <WallPanel />}
      {hasPopulation() && <PopulationPanel />}
      <p class="colophon">
        Everything here is computed in this page from the weights beside it, in half precision. What was found beyond the paper is in the folder <code>findings</code> of
        the source repository. assignadd {index.value.version}.
      </p>
    </>
  );
}

/** Ctrl+Z and Ctrl+Shift+Z for interventions, unless something is being typed. */
function useUndoKeys(): void {
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLInputElement && event.target.type === "text";
      if (typing || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
      event.preventDefault();
      if (event.shiftKey) redo();
      else undo();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

function useTheme(): void {
  const theme = shown.theme.value;
  useLayoutEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = (): void => {
      dark.value = theme === "dark" || (theme === "auto" && system.matches);
      document.documentElement.dataset.theme = dark.value ? "dark" : "light";
    };
    apply();
    system.addEventListener("change", apply);
    return () => system.removeEventListener("change", apply);
  }, [theme]);
}
