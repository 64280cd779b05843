/* The timeline overview on a canvas: bins of busy time far away, single events close by. Data: render/report/figures.py. */
"use strict";
(() => {
  const AXIS = 24, GAP = 5, MOST_EVENTS = 8000;
  const KINDS = { kernel: "kernels", communication: "communication", copy: "copies", set: "fills" };

  /* Ticks at 1, 2 or 5 times a power of ten. */
  WS.ticks = (from, to, most) => {
    const raw = (to - from) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-9)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || power;
    const out = [];
    for (let t = Math.ceil(from / step) * step; t <= to + step * 1e-9; t += step) out.push(t);
    return { step, out };
  };

  class Timeline {
    constructor(host, data) {
      this.host = host; this.data = data;
      this.levels = this.pyramid();
      const e = data.events;
      this.events = { begin: e.begin, end: e.end, count: e.count, start: WS.unpack(e.start, Float64Array),
        duration: WS.unpack(e.duration, Float32Array), lane: WS.unpack(e.lane, Uint8Array), name: WS.unpack(e.name, Uint8Array) };
      this.longest = this.events.duration.reduce((a, b) => Math.max(a, b), 0);
      this.from = data.begin; this.to = data.end; this.pointer = null;
      this.build();
      this.draw();
      new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
      window.addEventListener("themechange", () => this.draw());
    }

    /* Each level halves the bins: the mean of the busy shares, the name of the busier half. */
    pyramid() {
      const lanes = this.data.lanes.length;
      let bins = this.data.bins;
      let busy = Float32Array.from(WS.unpack(this.data.busy, Uint8Array), (v) => v / 255), name = WS.unpack(this.data.name, Uint8Array);
      const out = [{ bins, busy, name }];
      while (bins > 64) {
        const half = bins / 2, b = new Float32Array(lanes * half), n = new Uint8Array(lanes * half);
        for (let i = 0; i < lanes * half; i++) {
          const at = Math.floor(i / half) * bins + (i % half) * 2;
          b[i] = (busy[at] + busy[at + 1]) / 2;
          n[i] = busy[at] >= busy[at + 1] ? name[at] : name[at + 1];
        }
        out.push({ bins: half, busy: b, name: n });
        bins = half; busy = b; name = n;
      }
      return out;
    }

    build() {
      const button = (text, title, act) => WS.el("button", { type: "button", title, "aria-label": title, onclick: act }, text);
      this.told = WS.el("span", { class: "told", role: "status" });
      this.canvas = WS.el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "timeline",
        "aria-label": `Timeline of ${this.data.lanes.length} rows over ${WS.duration(this.data.end)}. Plus and minus zoom, arrows move, 0 shows all.` });
      const legend = WS.el("ul", { class: "legend" }, ...Object.entries(KINDS).filter(([k]) => this.data.kinds.includes(k))
        .map(([k, text]) => WS.el("li", {}, WS.el("i", { style: `background:var(--${k})` }), text)));
      this.host.classList.add("timeline");
      const bar = WS.el("div", { class: "toolbar" }, button("−", "Zoom out", () => this.zoom(2)), button("+", "Zoom in", () => this.zoom(0.5)),
        button("All", "Show all", () => this.show(this.data.begin, this.data.end)));
      if (this.events.count) bar.append(button("Single events", "Zoom to where single events are shown", () => this.detail()));
      bar.append(this.told);
      this.host.replaceChildren(bar, WS.el("div", {}, this.canvas), legend);
      if (this.data.merged) this.host.append(WS.el("p", { class: "small muted" }, `${this.data.merged} streams that did least have no row of their own; they are in their device's.`));
      this.listen();
    }

    listen() {
      const c = this.canvas;
      c.addEventListener("wheel", (e) => {
        if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); this.pan(e.deltaX / this.room * (this.to - this.from)); return; }
        if (!e.ctrlKey && document.activeElement !== c) return;  // the page scrolls unless the timeline has the focus
        e.preventDefault();
        this.zoom(Math.exp(Math.max(-80, Math.min(80, e.deltaY)) * (e.ctrlKey ? 0.012 : 0.004)), this.timeAt(e));
      }, { passive: false });
      c.addEventListener("pointerdown", (e) => { this.drag = { x: e.clientX, from: this.from, to: this.to }; c.setPointerCapture(e.pointerId); c.focus({ preventScroll: true }); });
      c.addEventListener("pointermove", (e) => {
        if (this.drag) {
          const shift = (this.drag.x - e.clientX) / this.room * (this.drag.to - this.drag.from);
          if (Math.abs(this.drag.x - e.clientX) > 2) { c.classList.add("moving"); WS.tip.hide(); this.show(this.drag.from + shift, this.drag.to + shift); }
        } else this.hover(e);
      });
      for (const end of ["pointerup", "pointercancel"]) c.addEventListener(end, () => { this.drag = null; c.classList.remove("moving"); });
      c.addEventListener("pointerleave", () => { this.pointer = null; WS.tip.hide(); this.draw(); });
      c.addEventListener("dblclick", (e) => this.zoom(0.25, this.timeAt(e)));
      c.addEventListener("keydown", (e) => {
        const width = this.to - this.from;
        const acts = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.show(this.data.begin, this.data.end),
          ArrowLeft: () => this.pan(-width / 5), ArrowRight: () => this.pan(width / 5) };
        if (acts[e.key] && !e.ctrlKey && !e.metaKey) { e.preventDefault(); acts[e.key](); }
      });
    }

    timeAt(event) {
      const x = event.clientX - this.canvas.getBoundingClientRect().left - this.gutter;
      return this.from + Math.max(0, Math.min(1, x / this.room)) * (this.to - this.from);
    }

    show(from, to) {
      const whole = this.data.end - this.data.begin, width = Math.max(Math.min(to - from, whole), Math.min(100, whole));
      this.from = Math.max(this.data.begin, Math.min(from, this.data.end - width));
      this.to = this.from + width;
      this.draw();
    }

    zoom(factor, around) {
      const at = around === undefined ? (this.from + this.to) / 2 : around;
      this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
    }

    pan(by) { this.show(this.from + by, this.to + by); }

    /* A window in which about 60 events of the fullest row lie: their names can be read. */
    detail() {
      const e = this.events, middle = e.start[Math.floor(e.count / 2)], mean = (e.end - e.begin) / e.count;
      this.show(middle, middle + Math.max(mean * Math.min(60, e.count), 200));
    }

    place() {
      const width = Math.max(this.canvas.parentElement.clientWidth, 80);
      this.width = width;
      this.narrow = width < 640;
      this.gutter = this.narrow ? 0 : Math.min(300, Math.round(width * 0.29));
      this.room = width - this.gutter;
      const label = this.narrow ? 16 : 0;
      let y = AXIS;
      this.rows = this.data.lanes.map((lane) => {
        const h = lane.stream === null ? 38 : 24, row = { y: y + label, h, label };
        y += h + GAP + label;
        return row;
      });
      return y;
    }

    draw() {
      const height = this.place(), g = WS.canvas(this.canvas, this.width, height);
      this.font = WS.color("--sans");
      this.paint = {};
      for (const kind of [...Object.keys(KINDS), "ink", "muted", "line", "raised", "accent", "surface"]) this.paint[kind] = WS.color(`--${kind}`);
      this.axis(g, height);
      this.data.lanes.forEach((lane, i) => this.lane(g, lane, i));
      if (this.pointer) {
        g.fillStyle = this.paint.accent;
        g.fillRect(this.pointer.x, AXIS, 1, height - AXIS);
      }
      this.told.textContent = `${WS.duration(this.from)} to ${WS.duration(this.to)} · ${WS.duration(this.to - this.from)} shown`;
    }

    x(t) { return this.gutter + (t - this.from) / (this.to - this.from) * this.room; }

    axis(g, height) {
      const { step, out } = WS.ticks(this.from, this.to, this.room / 110);
      // the unit of the times, not of the step, as long as four digits tell neighbours apart
      const unit = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([s]) => (this.to >= s * 0.999 && step >= s * 1e-4) || s === 1);
      const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
      g.font = `11px ${this.font}`;
      g.textBaseline = "middle";
      for (const t of out) {
        const x = Math.round(this.x(t));
        g.fillStyle = this.paint.line;
        g.fillRect(x, AXIS - 5, 1, height - AXIS + 5);
        const text = `${(t / unit[0]).toLocaleString("en-US", { minimumFractionDigits: Math.min(digits, 6), maximumFractionDigits: Math.min(digits, 6) })} ${unit[1]}`;
        const w = g.measureText(text).width;
        g.fillStyle = this.paint.muted;
        g.fillText(text, Math.max(this.gutter, Math.min(x - w / 2, this.width - w - 1)), 10);
      }
    }

    lane(g, lane, i) {
      const row = this.rows[i], device = lane.stream === null;
      g.font = `${device ? 600 : 400} 12px ${this.font}`;
      const share = WS.percent(lane.busy, this.data.end - this.data.begin);
      const space = this.narrow ? this.width - 70 : this.gutter - 54, indent = device ? 0 : 12;
      let text = lane.label;
      while (text.length > 4 && g.measureText(text).width > space - indent) text = WS.shorten(lane.label, text.length - 2);
      const middle = this.narrow ? row.y - 8 : row.y + row.h / 2;
      g.fillStyle = device ? this.paint.ink : this.paint.muted;
      g.fillText(text, indent, middle);
      g.font = `11px ${this.font}`;
      g.textAlign = "right";
      g.fillStyle = this.paint.muted;
      g.fillText(share, this.narrow ? this.width : this.gutter - 10, middle);
      g.textAlign = "left";
      g.fillStyle = this.paint.raised;
      g.fillRect(this.gutter, row.y, this.room, row.h);
      g.save();
      g.beginPath();
      g.rect(this.gutter, row.y, this.room, row.h);
      g.clip();
      const inside = this.visible();
      const [a, b] = inside ? [Math.max(this.from, this.events.begin), Math.min(this.to, this.events.end)] : [this.to, this.to];
      this.bins(g, i, row, this.from, a);
      this.bins(g, i, row, b, this.to);
      if (b > a) this.singles(g, i, row, inside, a, b);
      g.restore();
    }

    /* Whether an event stands in a row: a device's row shows those of all its streams. */
    has(i, k) {
      const lane = this.data.lanes[i], e = this.events;
      return e.lane[k] === i || (lane.stream === null && this.data.lanes[e.lane[k]].device === lane.device);
    }

    /* A device with rows for its streams shows their work without names: they stand there. */
    only(lane) { return !this.data.lanes.some((l) => l.device === lane.device && l.stream !== null); }

    /* Range of events in view, null where there are none or too many to tell apart. */
    visible() {
      const e = this.events;
      if (!e.count || this.to <= e.begin || this.from >= e.end) return null;
      const find = (t) => { let lo = 0, hi = e.count; while (lo < hi) { const m = (lo + hi) >> 1; if (e.start[m] < t) lo = m + 1; else hi = m; } return lo; };
      const range = [find(this.from - this.longest), find(this.to)];
      const busy = range[1] - range[0];
      return busy <= MOST_EVENTS && busy <= this.room * 4 ? range : null;
    }

    bins(g, i, row, from, to) {
      if (to <= from) return;
      const whole = this.data.end - this.data.begin, pixel = (this.to - this.from) / this.room;
      let level = 0;
      while (level + 1 < this.levels.length && whole / this.levels[level].bins < pixel) level++;
      const { bins, busy, name } = this.levels[level], width = whole / bins;
      const first = Math.max(0, Math.floor((from - this.data.begin) / width)), last = Math.min(bins, Math.ceil((to - this.data.begin) / width));
      for (let b = first; b < last; b++) {
        const share = busy[i * bins + b];
        if (!share) continue;
        const x = this.x(Math.max(this.data.begin + b * width, from)), end = this.x(Math.min(this.data.begin + (b + 1) * width, to));
        const h = Math.max(1, row.h * share);
        g.fillStyle = this.paint[this.data.kinds[name[i * bins + b]]];
        const left = Math.round(x);  // whole pixels: neighbours meet without a seam
        g.fillRect(left, row.y + row.h - h, Math.max(Math.round(end) - left, 1), h);
      }
    }

    singles(g, i, row, [first, last], from, to) {
      const e = this.events, lane = this.data.lanes[i], named = lane.stream !== null || this.only(lane);
      g.font = `11px ${this.font}`;
      for (let k = first; k < last; k++) {
        if (!this.has(i, k) || e.start[k] + e.duration[k] < from || e.start[k] > to) continue;
        const x = this.x(e.start[k]), w = Math.max(e.duration[k] / (this.to - this.from) * this.room, 0.7);
        g.fillStyle = this.paint[this.data.kinds[e.name[k]]];
        g.fillRect(x, row.y + 2, Math.max(w - (w > 4 ? 1 : 0), 0.7), row.h - 4);
        if (w > 34 && named) {
          const left = Math.max(x, this.gutter), space = Math.min(x + w, this.width) - left - 8;
          let text = WS.shorten(this.data.names[e.name[k]], Math.max(Math.floor(space / 5.6), 0));
          while (text.length > 2 && g.measureText(text).width > space) text = WS.shorten(this.data.names[e.name[k]], text.length - 1);
          g.fillStyle = document.documentElement.dataset.theme === "dark" ? "#0c1014" : "#ffffff";
          if (text.length > 2) g.fillText(text, left + 4, row.y + row.h / 2);
        }
      }
    }

    hover(event) {
      const r = this.canvas.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top;
      const i = this.rows.findIndex((row) => y >= row.y - row.label && y < row.y + row.h + GAP);
      if (i < 0 || x < this.gutter) { this.pointer = null; WS.tip.hide(); this.draw(); return; }
      this.pointer = { x };
      this.draw();
      const t = this.timeAt(event), lane = this.data.lanes[i], found = this.eventAt(t, i);
      if (found >= 0) {
        const e = this.events;
        WS.tip.show(event, WS.el("b", {}, this.data.names[e.name[found]]), WS.el("br"),
          WS.el("small", {}, `${WS.duration(e.duration[found])} from ${WS.duration(e.start[found])} · ${lane.label}`));
        return;
      }
      const { bins, busy, name } = this.levels[0], whole = this.data.end - this.data.begin;
      const pixel = Math.max((this.to - this.from) / this.room, whole / bins);
      const first = Math.floor((t - this.data.begin) / whole * bins), last = Math.min(bins, Math.max(first + 1, Math.ceil((t + pixel - this.data.begin) / whole * bins)));
      let sum = 0, best = first;
      for (let b = first; b < last; b++) { sum += busy[i * bins + b]; if (busy[i * bins + b] > busy[i * bins + best]) best = b; }
      const share = sum / Math.max(last - first, 1);
      WS.tip.show(event, WS.el("b", {}, share ? this.data.names[name[i * bins + best]] : "idle"), WS.el("br"),
        WS.el("small", {}, `${WS.percent(share, 1)} busy at ${WS.duration(t)} · ${lane.label}`));
    }

    eventAt(t, lane) {
      const range = this.visible(), e = this.events;
      if (!range || t < e.begin || t > e.end) return -1;
      for (let k = range[1] - 1; k >= range[0]; k--)
        if (this.has(lane, k) && e.start[k] <= t && t <= e.start[k] + e.duration[k]) return k;
      return -1;
    }
  }

  WS.Timeline = Timeline;
})();
