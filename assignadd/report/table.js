"use strict";
// Tables marked data-sortable sort by the header pressed, first up, then down; empty cells stay last either way. Above
// them, a search field and a button for each verdict: a row is shown if it has all the words and the verdict pressed.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const rows = [...body.rows]; // in the order of the page, which decides between equals
  const headers = [...table.tHead.rows[0].cells];
  const words = new Intl.Collator("en", { numeric: true });

  const compare = (column, numeric) => (one, other) => {
    const [a, b] = [one, other].map((row) => row.cells[column].dataset.sort);
    if (a === "" || b === "") return (a === "") - (b === "");
    return numeric ? a - b : words.compare(a, b);
  };

  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      const order = compare(column, header.dataset.kind === "number");
      const filled = (row) => row.cells[column].dataset.sort !== "";
      const sorted = [...rows].sort((a, b) => (down && filled(a) && filled(b) ? order(b, a) : order(a, b)));
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...sorted);
    });
  });

  const tools = table.closest("[data-table]").querySelector(".tools");
  const search = tools.querySelector("input");
  const buttons = [...tools.querySelectorAll(".filters button")];
  const texts = rows.map((row) => `${row.id} ${row.textContent}`.toLowerCase());

  const show = () => {
    const wanted = search.value.toLowerCase().split(/\s+/);
    const verdict = buttons.find((button) => button.getAttribute("aria-pressed") === "true").dataset.show;
    rows.forEach((row, i) => {
      const hasVerdict = verdict === "" || row.dataset.verdict === verdict;
      row.hidden = !hasVerdict || !wanted.every((word) => texts[i].includes(word));
    });
    const shown = rows.filter((row) => !row.hidden).length;
    tools.querySelector("[role=status]").textContent = `${shown} of ${rows.length} shown`;
  };

  const press = (button) => {
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
  };

  // A link from elsewhere leads to a row, also to one that is not shown, and opens it.
  const reveal = () => {
    const row = rows.find((one) => `#${one.id}` === decodeURIComponent(location.hash));
    if (!row) return;
    row.querySelector("details").open = true;
    if (row.hidden) {
      search.value = "";
      press(buttons[0]);
      show();
    }
    row.scrollIntoView();
  };

  search.addEventListener("input", show);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      press(button);
      show();
    });
  }
  addEventListener("hashchange", reveal);
  reveal();
  tools.hidden = false;
}
