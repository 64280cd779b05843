/* The timeline on one canvas, and what its reader does with it: move, select, search, follow links. */
"use strict";
(() => {
  const { AXIS, PAINT } = WS.TimelineDrawing, LEAST = 50;
  const LEGEND = { kernel: "kernels", communication: "communication", copy: "copies", set: "fills", launch: "launch calls", blocked: "calls that hold the host",
    call: "other calls", range: "ranges", op: "operators", stack: "own code", library: "libraries" };

  class Timeline extends WS.TimelineDrawing {
    constructor(host, data, series) {
      super();
      Object.assign(this, { host, data, begin: data.begin, end: data.end, live: data.live || "" });
      this.lines = new WS.Timelines(data);
      this.pointer = null; this.hovered = null; this.chosen = null; this.selection = null; this.search = ""; this.matches = null;
      this.open = new Set(); this.cut = new Map(); this.discs = [];
      this.tracks = this.arranged(series);
      [this.from, this.to] = this.padded(...data.window);
      this.build();
      this.restore();
      this.resize();
      new ResizeObserver(() => this.resize()).observe(this.host);
      window.addEventListener("themechange", () => { this.paint = this.shades = null; this.draw(); });
      window.addEventListener("hashchange", () => this.restore(true));
    }

    padded(from, to) { const room = (to - from) * 0.01; return [Math.max(this.begin, from - room), Math.min(this.end, to + room)]; }

    /* Tracks from top to bottom; the rows of one group are the levels of one track. */
    arranged(series) {
      const out = [], known = new Map();
      if (this.data.marks.length) out.push({ key: "findings", label: "findings", role: "marks", rows: [] });
      this.data.rows.forEach((row, i) => {
        if (!known.has(row.group)) { known.set(row.group, { key: row.group, label: row.label, role: row.role, rows: [] }); out.push(known.get(row.group)); }
        known.get(row.group).rows.push(i);
      });
      series.forEach((line, i) => { if (line.most > line.least) out.push({ key: `line${i}`, label: line.title, role: "line", rows: [], line }); });
      // The busiest thread is open; so is the first track of each kind.
      const first = out.find((t) => t.role === "calls");
      const thread = first ? first.key.replace(/\.calls$/, "") : "";
      for (const t of out) if (!["ranges", "ops", "stacks"].includes(t.role) || t.key.startsWith(`${thread}.`) || t === out.find((one) => one.role === t.role)) this.open.add(t.key);
      return out;
    }

    /* Levels of a track that are drawn: ranges by their nesting, stacks by their depth; see `makeRoom`. */
    levels(track) { return Math.min(this.whole(track), this.cut.get(track.key) || Infinity); }

    whole(track) {
      if (!this.open.has(track.key)) return 1;
      if (track.role === "ranges" || track.role === "ops") return track.rows.length;
      if (track.role !== "stacks") return 1;
      const key = `${track.key} ${this.lines.parts.length} ${this.libraries}`;
      if (track.measured !== key) {
        track.measured = key;
        track.depth = 1;
        for (const part of this.lines.of(track.rows[0])) {
          const used = part.slices.has(track.rows[0]) ? part.slices.get(track.rows[0]).name : part.bins.get(track.rows[0])[0].name;
          for (const stack of new Set(used)) if (stack) track.depth = Math.max(track.depth, this.frames(part, stack).length);
        }
        track.depth = Math.min(track.depth, 24);
      }
      return track.depth;
    }

    frames(part, stack) {
      part.shown = part.shown || new Map();
      const key = stack * 2 + (this.libraries ? 1 : 0);
      if (!part.shown.has(key)) part.shown.set(key, WS.folded(part.stack(stack), this.libraries));
      return part.shown.get(key);
    }

    build() {
      const button = (text, title, act) => WS.el("button", { type: "button", title, onclick: act }, text);
      this.told = WS.el("code", { class: "told", role: "status" });
      this.box = WS.el("input", { type: "search", placeholder: "Search the timeline", "aria-label": "Search the timeline: text or regular expression; in: before a file and line searches stacks",
        spellcheck: "false", oninput: (e) => this.find(e.target.value) });
      this.found = WS.el("span", { class: "told", role: "status" });
      this.box.addEventListener("keydown", (e) => {
        if (e.key === "Enter") { e.preventDefault(); this.goTo(e.shiftKey ? -1 : 1); }
        if (e.key === "Escape") { this.box.value = ""; this.find(""); this.canvas.focus({ preventScroll: true }); }
      });
      this.folding = WS.el("button", { type: "button", "aria-pressed": "false", title: "Show every frame of libraries", onclick: () => this.unfold() }, "Library frames");
      this.canvas = WS.el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "timeline",
        "aria-label": `Timeline of ${this.tracks.length} rows over ${WS.duration(this.end - this.begin)}. W and S zoom, A and D move, F fits, 0 shows all, arrows step, Enter selects, Escape clears, slash searches.` });
      this.spacer = WS.el("div");
      this.view = WS.el("div", { class: "view", tabindex: "-1" }, this.canvas, this.spacer);
      this.status = WS.el("div", { class: "sr", role: "status", "aria-live": "polite" });
      const kinds = new Set(this.lines.parts.flatMap((p) => p.kinds.map((k) => this.lines.kinds[k])));
      if (this.tracks.some((t) => t.role === "stacks")) kinds.add("stack").add("library");
      const legend = WS.el("ul", { class: "legend" }, ...Object.entries(LEGEND).filter(([k]) => kinds.has(k))
        .map(([k, text]) => WS.el("li", {}, WS.el("i", { style: `background:var(--${PAINT[k]})` }), text)));
      this.panel = WS.el("div", { class: "panel" });
      this.host.classList.add("timeline");
      this.host.replaceChildren(WS.el("div", { class: "toolbar" }, button("−", "Zoom out (s)", () => this.zoom(2)), button("+", "Zoom in (w)", () => this.zoom(0.5)),
        button("All", "Show all (0)", () => this.show(this.begin, this.end)), button("Verdict", "Show the stretch that the verdict is about", () => this.show(...this.padded(...this.data.window))),
        this.folding, this.box, this.found), this.told, this.view, this.status, legend, this.panel);
      const left = [];
      if (this.data.merged) left.push(`${this.data.merged} of the least busy streams have no row of their own; their device's row includes them`);
      if (this.data.threads) left.push(`${this.data.threads} of the least busy threads have no row`);
      if (left.length) this.host.append(WS.el("p", { class: "small muted" }, `${left.join("; ")}.`));
      this.details = new WS.Details(this, this.panel);
      this.listen();
    }

    listen() {
      const c = this.canvas;
      this.view.addEventListener("scroll", () => this.draw(), { passive: true });
      c.addEventListener("wheel", (e) => {
        const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.shiftKey ? e.deltaY : 0;
        if (sideways) { e.preventDefault(); this.pan(sideways / this.room * (this.to - this.from)); return; }
        if (!e.ctrlKey && !e.metaKey) return;  // the rows and the page scroll
        e.preventDefault();
        this.zoom(Math.exp(Math.max(-80, Math.min(80, e.deltaY)) * 0.012), this.timeAt(e));
      }, { passive: false });
      c.addEventListener("pointerdown", (e) => this.press(e));
      c.addEventListener("pointermove", (e) => (this.drag ? this.move(e) : this.hover(e)));
      for (const end of ["pointerup", "pointercancel"]) c.addEventListener(end, (e) => this.release(e, end === "pointerup"));
      c.addEventListener("pointerleave", () => { if (!this.drag) { this.pointer = null; this.hovered = null; WS.tip.hide(); this.draw(); } });
      c.addEventListener("dblclick", (e) => { if (this.place(e).x > this.gutter) this.zoom(0.25, this.timeAt(e)); });
      c.addEventListener("keydown", (e) => this.key(e));
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return false;
      const width = this.to - this.from, around = this.pointer ? this.timeOf(this.pointer.x) : undefined;
      const acts = { w: () => this.zoom(0.5, around), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), s: () => this.zoom(2, around), "-": () => this.zoom(2),
        a: () => this.pan(-width / 4), d: () => this.pan(width / 4), 0: () => this.show(this.begin, this.end), Home: () => this.show(this.begin, this.end),
        f: () => this.fit(), "/": () => this.box.focus(), n: () => this.goTo(1), N: () => this.goTo(-1), Escape: () => this.clear(),
        ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.climb(-1), ArrowDown: () => this.climb(1),
        Enter: () => { if (this.chosen) this.panel.querySelector("a, button, summary")?.focus(); else this.step(1); } };
      if (!acts[event.key]) return false;
      event.preventDefault();
      acts[event.key]();
      return true;
    }

    press(e) {
      const at = this.place(e);
      this.canvas.focus({ preventScroll: true });
      if (at.x < this.gutter || (this.narrow && at.track && at.inLabel)) { if (at.track) this.toggle(at.track); return; }
      this.canvas.setPointerCapture(e.pointerId);
      const pan = e.shiftKey || at.y < AXIS;
      this.drag = { x: at.x, time: this.timeOf(at.x), from: this.from, to: this.to, pan, moved: false };
    }

    move(e) {
      const d = this.drag, at = this.place(e);
      if (Math.abs(at.x - d.x) > 3) d.moved = true;
      if (!d.moved) return;
      WS.tip.hide();
      if (d.pan) {
        const shift = (d.x - at.x) / this.room * (d.to - d.from);
        this.show(d.from + shift, d.to + shift);
        return;
      }
      const t = this.timeOf(Math.max(this.gutter, Math.min(at.x, this.width)));
      this.selection = [Math.min(t, d.time), Math.max(t, d.time)].map(Math.round);
      this.draw();
    }

    release(e, done) {
      const d = this.drag;
      this.drag = null;
      if (!d || !done) return;
      if (!d.moved) { this.choose(this.under(this.place(e))); return; }
      if (!d.pan) { this.chosen = null; this.details.selection(...this.selection); }
      this.note();
    }

    toggle(track) {
      if (this.open.has(track.key) && !this.cut.delete(track.key)) this.open.delete(track.key); else this.open.add(track.key);
      this.resize();
    }

    unfold() {
      this.libraries = !this.libraries;
      this.cut.clear();
      this.folding.setAttribute("aria-pressed", String(this.libraries));
      this.resize();
    }

    show(from, to, quiet = false) {
      const whole = this.end - this.begin, width = Math.max(Math.min(to - from, whole), Math.min(LEAST, whole));
      this.from = Math.max(this.begin, Math.min(from, this.end - width));
      this.to = this.from + width;
      this.draw();
      if (!quiet) this.note();
    }

    zoom(factor, around) {
      const at = around === undefined ? (this.chosen ? Math.max(this.from, Math.min(this.to, (this.chosen.start + this.chosen.end) / 2)) : (this.from + this.to) / 2) : around;
      this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
    }

    pan(by) { this.show(this.from + by, this.to + by); }

    fit() {
      const [a, b] = this.selection || (this.chosen ? [this.chosen.start, this.chosen.end] : this.data.window), room = Math.max((b - a) * 0.1, 20);
      this.show(a - room, b + room);
    }

    clear() {
      this.chosen = null; this.selection = null;
      this.box.value = "";
      this.find("");
      this.details.clear();
      this.note();
    }

    /* The slice under a place: of a track of ranges the one of its level. */
    under(at) {
      if (!at.track || at.x < this.gutter) return null;
      const t = this.timeOf(at.x), role = at.track.role;
      if (role === "marks") {
        const near = 7 / this.room * (this.to - this.from), disc = this.discs.find((one) => Math.abs(one.x - at.x) <= 8);
        if (disc) return disc.mark;
        return this.data.marks.filter((m) => t >= m.begin - near && t <= Math.max(m.end, m.begin + 2 * near)).sort((a, b) => (a.end - a.begin) - (b.end - b.begin))[0] || null;
      }
      if (role === "line") return null;
      const row = at.track.rows[["ranges", "ops"].includes(role) ? at.level : 0];
      if (row === undefined) return null;
      const reach = 2 / this.room * (this.to - this.from);
      const slice = this.lines.at(row, t) || this.lines.at(row, t + reach) || this.lines.at(row, t - reach);
      return slice && { ...slice, level: at.level, track: at.track };
    }

    choose(slice, quiet = false) {
      if (slice && slice.number) { location.hash = `finding-${slice.number}`; return; }
      this.chosen = slice;
      if (slice) {
        this.selection = null;
        slice.track = slice.track || this.tracks.find((t) => t.rows.includes(slice.row));
        this.status.textContent = `${slice.name}, ${WS.duration(slice.end - slice.start)} from ${WS.moment(slice.start)}`;
        this.details.slice(slice);
      } else this.details.clear();
      this.draw();
      if (!quiet) this.note();
    }

    /* The neighbour in the row of the chosen slice; without one the first that is in view. */
    step(by) {
      const next = this.chosen ? this.lines.next(this.chosen, by) : this.first();
      if (!next) { if (!this.chosen) this.pan(by * (this.to - this.from) / 4); return; }
      this.choose(next);
      if (next.start < this.from || next.end > this.to) this.show(next.start - (this.to - this.from) / 2, next.start + (this.to - this.from) / 2);
    }

    first(tracks = this.tracks.filter((t) => ["device", "stream"].includes(t.role))) {
      for (const track of tracks) {
        for (const part of track.rows.length ? this.lines.of(track.rows[0]) : []) {
          const own = part.slices.get(track.rows[0]);
          if (!own) continue;
          const k = WS.lower(own.start, this.from, 0, own.start.length);
          if (k < own.start.length && own.start[k] < this.to) return this.lines.slice(part, track.rows[0], k);
        }
      }
      return null;
    }

    /* To the row above or below, at the same moment or the next slice there. */
    climb(by) {
      const rows = this.tracks.flatMap((t) => (this.open.has(t.key) && t.role !== "stacks" ? t.rows : t.rows.slice(0, 1)).map((row) => [t, row]));
      if (!rows.length) return;
      if (!this.chosen) { this.step(1); return; }
      const t = this.chosen.start;
      for (let i = rows.findIndex(([, row]) => row === this.chosen.row) + by; i >= 0 && i < rows.length; i += by) {
        const [track, row] = rows[i];
        const found = this.lines.at(row, t) || (() => {
          for (const part of this.lines.of(row)) {
            const own = part.slices.get(row), k = own ? WS.lower(own.start, t, 0, own.start.length) : 0;
            if (own && k < own.start.length) return this.lines.slice(part, row, k);
          }
          return null;
        })();
        if (found) { this.choose({ ...found, track }); return; }
      }
    }

    /* Search: names, or with `in:` stacks that hold a frame; what does not match is dimmed. */
    find(text, quiet = false) {
      this.search = text;
      this.matches = null;
      this.places = null;
      this.found.textContent = "";
      if (text) {
        const inside = text.startsWith("in:"), words = inside ? text.slice(3).trim() : text;
        let pattern;
        try { pattern = inside ? null : new RegExp(words, "i"); } catch { pattern = null; }
        const test = (s) => (pattern ? pattern.test(s) : s.toLowerCase().includes(words.toLowerCase()));
        this.matches = new Map();
        this.matching = { inside, test };
        this.collect(inside ? null : words);
      }
      this.draw();
      if (!quiet) this.note();
    }

    hits(part) {
      if (!this.matches.has(part)) {
        const { inside, test } = this.matching, frame = part.frames.map(([text]) => test(text)), stack = new Uint8Array(part.parent.length + 1);
        const holds = (number) => {
          if (!number) return false;
          if (!stack[number]) stack[number] = frame[part.frame[number - 1]] || holds(part.parent[number - 1]) ? 2 : 1;
          return stack[number] === 2;
        };
        for (let i = 1; i < stack.length; i++) holds(i);
        this.matches.set(part, { inside, name: part.names.map((text) => !inside && test(text)), stack });
      }
      return this.matches.get(part);
    }

    /* Whether a slice or bin matches; `name` is a number of a name or, on rows of stacks, of a stack. */
    hit(part, row, name, stack) {
      const h = this.hits(part);
      if (this.data.rows[row].role === "stacks") return h.stack[name] === 2;
      return h.inside ? h.stack[stack] === 2 : h.name[name];
    }

    /* Device work that matches: here as far as slices are here, of a server all of it. */
    async collect(words) {
      const places = [], role = this.tracks.some((t) => t.role === "device") ? "device" : "calls";
      let exact = true, time = 0;
      this.data.rows.forEach((row, i) => {
        if (row.role !== role) return;
        this.lines.cover(i, this.begin, this.end, (part, a, b) => {
          const own = part.slices.get(i);
          if (!own) { exact = false; return; }
          const [lo, hi] = part.range(own, a, b);
          for (let k = lo; k < hi; k++) if (own.start[k] >= a && this.hit(part, i, own.name[k], own.stack[k])) { places.push([i, own.start[k], own.end[k]]); time += own.end[k] - own.start[k]; }
        });
      });
      this.places = places.sort((a, b) => a[1] - b[1]);
      let count = places.length;
      if (!exact && this.live && words) {
        const asked = this.search, answer = await this.ask(`${this.live}/search?pattern=${encodeURIComponent(words)}`);
        if (asked !== this.search) return;
        if (answer) { exact = true; ({ count, time } = answer); this.places = answer.start.map((t, i) => [answer.row[i], t, answer.end[i]]); }
      }
      this.found.textContent = count ? `${WS.count(count)}× ${WS.duration(time)}${exact ? "" : " among the single kernels of this file"}; Enter goes to the next` : exact ? "no match" : "no match among the single kernels of this file";
    }

    goTo(by) {
      if (!this.places || !this.places.length) return;
      const at = this.chosen ? this.chosen.start : by > 0 ? this.from - 1 : this.to;
      const next = (by > 0 ? this.places.find(([, start]) => start > at) : this.places.findLast(([, start]) => start < at)) || this.places[by > 0 ? 0 : this.places.length - 1];
      this.goal = next;
      const width = Math.min(this.to - this.from, Math.max((next[2] - next[1]) * 60, 20_000));
      this.show(next[1] - width / 2, next[1] + width / 2);
      this.settle();
    }

    /* Chooses what was asked for once its slices are here. */
    settle() {
      if (!this.goal) return;
      const [row, start] = this.goal, slice = this.lines.at(row, start + 0.5);
      if (slice && slice.start === start) { this.goal = null; this.choose(slice); }
    }

    /* The fragment of the address: window, selection, chosen slice, search. */
    note() {
      clearTimeout(this.noting);
      this.noting = setTimeout(() => {
        const digit = (this.to - this.from) / 1e4, parts = [`from=${WS.moment(this.from, digit)}`, `until=${WS.moment(this.to, digit)}`];
        if (this.selection) parts.push(`select=${this.selection.map((t) => WS.moment(t)).join("..")}`);
        if (this.chosen) parts.push(`row=${this.data.rows[this.chosen.row].key}`, `at=${WS.moment(this.chosen.start)}`);
        if (this.search) parts.push(`search=${encodeURIComponent(this.search)}`);
        this.own = `#timeline?${parts.join("&")}`;
        try { history.replaceState(null, "", this.own); } catch { /* a page in a frame may not */ }
      }, 150);
    }

    restore(moved = false) {
      if (!location.hash.startsWith("#timeline?")) return;
      const section = document.getElementById("timeline");
      if (section) section.scrollIntoView({ behavior: "instant" });
      if (location.hash === this.own) return;
      const asked = new URLSearchParams(location.hash.slice("#timeline?".length).replace(/\+/g, "%2B")), time = (name) => WS.parseMoment(asked.get(name));
      const from = time("from"), until = time("until"), select = (asked.get("select") || "").split("..").map(WS.parseMoment);
      this.selection = select.length === 2 && select.every((t) => t !== null) ? select : null;
      this.chosen = null;
      this.box.value = asked.get("search") || "";
      if (from !== null && until !== null && until > from) { this.from = Math.max(this.begin, from); this.to = Math.min(this.end, until); if (this.to - this.from < 1) this.show(from, until, true); }
      const row = this.data.rows.findIndex((r) => r.key === asked.get("row")), at = time("at");
      if (this.box.value !== this.search) this.find(this.box.value, true);
      if (this.selection) this.details.selection(...this.selection); else this.details.clear();
      if (row >= 0 && at !== null) {
        const slice = this.lines.at(row, at + 0.5);
        if (slice) this.choose(slice, true); else this.goal = [row, at];
      }
      if (moved) this.draw();
    }

    hover(event) {
      const at = this.place(event);
      if (!at.track || at.x < this.gutter) {
        if (this.pointer || this.hovered) { this.pointer = null; this.hovered = null; this.draw(); }
        WS.tip.hide();
        this.canvas.style.cursor = at.track ? "pointer" : at.y < AXIS ? "grab" : "default";
        return;
      }
      this.canvas.style.cursor = "crosshair";
      this.pointer = { x: at.x };
      const t = this.timeOf(at.x), when = WS.moment(t, (this.to - this.from) / this.room), found = this.under(at);
      this.hovered = found && found.row !== undefined ? found : null;
      this.draw();
      this.tell(event, at, t, when, found);
    }

    tell(event, at, t, when, found) {
      const tip = (title, ...rest) => WS.tip.show(event, WS.el("b", {}, WS.shorten(title, 300)), ...rest.flatMap((text) => [WS.el("br"), WS.el("small", {}, text)]));
      if (at.track.role === "marks") { if (found) tip(`${found.number}. ${found.text}`, `${WS.duration(found.end - found.begin)} from ${WS.moment(found.begin)}; click for the finding`); else WS.tip.hide(); return; }
      if (at.track.role === "line") {
        const { time, value, low, high, data } = at.track.line, i = Math.max(0, Math.min(time.length - 1, WS.lower(time, t, 0, time.length) - (data.step ? 1 : 0)));
        tip(`${WS.amount(value[i], data.unit)}`, `${at.track.label}${low[i] === high[i] ? "" : ` (${WS.amount(low[i], data.unit)} to ${WS.amount(high[i], data.unit)})`} at ${when}`);
        return;
      }
      if (at.track.role === "stacks") {
        const box = (at.track.drawn || []).find((b) => b.d === at.level && at.x >= b.x && at.x < b.x + b.w);
        if (!box) { WS.tip.hide(); return; }
        const inside = box.frame.frames ? box.frame.frames.slice(-8).map(([text]) => text) : [];
        tip(box.frame.label, `${WS.duration((box.to - box.from) / this.room * (this.to - this.from))} around ${when} · ${at.track.label}`, ...inside);
        return;
      }
      const row = at.track.rows[Math.min(at.level, at.track.rows.length - 1)], label = this.data.rows[row].label;
      if (found) {
        const own = found.stack ? this.lines.own(found.part, found.stack) : "";
        tip(found.name, `${WS.duration(found.end - found.start)} from ${WS.moment(found.start)} · ${label}`, ...(found.caller >= 0 ? [`launched ${WS.duration(found.lag)} before`] : []), ...(own ? [own] : []));
        return;
      }
      const pixel = (this.to - this.from) / this.room, { busy, names } = this.lines.sums(row, Math.max(this.begin, t - pixel), Math.min(this.end, t + pixel));
      const most = [...names].sort((a, b) => b[1].time - a[1].time)[0];
      tip(most ? most[0] : "idle", `${WS.percent(busy, 2 * pixel)} busy at ${when} · ${label}`);
    }

    /* Of a server: the window in view with room at both sides, once the view has come to rest. */
    fetch() {
      clearTimeout(this.fetching);
      this.fetching = setTimeout(async () => {
        const width = this.to - this.from, from = Math.floor(this.from - width / 2), until = Math.ceil(this.to + width / 2), key = `${from} ${until}`;
        if (this.asking === key || this.lines.parts.some((p) => p.begin <= this.from && p.end >= this.to && p.end - p.begin <= 2.2 * width)) return;
        this.asking = key;
        const sent = await this.ask(`${this.live}?begin=${from}&end=${until}`);
        this.asking = null;
        if (sent) { this.lines.add(sent); this.settle(); this.resize(); }
      }, 90);
    }

    async ask(address) {
      try { const answer = await fetch(address); return answer.ok ? await answer.json() : null; } catch { return null; }
    }
  }

  WS.Timeline = Timeline;
})();
