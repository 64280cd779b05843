/* A flame graph on a canvas: root on top, zoom, search, kernels first, keyboard. Data: see render/flame/page.py. */
"use strict";
(() => {
  const ROW = 20;
  const GROUPS = ["device", "stream", "rank", "process", "thread"];
  const LEGEND = { group: "device, stream, rank, process, thread", python: "Python", native: "native", missing: "no host stack", range: "range",
    op: "operator", kernel: "kernel", copy: "copy", set: "set", allocation: "allocation",
    source: "source line on the device", instruction: "instruction", stall: "stall reason",
    running: "running", waiting: "waiting", library: "libraries" };
  /* Kinds that share a colour with another. */
  const LIKE = { allocation: "copy", source: "range", instruction: "set", stall: "copy", running: "kernel", waiting: "missing", library: "missing" };
  const kindOf = (kind) => GROUPS.includes(kind) ? "group" : ["marker", "line"].includes(kind) ? "native" : kind;

  class Flame {
    constructor(host, data) {
      this.host = host; this.data = data;
      this.plain = WS.flames.prepare(data.tree);
      this.opened = new Set();
      this.upper = null;
      this.folds = (data.library || []).some(Boolean) || data.labels.some((text) => /^(nn\.Module: )?[A-Za-z]\w*_\d+$/.test(text));
      this.arrange();
      this.focus = 0; this.chosen = -1; this.hovered = -1; this.matches = null; this.query = "";
      this.build();
      this.draw();
      new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
      window.addEventListener("themechange", () => { this.legendColors(); this.draw(); });
    }

    /* The tree that is drawn: folded where anything folds, and turned over when asked for. */
    arrange() {
      const found = this.timed ? WS.flames.timed(this.plain, this.data, this.folds) : this.folds ? WS.flames.folded(this.plain, this.data, this.opened) : { tree: this.plain, labels: this.data.labels, kinds: this.data.kinds, holds: new Map() };
      this.upright = found.tree;
      Object.assign(this, { labels: found.labels, kinds: found.kinds, holds: found.holds, turned: null, upper: null });
      this.tree = this.inverted ? (this.turned = WS.flames.inverted(this.upright)) : this.upright;
      this.focus = 0; this.chosen = -1; this.hovered = -1;
    }

    build() {
      const search = WS.el("input", { type: "search", placeholder: "Search frames", title: "Text or regular expression",
        "aria-label": "Search frames", spellcheck: "false", oninput: (e) => this.search(e.target.value) });
      search.addEventListener("keydown", (e) => { if (e.key === "Escape") { search.value = ""; this.search(""); this.canvas.focus(); } });
      this.searchBox = search;
      this.found = WS.el("span", { class: "told", role: "status" });
      this.flip = WS.el("button", { type: "button", "aria-pressed": "false", title: "Leaves on top, their callers below",
        onclick: () => this.invert() }, this.data.weight === "samples" ? "Innermost first" : "Kernels first");
      this.order = WS.el("button", { type: "button", "aria-pressed": "false", title: "Frames from left to right as they came, instead of one frame for all times (o)",
        onclick: () => this.inTime() }, "Time order");
      this.fold = WS.el("button", { type: "button", "aria-pressed": String(this.folds), title: "Frames of libraries and numbered instances of one module as one frame",
        onclick: () => { this.folds = !this.folds; this.opened.clear(); this.fold.setAttribute("aria-pressed", String(this.folds)); this.arrange(); this.search(this.query); } }, "Fold libraries");
      this.both = WS.el("button", { type: "button", title: "What calls the chosen frame, above it, and what it calls, below (c)", onclick: () => this.sandwich() }, "Callers and callees");
      const reset = WS.el("button", { type: "button", onclick: () => this.reset() }, "Reset");
      this.crumbs = WS.el("nav", { class: "crumbs", "aria-label": "Zoomed into" });
      this.canvas = WS.el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "flame graph",
        "aria-label": `${this.data.title}. Arrow keys move between frames, Enter zooms, Escape resets, slash searches, o orders by time.` });
      this.status = WS.el("div", { class: "sr", role: "status", "aria-live": "polite" });
      this.legend = WS.el("ul", { class: "legend" });
      this.host.classList.add("flame");
      this.host.replaceChildren(WS.el("div", { class: "toolbar" }, search, this.flip, ...(this.data.runs ? [this.order] : []), ...(this.folds ? [this.fold] : []), this.both, reset, this.found), this.crumbs,
        WS.el("div", {}, this.canvas), this.status, this.legend);
      this.canvas.addEventListener("mousemove", (e) => this.hover(e));
      this.canvas.addEventListener("mouseleave", () => { this.hovered = -1; WS.tip.hide(); this.draw(); });
      this.canvas.addEventListener("click", (e) => this.click(e));
      this.canvas.addEventListener("keydown", (e) => this.key(e));
      this.legendColors();
    }

    legendColors() {
      if (this.data.columns === 2) {
        this.legend.replaceChildren(...[["--d-more", "more than before"], ["--d-base", "unchanged"], ["--d-less", "less than before"]]
          .map(([name, text]) => WS.el("li", {}, WS.el("i", { style: `background:var(${name})` }), text)));
        return;
      }
      const kinds = [...new Set([...this.kinds.map(kindOf), ...((this.data.library || []).some(Boolean) ? ["library"] : [])])].filter((k) => LEGEND[k]);
      this.legend.replaceChildren(...Object.keys(LEGEND).filter((k) => kinds.includes(k)).map((k) =>
        WS.el("li", {}, WS.el("i", { style: `background:var(--f-${LIKE[k] || k})` }), LEGEND[k])));
    }

    label(i, tree = this.tree) { return this.labels[tree.label[i]]; }
    /* What is drawn: the return type of a kernel tells nothing. */
    short(i, tree = this.tree) { return this.label(i, tree).replace(/^void /, ""); }
    kind(i, tree = this.tree) { return (this.data.library || [])[tree.label[i]] ? "library" : kindOf(this.kinds[tree.label[i]]); }
    weight(i, tree = this.tree) { return tree.total[tree.total.length - 1][i]; }

    fill(i, tree) {
      if (this.data.columns === 2) {
        const before = tree.total[0][i], after = tree.total[1][i], most = Math.max(before, after);
        const change = most ? (after - before) / most : 0;
        return WS.mix(this.colors.base, change > 0 ? this.colors.more : this.colors.less, 0.85 * Math.abs(change));
      }
      const text = this.label(i, tree);
      let hash = 7;
      for (let c = 0; c < Math.min(text.length, 24); c++) hash = (hash * 31 + text.charCodeAt(c)) & 0xffff;
      return WS.mix(this.colors[this.kind(i, tree)] || this.colors.root, this.colors.surface, (hash % 17) / 17 * 0.28);
    }

    readColors() {
      this.colors = { base: WS.color("--d-base"), more: WS.color("--d-more"), less: WS.color("--d-less"), surface: WS.color("--surface"),
        ink: WS.color("--f-ink"), mark: WS.color("--mark"), markInk: WS.color("--mark-ink"), accent: WS.color("--accent") };
      for (const kind of ["root", "group", "python", "native", "missing", "range", "op", "kernel", "copy", "set"])
        this.colors[kind] = WS.color(`--f-${kind}`);
      for (const [kind, other] of Object.entries(LIKE)) this.colors[kind] = this.colors[other];
    }

    /* Calls visit(node, x, width, row, tree) for what is at least half a pixel wide; callers are above a frame in the middle. */
    layout(visit) {
      const base = this.upper ? Math.max(...this.upper.depth) : 0, focus = this.focus;
      const above = [];
      for (let p = this.tree.parent[focus]; p >= 0; p = this.tree.parent[p]) above.unshift(p);
      above.forEach((p) => visit(p, 0, this.width, this.tree.depth[p], this.tree));
      this.walk(this.tree, focus, (i, x, w) => visit(i, x, w, base + this.tree.depth[i], this.tree));
      if (this.upper) this.walk(this.upper, 0, (i, x, w) => { if (i) visit(i, x, w, base - this.upper.depth[i], this.upper); });
    }

    walk(tree, focus, visit) {
      const whole = this.weight(focus, tree) || 1;
      for (let i = focus; i < tree.end[focus];) {
        const w = this.weight(i, tree) / whole * this.width;
        if (w < 0.5 && i !== focus) { i = tree.end[i]; continue; }
        visit(i, (tree.left[i] - tree.left[focus]) / whole * this.width, w);
        i++;
      }
    }

    draw() {
      this.width = Math.max(this.canvas.parentElement.clientWidth, 50);
      let rows = 0;
      this.layout((i, x, w, row) => { rows = Math.max(rows, row + 1); });
      const g = WS.canvas(this.canvas, this.width, rows * ROW);
      this.readColors();
      this.boxes = [];
      const font = WS.color("--sans");
      g.font = `12px ${font}`;
      g.textBaseline = "middle";
      const character = g.measureText("abcdefghijklmnopqrstuvwxyz").width / 26;
      this.layout((i, x, w, row, tree) => {
        const hit = this.matches && this.matches.has(tree.label[i]), y = row * ROW, drawn = tree === this.tree;
        this.boxes.push([i, x, w, row, tree]);
        g.globalAlpha = drawn && tree.depth[i] < tree.depth[this.focus] ? 0.55 : this.matches && !hit ? 0.45 : 1;
        g.fillStyle = hit ? this.colors.mark : this.fill(i, tree);
        g.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), 0.5), ROW - 1);
        g.globalAlpha = this.matches && !hit ? 0.7 : 1;
        if (drawn && (i === this.hovered || i === this.chosen)) {
          g.strokeStyle = this.colors.accent; g.lineWidth = 2;
          g.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), ROW - 3);
        }
        if (w > 26) {
          g.fillStyle = hit ? this.colors.markInk : this.colors.ink;
          const full = this.short(i, tree), room = Math.floor((w - 8) / character);
          const told = full.length > room ? full.replace(/ \([^()]*\)$/, "") : full;  // a function tells more than half a path
          let text = WS.shorten(told, room);
          while (text.length > 2 && g.measureText(text).width > w - 7) text = WS.shorten(told, text.length - 2);
          if (text.length > 2) g.fillText(text, x + 4, y + ROW / 2);
        }
      });
      g.globalAlpha = 1;
      if (!this.weight(0)) { g.fillStyle = WS.color("--muted"); g.fillText("Nothing has this weight.", 4, ROW / 2); }
      this.drawCrumbs();
    }

    drawCrumbs() {
      const path = [];
      for (let p = this.focus; p > 0; p = this.tree.parent[p]) path.unshift(p);
      if (this.upper) { this.crumbKey = null; this.crumbs.replaceChildren(WS.el("button", { type: "button", onclick: () => this.reset() }, "all"), `› callers and callees of ${WS.shorten(this.label(0), 90)}: ${this.told(0)}`); return; }
      const key = path.join();
      if (key === this.crumbKey && this.crumbTree === this.tree) return;
      this.crumbKey = key; this.crumbTree = this.tree;
      if (!path.length) { this.crumbs.replaceChildren(this.data.hint); return; }
      const items = [WS.el("button", { type: "button", onclick: () => this.zoom(0) }, "all")];
      for (const p of path) items.push("›", WS.el("button", { type: "button", onclick: () => this.zoom(p) }, WS.shorten(this.label(p), 60)));
      this.crumbs.replaceChildren(...items);
    }

    box(event) {
      const r = this.canvas.getBoundingClientRect(), x = event.clientX - r.left, row = Math.floor((event.clientY - r.top) / ROW);
      return this.boxes.find(([, left, w, at]) => at === row && x >= left && x < left + w) || null;
    }

    click(event) {
      const found = this.box(event);
      if (!found) return;
      const [i, , , , tree] = found;
      if (this.upper) { this.sandwich(tree.label[i]); return; }
      if (!this.show(i)) this.zoom(i);
    }

    /* Opens what is folded into a frame; false where nothing is. */
    show(i) {
      const inside = this.tree.opens && this.tree.opens[i];
      if (!inside || this.inverted) return false;
      inside.forEach((node) => this.opened.add(node));
      this.arrange();
      this.status.textContent = `Opened: ${inside.length} frames`;
      WS.tip.hide();
      this.search(this.query);
      return true;
    }

    /* The callers and callees of a frame, wherever it stands. */
    sandwich(label = this.tree.label[this.chosen < 0 ? this.focus : this.chosen]) {
      if (!label) { this.status.textContent = this.found.textContent = "choose a frame first"; return; }
      const found = WS.flames.around(this.upright.label.includes(label) ? this.upright : this.plain, label);
      this.tree = found.callees; this.upper = found.callers;
      this.focus = 0; this.chosen = 0; this.hovered = -1;
      this.both.setAttribute("aria-pressed", "true");
      this.status.textContent = `Callers and callees of ${this.label(0)}: ${this.told(0)}`;
      WS.tip.hide();
      this.search(this.query);
    }

    reset() {
      this.both.removeAttribute("aria-pressed");
      if (this.upper) { this.tree = this.inverted ? this.turned : this.upright; this.upper = null; this.crumbKey = null; }
      this.focus = 0; this.chosen = -1;
      this.zoom(0);
    }

    told(i, tree = this.tree) {
      const unit = this.data.unit, total = tree.total, rows = tree.rows, last = total.length - 1;
      const parts = [this.data.columns === 2
        ? `${WS.amount(total[0][i], unit)} → ${WS.amount(total[1][i], unit)} (${total[1][i] >= total[0][i] ? "+" : "−"}${WS.amount(Math.abs(total[1][i] - total[0][i]), unit)})`
        : WS.amount(total[0][i], unit)];
      parts.push(`${WS.percent(total[last][i], this.plain.total[last][0])} of all`);
      if (tree.parent[i] > 0) parts.push(`${WS.percent(total[last][i], total[last][tree.parent[i]])} of the frame above`);
      if (!["launches", "samples"].includes(this.data.weight)) parts.push(`${WS.count(rows[last][i])} ${this.data.rows}`);
      if (tree.starts) parts.push(`from ${WS.moment(tree.starts[i])}`);
      return parts.join(" · ");
    }

    hover(event) {
      const found = this.box(event), i = found && found[4] === this.tree ? found[0] : -1;
      if (i !== this.hovered) { this.hovered = i; this.draw(); }
      if (!found) { WS.tip.hide(); return; }
      const [node, , , , tree] = found, opens = tree.opens && tree.opens[node] && !this.upper ? [WS.el("br"), WS.el("small", {}, "click to open")] : [];
      WS.tip.show(event, WS.el("b", {}, WS.shorten(this.label(node, tree), 400)), WS.el("br"), WS.el("small", {}, this.told(node, tree)), ...opens);
    }

    zoom(i) {
      this.focus = this.focus === i && i > 0 ? Math.max(this.tree.parent[i], 0) : i;
      this.chosen = this.focus;
      this.status.textContent = `Zoomed into ${this.label(this.focus)}: ${this.told(this.focus)}`;
      WS.tip.hide();
      this.draw();
    }

    choose(i) {
      if (i < 0 || i === undefined) return;
      this.chosen = i;
      this.status.textContent = `${this.label(i)}: ${this.told(i)}`;
      this.draw();
      this.crumbs.dataset.chosen = this.label(i);
    }

    children(i) {
      const out = [];
      for (let c = i + 1; c < this.tree.end[i]; c = this.tree.end[c]) out.push(c);
      return out;
    }

    key(event) {
      const at = this.chosen < 0 ? this.focus : this.chosen, parent = this.tree.parent[at];
      const around = parent >= 0 ? this.children(parent) : [at], place = around.indexOf(at);
      const moves = { ArrowDown: () => this.choose(this.children(at)[0]), ArrowUp: () => this.choose(parent),
        ArrowRight: () => this.choose(around[place + 1]), ArrowLeft: () => this.choose(around[place - 1]), Enter: () => this.show(at) || this.zoom(at),
        c: () => this.sandwich(), o: () => this.data.runs && this.inTime(), Escape: () => this.reset(), "/": () => this.searchBox.focus() };
      if (!moves[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moves[event.key]();
    }

    search(text) {
      this.query = text;
      this.found.textContent = "";
      this.matches = null;
      if (text) {
        let pattern;
        try { pattern = new RegExp(text, "i"); } catch { pattern = { test: (s) => s.toLowerCase().includes(text.toLowerCase()) }; }
        this.matches = new Set();
        this.data.labels.forEach((label, i) => { if (i && pattern.test(label)) this.matches.add(i); });
        for (const [label, inside] of this.holds) if (inside.some((one) => this.matches.has(one))) this.matches.add(label);
        let sum = 0, frames = 0;
        for (let i = 0; i < this.tree.depth.length;) {  // a match inside a match counts once
          if (this.matches.has(this.tree.label[i])) { sum += this.weight(i); i = this.tree.end[i]; frames++; } else i++;
        }
        this.found.textContent = frames ? `${WS.count(frames)} ${frames === 1 ? "frame" : "frames"}: ${WS.amount(sum, this.data.unit)}, ${WS.percent(sum, this.weight(0))}` : "no match";
      }
      this.draw();
    }

    /* Frames in the order of time, or one for all times. */
    inTime() {
      this.timed = !this.timed;
      if (this.inverted) { this.inverted = false; this.flip.setAttribute("aria-pressed", "false"); }
      this.order.setAttribute("aria-pressed", String(this.timed));
      this.both.removeAttribute("aria-pressed");
      this.crumbKey = null;
      this.arrange();
      this.status.textContent = this.timed ? "Frames in the order of time" : "One frame for all times";
      this.search(this.query);
    }

    invert() {
      if (this.timed) this.inTime();
      this.inverted = !this.inverted;
      this.tree = this.inverted ? (this.turned = this.turned || WS.flames.inverted(this.upright)) : this.upright;
      this.upper = null;
      this.flip.setAttribute("aria-pressed", String(this.inverted));
      this.focus = 0; this.chosen = -1; this.hovered = -1;
      this.search(this.query);
    }
  }

  WS.Flame = Flame;
})();
