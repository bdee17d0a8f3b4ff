// One question: the row, its labels, the evidence, and the answer.

import { $, announce, brief, features, make, percent, picture } from "./dom.js";
import { showState } from "./panel.js";
import { ask, key, once, unlessBusy } from "./requests.js";

const page = { card: null, since: 0, toggles: new Map() };

// A question that is asked again looks like the others: who knows it may repeat the answer instead of judging.
const KINDS = {
  audit: "random sample", suspicious: "most suspicious", certificate: "random draw for the promise",
  repeat: "random sample", selection: "your selection",
};

function filters() {
  const chosen = { label: $("filter-label").value, confidence: $("filter-confidence").value, text: $("filter-text").value.trim() };
  return Object.values(chosen).some(Boolean) ? chosen : null;
}

export async function nextCard() {
  const chosen = filters();
  showCard(await ask(`/api/card?${chosen ? new URLSearchParams(chosen) : ""}`));
}

// What has just been saved is told together with the next question: a second text would cut the first one off.
export function showCard(answer, said = "") {
  const { card, state, note } = answer;
  if (state) showState(state);
  $("filter-note").textContent = note ?? "";
  page.card = card;
  page.toggles.clear();
  page.since = performance.now();
  for (const button of document.querySelectorAll("[data-answer], #flag")) button.disabled = !card;
  $("flag").setAttribute("aria-pressed", "false");
  $("card").classList.toggle("nothing", !card);
  if (!card) {
    const done = answer.done ?? "Nothing is left to ask.";
    $("question").replaceChildren(done);
    announce(`${said} ${done}`.trim());
    return;
  }
  $("kind").textContent = KINDS[card.kind] ?? card.kind;
  $("row-name").textContent = card.name;
  $("question").replaceChildren("Is ", make("strong", { title: card.label }, card.label), " right here?");
  $("flag").setAttribute("aria-pressed", String(card.flagged));
  showContent($("row"), card.content);
  $("row").scrollTop = 0;
  $("row").tabIndex = $("row").scrollHeight > $("row").clientHeight ? 0 : -1; // what does not fit is scrolled by keys, too
  showLabels(card);
  showReasons("reasons-for", card.reasons_for, "Nothing found.");
  showReasons("reasons-against", card.reasons_against, "Nothing found.");
  showSimilar("similar-with", card.similar_with);
  showSimilar("similar-without", card.similar_without);
  announce(`${said} ${card.name}: is ${card.label} right?`.trim());
}

function showContent(box, content) {
  box.className = `row-content${content.image ? " picture" : ""}${content.is_large ? " large" : ""}`;
  if (content.image) box.replaceChildren(picture(content.image, content.name));
  else if (content.words) {
    const length = content.words.reduce((sum, [text]) => sum + text.length, 0);
    if (length < 400) box.classList.add("short");
    box.replaceChildren(...content.words.map(([text, side]) => (
      side ? make("mark", { className: side, title: `speaks ${side} the label` }, text) : text)));
  } else box.replaceChildren(features(content.features));
}

function showLabels(card) {
  $("labels-title").textContent = card.labels.length > 1 ? `All ${card.labels.length} labels of this row` : "The only label of this row";
  $("row-labels").replaceChildren(...card.labels.map((entry, position) => {
    const fill = make("span", { className: "fill" });
    fill.style.width = percent(entry.confidence).replace(" ", "");
    const answer = page.toggles.get(entry.label) ?? entry.answer;
    const parts = [
      make("span", { "aria-hidden": "true" }, entry.suspect ? "?" : position < 9 ? String(position + 1) : ""),
      make("span", { className: "name" }, entry.label, entry.suspect ? make("span", { className: "visually-hidden" }, " (asked)") : null),
      make("span", { className: "value" }, answer ?? percent(entry.confidence)),
      make("span", { className: "track", "aria-hidden": "true" }, fill),
    ];
    const item = make("li", { className: `${entry.suspect ? "suspect " : ""}${answer ? `answer-${answer}` : ""}` });
    if (entry.suspect) item.append(...parts);
    else {
      const button = make("button", { type: "button" }, ...parts);
      button.setAttribute("aria-label", `${entry.label}, confidence ${percent(entry.confidence)}, ${answer ?? "no answer"}: change`);
      button.addEventListener("click", () => toggle(position));
      item.append(button);
    }
    return item;
  }));
}

function showReasons(id, reasons, none) {
  $(id).replaceChildren(...(reasons.length ? reasons : [none]).map((text) => make("li", {}, text)));
}

function showSimilar(id, rows) {
  $(id).replaceChildren(...rows.map((row) => make("li", {}, ...brief(row))));
}

export const answerCard = (answer) => unlessBusy(async () => {
  const card = page.card;
  if (!card) return;
  const seconds = (performance.now() - page.since) / 1000;
  const saved = await ask("/api/answer", {
    client: key(), id: card.id, row: card.row, label: card.label, kind: card.kind, answer, seconds, filter: filters(),
  });
  showCard(saved, `${card.label}: ${answer}, saved.`);
});

export const isJustShown = () => performance.now() - page.since < 300;

export const undo = () => unlessBusy(async () => {
  showCard(await ask("/api/undo", { client: key() }), "Taken back.");
});

export const toggle = (position) => unlessBusy(async () => {
  const entry = page.card?.labels[position];
  if (!entry || entry.suspect) return;
  const now = page.toggles.get(entry.label) ?? entry.answer ?? null;
  const next = now === null ? "wrong" : now === "wrong" ? "right" : null;
  const { state } = await ask("/api/toggle", { client: key(), row: page.card.row, label: entry.label, answer: next });
  page.toggles.set(entry.label, next);
  entry.answer = next;
  showState(state);
  showLabels(page.card);
  announce(`${entry.label}: ${next ?? "no answer"}.`);
});

export const flag = () => once(async () => {
  if (!page.card) return;
  const { flagged, state } = await ask("/api/flag", { client: key(), row: page.card.row, label: page.card.label });
  $("flag").setAttribute("aria-pressed", String(flagged));
  showState(state);
  announce(flagged ? "Flagged." : "Flag removed.");
});
