/** All panels in the order of the story. */

import { useEffect } from "preact/hooks";
import { dark } from "./draw/colour";
import { AnswerPanel } from "./panels/AnswerPanel";
import { AttentionPanel } from "./panels/AttentionPanel";
import { PromptBar } from "./panels/PromptBar";
import { Timeline } from "./panels/Timeline";
import { TopBar } from "./panels/TopBar";
import { problem } from "./state/models";
import { view } from "./state/store";

export function App() {
  useTheme();
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
      </main>
      <Timeline />
    </>
  );
}

function useTheme(): void {
  const { theme } = view.value;
  useEffect(() => {
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
