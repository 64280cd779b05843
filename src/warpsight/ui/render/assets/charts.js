/* Lines of memory and counters, bars of iterations. Data: render/report/figures.py. */
"use strict";
(() => {
  const HEIGHT = 130, LEFT = 64, BOTTOM = 20, TOP = 8;
  const watch = (chart) => {
    chart.draw();
    new ResizeObserver(() => chart.draw()).observe(chart.canvas.parentElement);
    window.addEventListener("themechange", () => chart.draw());
  };
  const frame = (title, note) => {
    const canvas = WS.el("canvas", { role: "img" }), told = WS.el("span", {}, note);
    return { canvas, told, figure: WS.el("figure", { class: "chart" }, WS.el("figcaption", {}, WS.el("b", {}, title), told), WS.el("div", {}, canvas)) };
  };

  class Line {
    constructor(host, data, span, color, several) {
      Object.assign(this, { data, span, color });
      this.time = WS.unpack(data.time, Float64Array);
      this.value = WS.unpack(data.value, Float32Array);
      this.low = data.low ? WS.unpack(data.low, Float32Array) : this.value;
      this.high = data.high ? WS.unpack(data.high, Float32Array) : this.value;
      this.most = this.high.reduce((a, b) => Math.max(a, b), 0);
      this.least = Math.min(0, this.low.reduce((a, b) => Math.min(a, b), 0));
      this.flat = this.low.every((v) => v === this.most);
      const mean = this.value.reduce((a, b) => a + b, 0) / this.value.length;
      const peak = `peak ${WS.amount(this.most, data.unit)}`;
      this.note = data.step ? `${peak} · ${WS.amount(this.value[this.value.length - 1], data.unit)} at the end` : `mean ${WS.amount(mean, data.unit)} · ${peak}`;
      const title = this.title = (data.step ? `${data.name} memory` : data.name) + (data.device === null || !several ? "" : ` · device ${data.device}`);
      Object.assign(this, frame(title, this.note));
      this.canvas.setAttribute("aria-label", `${title}: ${this.note}`);
      this.at = -1;
      if (this.flat || !host) return;
      host.append(this.figure);
      this.canvas.addEventListener("pointermove", (e) => this.hover(e));
      this.canvas.addEventListener("pointerleave", () => { this.at = -1; WS.tip.hide(); this.draw(); });
      watch(this);
    }

    draw() {
      const width = Math.max(this.canvas.parentElement.clientWidth, 80), g = WS.canvas(this.canvas, width, HEIGHT);
      const [from, to] = this.span, room = width - LEFT - 6, deep = HEIGHT - TOP - BOTTOM, font = WS.color("--sans");
      const top = this.most > this.least ? this.most : this.least + 1;
      const x = (t) => LEFT + (t - from) / Math.max(to - from, 1) * room, y = (v) => TOP + deep * (1 - (v - this.least) / (top - this.least));
      this.place = { x, room, from, to };
      g.font = `11px ${font}`;
      g.textBaseline = "middle";
      for (const share of [0, 0.5, 1]) {
        const v = this.least + (top - this.least) * share;
        g.fillStyle = WS.color("--line");
        g.fillRect(LEFT, Math.round(y(v)), room, 1);
        g.fillStyle = WS.color("--muted");
        g.textAlign = "right";
        g.fillText(WS.axis(v, this.data.unit), LEFT - 6, y(v));
      }
      g.textAlign = "left";
      const { out, step } = WS.ticks(from, to, room / 90);
      g.fillStyle = WS.color("--muted");
      for (const t of out) {
        const text = WS.moment(t, step), w = g.measureText(text).width;
        g.fillText(text, Math.max(LEFT, Math.min(x(t) - w / 2, width - w)), HEIGHT - 8);
      }
      this.trace(g, x, y);
      if (this.at >= 0) {
        g.fillStyle = WS.color("--accent");
        g.fillRect(x(this.time[this.at]), TOP, 1, deep);
      }
    }

    trace(g, x, y) {
      const n = this.time.length, color = WS.color(this.color), end = this.span[1];
      const walk = (values) => {
        g.moveTo(x(this.time[0]), y(values[0]));
        for (let i = 1; i < n; i++) {
          if (this.data.step) g.lineTo(x(this.time[i]), y(values[i - 1]));
          g.lineTo(x(this.time[i]), y(values[i]));
        }
        if (this.data.step) g.lineTo(x(end), y(values[n - 1]));
      };
      g.globalAlpha = 0.16;
      g.fillStyle = color;
      g.beginPath();
      walk(this.high);
      if (this.data.step) { g.lineTo(x(end), y(0)); g.lineTo(x(this.time[0]), y(0)); }
      else for (let i = n - 1; i >= 0; i--) g.lineTo(x(this.time[i]), y(this.low[i]));
      g.fill();
      g.globalAlpha = 1;
      g.strokeStyle = color;
      g.lineWidth = 1.5;
      g.lineJoin = "round";
      g.beginPath();
      walk(this.data.step ? this.high : this.value);
      g.stroke();
    }

    hover(event) {
      const { room, from, to } = this.place, r = this.canvas.getBoundingClientRect();
      const t = from + (event.clientX - r.left - LEFT) / room * (to - from);
      let lo = 0, hi = this.time.length - 1;
      while (lo < hi) { const m = (lo + hi + 1) >> 1; if (this.time[m] <= t) lo = m; else hi = m - 1; }
      this.at = lo;
      this.draw();
      const range = this.low[lo] === this.high[lo] ? "" : ` (${WS.amount(this.low[lo], this.data.unit)} to ${WS.amount(this.high[lo], this.data.unit)})`;
      WS.tip.show(event, WS.el("b", {}, WS.amount(this.value[lo], this.data.unit)), `${range} at ${WS.moment(this.time[lo], (to - from) / room)}`);
    }
  }

  class Bars {
    constructor(host, data) {
      this.bars = data.bars;
      // Warm-up may be a hundred times as long as the rest: it is cut where the others would vanish.
      const longest = Math.max(...this.bars.map((b) => b.duration), 1);
      const usual = Math.max(...this.bars.filter((b) => b.steady || b.outlier).map((b) => b.duration), 0);
      this.most = usual && longest > 3 * usual ? 1.25 * usual : longest;
      const note = `longest ${WS.duration(longest)}${longest > this.most ? ", cut" : ""}`;
      Object.assign(this, frame(`Process ${data.process}`, note));
      this.canvas.setAttribute("aria-label", `${this.bars.length} iterations, longest ${WS.duration(longest)}`);
      host.append(this.figure);
      this.canvas.addEventListener("pointermove", (e) => {
        const i = Math.floor((e.clientX - this.canvas.getBoundingClientRect().left - LEFT) / this.step), b = this.bars[i];
        if (i !== this.at) { this.at = i; this.draw(); }
        if (!b) { WS.tip.hide(); return; }
        const state = b.outlier ? "stands out" : b.steady ? "steady" : "warm-up or end";
        WS.tip.show(e, WS.el("b", {}, b.label || `Iteration ${b.number}`), WS.el("br"),
          WS.el("small", {}, `${WS.duration(b.duration)}, ${WS.percent(b.busy, b.duration)} busy · ${state}${b.of > 1 ? ` · longest of ${b.of}` : ""}`));
      });
      this.canvas.addEventListener("pointerleave", () => { this.at = -1; WS.tip.hide(); this.draw(); });
      this.at = -1;
      watch(this);
    }

    draw() {
      const width = Math.max(this.canvas.parentElement.clientWidth, 80), g = WS.canvas(this.canvas, width, HEIGHT);
      const room = width - LEFT - 6, deep = HEIGHT - TOP - BOTTOM;
      this.step = Math.min(room / this.bars.length, 48);
      g.font = `11px ${WS.color("--sans")}`;
      g.textBaseline = "middle";
      for (const share of [0, 0.5, 1]) {
        const y = TOP + deep * (1 - share);
        g.fillStyle = WS.color("--line");
        g.fillRect(LEFT, Math.round(y), room, 1);
        g.fillStyle = WS.color("--muted");
        g.textAlign = "right";
        g.fillText(WS.duration(this.most * share), LEFT - 6, y);
      }
      g.textAlign = "left";
      const kernel = WS.color("--kernel"), idle = WS.color("--idle"), stands = WS.color("--copy");
      this.bars.forEach((b, i) => {
        const x = LEFT + i * this.step, w = Math.max(this.step - (this.step > 3 ? 1.5 : 0), 0.7), h = deep * Math.min(b.duration / this.most, 1);
        g.globalAlpha = b.steady || b.outlier ? 1 : 0.45;
        g.fillStyle = idle;
        g.fillRect(x, TOP + deep - h, w, h);
        g.fillStyle = b.outlier ? stands : kernel;
        const busy = h * Math.min(b.busy / Math.max(b.duration, 1), 1);
        g.fillRect(x, TOP + deep - busy, w, busy);
        g.globalAlpha = 1;
        if (b.duration > this.most) { g.fillStyle = WS.color("--surface"); g.fillRect(x - 1, TOP + 9, w + 2, 3); g.fillRect(x - 1, TOP + 15, w + 2, 3); }
        if (b.outlier) { g.fillStyle = stands; g.fillRect(x, TOP + deep - h, w, 2); }
        if (i === this.at) { g.strokeStyle = WS.color("--accent"); g.lineWidth = 1.5; g.strokeRect(x - 0.5, TOP + deep - h, w + 1, h); }
      });
      g.fillStyle = WS.color("--muted");
      const { out } = WS.ticks(0, this.bars.length - 1, Math.max(1, Math.min(this.bars.length, Math.floor(this.bars.length * this.step / 60))));
      for (const i of out) if (Number.isInteger(i) && this.bars[i]) g.fillText(String(this.bars[i].number), LEFT + i * this.step, HEIGHT - 8);
    }
  }

  /* Lines of a section; those that never change are listed below. */
  const charts = (host, data, span, color) => {
    const several = new Set(data.map((one) => one.device).filter((device) => device !== null)).size > 1;
    const lines = data.map((one) => new Line(host, one, span, color, several)), flat = lines.filter((line) => line.flat);
    if (flat.length && host) host.after(WS.el("details", { open: flat.length === lines.length }, WS.el("summary", {}, `${flat.length} that never changed`),
      WS.el("ul", {}, ...flat.map((line) => WS.el("li", {}, `${line.title}: ${WS.amount(line.most, line.data.unit)}`)))));
    return lines;
  };

  Object.assign(WS, { Line, Bars, charts });
})();
