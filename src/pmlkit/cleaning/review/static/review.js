// The review page: shows what the server sends as text (never as markup) and sends answers back.

const $ = (id) => document.getElementById(id);
const page = { card: null, since: 0, busy: 0, last: Promise.resolve(), toggles: new Map(), grid: { label: "", text: "", offset: 0, total: 0, open: 0 }, missing: 0 };

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
  $("card").classList.toggle("nothing", !card);
  if (!card) {
    $("question").replaceChildren(answer.done ?? "Nothing is left to ask.");
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
  box.className = `row-content${content.image ? " picture" : ""}${content.is_large ? " large" : ""}`;
  if (content.image) box.replaceChildren(picture(content.image, content.name));
  else if (content.words) {
    const length = content.words.reduce((sum, [text]) => sum + text.length, 0);
    if (length < 400) box.classList.add("short");
    box.replaceChildren(...content.words.map(([text, side]) => (
      side ? make("mark", { className: side, title: `speaks ${side} the label` }, text) : text)));
  } else box.replaceChildren(features(content.features));
}

function features(rows) {
  return make("dl", { className: "features" }, ...rows.map(([name, value, side]) => (
    make("div", side ? { className: side, title: `speaks ${side} the label` } : { className: value.length > 30 ? "long" : "" }, make("dt", { title: name }, name),
      make("dd", {}, value, side ? make("span", { className: "visually-hidden" }, ` (${side})`) : null)))));
}

// A tiny picture is drawn with its pixels, a photo is not.
function picture(src, name, lazy = false) {
  const image = make("img", { alt: `Picture of ${name}`, loading: lazy ? "lazy" : "eager", decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 128));
  image.src = src;
  return image;
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
    row.image ? picture(row.image, row.name, true) : row.features ? features(row.features) : make("p", { className: "text" }, row.text),
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
  const { certificate } = state;
  $("promise").classList.toggle("certified", Boolean(certificate));
  $("may-go").textContent = certificate ? count(certificate.n_removed) : "Nothing";
  $("may-go-text").textContent = certificate ? `label${certificate.n_removed === 1 ? "" : "s"} may go` : "is promised yet";
  $("promise-note").textContent = certificate ? `At least ${percent(certificate.precision)} of them are wrong.` : state.promise;
  $("promise-details").hidden = !certificate;
  $("promise-details").querySelector(".note").textContent = certificate ? state.promise : "";
  $("testing").hidden = state.testing === null;
  $("testing").value = state.testing ?? 0;
  const range = (value, low, high, tell) => (value === null ? [make("small", {}, "after 20 answers")] : [tell(value), make("small", {}, ` ${tell(low)} – ${tell(high)}`)]);
  const whole = (number) => count(Math.round(number));
  const facts = [
    ["Answers", [count(state.answers), state.per_minute ? make("small", {}, ` ${count(state.per_minute)} a minute`) : ""]],
    ["Found wrong", [count(state.found_wrong)]],
    ["Wrong labels", range(state.noise.rate, state.noise.low, state.noise.high, percent)],
    ["Wrong ones left", range(state.left.estimate, state.left.low, state.left.high, whole)],
    ["Agreement", [state.agreement === null ? "–" : percent(state.agreement)]],
  ];
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...value)]));
  $("mini").textContent = `${plural(state.answers, "answer")} · ${count(state.found_wrong)} wrong · ${state.certificate ? `${count(state.certificate.n_removed)} labels may go` : "nothing promised yet"}`;
  $("next-gain").textContent = state.next_gain;
  $("learn").hidden = !state.can_learn;
  $("learn").disabled = state.learning !== null || state.answers === 0;
  $("learn-progress").hidden = state.learning === null;
  if (state.learning?.share) $("learn-progress").value = state.learning.share;
  else $("learn-progress").removeAttribute("value");
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
    return make("li", { className: entry.answer }, make("span", { className: "what", title: `${entry.label} · ${entry.name} · ${entry.who}` },
      make("b", {}, entry.label), make("small", {}, ` ${entry.name}`)), choice);
  }));
  if (!state.recent.length) $("recent").replaceChildren(make("li", { className: "note" }, "None yet. Change any of the last ten here."));
}

async function refreshState() {
  try { showState((await ask("/api/state")).state); } catch (error) { console.warn(error); }
}

// Not one after the other with the answers: one that is given meanwhile must not be dropped.
async function learn() {
  try { showState((await ask("/api/learn", { client: key() })).state); } catch (error) { console.warn(error); }
}

// ---- labels: many rows of one label at once ----

