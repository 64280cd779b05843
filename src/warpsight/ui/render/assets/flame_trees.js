/* Trees of flame graphs: sums, leaves first, folded, and the callers and callees of one frame. */
"use strict";
(() => {
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

  /* An open tree node; `add` puts weights of a plain node on it. */
  const fresh = (tree, label) => ({ label, own: tree.own.map(() => 0), count: tree.own.map(() => 0), sum: 0, children: new Map() });
  const add = (tree, node, i, columns = tree.own, rows = tree.count) => columns.forEach((c, k) => { node.own[k] += c[i]; node.count[k] += rows[k][i]; });

  /* A tree of open nodes as columns in preorder, the heaviest child first. */
  function columns(root, extra = {}) {
    const out = { depth: [], label: [], own: root.own.map(() => []), count: root.own.map(() => []), opens: [], ...extra };
    const weigh = (node) => { const order = [node]; for (let i = 0; i < order.length; i++) order.push(...order[i].children.values());
      for (const one of order.reverse()) { one.sum = one.own.reduce((a, b) => a + b, 0); for (const child of one.children.values()) one.sum += child.sum; } };
    weigh(root);
    const visit = [[root, 0]];
    while (visit.length) {
      const [node, depth] = visit.pop();
      out.depth.push(depth);
      out.label.push(node.label);
      out.opens.push(node.opens || null);
      node.own.forEach((v, c) => out.own[c].push(v));
      node.count.forEach((v, c) => out.count[c].push(v));
      visit.push(...[...node.children.values()].sort((a, b) => a.sum - b.sum).map((child) => [child, depth + 1]));
    }
    return prepare(out);
  }

  const children = (tree, i) => { const out = []; for (let c = i + 1; c < tree.end[i]; c = tree.end[c]) out.push(c); return out; };
  const FAMILY = /^((?:nn\.Module: )?[A-Za-z]\w*?)_(\d+)$/;

  /* Runs of frames of libraries as one frame each, and numbered instances of one module as one, but for what is in `open`:
     plain nodes. Labels of what is folded are put behind `labels`, with the kind of frame they are and the labels they stand for. */
  function folded(tree, data, open) {
    const labels = [...data.labels], kinds = [...data.kinds], holds = new Map();
    const named = (text, kind, inside) => { labels.push(text); kinds.push(kind); holds.set(labels.length - 1, inside); return labels.length - 1; };
    const library = (i) => data.library[tree.label[i]] && !open.has(i);
    const root = fresh(tree, tree.label[0]);
    add(tree, root, 0);
    const work = [[root, children(tree, 0)]];
    while (work.length) {
      const [parent, nodes] = work.pop(), groups = new Map();
      for (const i of nodes) {
        const text = data.labels[tree.label[i]], family = !library(i) && !open.has(i) && FAMILY.exec(text);
        const key = library(i) ? `library ${WS.library(text)}` : family ? `family ${family[1]}` : `one ${tree.label[i]}`;
        if (!groups.has(key)) groups.set(key, []);
        groups.get(key).push(i);
      }
      for (const [key, members] of groups) {
        let inside = members, below = [];
        if (key.startsWith("library ")) {
          inside = []; const run = [...members];
          while (run.length) { const i = run.pop(); inside.push(i); for (const c of children(tree, i)) (library(c) ? run : below).push(c); }
        } else below = members.flatMap((i) => children(tree, i));
        const used = [...new Set(inside.map((i) => tree.label[i]))];
        let label = used[0];
        if (used.length > 1) {
          const numbers = used.map((l) => Number((FAMILY.exec(data.labels[l]) || [0, 0, 0])[2])).sort((a, b) => a - b);
          label = key.startsWith("library ") ? named(`${key.slice(8)} · ${used.length} frames`, "library", used)
            : named(`${key.slice(7)}_${numbers[0]} … _${numbers[numbers.length - 1]} · ${used.length} instances`, data.kinds[used[0]], used);
        }
        const node = fresh(tree, label);
        if (used.length > 1) node.opens = inside;
        inside.forEach((i) => add(tree, node, i));
        parent.children.set(label, node);
        work.push([node, below]);
      }
    }
    return { tree: columns(root), labels, kinds, holds };
  }

  /* The tree in the order of time: a frame ends where another begins at its depth. Runs are parts of the plain tree's weights;
     with `folds`, frames of libraries that follow each other are one frame. `starts` says when each node begins. */
  function timed(tree, data, folds) {
    const labels = [...data.labels], kinds = [...data.kinds], holds = new Map(), named = new Map(), ways = new Map();
    const fold = (run) => {
      const text = `${WS.library(data.labels[run[0]])} …`;
      if (!named.has(text)) { named.set(text, labels.length); holds.set(labels.length, []); labels.push(text); kinds.push("library"); }
      holds.get(named.get(text)).push(...run);
      return named.get(text);
    };
    const way = (node) => {  // labels from the root down
      if (ways.has(node)) return ways.get(node);
      const plain = [], out = [];
      for (let at = node; at > 0; at = tree.parent[at]) plain.unshift(tree.label[at]);
      for (let i = 0; i < plain.length;) {
        let end = i;
        while (folds && end < plain.length && data.library[plain[end]]) end++;
        if (end > i + 1) out.push(fold(plain.slice(i, end))); else out.push(plain[i]);
        i = Math.max(end, i + 1);
      }
      ways.set(node, out);
      return out;
    };
    const { node, own, count, start } = data.runs, out = { depth: [0], label: [tree.label[0]], own: [[0]], count: [[0]], starts: [start[0] || 0] };
    const open = [0];  // the node that is open at each depth
    for (let r = 0; r < node.length; r++) {
      const path = way(node[r]);
      let depth = 0;
      while (depth < path.length && depth + 1 < open.length && out.label[open[depth + 1]] === path[depth]) depth++;
      open.length = depth + 1;
      for (; depth < path.length; depth++) {
        open.push(out.depth.length);
        out.depth.push(depth + 1); out.label.push(path[depth]); out.own[0].push(0); out.count[0].push(0); out.starts.push(start[r]);
      }
      out.own[0][open[open.length - 1]] += own[r];
      out.count[0][open[open.length - 1]] += count[r];
    }
    return { tree: prepare(out), labels, kinds, holds };
  }

  /* What a frame calls, wherever it stands, and what calls it: two trees whose root is the frame. */
  function around(tree, label) {
    const callees = fresh(tree, label), callers = fresh(tree, label), work = [];
    for (let i = 0; i < tree.depth.length;) {
      if (tree.label[i] !== label) { i++; continue; }
      work.push([callees, i]);
      let node = callers;
      for (let at = tree.parent[i]; at > 0; at = tree.parent[at]) {
        if (!node.children.has(tree.label[at])) node.children.set(tree.label[at], fresh(tree, tree.label[at]));
        node = node.children.get(tree.label[at]);
      }
      add(tree, node, i, tree.total, tree.rows);
      i = tree.end[i];  // an inner call of the same frame belongs to the outer one
    }
    while (work.length) {
      const [node, i] = work.pop();
      add(tree, node, i);
      for (const c of children(tree, i)) {
        if (!node.children.has(tree.label[c])) node.children.set(tree.label[c], fresh(tree, tree.label[c]));
        work.push([node.children.get(tree.label[c]), c]);
      }
    }
    return { callees: columns(callees), callers: columns(callers) };
  }

  WS.flames = { prepare, inverted, folded, timed, around, children };
})();
