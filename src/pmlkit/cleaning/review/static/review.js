// The review page: shows what the server sends as text (never as markup) and sends answers back.

const $ = (id) => document.getElementById(id);
const page = { card: null, since: 0, busy: 0, last: Promise.resolve(), toggles: new Map(), grid: { label: "", offset: 0 }, missing: 0 };

function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);
const count = (number) => Number(number).toLocaleString("en");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const key = () => `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// ---- talking to the server: an answer is sent until the server says that it is stored ----

async function ask(path, body) {
  for (let attempt = 0; ; attempt += 1) {
    let response;
    try {
      response = await fetch(path, body === undefined ? {} : {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
      });
    } catch {
      notice("The server does not answer. Your last answer is kept here and sent again …");
      await pause(Math.min(4000, 300 * 2 ** attempt));
      continue;
    }
    if (response.status === 429 || response.status === 503) { await pause(500); continue; }
    if (response.ok) { notice(""); return response.json(); }
    const text = (await response.text()).trim();
    notice(response.status === 401 ? "This browser is not signed in: open the address that the server printed." : text);
    throw new Error(text);
  }
}

function notice(text) {
  $("offline").textContent = text;
  $("offline").hidden = !text;
}

const announce = (text) => { $("announce").textContent = text; };

// ---- the card ----

const KINDS = {
  audit: "random sample", suspicious: "most suspicious", certificate: "random draw for the promise",
  repeat: "asked again", selection: "your selection",
};

function filters() {
  const chosen = { label: $("filter-label").value, confidence: $("filter-confidence").value, text: $("filter-text").value.trim() };
  return Object.values(chosen).some(Boolean) ? chosen : null;
}

async function nextCard() {
  const chosen = filters();
  showCard(await ask(`/api/card?${chosen ? new URLSearchParams(chosen) : ""}`));
}

function showCard(answer) {
  const { card, state, note } = answer;
  if (state) showState(state);
  $("filter-note").textContent = note ?? "";
  page.card = card;
  page.toggles.clear();
  page.since = performance.now();
  $("card").setAttribute("aria-busy", "false");
  for (const button of document.querySelectorAll("[data-answer], #flag")) button.disabled = !card;
  $("flag").setAttribute("aria-pressed", "false");
  if (!card) {
    $("question").replaceChildren(answer.done ?? "Nothing is left to ask.");
    for (const id of ["row", "row-labels", "reasons-for", "reasons-against", "similar-with", "similar-without"]) $(id).replaceChildren();
    $("kind").textContent = "done";
    $("row-name").textContent = "";
    return;
  }
  $("kind").textContent = KINDS[card.kind] ?? card.kind;
  $("row-name").textContent = card.name;
  $("question").replaceChildren("Is ", make("strong", {}, card.label), " right here?");
  $("flag").setAttribute("aria-pressed", String(card.flagged));
  showContent($("row"), card.content);
  $("row").scrollTop = 0;
  showLabels(card);
  showReasons("reasons-for", card.reasons_for, "Nothing found.");
  showReasons("reasons-against", card.reasons_against, "Nothing found.");
  showSimilar("similar-with", card.similar_with);
  showSimilar("similar-without", card.similar_without);
  announce(`${card.name}: is ${card.label} right?`);
}

function showContent(box, content) {
  box.className = content.image ? "row-content picture" : "row-content";
  if (content.image) box.replaceChildren(make("img", { src: content.image, alt: `Picture of ${content.name}` }));
  else if (content.words) {
    box.replaceChildren(...content.words.map(([text, side]) => (
      side ? make("mark", { className: side, title: `speaks ${side} the label` }, text) : text)));
  } else {
    box.replaceChildren(make("dl", { className: "features" }, ...content.features.map(([name, value]) => (
      make("div", {}, make("dt", { title: name }, name), make("dd", {}, value))))));
  }
}

function showLabels(card) {
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

function brief(row) {
  return [
    row.image ? make("img", { src: row.image, alt: `Picture of ${row.name}`, loading: "lazy" }) : make("p", { className: "text" }, row.text),
    make("p", { className: "caption" }, `${row.name}: ${row.labels.join(", ") || "no label"}`),
  ];
}

// One request after the other. An answer that is given while another one is on its way is dropped: it would be about a card
// that nobody has seen yet.
function once(action) {
  page.busy += 1;
  page.last = page.last.then(action).catch((error) => console.warn(error)).finally(() => { page.busy -= 1; });
  return page.last;
}

const unlessBusy = (action) => (page.busy ? undefined : once(action));

const answerCard = (answer) => unlessBusy(async () => {
  const card = page.card;
  if (!card) return;
  const seconds = (performance.now() - page.since) / 1000;
  const saved = await ask("/api/answer", {
    client: key(), id: card.id, row: card.row, label: card.label, kind: card.kind, answer, seconds, filter: filters(),
  });
  announce(`${card.label}: ${answer}, saved.`);
  showCard(saved);
});

const undo = () => unlessBusy(async () => {
  showCard(await ask("/api/undo", { client: key() }));
  announce("Taken back.");
});

const toggle = (position) => unlessBusy(async () => {
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

const flag = () => once(async () => {
  if (!page.card) return;
  const { flagged, state } = await ask("/api/flag", { client: key(), row: page.card.row, label: page.card.label });
  $("flag").setAttribute("aria-pressed", String(flagged));
  showState(state);
  announce(flagged ? "Flagged." : "Flag removed.");
});

// ---- what the answers buy ----

function showState(state) {
  page.state = state;
  $("promise").className = state.certificate ? "promise certified" : "promise";
  const may_go = state.certificate && `${plural(state.certificate.n_removed, "label")} may go: at least ${percent(state.certificate.precision)} wrong.`;
  $("promise").replaceChildren(...(may_go ? [make("strong", {}, may_go), make("span", { className: "note" }, state.promise)] : [state.promise]));
  const facts = [
    ["Answers", `${count(state.answers)}${state.per_minute ? ` (${state.per_minute} a minute)` : ""}`],
    ["Found wrong", count(state.found_wrong)],
    ["Wrong labels", `${percent(state.noise.rate)} (${percent(state.noise.low)} to ${percent(state.noise.high)})`],
    ["Wrong ones left", state.left.estimate === null ? "–" : `${count(Math.round(state.left.estimate))} (${count(Math.round(state.left.low))} to ${count(Math.round(state.left.high))})`],
    ["May go", state.certificate ? count(state.certificate.n_removed) : "none yet"],
    ["Agreement", state.agreement === null ? "–" : percent(state.agreement)],
  ];
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  $("mini").textContent = `${plural(state.answers, "answer")} · ${count(state.found_wrong)} wrong · ${state.certificate ? `${count(state.certificate.n_removed)} labels may go` : "nothing promised yet"}`;
  $("next-gain").textContent = state.next_gain;
  $("learn").disabled = state.learning !== null;
  $("learn-progress").hidden = state.learning === null;
  if (state.learning) $("learn-progress").value = state.learning.share;
  clearTimeout(page.refresh);
  if (state.learning || state.is_behind) page.refresh = setTimeout(refreshState, 500);
  $("learn-note").textContent = state.learning?.text ?? state.learned ?? "";
  $("recent").replaceChildren(...state.recent.map((entry) => {
    const choice = make("select", {}, ...["right", "wrong", "unsure"].map((value) => make("option", { value, selected: value === entry.answer }, value)));
    choice.setAttribute("aria-label", `Answer for ${entry.label} of ${entry.name}`);
    choice.addEventListener("change", () => once(async () => {
      showState((await ask("/api/change", { client: key(), seq: entry.seq, answer: choice.value })).state);
      announce("Changed.");
    }));
    return make("li", {}, make("span", { className: "what", title: `${entry.label} · ${entry.name} · ${entry.who}` },
      make("b", { className: entry.answer }, entry.label), ` · ${entry.name}`), choice);
  }));
}

async function refreshState() {
  try { showState((await ask("/api/state")).state); } catch (error) { console.warn(error); }
}

// ---- labels: many rows of one label at once ----

async function showGrid(more = false) {
  const label = $("label-choice").value;
  if (!more) { page.grid = { label, offset: 0 }; $("label-grid").replaceChildren(); }
  const query = new URLSearchParams({ label, text: $("label-search").value.trim(), offset: page.grid.offset });
  const { rows, total, note } = await ask(`/api/label?${query}`);
  page.grid.offset += rows.length;
  $("label-note").textContent = note;
  $("label-more").hidden = page.grid.offset >= total;
  $("label-grid").append(...rows.map((row) => {
    const box = make("input", { type: "checkbox" });
    box.dataset.row = row.row;
    return make("li", { className: row.answer ? "answered" : "" }, make("label", {}, box, `${percent(row.confidence)} · ${row.answer ?? "no answer"}`), ...brief(row));
  }));
  countSelected();
}

const selected = () => [...$("label-grid").querySelectorAll("input:checked")];

function countSelected() {
  const number = selected().length;
  $("bulk-count").textContent = `${count(number)} selected`;
  for (const button of document.querySelectorAll("[data-bulk]")) button.disabled = number === 0;
}

const decideSelected = (answer) => once(async () => {
  const rows = selected().map((box) => Number(box.dataset.row));
  if (!rows.length) return;
  const { state } = await ask("/api/bulk", { client: key(), label: page.grid.label, rows, answer });
  showState(state);
  announce(`${plural(rows.length, "row")}: ${page.grid.label} ${answer}, saved.`);
  await showGrid();
});

const undoBulk = () => once(async () => {
  const { state, n_undone: number } = await ask("/api/undo", { client: key(), bulk: true });
  showState(state);
  announce(`${plural(number, "answer")} taken back.`);
  await showGrid();
});

// ---- labels to add ----

async function showMissing(more = false) {
  if (!more) { page.missing = 0; $("missing-list").replaceChildren(); }
  const { rows, total } = await ask(`/api/missing?offset=${page.missing}`);
  page.missing += rows.length;
  $("missing-more").hidden = page.missing >= total;
  $("missing-list").append(...rows.map((row) => {
    const item = make("li", {}, make("p", {}, "Add ", make("strong", {}, row.label), ` (${percent(row.confidence)})?`), ...brief(row));
    const buttons = make("div", { className: "buttons", role: "group" });
    buttons.setAttribute("aria-label", `Does ${row.label} belong to ${row.name}?`);
    for (const [text, answer] of [["Add it", "right"], ["No", "wrong"]]) {
      const button = make("button", { type: "button", className: answer }, text);
      button.setAttribute("aria-pressed", String(row.answer === answer));
      button.addEventListener("click", () => once(async () => {
        showState((await ask("/api/missing", { client: key(), row: row.row, label: row.label, answer })).state);
        for (const other of buttons.children) other.setAttribute("aria-pressed", String(other === button));
        item.className = "answered";
        announce(`${row.label} for ${row.name}: ${text}, saved.`);
      }));
      buttons.append(button);
    }
    item.append(buttons);
    return item;
  }));
  if (!page.missing) $("missing-list").append(make("li", {}, "Nothing to suggest."));
}

// ---- results ----

async function showResults() {
  const results = await ask("/api/results");
  $("who").value = results.who;
  $("downloads").replaceChildren(...results.downloads.map(({ href, text }) => make("li", {}, make("a", { href, download: "" }, text))));
  const none = (text) => [make("li", { className: "note" }, text)];
  $("disagreements").replaceChildren(...(results.disagreements.length ? results.disagreements.map((entry) => {
    const item = make("li", {}, make("span", {}, make("b", {}, entry.label), ` · ${entry.name}: ${entry.answers.join(", ")}`));
    for (const answer of ["right", "wrong"]) {
      const button = make("button", { type: "button", className: answer }, answer);
      button.addEventListener("click", () => once(async () => {
        showState((await ask("/api/settle", { client: key(), row: entry.row, label: entry.label, answer })).state);
        await showResults();
      }));
      item.append(button);
    }
    return item;
  }) : none("None: all answers to the same question agree.")));
  $("similar-names").replaceChildren(...(results.similar_names.length
    ? results.similar_names.map(([one, other, why]) => make("li", {}, make("b", {}, one), " and ", make("b", {}, other), make("span", { className: "note" }, why)))
    : none("None.")));
  $("rare").textContent = results.rare;
}

// ---- wiring ----

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
  if (event.key === "?") { event.preventDefault(); $("help").showModal(); return; }
  if ($("view-cards").hidden || event.target.closest("input, select, textarea")) return;
  if (event.key === " " && event.target.closest("button, a")) return;
  const action = {
    a: () => answerCard("right"), x: () => answerCard("wrong"), " ": () => answerCard("unsure"), Backspace: undo, f: flag,
  }[event.key] ?? (/^[1-9]$/.test(event.key) ? () => toggle(Number(event.key) - 1) : null);
  if (action) { event.preventDefault(); action(); }
}

async function start() {
  document.addEventListener("keydown", keyPressed);
  for (const button of document.querySelectorAll("[data-answer]")) button.addEventListener("click", () => answerCard(button.dataset.answer));
  for (const button of document.querySelectorAll("[data-bulk]")) button.addEventListener("click", () => decideSelected(button.dataset.bulk));
  for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => show(button.dataset.view));
  $("undo").addEventListener("click", undo);
  $("flag").addEventListener("click", flag);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("learn").addEventListener("click", () => once(async () => showState((await ask("/api/learn", { client: key() })).state)));
  $("bulk-all").addEventListener("click", () => { for (const box of $("label-grid").querySelectorAll("input")) box.checked = true; countSelected(); });
  $("bulk-none").addEventListener("click", () => { for (const box of selected()) box.checked = false; countSelected(); });
  $("bulk-undo").addEventListener("click", undoBulk);
  $("label-grid").addEventListener("change", countSelected);
  $("label-more").addEventListener("click", () => once(() => showGrid(true)));
  $("label-choice").addEventListener("change", () => once(() => showGrid()));
  $("missing-more").addEventListener("click", () => once(() => showMissing(true)));
  $("invite").addEventListener("click", () => once(async () => { $("invite-link").textContent = (await ask("/api/invite", { client: key() })).link; }));
  $("who").addEventListener("change", () => once(async () => { showState((await ask("/api/name", { client: key(), who: $("who").value })).state); }));
  for (const form of ["filters", "label-form"]) $(form).addEventListener("submit", (event) => event.preventDefault());
  let typing = 0;
  const later = (action) => { clearTimeout(typing); typing = setTimeout(() => once(action), 250); };
  $("filters").addEventListener("input", () => later(nextCard));
  $("filters").addEventListener("reset", () => later(nextCard));
  $("label-search").addEventListener("input", () => later(() => showGrid()));

  const { labels, state } = await ask("/api/start");
  showState(state);
  for (const select of [$("filter-label"), $("label-choice")]) {
    select.append(...labels.map(({ label, candidates }) => make("option", { value: label }, `${label} (${count(candidates)})`)));
  }
  await once(nextCard);
  $("question").focus({ preventScroll: true });
}

start().catch((error) => { console.error(error); $("question").textContent = "The page could not be loaded: is the server still running?"; });
