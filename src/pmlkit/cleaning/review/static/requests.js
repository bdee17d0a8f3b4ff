// Talking to the server: an answer is sent until the server says that it is stored.

import { $ } from "./dom.js";

let nBusy = 0;
let last = Promise.resolve();

export const key = () => `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export async function ask(path, body) {
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

// One request after the other. An answer that is given while another one is on its way is dropped: it would be about a card
// that nobody has seen yet.
export function once(action) {
  countBusy(1);
  last = last.then(action).catch((error) => console.warn(error)).finally(() => countBusy(-1));
  return last;
}

function countBusy(change) {
  nBusy += change;
  $("card").setAttribute("aria-busy", String(nBusy > 0));
}

export const unlessBusy = (action) => (nBusy ? undefined : once(action));
