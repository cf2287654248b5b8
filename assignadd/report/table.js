"use strict";
// Tables marked data-sortable sort by the header pressed, first up, then down; empty cells stay last either way.
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

  const filters = table.closest("[data-table]").querySelector(".filters");
  const buttons = filters ? [...filters.querySelectorAll("button")] : [];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      for (const row of rows) row.hidden = button.dataset.show !== "" && row.dataset.group !== button.dataset.show;
    });
  }
  if (filters) filters.hidden = false;
}
