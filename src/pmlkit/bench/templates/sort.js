// Sort a table by a column: click or press Enter on its heading, again for the other way. Unknown values stay last.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
    const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    const key = (row) => {
      const text = row.cells[head.cellIndex].textContent.trim();
      const number = parseFloat(text.replace(/[,<\s]/g, "").replace("−", "-"));
      return [head.classList.contains("text") ? NaN : number, text];
    };
    const rows = Array.from(body.rows, (row) => [key(row), row]);
    rows.sort(([[a, s]], [[b, t]]) => {
      if (head.classList.contains("text")) return way * s.localeCompare(t, undefined, { numeric: true });
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      return way * (a - b);
    });
    body.append(...rows.map(([, row]) => row));
  });
}
// A print shows everything, also what is folded on the screen.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
