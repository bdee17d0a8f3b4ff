// What the answers buy, the last answers, and learning from them.

import { $, announce, count, make, percent, plural } from "./dom.js";
import { ask, key, once } from "./requests.js";

let refresh = 0;
let shown = { session: null, number: 0 };

export function showState(state) {
  if (state.session === shown.session && state.number < shown.number) return; // overtaken by a newer one
  shown = state;
  const { certificate } = state;
  $("promise").classList.toggle("certified", Boolean(certificate));
  $("may-go").textContent = certificate ? count(certificate.n_removed) : "Nothing";
  $("may-go-text").textContent = certificate ? `label${certificate.n_removed === 1 ? "" : "s"} may go` : "is promised yet";
  $("promise-note").textContent = certificate ? `At least ${percent(certificate.precision)} of them are wrong.` : state.promise;
  $("promise-details").hidden = !certificate;
  $("promise-details").querySelector(".note").textContent = certificate ? state.promise : "";
  $("testing").hidden = state.testing === null;
  $("testing").value = state.testing ?? 0;
  $("test-note").textContent = state.test_note;
  const range = (value, low, high, tell) => (value === null ? [make("small", {}, "after 20 answers")] : [make("span", {}, tell(value)), " ", make("small", {}, `${tell(low)} – ${tell(high)}`)]);
  const whole = (number) => count(Math.round(number));
  const facts = [
    ["Answers", [count(state.answers), ...(state.per_minute ? [" ", make("small", {}, `${count(state.per_minute)} a minute`)] : [])]],
    ["Found wrong", [count(state.found_wrong)]],
    ["Wrong labels", range(state.noise.rate, state.noise.low, state.noise.high, percent)],
    ["Wrong ones left", range(state.left.estimate, state.left.low, state.left.high, whole)],
    ["Agreement", [make("span", {}, state.agreement === null ? "–" : percent(state.agreement)), " ", make("small", {}, "when asked twice")]],
  ];
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...value)]));
  const promised = certificate ? `${plural(certificate.n_removed, "label")} may go` : "nothing promised yet";
  $("mini").replaceChildren(make("b", {}, `${plural(state.answers, "answer")} · ${count(state.found_wrong)} wrong · ${promised}`), make("span", {}, state.next_gain));
  $("next-gain").textContent = state.next_gain;
  $("learn").hidden = !state.can_learn;
  $("learn").disabled = state.learning !== null || state.answers === 0;
  $("learn-progress").hidden = state.learning === null;
  if (state.learning?.share) $("learn-progress").value = state.learning.share;
  else $("learn-progress").removeAttribute("value");
  if (!refresh && (state.learning || state.is_behind)) refresh = setTimeout(refreshState, 500);
  $("learn-note").textContent = state.learning?.text ?? (state.learned || (state.can_learn ? "Renews all confidences; you can go on." : ""));
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
  refresh = 0;
  try { showState((await ask("/api/state")).state); } catch (error) { console.warn(error); refresh = setTimeout(refreshState, 2000); }
}

// Not one after the other with the answers: one that is given meanwhile must not be dropped.
export async function learn() {
  try { showState((await ask("/api/learn", { client: key() })).state); } catch (error) { console.warn(error); }
}

export const send = async (path, body) => showState((await ask(path, { client: key(), ...body })).state);
