// Small helpers: every text from the server is put in as text, never as markup.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);
export const count = (number) => Number(number).toLocaleString("en");
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const announce = (text) => { $("announce").textContent = text; };

export function features(rows) {
  return make("dl", { className: "features" }, ...rows.map(([name, value, side]) => (
    make("div", side ? { className: side, title: `speaks ${side} the label` } : { className: value.length > 30 ? "long" : "" }, make("dt", { title: name }, name),
      make("dd", {}, value, side ? make("span", { className: "visually-hidden" }, ` (${side})`) : null)))));
}

// A tiny picture is drawn with its pixels, a photo is not.
export function picture(src, name, lazy = false) {
  const image = make("img", { alt: `Picture of ${name}`, loading: lazy ? "lazy" : "eager", decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 128));
  image.src = src;
  return image;
}

export function brief(row) {
  const labelled = `${row.name}: ${row.labels.join(", ") || "no label"}`;
  return [
    row.image ? picture(row.image, row.name, true) : row.features ? features(row.features) : make("p", { className: "text" }, row.text),
    make("p", { className: "caption", title: labelled }, labelled),
  ];
}
