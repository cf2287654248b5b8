"use strict";
// Tables marked data-sortable sort by the header pressed, first up, then down; empty cells stay last either way. Above
// them, a search field and groups of buttons: a row is shown if it has all the words and is in every group pressed.
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
  const filters = [...tools.querySelectorAll(".filters")];
  const groups = rows.map((row) => row.dataset.groups.split("|").map((of_kind) => of_kind.split("; ")));
  const texts = rows.map((row) => `${row.id} ${row.textContent}`.toLowerCase());

  const show = () => {
    const wanted = search.value.toLowerCase().split(/\s+/);
    const pressed = filters.map((filter) => filter.querySelector("[aria-pressed=true]").dataset.show);
    rows.forEach((row, i) => {
      const inGroups = pressed.every((group, kind) => group === "" || groups[i][kind].includes(group));
      row.hidden = !inGroups || !wanted.every((word) => texts[i].includes(word));
    });
    const shown = rows.filter((row) => !row.hidden).length;
    tools.querySelector("[role=status]").textContent = `${shown} of ${rows.length} shown`;
  };

  const press = (filter, button) => {
    for (const other of filter.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
  };

  // A link from elsewhere leads to a row, also to one that is not shown, and opens it.
  const reveal = () => {
    const row = rows.find((one) => `#${one.id}` === decodeURIComponent(location.hash));
    if (!row) return;
    row.querySelector("details").open = true;
    if (row.hidden) {
      search.value = "";
      for (const filter of filters) press(filter, filter.querySelector("button"));
      show();
    }
    row.scrollIntoView();
  };

  search.addEventListener("input", show);
  for (const filter of filters) {
    for (const button of filter.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        press(filter, button);
        show();
      });
    }
  }
  addEventListener("hashchange", reveal);
  reveal();
  tools.hidden = false;
}
