/* What is chosen on the timeline in words: a slice with its stack, or the sums of a selection. */
"use strict";
(() => {
  class Details {
    constructor(timeline, host) { Object.assign(this, { timeline, host }); this.clear(); }

    clear() {
      this.host.replaceChildren(WS.el("p", { class: "small muted" }, "Click a kernel, call or range for its stack; drag to add up a stretch of time. ",
        ...[["w", "s", "zoom"], ["a", "d", "move"], ["f", "fit"], ["/", "search"], ["←", "→", "next"], ["Esc", "clear"]].flatMap((keys) => [...keys.slice(0, -1).map((k) => WS.el("kbd", {}, k)), ` ${keys[keys.length - 1]} `])));
    }

    /* A stretch of time as options, to be copied. */
    times(from, to, label = "Copy") {
      const text = `--from ${WS.moment(from)} --until ${WS.moment(to)}`, code = WS.el("code", {}, text);
      const copy = WS.el("button", { type: "button", onclick: async () => {
        try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; }
        catch { getSelection().selectAllChildren(code); }  // pages from a file may not write to the clipboard
      } }, label);
      return WS.el("p", { class: "times" }, code, copy, WS.el("button", { type: "button", onclick: () => this.timeline.fit() }, "Fit"));
    }

    slice(slice) {
      const { timeline } = this, row = timeline.data.rows[slice.row], length = slice.end - slice.start;
      const facts = [["Duration", WS.duration(length)], ["Row", row.label]];
      const caller = slice.caller >= 0 ? timeline.lines.at(slice.caller, slice.start - slice.lag) : null;
      if (slice.caller >= 0) facts.push(["Launched", `${WS.duration(slice.lag)} before, at ${WS.moment(slice.start - slice.lag)}`]);
      const kernels = row.role === "calls" ? timeline.lines.asked(slice.row, slice.start) : [];
      const go = (text, target) => WS.el("button", { type: "button", onclick: () => { timeline.choose(target); if (target.start < timeline.from || target.end > timeline.to) timeline.pan(target.start - (timeline.from + timeline.to) / 2); } }, text);
      const acts = [];
      if (caller) acts.push(go(`Its call: ${WS.shorten(caller.name, 40)}`, caller));
      kernels.slice(0, 5).forEach((kernel) => acts.push(go(`→ ${WS.shorten(kernel.name, 50)}`, kernel)));
      if (row.role !== "stacks") acts.push(WS.el("button", { type: "button", onclick: () => this.search(slice.name) }, "All of this name"));
      if (window.report && window.report.flame && slice.kind === "kernel") acts.push(WS.el("button", { type: "button", onclick: () => this.inFlame(slice.name) }, "In the flame graph"));
      this.host.replaceChildren(WS.el("h3", { class: "mono" }, slice.name), WS.el("dl", { class: "facts" }, ...facts.map(([key, value]) => WS.el("div", {}, WS.el("dt", {}, key), WS.el("dd", {}, value)))),
        this.times(slice.start, slice.end), WS.el("div", { class: "toolbar" }, ...acts), this.stack(slice));
    }

    search(name) {
      this.timeline.box.value = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      this.timeline.find(this.timeline.box.value);
    }

    inFlame(name) {
      const flame = window.report.flame;
      flame.searchBox.value = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      flame.search(flame.searchBox.value);
      document.getElementById("flame").scrollIntoView();
    }

    /* Innermost first; frames of libraries are one line that opens. */
    stack(slice) {
      if (!slice.stack) return WS.el("p", { class: "small muted" }, "No host stack was recorded for it.");
      const item = (text) => {
        const place = /\(([^()]*:\d+)\)$/.exec(text), line = place && window.report && window.report.lines && window.report.lines.get(place[1]);
        return line ? WS.el("a", { href: `#${line}` }, text) : text;
      };
      const list = WS.folded(slice.part.stack(slice.stack), false).reverse().map((frame) => frame.frames
        ? WS.el("li", { class: "library" }, WS.el("details", {}, WS.el("summary", {}, frame.label), WS.el("ol", {}, ...frame.frames.slice().reverse().map(([text]) => WS.el("li", {}, item(text))))))
        : WS.el("li", frame.library ? { class: "library" } : {}, item(frame.label)));
      return WS.el("div", { class: "stack-of" }, WS.el("h4", {}, slice.kind === "stack" ? "Stack" : "Asked for by"), WS.el("ol", {}, ...list));
    }

    /* Sums of [from, to): busy and idle time of each device, the kernels and the host's own frames with most time. */
    async selection(from, to) {
      const { timeline } = this, token = this.token = {}, length = to - from;
      const inside = [Math.max(from, timeline.begin), Math.min(to, timeline.end)];
      let exact = true;
      const devices = [], names = new Map(), frames = new Map();
      const add = (into, found) => found.forEach((one, name) => { const known = into.get(name) || { ...one, time: 0, count: 0 }; known.time += one.time; known.count += one.count; into.set(name, known); });
      timeline.data.rows.forEach((row, i) => {
        if (!["device", "stacks"].includes(row.role)) return;
        const found = timeline.lines.sums(i, ...inside);
        if (row.role === "stacks") { add(frames, found.names); return; }
        exact = exact && found.exact;
        devices.push([row, found.busy]);
        add(names, found.names);
      });
      this.show(from, to, length, devices, [...names], [...frames], exact);
      if (exact || !timeline.live) return;
      const answer = await timeline.ask(`${timeline.live}/sums?begin=${Math.floor(from)}&end=${Math.ceil(to)}`);
      if (!answer || this.token !== token) return;
      this.show(from, to, length, devices.map(([row]) => [row, answer.busy[row.key]]), answer.names.map((n) => [n.name, { ...n, kind: timeline.lines.kinds[n.kind] }]), [...frames], true);
    }

    show(from, to, length, devices, names, frames, exact) {
      const about = exact ? "" : "≈ ";
      const rows = (list, count) => list.sort((a, b) => b[1].time - a[1].time).slice(0, count).map(([name, one]) => WS.el("tr", {}, WS.el("td", { class: "w" }, WS.el("i", { class: "dot", style: `background:var(--${({ stack: "t-own" })[one.kind] || one.kind})` }), WS.shorten(name, 90)),
        WS.el("td", { class: "n" }, about + WS.duration(one.time)), WS.el("td", { class: "n" }, one.count ? WS.count(one.count) : "")));
      const table = (title, body, last) => WS.el("table", {}, WS.el("thead", {}, WS.el("tr", {}, WS.el("th", { class: "w", scope: "col" }, title), WS.el("th", { class: "n", scope: "col" }, "Time"), WS.el("th", { class: "n", scope: "col" }, last))), WS.el("tbody", {}, ...body));
      const parts = [WS.el("h3", {}, `${WS.duration(length)} selected`), this.times(from, to),
        WS.el("dl", { class: "facts" }, ...devices.flatMap(([row, busy]) => [[devices.length > 1 ? row.label : "Busy", `${about}${WS.duration(busy)}, ${WS.percent(busy, length)}`], [devices.length > 1 ? "idle" : "Idle", `${about}${WS.duration(Math.max(0, length - busy))}`]])
          .map(([key, value]) => WS.el("div", {}, WS.el("dt", {}, key), WS.el("dd", {}, value))))];
      const tables = [];
      if (names.length) tables.push(table("Device work", rows(names, 8), "Begun"));
      if (frames.length) tables.push(table("Own code on the host, as seen", rows(frames, 8), ""));
      parts.push(WS.el("div", { class: "two" }, ...tables));
      if (!exact) parts.push(WS.el("p", { class: "small muted" }, "≈ from the overview: this file holds single kernels of the judged window; warpsight open has all."));
      this.host.replaceChildren(...parts);
    }
  }

  WS.Details = Details;
})();
