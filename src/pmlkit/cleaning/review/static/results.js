// What to take along, and what to look at in the end.

import { showCard } from "./card.js";
import { $, count, make } from "./dom.js";
import { send } from "./panel.js";
import { ask, once } from "./requests.js";

function act(text, name, className, action) {
  const button = make("button", { type: "button", className: `${className} small` }, text);
  button.setAttribute("aria-label", `${text}: ${name}`);
  button.addEventListener("click", () => once(async () => { await action(); await showResults(); }));
  return button;
}

function showLines(id, lines, none, actions) {
  $(`n-${id}`).textContent = lines.length ? count(lines.length) : "";
  $(id).replaceChildren(...(lines.length ? lines.map((line) => make("li", {},
    make("span", { className: "what" }, make("b", {}, line.label), ` ${line.name}`, make("small", {}, line.answers ? ` ${line.answers}` : "")),
    make("span", { className: "acts" }, ...actions(line, `${line.label} of ${line.name}`)))) : [make("li", { className: "note" }, none)]));
}

export async function showResults() {
  const results = await ask("/api/results");
  $("who").value = results.who;
  $("downloads").replaceChildren(...results.downloads.map(({ href, text }) => make("li", {}, make("a", { href, download: "" }, text))));
  const cell = ({ row, label }) => ({ row, label });
  const look = (line, name) => {
    const button = make("button", { type: "button", className: "quiet small" }, "Look");
    button.setAttribute("aria-label", `Look: ${name}`);
    button.addEventListener("click", () => { document.querySelector("nav button[data-view=cards]").click(); once(async () => { showCard(await ask(`/api/card?${new URLSearchParams(cell(line))}`)); $("question").focus(); }); });
    return button;
  };
  const settle = (line, name) => [look(line, name), ...[["Right", "right"], ["Wrong", "wrong"]].map(([text, answer]) => act(text, name, answer, () => send("/api/settle", { ...cell(line), answer })))];
  showLines("flagged", results.flagged, "None. Flag a question with f to come back to it here.",
    (line, name) => [...settle(line, name), act("Unflag", name, "quiet", () => send("/api/flag", cell(line)))]);
  showLines("disagreements", results.disagreements, "None: all answers to the same question agree.", settle);
  showLines("to-add", results.to_add, "None yet. The view To add lists what may be missing.",
    (line, name) => [act("Take back", name, "quiet", () => send("/api/missing", { ...cell(line), answer: null }))]);
  $("n-to-add").textContent = results.n_to_add ? count(results.n_to_add) : "";
  $("n-names").textContent = results.names.length ? count(results.names.length) : "";
  $("names").replaceChildren(...(results.names.length ? results.names.map(({ one, other, why, into, is_apart }) => {
    const from = into === other ? one : other;
    const told = into ? [make("b", {}, from), " is written as ", make("b", {}, into)] : [make("b", {}, one), " and ", make("b", {}, other)];
    const acts = make("span", { className: "acts" });
    const item = make("li", {}, make("span", { className: "what" }, ...told, make("small", {}, is_apart ? " kept apart" : ` ${why}`)), acts);
    if (into) acts.append(act("Take back", from, "quiet", () => send("/api/merge", { label: from, into, answer: null })));
    else if (is_apart) acts.append(act("Take back", `${one} and ${other}`, "quiet", async () => {
      for (const [label, last] of [[one, other], [other, one]]) await send("/api/merge", { label, into: last, answer: null });
    }));
    else {
      acts.append(...[[other, one], [one, other]].map(([label, last]) => act(`Call both ${last}`, `${one} and ${other}`, "quiet", () => send("/api/merge", { label, into: last, answer: "right" }))),
        act("Keep apart", `${one} and ${other}`, "quiet", () => send("/api/merge", { label: one, into: other, answer: "wrong" })));
    }
    return item;
  }) : [make("li", { className: "note" }, "None.")]));
  $("n-rare").textContent = results.n_rare ? count(results.n_rare) : "";
  $("rare").textContent = results.rare || "None.";
}
