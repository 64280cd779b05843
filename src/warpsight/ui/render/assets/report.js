/* Puts the pictures into the report; tables that sort and search, keys, the section in view. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent), by = (id) => document.getElementById(id);
  by("theme").addEventListener("click", WS.theme.toggle);
  const page = window.report = { data, lines: new Map(Object.entries(data.lines || {})) };
  const span = data.timeline ? [data.timeline.begin, data.timeline.end] : [Infinity, -Infinity];
  for (const s of [...data.memory, ...data.counters]) {
    const t = WS.unpack(s.time, Float64Array);
    span[0] = Math.min(span[0], t[0]); span[1] = Math.max(span[1], t[t.length - 1]);
  }
  if (data.flame && by("flame-view")) page.flame = new WS.Flame(by("flame-view"), data.flame);
  page.charts = [...WS.charts(by("memory-view"), data.memory, span, "--host"), ...WS.charts(by("counters-view"), data.counters, span, "--kernel")];
  if (data.timeline && by("timeline-view")) page.timeline = new WS.Timeline(by("timeline-view"), data.timeline, page.charts);
  if (by("iterations-view")) page.bars = (data.iterations || []).map((d) => new WS.Bars(by("iterations-view"), d));
  if (by("share")) by("share").addEventListener("click", () => { by("share").textContent = "Making the file…"; setTimeout(() => { by("share").textContent = "Share"; }, 4000); });

  for (const table of document.querySelectorAll("table.sortable"))
    table.querySelectorAll("th").forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending" === head.classList.contains("n") || head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const number = head.classList.contains("n"), key = (row) => row.cells[column].dataset.sort;
      const rows = [...table.tBodies[0].rows].sort((a, b) => number ? key(a) - key(b) : key(a).localeCompare(key(b), "en", { numeric: true }));
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
    }));

  // A long text is cut to two lines, and whole when it is clicked.
  for (const cell of document.querySelectorAll("td.w:has(> span.long)")) {
    const told = cell.querySelector("span"), brief = told.textContent;
    cell.addEventListener("click", () => {
      if (getSelection().toString()) return;
      told.textContent = told.classList.toggle("whole") && cell.title ? cell.title : brief;
    });
  }

  const search = by("kernel-search");
  if (search) search.addEventListener("input", () => {
    let pattern;
    try { pattern = new RegExp(search.value, "i"); } catch { pattern = { test: (s) => s.toLowerCase().includes(search.value.toLowerCase()) }; }
    const rows = [...by("kernel-table").tBodies[0].rows];
    const shown = rows.filter((row) => !(row.hidden = !pattern.test(row.cells[0].dataset.sort))).length;
    by("kernel-found").textContent = search.value ? `${shown} of ${rows.length}` : "";
  });

  const sections = [...document.querySelectorAll("main > section")], links = new Map([...document.querySelectorAll("nav.side a")].map((a) => [a.hash.slice(1), a]));
  const current = () => {
    if (scrollY <= 2) return 0;
    let at = 0;
    sections.forEach((s, i) => { if (s.getBoundingClientRect().top < innerHeight * 0.35) at = i; });
    if (innerHeight + scrollY >= document.documentElement.scrollHeight - 2) at = sections.length - 1;
    return at;
  };
  const mark = () => {
    links.forEach((a) => a.removeAttribute("aria-current"));
    const link = links.get(sections[current()].id);
    if (link) link.setAttribute("aria-current", "true");
  };
  document.addEventListener("scroll", mark, { passive: true });
  mark();

  document.addEventListener("keydown", (e) => {
    if (e.target.matches("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    // The timeline's keys work wherever the focus is, while the timeline is in view; arrows and Enter only with the focus on it.
    const seen = page.timeline && page.timeline.view.getBoundingClientRect();
    if (seen && seen.top < innerHeight * 0.75 && seen.bottom > innerHeight * 0.25 && "wasdf0nN+-/".includes(e.key) && !e.target.closest(".flame") && page.timeline.key(e)) return;
    const go = (to) => { const s = sections[Math.max(0, Math.min(sections.length - 1, to))]; s.scrollIntoView(); s.querySelector("h1, h2").setAttribute("tabindex", "-1"); s.querySelector("h1, h2").focus({ preventScroll: true }); };
    const acts = { j: () => go(current() + 1), k: () => go(current() - 1), t: WS.theme.toggle, "/": () => search && (search.scrollIntoView({ block: "center" }), search.focus()) };
    if (acts[e.key]) { e.preventDefault(); acts[e.key](); }
  });
})();
