/* How the timeline is drawn: findings, steps, ranges, threads with stacks, devices, counters, on one axis. */
"use strict";
(() => {
  const AXIS = 26, GAP = 3, MOST_LABELS = 600;
  const HEIGHT = { marks: 20, steps: 18, ranges: 16, ops: 16, calls: 16, stacks: 15, device: 30, stream: 20, copies: 16, line: 40 };
  const PAINT = { kernel: "kernel", communication: "communication", copy: "copy", set: "set", launch: "launch", blocked: "blocked", call: "other", range: "host",
    op: "t-op", step: "idle", outlier: "copy", stack: "t-own", library: "t-library" };

  /* Ticks at 1, 2 or 5 times a power of ten. */
  WS.ticks = (from, to, most) => {
    const raw = (to - from) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-9)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9)) || power;
    const out = [];
    for (let t = Math.ceil(from / step) * step; t <= to + step * 1e-9; t += step) out.push(t);
    return { step, out };
  };

  /* Draws what a Timeline holds: its `lines`, its `tracks`, and the time `from` … `to`. */
  WS.TimelineDrawing = class {
    static AXIS = AXIS;
    static PAINT = PAINT;

    timeOf(x) { return this.from + (x - this.gutter) / this.room * (this.to - this.from); }
    timeAt(event) { return this.timeOf(Math.max(this.gutter, this.place(event).x)); }
    x(t) { return this.gutter + (t - this.from) / (this.to - this.from) * this.room; }

    resize() {
      const width = Math.max(this.host.clientWidth, 80);
      this.width = width;
      this.narrow = width < 640;
      this.gutter = this.narrow ? 0 : Math.min(250, Math.round(width * 0.22));
      this.room = width - this.gutter;
      const label = this.narrow ? 15 : 0, most = Math.max(260, Math.round(window.innerHeight * 0.72));
      if (!this.laid) { this.laid = true; this.makeRoom(label, most); }
      let y = AXIS;
      for (const track of this.tracks) {
        const levels = this.levels(track);
        Object.assign(track, { y: y + label, label_: label, deep: levels, h: HEIGHT[track.role] * levels });
        y += label + track.h + GAP;
      }
      this.total = y;
      this.height = Math.min(y, most);
      this.view.style.height = `${this.height}px`;
      this.spacer.style.height = `${Math.max(0, y - this.height)}px`;
      this.draw();
    }

    /* Cut the deepest ranges and stacks at first, so that the first device shows without scrolling. */
    makeRoom(label, most) {
      const until = this.tracks.findIndex((track) => track.role === "device") + 1, above = this.tracks.slice(0, until), least = 3;
      let over = AXIS - most;
      for (const track of above) over += label + GAP + HEIGHT[track.role] * this.levels(track);
      while (over > 0) {
        const deepest = above.reduce((best, track) => this.levels(track) > this.levels(best) ? track : best);
        if (this.levels(deepest) <= least) return;
        this.cut.set(deepest.key, this.levels(deepest) - 1);
        over -= HEIGHT[deepest.role];
      }
    }

    place(event) {
      const r = this.canvas.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top, down = y + this.view.scrollTop;
      const track = y < AXIS ? null : this.tracks.find((t) => down >= t.y - t.label_ && down < t.y + t.h + GAP) || null;
      return { x, y, track, inLabel: track && down < track.y, level: track ? Math.max(0, Math.min(track.deep - 1, Math.floor((down - track.y) / HEIGHT[track.role]))) : 0 };
    }

    /* One drawing a frame, however often something changed. */
    draw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.render(); });
    }

    colors() {
      this.font = WS.color("--sans");
      this.paint = {};
      for (const [kind, name] of Object.entries(PAINT)) this.paint[kind] = WS.color(`--${name}`);
      for (const name of ["ink", "muted", "line", "raised", "accent", "surface", "bad", "warn", "f-ink", "mark", "mark-ink"]) this.paint[`-${name}`] = WS.color(`--${name}`);
      this.onColor = document.documentElement.dataset.theme === "dark" ? "#0c1014" : "#ffffff";
    }

    render() {
      const began = performance.now(), g = WS.canvas(this.canvas, this.width, this.height);
      if (!this.paint) this.colors();
      this.labels = 0;
      this.coarse = false;
      this.top = this.view.scrollTop;
      g.textBaseline = "middle";
      this.grid(g);
      for (const track of this.tracks) {
        const y = track.y - this.top;
        if (y + track.h < AXIS || y - track.label_ > this.height) continue;
        this.heading(g, track, y);
        g.save();
        g.beginPath();
        g.rect(this.gutter, y, this.room, track.h);
        g.clip();
        this.track(g, track, y);
        g.restore();
      }
      this.overlays(g);
      this.axis(g);
      this.told.textContent = `--from ${WS.moment(this.from, (this.to - this.from) / 1e4)} --until ${WS.moment(this.to, (this.to - this.from) / 1e4)}`;
      this.told.title = `${WS.duration(this.to - this.from)} shown; options of analyze, report, view, export`;
      this.spent = performance.now() - began;
      if (this.coarse && this.live) this.fetch();
    }

    grid(g) {
      const { out } = WS.ticks(this.from, this.to, this.room / 120);
      g.fillStyle = this.paint["-line"];
      for (const t of out) g.fillRect(Math.round(this.x(t)), AXIS, 1, this.height - AXIS);
    }

    axis(g) {
      const { step, out } = WS.ticks(this.from, this.to, this.room / 120);
      g.fillStyle = this.paint["-surface"];
      g.fillRect(0, 0, this.width, AXIS);
      g.font = `11px ${this.font}`;
      for (const t of out) {
        const x = Math.round(this.x(t)), text = WS.moment(t, step), w = g.measureText(text).width;
        g.fillStyle = this.paint["-line"];
        g.fillRect(x, AXIS - 6, 1, 6);
        g.fillStyle = this.paint["-muted"];
        g.fillText(text, Math.max(this.gutter, Math.min(x - w / 2, this.width - w - 1)), 10);
      }
    }

    /* How much of what is shown a row covers; the most that a counter reached. */
    shareOf(track) {
      if (track.role === "line") return WS.amount(track.line.most, track.line.data.unit);
      const row = this.data.rows[track.rows[0]], from = Math.max(this.from, this.begin), to = Math.min(this.to, this.end);
      if (!row || track.role === "stacks" || track.role === "steps" || to <= from) return "";
      const all = from === this.begin && to === this.end;
      return WS.percent(all ? row.busy : Math.min(this.lines.busy(track.rows[0], from, to), to - from), to - from);
    }

    heading(g, track, y) {
      const main = ["device", "calls", "steps", "marks"].includes(track.role), folds = ["ranges", "ops", "stacks"].includes(track.role) && (track.rows.length > 1 || track.role === "stacks");
      const indent = main || track.role === "line" ? 0 : 12;
      const share = this.shareOf(track);
      let text = (folds ? (this.open.has(track.key) && !this.cut.has(track.key) ? "▾ " : "▸ ") : "") + this.labelOf(track);
      g.font = `${main ? 600 : 400} 12px ${this.font}`;
      const space = (this.narrow ? this.width : this.gutter - 10) - g.measureText(share).width - 10 - indent;
      while (text.length > 4 && g.measureText(text).width > space) text = WS.shorten(text, text.length - 2);
      const middle = this.narrow ? y - 7 : y + Math.min(track.h, HEIGHT[track.role]) / 2;
      g.fillStyle = main ? this.paint["-ink"] : this.paint["-muted"];
      g.fillText(text, indent, middle);
      g.font = `11px ${this.font}`;
      g.textAlign = "right";
      g.fillStyle = this.paint["-muted"];
      g.fillText(share, this.narrow ? this.width : this.gutter - 10, middle);
      g.textAlign = "left";
      if (!["marks", "stacks", "ranges", "ops"].includes(track.role)) { g.fillStyle = this.paint["-raised"]; g.globalAlpha = 0.6; g.fillRect(this.gutter, y, this.room, track.h); g.globalAlpha = 1; }
    }

    /* Below a thread's or device's own row the name need not be said again. */
    labelOf(track) {
      const told = { ranges: "ranges", ops: "operators", stacks: track.label.split(" · ").pop() }[track.role], first = this.tracks.find((t) => t.key.replace(/\.\w+$/, "") === track.key.replace(/\.\w+$/, ""));
      return told && first !== track ? told : track.label;
    }

    track(g, track, y) {
      if (track.role === "marks") { this.marks(g, y); return; }
      if (track.role === "line") { this.line(g, track, y); return; }
      if (track.role === "stacks") { this.stacks(g, track, y); return; }
      const h = HEIGHT[track.role], filled = ["ranges", "ops", "steps"].includes(track.role);
      for (let level = 0; level < track.deep; level++)
        this.lines.cover(track.rows[level], this.from, this.to, (part, a, b) => {
          const own = part.slices.get(track.rows[level]);
          if (own) this.slices(g, part, own, track, track.rows[level], y + level * h, h - 1, a, b, filled);
          else this.bins(g, part, track.rows[level], y + level * h, h - 1, a, b);
        });
    }

    bins(g, part, row, y, h, from, to) {
      const levels = part.bins.get(row), whole = part.end - part.begin, pixel = (this.to - this.from) / this.room;
      let level = 0;
      while (level + 1 < levels.length && whole / levels[level].bins < pixel) level++;
      const { bins, busy, name } = levels[level], width = whole / bins;
      if (level === 0) this.coarse = true;
      const first = Math.max(0, Math.floor((from - part.begin) / width)), last = Math.min(bins, Math.ceil((to - part.begin) / width));
      let color = "";
      for (let b = first; b < last; b++) {
        const share = busy[b];
        if (!share) continue;
        const left = Math.round(this.x(Math.max(part.begin + b * width, from))), right = Math.round(this.x(Math.min(part.begin + (b + 1) * width, to)));
        const paint = this.paint[this.lines.kinds[part.kinds[name[b] - 1]] || "kernel"];
        if (paint !== color) g.fillStyle = color = paint;
        if (this.matches) g.globalAlpha = name[b] && this.hit(part, row, name[b] - 1, 0) ? 1 : 0.22;
        const tall = Math.max(1.5, h * share);
        g.fillRect(left, y + h - tall, Math.max(right - left, 1), tall);
      }
      g.globalAlpha = 1;
    }

    /* Slices of at least a pixel one by one; smaller ones add up to the share of their pixel that they cover. */
    slices(g, part, own, track, row, y, h, from, to, filled) {
      const [lo, hi] = part.range(own, from, to), scale = this.room / (this.to - this.from), base = this.gutter - this.from * scale;
      const cover = this.cover && this.cover.length >= this.width + 2 ? this.cover.fill(0) : this.cover = new Float32Array(this.width + 2);
      const best = this.best && this.best.length >= this.width + 2 ? this.best : this.best = new Int32Array(this.width + 2);
      const dim = this.matches, wide = [];
      let color = "", smallest = this.width + 2, largest = -1;
      for (let k = lo; k < hi; k++) {
        const x0 = Math.max(base + Math.max(own.start[k], from) * scale, this.gutter), w = base + Math.min(own.end[k], to) * scale - x0;
        if (w >= 1) {
          const paint = this.paint[this.lines.kinds[part.kinds[own.name[k]]]];
          if (paint !== color) g.fillStyle = color = paint;
          if (dim) g.globalAlpha = this.hit(part, row, own.name[k], own.stack[k]) ? 1 : 0.22;
          g.fillRect(x0, y, w > 3 ? w - 0.75 : w, h);
          if (w > 32) wide.push(k, x0, w);
          continue;
        }
        const c = x0 | 0;
        if (c < 0 || c > this.width) continue;
        if (!cover[c]) best[c] = k;
        else if (dim && this.hit(part, row, own.name[k], own.stack[k])) best[c] = k;
        cover[c] += Math.max(w, 1e-9);
        if (c < smallest) smallest = c;
        if (c > largest) largest = c;
      }
      for (let c = smallest; c <= largest; c++) {
        if (!cover[c]) continue;
        const k = best[c], paint = this.paint[this.lines.kinds[part.kinds[own.name[k]]]];
        if (paint !== color) g.fillStyle = color = paint;
        if (dim) g.globalAlpha = this.hit(part, row, own.name[k], own.stack[k]) ? 1 : 0.22;
        const tall = filled ? h : Math.max(1.5, h * Math.min(1, cover[c]));
        g.fillRect(c, y + h - tall, 1, tall);
        cover[c] = 0;
      }
      g.globalAlpha = 1;
      g.font = `11px ${this.font}`;
      const ink = track.role === "steps" ? this.paint["-ink"] : track.role === "ops" ? this.paint["-f-ink"] : this.onColor;
      // A device with rows for its streams shows their work without names: they are there.
      const named = track.role !== "device" || !this.tracks.some((t) => t.role === "stream" && t.key.startsWith(`${track.key}.`));
      for (let i = 0; named && i < wide.length && this.labels < MOST_LABELS; i += 3) {
        g.fillStyle = this.lines.kinds[part.kinds[own.name[wide[i]]]] === "outlier" ? this.paint["-mark-ink"] : ink;  // dark on orange in both themes
        this.text(g, part.names[own.name[wide[i]]], wide[i + 1], wide[i + 2], y + h / 2);
      }
    }

    text(g, whole, x, w, middle) {
      const left = Math.max(x, this.gutter), space = Math.min(x + w, this.width) - left - 7;
      if (space < 22) return;
      let text = WS.shorten(whole, Math.max(Math.floor(space / 5.4), 0));
      while (text.length > 2 && g.measureText(text).width > space) text = WS.shorten(whole, text.length - 1);
      if (text.length > 2) { g.fillText(text, left + 4, middle); this.labels++; }
    }

    /* Stacks over time: equal frames of neighbours are one, from the first moment they were seen to the last. */
    stacks(g, track, y) {
      const row = track.rows[0], runs = [], scale = this.room / (this.to - this.from), h = HEIGHT.stacks, single = track.deep === 1;
      const add = (part, stack, a, b) => {
        const x0 = this.gutter + (a - this.from) * scale, x1 = this.gutter + (b - this.from) * scale, last = runs[runs.length - 1];
        if (last && x1 - last.x0 < 1) return;  // several in one pixel: the first stands for them
        if (last && last.x1 > x0) last.x1 = Math.max(last.x0, x0);
        if (last && last.part === part && last.stack === stack) { last.x1 = x1; return; }
        runs.push({ x0, x1, part, stack });
      };
      this.lines.cover(row, this.from, this.to, (part, a, b) => {
        const own = part.slices.get(row);
        if (own) {
          let [lo, hi] = part.range(own, a, b);
          for (let k = lo; k < hi; k++) if (own.end[k] > a || k === hi - 1) add(part, own.name[k], Math.max(own.start[k], a), Math.min(Math.max(own.end[k], own.start[k]), b));
          return;
        }
        const levels = part.bins.get(row), whole = part.end - part.begin;
        let level = 0;
        while (level + 1 < levels.length && whole / levels[level].bins < 1 / scale) level++;
        if (level === 0) this.coarse = true;
        const { bins, name } = levels[level], width = whole / bins, last = Math.min(bins, Math.ceil((b - part.begin) / width));
        for (let i = Math.max(0, Math.floor((a - part.begin) / width)); i < last; i++)
          if (name[i]) add(part, name[i], Math.max(part.begin + i * width, a), Math.min(part.begin + (i + 1) * width, b));
      });
      g.font = `11px ${this.font}`;
      const chains = runs.map((run) => {
        const frames = this.frames(run.part, run.stack);
        return single ? [frames.findLast((f) => !f.library) || frames[frames.length - 1]].filter(Boolean) : frames;
      });
      track.drawn = [];
      for (let d = 0; d < track.deep; d++)
        for (let i = 0; i < runs.length;) {
          const frame = chains[i][d];
          if (!frame) { i++; continue; }
          let j = i + 1;
          while (j < runs.length && chains[j][d] && chains[j][d].path === frame.path) j++;
          const x = Math.max(runs[i].x0, this.gutter), w = Math.max(runs[j - 1].x1 - x, 1);
          const hit = this.matches && this.hits(runs[i].part).stack[frame.number] === 2;
          g.globalAlpha = this.matches && !hit ? 0.3 : 1;
          g.fillStyle = frame.library ? this.paint.library : this.shade(frame.label);
          g.fillRect(x, y + d * h, w > 3 ? w - 0.75 : w, h - 1);
          if (w > 30 && this.labels < MOST_LABELS) { g.fillStyle = this.paint["-f-ink"]; this.text(g, frame.label, x, w, y + d * h + h / 2); }
          track.drawn.push({ d, x, w, frame, part: runs[i].part, from: runs[i].x0, to: runs[j - 1].x1 });
          i = j;
        }
      g.globalAlpha = 1;
    }

    /* Neighbours differ: one of four tints of own code by the frame's text. */
    shade(label) {
      if (!this.shades) this.shades = [0, 0.14, 0.28, 0.42].map((share) => WS.mix(this.paint.stack, this.paint["-surface"], share));
      let hash = 7;
      for (let i = 0; i < label.length; i++) hash = (hash * 31 + label.charCodeAt(i)) & 0xffff;
      return this.shades[hash % 4];
    }

    marks(g, y) {
      const shown = this.data.marks.filter((mark) => mark.end >= this.from && mark.begin <= this.to).sort((a, b) => a.begin - b.begin);
      let free = this.gutter - 9, last = this.width + 9;
      this.discs = shown.map((mark) => ({ mark, x: free = Math.max(this.x(mark.begin), free + 17) }));
      for (const disc of [...this.discs].reverse()) last = disc.x = Math.min(disc.x, last - 17);
      for (const { mark, x: cx } of this.discs) {
        const x = this.x(mark.begin), w = Math.max(this.x(mark.end) - x, 2), color = this.paint[mark.severity === "error" || mark.severity === "loss" ? "-bad" : mark.severity === "warning" ? "-warn" : "-muted"];
        g.fillStyle = color;
        g.globalAlpha = 0.28;
        g.fillRect(Math.max(x, this.gutter), y + 14, Math.min(w, this.width), 4);
        g.globalAlpha = 1;
        g.beginPath();
        g.arc(cx, y + 8, 7, 0, 7);
        g.fill();
        g.fillStyle = this.onColor;
        g.font = `600 ${mark.number > 9 ? 9 : 10}px ${this.font}`;
        g.textAlign = "center";
        g.fillText(String(mark.number), cx, y + 8.5);
        g.textAlign = "left";
      }
    }

    line(g, track, y) {
      const { time, value, high, least, most, data } = track.line, h = HEIGHT.line - 4, top = (v) => y + 2 + h * (1 - (v - least) / (most - least));
      const values = data.step ? high : value, first = Math.max(0, WS.lower(time, this.from, 0, time.length) - 1), last = Math.min(time.length - 1, WS.lower(time, this.to, 0, time.length));
      if (last < first) return;
      g.beginPath();
      g.moveTo(this.x(time[first]), top(values[first]));
      for (let i = first + 1; i <= last; i++) {
        if (data.step) g.lineTo(this.x(time[i]), top(values[i - 1]));
        g.lineTo(this.x(time[i]), top(values[i]));
      }
      const end = data.step ? this.width : this.x(time[last]);
      if (data.step) g.lineTo(end, top(values[last]));
      g.strokeStyle = this.paint[data.unit === "B" ? "range" : "kernel"];
      g.lineWidth = 1.25;
      g.stroke();
      g.lineTo(end, y + h + 2);
      g.lineTo(this.x(time[first]), y + h + 2);
      g.globalAlpha = 0.14;
      g.fillStyle = g.strokeStyle;
      g.fill();
      g.globalAlpha = 1;
    }

    overlays(g) {
      g.save();
      g.beginPath();
      g.rect(this.gutter, AXIS, this.room, this.height - AXIS);
      g.clip();
      if (this.selection) {
        const x = this.x(this.selection[0]), w = this.x(this.selection[1]) - x;
        g.fillStyle = this.paint["-accent"];
        g.globalAlpha = 0.13;
        g.fillRect(x, AXIS, w, this.height);
        g.globalAlpha = 0.8;
        g.fillRect(x, AXIS, 1, this.height);
        g.fillRect(x + w, AXIS, 1, this.height);
        g.globalAlpha = 1;
      }
      for (const slice of [this.chosen, this.hovered]) if (slice && slice.row !== undefined) this.outlined(g, slice, slice === this.chosen);
      if (this.pointer && !this.drag) { g.fillStyle = this.paint["-accent"]; g.globalAlpha = 0.6; g.fillRect(Math.round(this.pointer.x), AXIS, 1, this.height); g.globalAlpha = 1; }
      g.restore();
    }

    middle(row) {
      const track = this.tracks.find((t) => t.rows.includes(row)), level = ["ranges", "ops"].includes(track.role) ? track.rows.indexOf(row) : 0;
      return { track, y: track.y - this.top + Math.min(level, track.deep - 1) * HEIGHT[track.role], h: HEIGHT[track.role] };
    }

    /* Its frame, and arrows from the call to what it asked for. */
    outlined(g, slice, chosen) {
      const at = this.middle(slice.row), x = this.x(slice.start), w = Math.max(this.x(slice.end) - x, 2);
      if (at.track.role !== "stacks") {
        g.strokeStyle = chosen ? this.paint["-ink"] : this.paint["-accent"];
        g.lineWidth = chosen ? 2 : 1.5;
        g.strokeRect(x - 0.5, at.y - 0.5, w + 1, at.h);
      }
      const arrow = (fromRow, fromTime, toRow, toTime) => {
        const a = this.middle(fromRow), b = this.middle(toRow), x0 = this.x(fromTime), x1 = this.x(toTime), y0 = a.y + a.h / 2, y1 = b.y + b.h / 2;
        g.strokeStyle = this.paint["-ink"];
        g.lineWidth = 1.25;
        g.beginPath();
        g.moveTo(x0, y0);
        g.bezierCurveTo(x0 + 30, y0 + (y1 - y0) * 0.3, x1 - 30, y0 + (y1 - y0) * 0.7, x1, y1);
        g.stroke();
        g.fillStyle = this.paint["-ink"];
        g.beginPath();
        g.moveTo(x1, y1); g.lineTo(x1 - 7, y1 - 4); g.lineTo(x1 - 7, y1 + 4);
        g.fill();
      };
      if (slice.caller >= 0) arrow(slice.caller, slice.start - slice.lag, slice.row, slice.start);
      if (at.track.role === "calls") {
        slice.kernels = slice.kernels || this.lines.asked(slice.row, slice.start);
        for (const kernel of slice.kernels.slice(0, 40)) arrow(slice.row, slice.start, kernel.row, kernel.start);
      }
    }
  };
})();
