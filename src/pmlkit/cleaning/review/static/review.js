// The review page: views, keys and the start; each view has a module of its own.

import { answerCard, flag, isJustShown, nextCard, toggle, undo } from "./card.js";
import { $, count, make } from "./dom.js";
import { answerMissing, showGrid, showMissing, wireLists } from "./lists.js";
import { learn, showState } from "./panel.js";
import { ask, key, once } from "./requests.js";
import { showResults } from "./results.js";

function show(view) {
  for (const button of document.querySelectorAll("nav button")) {
    const is_shown = button.dataset.view === view;
    $(`view-${button.dataset.view}`).hidden = !is_shown;
    if (is_shown) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  const load = { labels: () => showGrid(), missing: () => showMissing(), results: () => showResults() }[view];
  if (load) once(load);
}

function keyPressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  if (event.key === "Escape" && !$("view-cards").hidden) { $("question").focus({ preventScroll: true }); return; }
  if (event.key === "?") { event.preventDefault(); $("help").showModal(); return; }
  if (event.target.closest("input, select, textarea")) return;
  if (!$("view-missing").hidden && ["a", "x", "Backspace"].includes(event.key)) {
    event.preventDefault();
    if (!event.repeat) answerMissing(event.key);
  }
  if ($("view-cards").hidden) return;
  if (event.key === " " && event.target.closest("button, a")) return;
  const action = {
    a: () => answerCard("right"), x: () => answerCard("wrong"), " ": () => answerCard("unsure"), Backspace: undo, f: flag,
  }[event.key] ?? (/^[1-9]$/.test(event.key) ? () => toggle(Number(event.key) - 1) : null);
  if (!action) return;
  event.preventDefault();
  if (!event.repeat) action(); // a key that is held down answers one question, not those that follow
}

async function start() {
  document.addEventListener("keydown", keyPressed);
  for (const button of document.querySelectorAll("[data-answer]")) {
    button.addEventListener("click", (event) => {
      if (event.detail > 1 && isJustShown()) return; // the second click of a double click
      answerCard(button.dataset.answer);
      if (event.detail) $("question").focus({ preventScroll: true }); // by mouse or finger: the keys go on as before
    });
  }
  for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => show(button.dataset.view));
  $("undo").addEventListener("click", undo);
  $("flag").addEventListener("click", flag);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("learn").addEventListener("click", learn);
  $("invite").addEventListener("click", () => once(async () => { $("invite-link").textContent = (await ask("/api/invite", { client: key() })).link; }));
  $("who").addEventListener("change", () => once(async () => { showState((await ask("/api/name", { client: key(), who: $("who").value })).state); }));
  for (const form of ["filters", "label-form"]) $(form).addEventListener("submit", (event) => event.preventDefault());
  let typing = 0;
  const later = (action) => { clearTimeout(typing); typing = setTimeout(() => once(action), 250); };
  $("filters").addEventListener("input", () => later(nextCard));
  $("filters").addEventListener("reset", () => later(nextCard));
  wireLists(later);

  const { labels, room, n_lines, state } = await ask("/api/start");
  if (room) document.body.classList.add(room);
  document.body.style.setProperty("--label-lines", n_lines);
  showState(state);
  $("card").classList.toggle("long-labels", labels.some(({ label }) => label.length > 40));
  for (const select of [$("filter-label"), $("label-choice")]) {
    select.append(...labels.map(({ label, candidates }) => make("option", { value: label }, `${label} (${count(candidates)})`)));
  }
  await once(nextCard);
  $("question").focus({ preventScroll: true });
}

start().catch((error) => { console.error(error); $("question").textContent = "The page could not be loaded: is the server still running?"; });
