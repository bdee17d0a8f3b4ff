// Many rows at once: those of one label, and labels to add.

import { $, announce, brief, count, make, percent, plural } from "./dom.js";
import { showState } from "./panel.js";
import { ask, key, once } from "./requests.js";

const page = { grid: { label: "", text: "", offset: 0, total: 0, every: false, taken: 0 }, missing: 0 };

export async function showGrid(more = false) {
  const label = $("label-choice").value;
  const text = $("label-search").value.trim();
  if (!more) { page.grid = { label, text, offset: 0, total: 0, every: false, taken: 0 }; $("label-grid").replaceChildren(); everyone(false); }
  const query = new URLSearchParams({ label, text, offset: page.grid.offset });
  const { rows, total, open, most, note } = await ask(`/api/label?${query}`);
  Object.assign(page.grid, { offset: page.grid.offset + rows.length, total, taken: Math.min(open, most) });
  $("label-note").textContent = note;
  $("label-more").hidden = page.grid.offset >= total;
  $("bulk-every").textContent = open > most ? `Select the ${count(most)} least likely` : `Select all ${count(open)} unanswered`;
  $("bulk-every").disabled = open === 0;
  $("label-grid").append(...rows.map((row) => {
    const box = make("input", { type: "checkbox" });
    box.dataset.row = row.row;
    return make("li", { className: row.answer ? "answered" : "" }, make("label", {}, box, `confidence ${percent(row.confidence)}`,
      make("span", { className: row.answer ?? "visually-hidden" }, row.answer ?? "no answer"),
      make("span", { className: "visually-hidden" }, ` · ${row.name}`)), ...brief(row));
  }));
  if (!total) $("label-grid").append(make("li", { className: "empty" }, "No row of this label holds these words."));
  countSelected();
}

const selected = () => [...$("label-grid").querySelectorAll("input:checked")];

// All unanswered rows of the label and the search, also those that are not shown.
function everyone(chosen) {
  page.grid.every = chosen;
  $("bulk-every").setAttribute("aria-pressed", String(chosen));
  for (const box of $("label-grid").querySelectorAll("li:not(.answered) input")) { box.checked = chosen; box.disabled = chosen; }
  countSelected();
}

function countSelected() {
  const number = page.grid.every ? page.grid.taken : selected().length;
  $("bulk-count").textContent = `${count(number)} selected`;
  for (const button of document.querySelectorAll("[data-bulk]")) button.disabled = number === 0;
}

const decideSelected = (answer) => once(async () => {
  const { label, text, every } = page.grid;
  const rows = selected().map((box) => Number(box.dataset.row));
  if (!every && !rows.length) return;
  const { state, n_rows: number } = await ask("/api/bulk", { client: key(), label, answer, ...(every ? { all: true, text } : { rows }) });
  showState(state);
  announce(`${plural(number, "row")}: ${label} ${answer}, saved.`);
  await showGrid();
});

const undoBulk = () => once(async () => {
  const { state, n_undone: number } = await ask("/api/undo", { client: key(), bulk: true });
  showState(state);
  announce(`${plural(number, "answer")} taken back.`);
  await showGrid();
});

function selectShown(chosen) {
  everyone(false);
  for (const box of $("label-grid").querySelectorAll(chosen ? "li:not(.answered) input" : "input")) box.checked = chosen;
  countSelected();
}

export async function showMissing(more = false) {
  if (!more) { page.missing = 0; $("missing-list").replaceChildren(); }
  const { rows, total } = await ask(`/api/missing?offset=${page.missing}`);
  page.missing += rows.length;
  $("missing-more").hidden = page.missing >= total;
  $("missing-list").append(...rows.map((row) => {
    const item = make("li", { className: row.answer ? "answered" : "" },
      make("p", {}, "Add ", make("strong", {}, row.label), make("small", {}, ` ${percent(row.confidence)}`)), ...brief(row));
    const buttons = make("div", { className: "buttons", role: "group" });
    buttons.setAttribute("aria-label", `Does ${row.label} belong to ${row.name}?`);
    for (const [text, answer] of [["Add it", "right"], ["No", "wrong"]]) {
      const button = make("button", { type: "button", className: answer }, text);
      button.setAttribute("aria-pressed", String(row.answer === answer));
      button.addEventListener("click", () => once(async () => {
        const said = button.getAttribute("aria-pressed") === "true" ? null : answer;
        showState((await ask("/api/missing", { client: key(), row: row.row, label: row.label, answer: said })).state);
        for (const other of buttons.children) other.setAttribute("aria-pressed", String(said !== null && other === button));
        item.className = said ? "answered" : "";
        announce(`${row.label} for ${row.name}: ${said ? `${text}, saved` : "taken back"}.`);
      }));
      buttons.append(button);
    }
    item.append(buttons);
    return item;
  }));
  if (!page.missing) $("missing-list").append(make("li", { className: "empty" }, "Nothing to suggest."));
}

// The keys of the cards, for the suggestion that has the focus, or the first open one; the focus then goes on to the next.
export function answerMissing(pressed) {
  const place = { a: 0, x: 1, Backspace: 0 }[pressed];
  const here = document.activeElement.closest("#missing-list li") ?? $("missing-list").querySelector("li:not(.answered)");
  const item = pressed === "Backspace" ? here?.previousElementSibling : here;
  const button = item?.querySelectorAll(".buttons button")[place];
  if (!button) return;
  const given = item.querySelector("[aria-pressed=true]");
  if (pressed === "Backspace") given?.click();
  else if (given !== button) button.click();
  ((pressed === "Backspace" ? button : item.nextElementSibling?.querySelector(".buttons button")) ?? button).focus();
}

export function wireLists(later) {
  for (const button of document.querySelectorAll("[data-bulk]")) button.addEventListener("click", () => decideSelected(button.dataset.bulk));
  $("bulk-all").addEventListener("click", () => selectShown(true));
  $("bulk-every").addEventListener("click", () => everyone(!page.grid.every));
  $("bulk-none").addEventListener("click", () => selectShown(false));
  $("bulk-undo").addEventListener("click", undoBulk);
  $("label-grid").addEventListener("change", countSelected);
  $("label-more").addEventListener("click", () => once(() => showGrid(true)));
  $("label-choice").addEventListener("change", () => once(() => showGrid()));
  $("label-search").addEventListener("input", () => later(() => showGrid()));
  $("missing-more").addEventListener("click", () => once(() => showMissing(true)));
}
