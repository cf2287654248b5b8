/** The page: receives its data, takes its state from the address, and draws. */

import { render } from "preact";
import { App } from "./App";
import { receive } from "./data/load";
import { followAddress, index } from "./state/store";
import "./style/base.css";
import "./style/figures.css";
import "./style/layout.css";
import "./style/panels.css";
import "./style/story.css";

void receive().then((data) => {
  const root = document.getElementById("app");
  if (!root) return;
  if (!data) {
    root.textContent = "The files in data/ do not belong to this page: write it again with `assignadd explore`.";
    return;
  }
  index.value = data;
  const { signed } = data.scales;
  const hues = { ...Object.fromEntries(Object.entries(data.palette).map(([name, hue]) => [`palette-${name}`, hue])), repels: signed[1], attracts: signed[7] };
  for (const [name, hue] of Object.entries(hues)) document.documentElement.style.setProperty(`--${name}`, hue);
  followAddress();
  root.textContent = "";
  render(<App />, root);
});
