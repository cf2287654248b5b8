/** Things that buttons do beyond changing the view. */

import { announcement } from "../state/store";

/** To a panel, or to the top. */
export function scrollTo(id: string): void {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const behavior = calm ? "auto" : "smooth";
  if (id === "top") scroll({ top: 0, behavior });
  else document.getElementById(id)?.scrollIntoView({ behavior, block: "start" });
}

export async function copy(text: string, said: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announcement.value = said;
  } catch {
    announcement.value = "The browser did not allow copying";
  }
}
