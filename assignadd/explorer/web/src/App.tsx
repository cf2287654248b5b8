/** All panels in the order of the story. */

import { useLayoutEffect } from "preact/hooks";
import { dark } from "./draw/colour";
import { AnswerPanel } from "./panels/AnswerPanel";
import { AttentionPanel } from "./panels/AttentionPanel";
import { BreakPanel } from "./panels/BreakPanel";
import { ComparePanel } from "./panels/ComparePanel";
import { NeuronsPanel } from "./panels/NeuronsPanel";
import { PromptBar } from "./panels/PromptBar";
import { Timeline } from "./panels/Timeline";
import { TopBar } from "./panels/TopBar";
import { TrainingPanel } from "./panels/TrainingPanel";
import { WallPanel } from "./panels/WallPanel";
import { WeightsPanel } from "./panels/WeightsPanel";
import { problem } from "./state/models";
import { index, redo, shown, undo } from "./state/store";
import { Tour } from "./tour/Tour";

export function App() {
  useTheme();
  useUndoKeys();
  return (
    <>
      <TopBar />
      <main>
        {problem.value && <p class="problem" role="alert">{problem.value}. The page needs the files it was written with beside it.</p>}
        <PromptBar />
        <div class="pair wide-left">
          <AttentionPanel />
          <AnswerPanel />
        </div>
        <BreakPanel />
        <WeightsPanel />
        <NeuronsPanel />
        <TrainingPanel />
        <ComparePanel />
        <WallPanel />
        <p class="colophon">
          Everything here is computed in this page from the weights beside it, in half precision. assignadd {index.value.version}.
        </p>
      </main>
      <Tour />
      <Timeline />
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
