/* A flame graph on a canvas: root on top, zoom, search, kernels first, keyboard. Data: see render/flame_page.py. */
"use strict";
(() => {
  const ROW = 20;
  const GROUPS = ["device", "stream", "rank", "process", "thread"];
  const LEGEND = { group: "device, stream, rank, process, thread", python: "Python", native: "native", missing: "no host stack", range: "range",
    op: "operator", kernel: "kernel", copy: "copy", set: "set", allocation: "allocation",
    source: "source line on the device", instruction: "instruction", stall: "stall reason",
    running: "running", waiting: "waiting" };
  /* Kinds that share a colour with another. */
  const LIKE = { allocation: "copy", source: "range", instruction: "set", stall: "copy", running: "kernel", waiting: "missing" };
  const kindOf = (kind) => GROUPS.includes(kind) ? "group" : ["marker", "line"].includes(kind) ? "native" : kind;

  /* Nodes in preorder; a tree is {depth, label, own: [columns], count: [columns]}; totals, ends and lefts are added. */
  function prepare(tree) {
    const n = tree.depth.length, columns = tree.own.length, stack = [];
    tree.parent = new Int32Array(n);
    tree.end = new Int32Array(n);
    tree.total = tree.own.map((c) => Float64Array.from(c));
    tree.rows = tree.count.map((c) => Float64Array.from(c));
    for (let i = 0; i < n; i++) {
      while (stack.length > tree.depth[i]) tree.end[stack.pop()] = i;
      tree.parent[i] = stack.length ? stack[stack.length - 1] : -1;
      stack.push(i);
    }
    while (stack.length) tree.end[stack.pop()] = n;
    for (let i = n - 1; i > 0; i--)
      for (let c = 0; c < columns; c++) {
        tree.total[c][tree.parent[i]] += tree.total[c][i];
        tree.rows[c][tree.parent[i]] += tree.rows[c][i];
      }
    return place(tree);
  }

  function place(tree) {
    const width = tree.total[tree.total.length - 1], n = width.length, reached = new Float64Array(n);
    tree.left = new Float64Array(n);
    for (let i = 1; i < n; i++) {
      const p = tree.parent[i];
      tree.left[i] = reached[p];
      reached[p] += width[i];
      reached[i] = tree.left[i];
    }
    return tree;
  }

  /* The same weights with the leaf as the first frame and its callers below it. */
  function inverted(tree) {
    const columns = tree.own.length, root = { label: tree.label[0], own: Array(columns).fill(0), count: Array(columns).fill(0),
      sum: 0, children: new Map() };
    for (let i = 1; i < tree.depth.length; i++) {
      const own = tree.own.map((c) => c[i]), count = tree.count.map((c) => c[i]), sum = own.reduce((a, b) => a + b, 0);
      if (!sum && !count.some(Boolean)) continue;
      let node = root;
      for (let at = i; at > 0; at = tree.parent[at]) {
        let child = node.children.get(tree.label[at]);
        if (!child) node.children.set(tree.label[at], child = { label: tree.label[at], own: Array(columns).fill(0),
          count: Array(columns).fill(0), sum: 0, children: new Map() });
        child.sum += sum;
        node = child;
      }
      for (let c = 0; c < columns; c++) { node.own[c] += own[c]; node.count[c] += count[c]; }
    }
    const out = { depth: [], label: [], own: root.own.map(() => []), count: root.own.map(() => []) };
    const visit = [[root, 0]];
    while (visit.length) {
      const [node, depth] = visit.pop();
      out.depth.push(depth);
      out.label.push(node.label);
      node.own.forEach((v, c) => out.own[c].push(v));
      node.count.forEach((v, c) => out.count[c].push(v));
      visit.push(...[...node.children.values()].sort((a, b) => a.sum - b.sum).map((child) => [child, depth + 1]));
    }
    return prepare(out);
  }

  class Flame {
    constructor(host, data) {
      this.host = host; this.data = data;
      this.plain = prepare(data.tree);
      this.tree = this.plain;
      this.focus = 0; this.chosen = -1; this.hovered = -1; this.matches = null; this.query = "";
      this.build();
      this.draw();
      new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
      window.addEventListener("themechange", () => { this.legendColors(); this.draw(); });
    }

    build() {
      const search = WS.el("input", { type: "search", placeholder: "Search frames (text or regular expression)",
        "aria-label": "Search frames", spellcheck: "false", oninput: (e) => this.search(e.target.value) });
      search.addEventListener("keydown", (e) => { if (e.key === "Escape") { search.value = ""; this.search(""); this.canvas.focus(); } });
      this.searchBox = search;
      this.found = WS.el("span", { class: "told", role: "status" });
      this.flip = WS.el("button", { type: "button", "aria-pressed": "false", title: "Leaves on top, their callers below",
        onclick: () => this.invert() }, this.data.weight === "samples" ? "Innermost first" : "Kernels first");
      const reset = WS.el("button", { type: "button", onclick: () => this.zoom(0) }, "Reset zoom");
      this.crumbs = WS.el("nav", { class: "crumbs", "aria-label": "Zoomed into" });
      this.canvas = WS.el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "flame graph",
        "aria-label": `${this.data.title}. Arrow keys move between frames, Enter zooms, Escape resets, slash searches.` });
      this.status = WS.el("div", { class: "sr", role: "status", "aria-live": "polite" });
      this.legend = WS.el("ul", { class: "legend" });
      this.host.classList.add("flame");
      this.host.replaceChildren(WS.el("div", { class: "toolbar" }, search, this.flip, reset, this.found), this.crumbs,
        WS.el("div", {}, this.canvas), this.status, this.legend);
      this.canvas.addEventListener("mousemove", (e) => this.hover(e));
      this.canvas.addEventListener("mouseleave", () => { this.hovered = -1; WS.tip.hide(); this.draw(); });
      this.canvas.addEventListener("click", (e) => { const i = this.at(e); if (i >= 0) this.zoom(i); });
      this.canvas.addEventListener("keydown", (e) => this.key(e));
      this.legendColors();
    }

    legendColors() {
      if (this.data.columns === 2) {
        this.legend.replaceChildren(...[["--d-more", "more than before"], ["--d-base", "unchanged"], ["--d-less", "less than before"]]
          .map(([name, text]) => WS.el("li", {}, WS.el("i", { style: `background:var(${name})` }), text)));
        return;
      }
      const kinds = [...new Set(this.data.kinds.map(kindOf))].filter((k) => LEGEND[k]);
      this.legend.replaceChildren(...Object.keys(LEGEND).filter((k) => kinds.includes(k)).map((k) =>
        WS.el("li", {}, WS.el("i", { style: `background:var(--f-${LIKE[k] || k})` }), LEGEND[k])));
    }

    label(i) { return this.data.labels[this.tree.label[i]]; }
    /* What is drawn: the return type of a kernel tells nothing. */
    short(i) { return this.label(i).replace(/^void /, ""); }
    kind(i) { return kindOf(this.data.kinds[this.tree.label[i]]); }
    weight(i) { return this.tree.total[this.tree.total.length - 1][i]; }

    fill(i) {
      if (this.data.columns === 2) {
        const before = this.tree.total[0][i], after = this.tree.total[1][i], most = Math.max(before, after);
        const change = most ? (after - before) / most : 0;
        return WS.mix(this.colors.base, change > 0 ? this.colors.more : this.colors.less, 0.85 * Math.abs(change));
      }
      const text = this.label(i);
      let hash = 7;
      for (let c = 0; c < Math.min(text.length, 24); c++) hash = (hash * 31 + text.charCodeAt(c)) & 0xffff;
      return WS.mix(this.colors[this.kind(i)] || this.colors.root, this.colors.surface, (hash % 17) / 17 * 0.28);
    }

    readColors() {
      this.colors = { base: WS.color("--d-base"), more: WS.color("--d-more"), less: WS.color("--d-less"), surface: WS.color("--surface"),
        ink: WS.color("--f-ink"), mark: WS.color("--mark"), markInk: WS.color("--mark-ink"), accent: WS.color("--accent") };
      for (const kind of ["root", "group", "python", "native", "missing", "range", "op", "kernel", "copy", "set"])
        this.colors[kind] = WS.color(`--f-${kind}`);
      for (const [kind, other] of Object.entries(LIKE)) this.colors[kind] = this.colors[other];
    }

    /* Calls visit(node, x, width, row) for what is at least half a pixel wide. */
    layout(visit) {
      const tree = this.tree, width = this.width, focus = this.focus, whole = this.weight(focus) || 1;
      const above = [];
      for (let p = tree.parent[focus]; p >= 0; p = tree.parent[p]) above.unshift(p);
      above.forEach((p) => visit(p, 0, width, tree.depth[p]));
      for (let i = focus; i < tree.end[focus];) {
        const w = this.weight(i) / whole * width;
        if (w < 0.5 && i !== focus) { i = tree.end[i]; continue; }
        visit(i, (tree.left[i] - tree.left[focus]) / whole * width, w, tree.depth[i]);
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
      this.layout((i, x, w, row) => {
        const hit = this.matches && this.matches.has(this.tree.label[i]), y = row * ROW;
        this.boxes.push([i, x, w, row]);
        g.globalAlpha = this.tree.depth[i] < this.tree.depth[this.focus] ? 0.55 : this.matches && !hit ? 0.45 : 1;
        g.fillStyle = hit ? this.colors.mark : this.fill(i);
        g.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), 0.5), ROW - 1);
        g.globalAlpha = this.matches && !hit ? 0.7 : 1;
        if (i === this.hovered || i === this.chosen) {
          g.strokeStyle = this.colors.accent; g.lineWidth = 2;
          g.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), ROW - 3);
        }
        if (w > 26) {
          g.fillStyle = hit ? this.colors.markInk : this.colors.ink;
          let text = WS.shorten(this.short(i), Math.floor((w - 8) / character));
          while (text.length > 2 && g.measureText(text).width > w - 7) text = WS.shorten(this.short(i), text.length - 2);
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
      const key = path.join();
      if (key === this.crumbKey && this.crumbTree === this.tree) return;
      this.crumbKey = key; this.crumbTree = this.tree;
      if (!path.length) { this.crumbs.replaceChildren(this.data.hint); return; }
      const items = [WS.el("button", { type: "button", onclick: () => this.zoom(0) }, "all")];
      for (const p of path) items.push("›", WS.el("button", { type: "button", onclick: () => this.zoom(p) }, WS.shorten(this.label(p), 60)));
      this.crumbs.replaceChildren(...items);
    }

    at(event) {
      const r = this.canvas.getBoundingClientRect(), x = event.clientX - r.left, row = Math.floor((event.clientY - r.top) / ROW);
      const box = this.boxes.find(([, left, w, at]) => at === row && x >= left && x < left + w);
      return box ? box[0] : -1;
    }

    told(i) {
      const unit = this.data.unit, total = this.tree.total, rows = this.tree.rows, last = total.length - 1;
      const parts = [this.data.columns === 2
        ? `${WS.amount(total[0][i], unit)} → ${WS.amount(total[1][i], unit)} (${total[1][i] >= total[0][i] ? "+" : "−"}${WS.amount(Math.abs(total[1][i] - total[0][i]), unit)})`
        : WS.amount(total[0][i], unit)];
      parts.push(`${WS.percent(total[last][i], total[last][0])} of all`);
      if (this.tree.parent[i] > 0) parts.push(`${WS.percent(total[last][i], total[last][this.tree.parent[i]])} of the frame above`);
      if (!["launches", "samples"].includes(this.data.weight)) parts.push(`${WS.count(rows[last][i])} ${this.data.rows}`);
      return parts.join(" · ");
    }

    hover(event) {
      const i = this.at(event);
      if (i !== this.hovered) { this.hovered = i; this.draw(); }
      if (i < 0) { WS.tip.hide(); return; }
      WS.tip.show(event, WS.el("b", {}, WS.shorten(this.label(i), 400)), WS.el("br"), WS.el("small", {}, this.told(i)));
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
        ArrowRight: () => this.choose(around[place + 1]), ArrowLeft: () => this.choose(around[place - 1]), Enter: () => this.zoom(at),
        Escape: () => this.zoom(0), "/": () => this.searchBox.focus() };
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
        let sum = 0, frames = 0;
        for (let i = 0; i < this.tree.depth.length;) {  // a match inside a match counts once
          if (this.matches.has(this.tree.label[i])) { sum += this.weight(i); i = this.tree.end[i]; frames++; } else i++;
        }
        this.found.textContent = frames ? `${WS.count(frames)} ${frames === 1 ? "frame" : "frames"}: ${WS.amount(sum, this.data.unit)}, ${WS.percent(sum, this.weight(0))}` : "no match";
      }
      this.draw();
    }

    invert() {
      const on = this.tree === this.plain;
      this.tree = on ? (this.turned = this.turned || inverted(this.plain)) : this.plain;
      this.flip.setAttribute("aria-pressed", String(on));
      this.focus = 0; this.chosen = -1; this.hovered = -1;
      this.search(this.query);
    }
  }

  WS.Flame = Flame;
})();
