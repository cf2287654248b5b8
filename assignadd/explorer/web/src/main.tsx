/** The page: receives its data, takes its state from the address, and draws. */

import { render } from "preact";
import { App } from "./App";
import { receive } from "./data/load";
import { followAddress, index } from "./state/store";
import "./style/base.css";
import "./style/figures.css";
import "./style/layout.css";
import "./style/panels.css";

void receive().then((data) => {
  index.value = data;
  followAddress();
  const root = document.getElementById("app");
  if (root) {
    root.textContent = "";
    render(<App />, root);
  }
});
