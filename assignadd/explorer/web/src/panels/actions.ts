/** Things that buttons do beyond changing the view. */

import { announcement } from "../state/store";

export function scrollTo(id: string): void {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.getElementById(id)?.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}

export async function copy(text: string, said: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announcement.value = said;
  } catch {
    announcement.value = "The browser did not allow copying";
  }
}