async function showGrid(more = false) {
  const label = $("label-choice").value;
  const text = $("label-search").value.trim();
  if (!more) { page.grid = { label, text, offset: 0, total: 0, open: 0 }; $("label-grid").replaceChildren(); everyone(false); }
  const query = new URLSearchParams({ label, text, offset: page.grid.offset });
  const { rows, total, open, note } = await ask(`/api/label?${query}`);
  Object.assign(page.grid, { offset: page.grid.offset + rows.length, total, open });
  $("label-note").textContent = note;
  $("label-more").hidden = page.grid.offset >= total;
  $("bulk-every").textContent = `Select all ${count(open)} unanswered`;
  $("bulk-every").disabled = open === 0;
  $("label-grid").append(...rows.map((row) => {
    const box = make("input", { type: "checkbox" });
    box.dataset.row = row.row;
    return make("li", { className: row.answer ? "answered" : "" }, make("label", {}, box, percent(row.confidence),
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
  const number = page.grid.every ? page.grid.open : selected().length;
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

// ---- labels to add ----

async function showMissing(more = false) {
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

// ---- results ----

function act(text, name, className, action) {
  const button = make("button", { type: "button", className: `${className} small` }, text);
  button.setAttribute("aria-label", `${text}: ${name}`);
  button.addEventListener("click", () => once(async () => { await action(); await showResults(); }));
  return button;
}

const send = async (path, body) => showState((await ask(path, { client: key(), ...body })).state);

function showLines(id, lines, none, actions) {
  $(`n-${id}`).textContent = lines.length ? count(lines.length) : "";
  $(id).replaceChildren(...(lines.length ? lines.map((line) => make("li", {},
    make("span", { className: "what" }, make("b", {}, line.label), ` ${line.name}`, make("small", {}, line.answers ? ` ${line.answers}` : "")),
    ...actions(line, `${line.label} of ${line.name}`))) : [make("li", { className: "note" }, none)]));
}

async function showResults() {
  const results = await ask("/api/results");
  $("who").value = results.who;
  $("downloads").replaceChildren(...results.downloads.map(({ href, text }) => make("li", {}, make("a", { href, download: "" }, text))));
  const cell = ({ row, label }) => ({ row, label });
  const look = (line, name) => {
    const button = make("button", { type: "button", className: "quiet small" }, "Look");
    button.setAttribute("aria-label", `Look: ${name}`);
    button.addEventListener("click", () => { show("cards"); once(async () => { showCard(await ask(`/api/card?${new URLSearchParams(cell(line))}`)); $("question").focus(); }); });
    return button;
  };
  const settle = (line, name) => [look(line, name), ...["right", "wrong"].map((answer) => act(answer, name, answer, () => send("/api/settle", { ...cell(line), answer })))];
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
    const item = make("li", {}, make("span", { className: "what" }, ...told, make("small", {}, is_apart ? " kept apart" : ` ${why}`)));
    if (into) item.append(act("Take back", from, "quiet", () => send("/api/merge", { label: from, into, answer: null })));
    else if (is_apart) item.append(act("Take back", `${one} and ${other}`, "quiet", async () => {
      for (const [label, last] of [[one, other], [other, one]]) await send("/api/merge", { label, into: last, answer: null });
    }));
    else {
      item.append(...[[other, one], [one, other]].map(([label, last]) => act(`Call both ${last}`, `${one} and ${other}`, "quiet", () => send("/api/merge", { label, into: last, answer: "right" }))),
        act("Keep apart", `${one} and ${other}`, "quiet", () => send("/api/merge", { label: one, into: other, answer: "wrong" })));
    }
    return item;
  }) : [make("li", { className: "note" }, "None.")]));
  $("n-rare").textContent = results.n_rare ? count(results.n_rare) : "";
  $("rare").textContent = results.rare || "None.";
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
  if (event.key === "Escape" && !$("view-cards").hidden) { $("question").focus({ preventScroll: true }); return; }
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
  for (const button of document.querySelectorAll("[data-answer]")) {
    button.addEventListener("click", (event) => {
      answerCard(button.dataset.answer);
      if (event.detail) $("question").focus({ preventScroll: true }); // by mouse or finger: the keys go on as before
    });
  }
  for (const button of document.querySelectorAll("[data-bulk]")) button.addEventListener("click", () => decideSelected(button.dataset.bulk));
  for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => show(button.dataset.view));
  $("undo").addEventListener("click", undo);
  $("flag").addEventListener("click", flag);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("learn").addEventListener("click", learn);
  $("bulk-all").addEventListener("click", () => { everyone(false); for (const box of $("label-grid").querySelectorAll("li:not(.answered) input")) box.checked = true; countSelected(); });
  $("bulk-every").addEventListener("click", () => everyone(!page.grid.every));
  $("bulk-none").addEventListener("click", () => { everyone(false); for (const box of selected()) box.checked = false; countSelected(); });
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
