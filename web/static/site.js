// Keys for those who want them, and the search of a static copy of the site. Every page is whole without this file.
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (what) => [...document.querySelectorAll(what)];
  const make = (tag, attributes = {}, ...inside) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };

  // Keys. They can be switched off, and mean nothing while someone types.
  let stored;
  try { stored = localStorage; } catch { stored = {}; }  // refused by some browsers' settings
  let on = stored.keys !== "off";
  const KEYS = [["/", "go to the search box"], ["j, k", "next, previous row"], ["y", "pin this page to its run"], ["?", "show these keys"]];
  const rows = () => all("main tbody th a, main ul.list a");
  const step = (by) => {
    const found = rows();
    const at = found.indexOf(document.activeElement);
    found[Math.min(found.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
  };
  const pin = () => {
    if (!root.dataset.run || root.dataset.packed) return;
    const address = new URL(location.href);
    address.searchParams.set("run", root.dataset.run);
    location.assign(address);
  };
  const help = () => {
    const list = make("dl", { class: "facts" });
    for (const [key, says] of KEYS) list.append(make("dt", {}, make("kbd", {}, key)), make("dd", {}, says));
    const close = make("button", {}, "Close");
    const box = make("dialog", { "aria-label": "Keys" }, make("h2", {}, "Keys"), list, close);
    close.onclick = () => box.close();
    box.onclose = () => box.remove();
    document.body.append(box);
    box.showModal();
  };
  const ACTS = { "/": () => all("input[type=search]").at(-1)?.focus(), j: () => step(1), k: () => step(-1), y: pin, "?": help };
  addEventListener("keydown", (event) => {
    if (!on || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest?.("input, textarea, select, dialog, [contenteditable]")) return;
    if (!Object.hasOwn(ACTS, event.key)) return;
    event.preventDefault();
    ACTS[event.key]();
  });
  const toggle = make("button", { type: "button", class: "keys" });
  const say = () => { toggle.textContent = `Keys / j k y ? are ${on ? "on" : "off"}`; toggle.setAttribute("aria-pressed", on); };
  toggle.onclick = () => { on = !on; stored.keys = on ? "on" : "off"; say(); };
  say();
  all(".foot .wrap")[0]?.append(toggle);

  // The search of a static copy: what the server does with ?q= and the filters, from one file of all cells.
  if (!root.dataset.packed) return;
  const base = root.dataset.base;
  const asked = new URLSearchParams(location.search);
  const here = location.pathname.slice(base.length).replace(/\/$/, "") || "/";
  const PREFIX = /^(torch\.nn\.functional|nn\.functional|torch\.tensor|torch\.ops|torch\.nn|tensor|torch|nn|f)\./;
  const plain = (word) => word.replace(/^['"`,;]+|['"`,;]+$/g, "").split("(")[0].replace("::", ".").toLowerCase()
    .replace(PREFIX, "").replace(/^(linalg|fft|special)\./, "$1_").replace(/\.+$/, "");
  const read = (text, packed) => {
    const found = /\b[a-z_]\w*::\w+(\.\w+)?/i.exec(text);
    const words = (found ? found[0] : text).split(/\s+/).map(plain).filter(Boolean);
    const joined = words.join("_");
    return { words, joined, packets: packed.aliases[joined] ?? [] };
  };
  const bare = (text) => text.replace(/^_+|_+$/g, "");
  const rank = (name, is) => {
    const lower = name.toLowerCase();
    const packet = lower.slice(0, lower.lastIndexOf("."));
    const base = packet.slice(packet.lastIndexOf(".") + 1);
    const initials = base.split("_").map((word) => word[0] ?? "").join("");
    return [
      [lower, lower.slice(packet.length - base.length)].includes(is.joined),
      [packet, base].includes(is.joined) || is.packets.includes(packet),
      bare(is.joined) && bare(is.joined) === bare(base),
      is.joined.length > 2 && is.joined === initials,
      base.startsWith(is.joined),
      lower.includes(is.joined),
      lower.replaceAll("_", "").includes(is.joined.replaceAll("_", "")),
      is.words.every((word) => lower.includes(word)),
    ].findIndex(Boolean);
  };
  const opLink = (op) => make("a", { href: `${base}/op/${op.name}` }, op.name);
  const FACETS = ["status", "dtype", "family", "tier", "tag", "kind"];
  const terms = (packed) => {
    const want = Object.fromEntries(FACETS.map((key) => [key, (asked.getAll(key).join(",")).split(",").filter(Boolean)]));
    const words = [];
    for (const term of (asked.get("q") ?? "").split(/\s+/)) {
      const [, key, value] = /^(\w+):([^:].*)$/.exec(term) ?? [];
      if (FACETS.includes(key)) want[key].push(...value.split(","));
      else words.push(term);
    }
    want.status = want.status.map((one) => packed.statuses[one.toLowerCase()] ?? one.toUpperCase());
    return { want, words: words.join(" ").trim() };
  };
  const search = (packed) => {
    const text = (missing ? decodeURIComponent(here.slice(4)) : asked.get("q") ?? "").trim();
    if (!text) return;
    const is = read(text, packed);
    const hits = packed.ops.map((op) => ({ op, fit: rank(op.name, is) })).filter(({ fit }) => fit >= 0)
      .sort((a, b) => a.fit - b.fit || !!a.op.excluded - !!b.op.excluded || a.op.name.length - b.op.name.length || (a.op.name < b.op.name ? -1 : 1));
    const exact = hits.filter(({ fit }) => fit <= 1);
    const functional = exact.filter(({ op }) => op.kind === "functional");
    const only = exact.length === 1 ? exact[0] : functional.length === 1 ? functional[0] : null;
    if (only) return location.replace(`${base}/op/${only.op.name}`);
    const list = make("ul", { class: "list" }, ...hits.slice(0, 50).map(({ op }) => make("li", {}, opLink(op), ` ${op.family}, ${op.kind}`)));
    all("main")[0].replaceChildren(make("h1", {}, hits.length ? `${hits.length} overloads found` : "Nothing found"), make("p", { class: "quiet" }, `For “${text.slice(0, 200)}”.`), list);
    return undefined;
  };
  const matrix = (packed) => {
    if (![...asked.keys()].length) return;
    const { want, words } = terms(packed);
    const is = read(words, packed);
    const columns = packed.dtypes.filter((dtype) => !want.dtype.length || want.dtype.includes(dtype));
    const has = (values, key) => !want[key].length || want[key].some((value) => values.includes(value));
    const letter = (op, dtype) => op.letters[packed.dtypes.indexOf(dtype)] ?? "–";
    const hits = packed.ops.filter((op) => {
      const fit = is.joined ? rank(op.name, is) : 8;
      return fit >= 0 && (!op.excluded || fit <= 1) && has([op.family], "family") && has([op.tier], "tier")
        && has([op.kind], "kind") && has(op.tags, "tag") && has(columns.map((dtype) => letter(op, dtype)), "status");
    });
    const page = Math.max(1, +asked.get("page") || 1);
    const cell = (op, dtype) => {
      const is = letter(op, dtype);
      return make("td", { class: `s s${packed.css[is]}` }, make("a", { href: `${base}/op/${op.name}#${dtype}`, "aria-label": `${dtype}: ${is}, ${packed.labels[is]}` }, is));
    };
    const body = hits.slice((page - 1) * 100, page * 100).map((op) => make("tr", {}, make("th", { scope: "row" }, opLink(op)), ...columns.map((dtype) => cell(op, dtype))));
    const head = make("tr", {}, ...["Overload", ...columns].map((name) => make("th", { scope: "col" }, name)));
    const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
    const turn = (to, text) => { const other = new URLSearchParams(asked); other.set("page", to); return make("a", { href: `?${other}` }, text); };
    const pages = Math.ceil(hits.length / 100);
    const turns = make("nav", { class: "pages", "aria-label": "Pages" }, page > 1 ? turn(page - 1, "← Previous 100") : "", page < pages ? turn(page + 1, "Next 100 →") : "");
    const told = [...FACETS.flatMap((key) => want[key].map((value) => `${key}: ${value}`)), words].filter(Boolean).join(" · ");
    (all(".shown")[0] ?? all("main")[0]).replaceChildren(
      make("p", { class: "small" }, make("strong", {}, String(hits.length)), ` overloads${told ? ` for ${told}` : ""}. `, make("a", { href: `${base}/ops` }, "Remove all filters")),
      make("div", { class: "box grid", tabindex: "0", role: "region", "aria-label": "Matrix of overloads and dtypes" }, table), turns);
  };
  const missing = "missing" in root.dataset;  // the page that a host shows for an address that it does not have
  const act = here === "/ops" ? matrix : here === "/search" || (missing && here.startsWith("/op/")) ? search : null;
  if (act) fetch(root.dataset.packed).then((answer) => answer.json()).then(act);
})();
