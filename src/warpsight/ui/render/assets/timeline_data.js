/* What the timeline draws from: windows of slices and bins, unpacked; made by render/report/timeline.py. */
"use strict";
(() => {
  const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
  const column = (packed) => WS.unpack(packed.data, ARRAYS[packed.kind]);
  /* First index in [lo, hi) of a sorted array that is not below a value. */
  const lower = (a, value, lo, hi) => { while (lo < hi) { const m = (lo + hi) >> 1; if (a[m] < value) lo = m + 1; else hi = m; } return lo; };

  /* One window. `slices` and `bins` are by row; a row is in one of them, or empty. */
  class Part {
    constructor(sent) {
      Object.assign(this, { begin: sent.begin, end: sent.end, names: sent.names, kinds: sent.kinds, frames: sent.frames });
      this.parent = column(sent.parent);
      this.frame = column(sent.frame);
      this.slices = new Map();
      this.bins = new Map();
      const s = sent.slices, start = Float64Array.from(column(s.start), (v) => v + sent.begin), duration = column(s.duration);
      const end = Float64Array.from(start, (v, i) => v + duration[i]);
      const all = { start, end, name: column(s.name), stack: column(s.stack), caller: column(s.caller), lag: column(s.lag) };
      s.rows.forEach((row, i) => {
        const own = { longest: 0 };
        for (const [key, values] of Object.entries(all)) own[key] = values.subarray(s.offsets[i], s.offsets[i + 1]);
        for (let k = 0; k < own.start.length; k++) own.longest = Math.max(own.longest, own.end[k] - own.start[k]);
        this.slices.set(row, own);
      });
      const b = sent.bins, busy = WS.unpack(b.busy, Uint8Array), name = column(b.name);
      b.rows.forEach((row, i) => this.bins.set(row, this.pyramid(b.count, busy.subarray(i * b.count, (i + 1) * b.count), name.subarray(i * b.count, (i + 1) * b.count))));
    }

    /* Each level halves the bins: the mean of the busy shares, the name of the busier half. */
    pyramid(bins, busy, name) {
      const out = [{ bins, busy: Float32Array.from(busy, (v) => v / 255), name }];
      while (bins > 64) {
        const last = out[out.length - 1], half = bins / 2, b = new Float32Array(half), n = new name.constructor(half);
        for (let i = 0; i < half; i++) {
          b[i] = (last.busy[2 * i] + last.busy[2 * i + 1]) / 2;
          n[i] = last.busy[2 * i] >= last.busy[2 * i + 1] ? last.name[2 * i] : last.name[2 * i + 1];
        }
        out.push({ bins: half, busy: b, name: n });
        bins = half;
      }
      return out;
    }

    /* The frames of a stack, outermost first: [text, is it a library's, number]. */
    stack(number) {
      const out = [];
      for (let at = number; at > 0; at = this.parent[at - 1]) out.push([...this.frames[this.frame[at - 1]], at]);
      return out.reverse();
    }

    /* Time before a moment that a row's slices cover. Those that began before it cover all from it to the last end. */
    covered(own, t) {
      if (!own.sum) {
        own.sum = new Float64Array(own.start.length);
        own.reach = new Float64Array(own.start.length);
        let sum = 0, reach = -Infinity;
        for (let k = 0; k < own.start.length; k++) {
          sum += Math.max(0, own.end[k] - Math.max(own.start[k], reach));
          own.sum[k] = sum;
          own.reach[k] = reach = Math.max(reach, own.end[k]);
        }
      }
      const last = lower(own.start, t, 0, own.start.length) - 1;
      return last < 0 ? 0 : own.sum[last] - Math.max(0, own.reach[last] - t);
    }

    /* The same for a row of bins, each of which is evenly filled. */
    filled(row, t) {
      const level = this.bins.get(row)[0], width = (this.end - this.begin) / level.bins;
      if (!level.sum) {
        level.sum = new Float64Array(level.bins + 1);
        for (let i = 0; i < level.bins; i++) level.sum[i + 1] = level.sum[i] + level.busy[i] * width;
      }
      const at = Math.min(level.bins, Math.max(0, (t - this.begin) / width)), whole = Math.min(level.bins - 1, Math.floor(at));
      return level.sum[whole] + (level.sum[whole + 1] - level.sum[whole]) * (at - whole);
    }

    /* Range of a row's slices that may reach into [from, to). */
    range(own, from, to) { return [lower(own.start, from - own.longest, 0, own.start.length), lower(own.start, to, 0, own.start.length)]; }
  }

  /* Consecutive frames of libraries as one: [label, is it folded, key]. What is open is shown frame by frame. */
  WS.folded = (frames, open) => {
    const out = [];
    let run = [], path = "";
    const close = () => {
      if (!run.length) return;
      const [text, , number] = run[run.length - 1];
      path += `\n${run.map(([one]) => one).join("\n")}`;
      out.push(run.length === 1 ? { label: text, library: true, path, number } : { label: `${WS.library(text)} · ${run.length} frames`, library: true, path, number, frames: run });
      run = [];
    };
    for (const frame of frames) {
      if (frame[1] && !open) { run.push(frame); continue; }
      close();
      path += `\n${frame[0]}`;
      out.push({ label: frame[0], library: Boolean(frame[1]), path, number: frame[2] });
    }
    close();
    return out;
  };
  class Timelines {
    constructor(sent) {
      this.rows = sent.rows;
      this.kinds = sent.kinds;
      this.parts = [];
      sent.parts.forEach((part) => this.add(part));
    }

    add(sent) {
      const part = new Part(sent);
      this.parts.push(part);
      if (this.parts.length > 14) this.parts.splice(2, 1);
      this.ordered = new Map();
      return part;
    }

    /* The parts that have a row, the most exact first: slices before bins, short windows before long ones. */
    of(row) {
      if (!this.ordered.has(row)) {
        const having = this.parts.filter((p) => p.slices.has(row) || p.bins.has(row));
        this.ordered.set(row, having.sort((a, b) => b.slices.has(row) - a.slices.has(row) || (a.end - a.begin) - (b.end - b.begin)));
      }
      return this.ordered.get(row);
    }

    /* Calls visit(part, from, to) for pieces that together cover [from, to) of a row, each by the most exact part there is. */
    cover(row, from, to, visit, depth = 0) {
      const parts = this.of(row);
      for (let i = depth; i < parts.length && from < to; i++) {
        const part = parts[i], a = Math.max(from, part.begin), b = Math.min(to, part.end);
        if (a >= b) continue;
        if (from < a) this.cover(row, from, a, visit, i + 1);
        visit(part, a, b);
        from = b;
      }
    }

    /* The slice of a row at a moment: the last one that began, null where none is known. */
    at(row, t) {
      for (const part of this.of(row)) {
        const own = part.slices.get(row);
        if (!own || t < part.begin || t > part.end) continue;
        const [lo, hi] = part.range(own, t, t + 1);
        for (let k = hi - 1; k >= lo; k--) if (own.start[k] <= t && t < Math.max(own.end[k], own.start[k] + 1)) return this.slice(part, row, k);
        return null;
      }
      return null;
    }

    slice(part, row, k) {
      const own = part.slices.get(row), stacks = this.rows[row].role === "stacks";
      return { part, row, k, start: own.start[k], end: own.end[k], stack: own.stack[k], lag: own.lag[k],
        caller: own.caller[k] - 1, name: stacks ? (part.stack(own.name[k]).pop() || ["?"])[0] : part.names[own.name[k]],
        kind: stacks ? "stack" : this.kinds[part.kinds[own.name[k]]] };
    }

    /* The neighbour of a slice in its row. */
    next(slice, by) {
      const own = slice.part.slices.get(slice.row), k = slice.k + by;
      return k >= 0 && k < own.start.length ? this.slice(slice.part, slice.row, k) : null;
    }

    /* The slices that a call asked for, in all rows that are here. */
    asked(row, start) {
      const out = [], seen = new Set();
      for (const part of this.parts)
        for (const [other, own] of part.slices) {
          if (!["stream", "device"].includes(this.rows[other].role)) continue;
          for (let k = 0; k < own.start.length; k++)
            if (own.caller[k] === row + 1 && own.start[k] - own.lag[k] === start && !seen.has(`${other} ${own.start[k]}`)) {
              seen.add(`${other} ${own.start[k]}`);
              out.push(this.slice(part, other, k));
            }
        }
      return out;
    }

    /* Covered time of a row in [from, to), soon enough to be asked for every row of every frame. */
    busy(row, from, to) {
      let total = 0;
      this.cover(row, from, to, (part, a, b) => {
        const own = part.slices.get(row);
        total += own ? part.covered(own, b) - part.covered(own, a) : part.filled(row, b) - part.filled(row, a);
      });
      return total;
    }

    /* Covered time of a row and time by name in [from, to), and whether they are exact. */
    sums(row, from, to) {
      let busy = 0, exact = true;
      const names = new Map();
      const note = (part, name, time, count) => {
        const text = this.rows[row].role === "stacks" ? this.own(part, name) : part.names[name], kind = this.rows[row].role === "stacks" ? "stack" : this.kinds[part.kinds[name]];
        const known = names.get(text) || { kind, time: 0, count: 0 };
        known.time += time; known.count += count;
        names.set(text, known);
      };
      this.cover(row, from, to, (part, a, b) => {
        const own = part.slices.get(row);
        if (own) {
          const [lo, hi] = part.range(own, a, b);
          let reach = a;
          for (let k = lo; k < hi; k++) {
            const s = Math.max(own.start[k], a), e = Math.min(own.end[k], b);
            if (e <= s) continue;
            busy += Math.max(0, e - Math.max(s, reach));
            reach = Math.max(reach, e);
            note(part, own.name[k], e - s, own.start[k] >= a ? 1 : 0);
          }
          return;
        }
        exact = false;
        const { bins, busy: share, name } = part.bins.get(row)[0], width = (part.end - part.begin) / bins;
        const last = Math.min(bins, Math.ceil((b - part.begin) / width));
        for (let i = Math.max(0, Math.floor((a - part.begin) / width)); i < last; i++) {
          const time = share[i] * Math.max(0, Math.min(b, part.begin + (i + 1) * width) - Math.max(a, part.begin + i * width));
          busy += time;
          if (time && name[i]) note(part, this.rows[row].role === "stacks" ? name[i] : name[i] - 1, time, 0);
        }
      });
      return { busy, names, exact };
    }

    /* The innermost frame of a stack that is the user's own. */
    own(part, stack) {
      const frames = part.stack(stack), own = frames.filter(([, library]) => !library);
      return ((own.length ? own : frames).pop() || ["?"])[0];
    }
  }

  Object.assign(WS, { Timelines, lower });
})();
