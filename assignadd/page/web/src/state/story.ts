/** Into the story and back: what was shown before it comes back after it. */

import { change, view } from "./store";
import type { View } from "./view";

let before: View | null = null;

/** From its beginning: the first section brings its own prompt. */
export function enterStory(): void {
  before = view.value;
  change({ section: 0, text: "" });
}

export function leaveStory(): void {
  change({ ...(before && { ...before, theme: view.value.theme }), section: null });
  before = null;
  // When the button is there again.
  setTimeout(() => document.getElementById("story-button")?.focus());
}
