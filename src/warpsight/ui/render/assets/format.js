/* Numbers for people, the same forms as the command line's; small DOM tools. */
"use strict";
const WS = window.WS || (window.WS = {});
WS.digits = (v) => { const a = Math.abs(v); return a < 9.995 ? v.toFixed(2) : a < 99.95 ? v.toFixed(1) : v.toFixed(0); };
WS.count = (v) => Math.round(v).toLocaleString("en-US");
WS.duration = (ns) => {
  const a = Math.abs(ns);
  if (a >= 3600e9) return `${Math.trunc(ns / 3600e9)} h ${String(Math.trunc(a % 3600e9 / 60e9)).padStart(2, "0")} min`;
  for (const [least, scale, unit] of [[1e9, 1e9, "s"], [1e6, 1e6, "ms"], [1e3, 1e3, "µs"]])
    if (a >= least * 0.9995) return `${WS.digits(ns / scale)} ${unit}`;
  return `${Math.round(ns)} ns`;
};
/* A moment as `--from` and `--until` take it: seconds since the start of the trace, with digits enough for a resolution (ns). */
WS.moment = (ns, resolution = 1) => {
  const digits = Math.max(0, Math.min(9, 9 - Math.floor(Math.log10(Math.max(resolution, 1)) + 1e-9)));
  const step = 10 ** (9 - digits), whole = Math.round(ns / step), sign = whole < 0 ? "-" : "";
  const text = String(Math.abs(whole)).padStart(digits + 1, "0");
  return `${sign}${digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text}s`;
};
/* The reverse, in ns; also of other units. */
WS.parseMoment = (text) => {
  const found = /^(-?\d+)(?:\.(\d+))?(ns|us|µs|ms|s)?$/.exec(text || "");
  if (!found) return null;
  const scale = { ns: 0, us: 3, "µs": 3, ms: 6, s: 9 }[found[3] || "s"];
  const sign = found[1].startsWith("-") ? -1 : 1;
  return Math.round(Number(`${found[1]}${(found[2] || "").slice(0, scale).padEnd(scale, "0")}`)) || (sign < 0 ? -0 : 0);
};
WS.size = (b) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(b) >= 1023.5 && i < units.length - 1) { b /= 1024; i++; }
  return i ? `${WS.digits(b)} ${units[i]}` : `${Math.round(b)} B`;
};
WS.rate = (b) => {
  for (const [scale, unit] of [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"]])
    if (Math.abs(b) >= scale) return `${WS.digits(b / scale)} ${unit}`;
  return `${Math.round(b)} B/s`;
};
WS.amount = (v, unit) => unit === "ns" ? WS.duration(v) : unit === "B" || unit === "byte" ? WS.size(v) : unit === "B/s" ? WS.rate(v)
  : unit === "%" ? `${v && Math.abs(v) < 0.095 ? Math.abs(v) < 0.001 ? v.toExponential(1) : +v.toPrecision(2) : v.toFixed(1)}%` : Number.isInteger(v) ? WS.count(v) + (unit ? ` ${unit}` : "")
  : `${Math.abs(v) >= 1000 ? WS.count(Math.round(v)) : +v.toPrecision(4)}${unit ? ` ${unit}` : ""}`;
/* A mark of an axis, where a long unit (instruction, gpc_cycle) has no room: 4.05M. */
WS.axis = (v, unit) => (unit || "").length > 4 || unit === "" ? v.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 })
  : WS.amount(unit === "%" ? +v.toPrecision(3) : v, unit);
WS.percent = (part, whole) => whole ? `${(100 * part / whole).toFixed(part / whole < 0.0995 ? 2 : 1)}%` : "–";
WS.shorten = (text, most) => {
  if (text.length <= most) return text;
  if (most < 5) return text.slice(0, Math.max(most, 0));
  const head = Math.floor((most - 1) * 3 / 5);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
};
WS.el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes))
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
WS.color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
WS.mix = (from, to, share) => {
  const parse = (c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16));
  const a = parse(from), b = parse(to);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(",")})`;
};
/* Typed arrays travel as base64 of little-endian bytes. */
WS.unpack = (text, type) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new type(bytes.buffer);
};
WS.canvas = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
};
WS.tip = (() => {
  let box = null;
  return {
    show(event, ...content) {
      box = box || document.body.appendChild(WS.el("div", { class: "tip", role: "tooltip" }));
      box.replaceChildren(...content);
      box.hidden = false;
      const w = box.offsetWidth, h = box.offsetHeight, x = event.clientX + 14, y = event.clientY + 16;
      box.style.left = `${Math.max(8, Math.min(x, innerWidth - w - 8))}px`;
      box.style.top = `${y + h > innerHeight - 8 ? Math.max(8, event.clientY - h - 12) : y}px`;
    },
    hide() { if (box) box.hidden = true; },
  };
})();
/* Light, dark, or what the system says; whoever draws on a canvas listens to "themechange". */
WS.theme = (() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("warpsight-theme"); } catch { /* pages from a file may have no storage */ }
  const apply = () => {
    document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) {
      const dark = document.documentElement.dataset.theme === "dark";
      button.textContent = dark ? "☀ Light" : "☾ Dark";
      button.setAttribute("aria-label", dark ? "Change to light colours" : "Change to dark colours");
    }
    window.dispatchEvent(new Event("themechange"));
  };
  system.addEventListener("change", apply);
  apply();
  return {
    apply,
    /* Back to what the system says. */
    follow() {
      chosen = null;
      try { localStorage.removeItem("warpsight-theme"); } catch { /* as above */ }
      apply();
    },
    toggle() {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("warpsight-theme", chosen); } catch { /* as above */ }
      apply();
    },
  };
})();
/* The library that a frame belongs to, as far as its file says. */
WS.library = (text) => {
  const file = /\(([^()]*)\)$/.exec(text), path = (file ? file[1] : text).replace(/^.*(site|dist)-packages\//, "").replace(/^.*lib\/python[\d.]*\//, "");
  const found = /^<?([A-Za-z_]\w*)(?=[/.>])/.exec(path);
  return !found ? "library" : ["string", "frozen", "built"].includes(found[1]) ? "Python" : found[1];
};
