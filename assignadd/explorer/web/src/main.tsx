/** The page: receives its data, takes its state from the address, and draws. */

import { render } from "preact";
import { App } from "./App";
import { receive } from "./data/load";
import { followAddress, index } from "./state/store";
import "./style/base.css";
import "./style/figures.css";
import "./style/layout.css";
import "./style/panels.css";

/** What the data files look like; those of another format were written for another page. */
const FORMAT = 1;

void receive().then((data) => {
  const root = document.getElementById("app");
  if (!root) return;
  if (data.format !== FORMAT || !data.models.length) {
    root.textContent = "The files in data/ do not belong to this page: write it again with `assignadd explore`.";
    return;
  }
  index.value = data;
  followAddress();
  root.textContent = "";
  render(<App />, root);
});
