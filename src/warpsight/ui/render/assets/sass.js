// Selecting a row of one pane marks what belongs to it in the others; the search hides instructions that do not fit.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const sass = [...document.querySelectorAll("tr[data-row]")];
  const source = new Map([...document.querySelectorAll("tr[data-line]")].map((tr) => [tr.dataset.line, tr]));
  const ptx = new Map([...document.querySelectorAll("tr[data-ptx]")].map((tr) => [Number(tr.dataset.ptx), tr]));
  const clear = () => document.querySelectorAll("tr.on, tr.picked").forEach((tr) => tr.classList.remove("on", "picked"));
  const center = (tr) => {
    const pane = tr.closest(".scroll");
    pane.scrollTop += tr.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 2;
  };
  const mark = (rows, picked) => {
    clear();
    const others = [];
    for (const tr of rows) {
      tr.classList.add("on");
      const [lines, line] = data.rows[Number(tr.dataset.row)];
      others.push(...lines.map((one) => source.get(one)), ptx.get(line));
    }
    const shown = [...new Set(others.filter(Boolean))];
    for (const tr of shown) tr.classList.add("on");
    picked.classList.add("picked");
    const panes = new Set([picked.closest(".scroll")]);
    for (const tr of [...rows, ...shown]) {
      const pane = tr.closest(".scroll");
      if (!panes.has(pane)) { panes.add(pane); center(tr); }
    }
  };
  const pick = (tr) => {
    if (tr.dataset.row !== undefined) mark([tr], tr);
    else if (tr.dataset.line) mark(sass.filter((_, at) => data.rows[at][0].includes(tr.dataset.line)), tr);
    else if (tr.dataset.ptx) mark(sass.filter((_, at) => data.rows[at][1] === Number(tr.dataset.ptx)), tr);
  };
  document.addEventListener("click", (event) => {
    const tr = event.target.closest("tr[tabindex]");
    if (tr && !event.target.closest("a")) pick(tr);
  });
  document.addEventListener("keydown", (event) => {
    const tr = event.target.closest && event.target.closest("tr[tabindex]");
    if (tr && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); pick(tr); }
  });
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    let count = 0;
    for (const tr of sass) {
      const fits = !wanted || tr.textContent.toLowerCase().includes(wanted);
      tr.classList.toggle("hidden", !fits);
      count += fits;
    }
    found.textContent = wanted ? `${count} of ${sass.length}` : "";
  });
  const hottest = document.getElementById("hottest");
  if (hottest) hottest.addEventListener("click", () => {
    const width = (tr) => { const bar = tr.querySelector(".bar i"); return bar ? parseFloat(bar.style.width) : 0; };
    const tr = sass.reduce((best, one) => (width(one) > width(best) ? one : best), sass[0]);
    center(tr);
    pick(tr);
  });
  document.getElementById("theme").addEventListener("click", () => WS.theme.toggle());
})();
