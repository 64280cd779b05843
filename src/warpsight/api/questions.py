"""A trace that answers questions: each reading verb is a method with the verb's options, which returns tables and findings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from warpsight._display import HtmlShown
from warpsight.api import choice
from warpsight.api.choice import Numbers, Time, Words
from warpsight.errors import UsageError, choices
from warpsight.model.trace import StoredTrace

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from warpsight.analysis.base.result import Finding, Result
    from warpsight.analysis.diff.answer import Difference
    from warpsight.analysis.merge.merge import Merged
    from warpsight.analysis.rules.verdict import Verdict
    from warpsight.api.differences import Side
    from warpsight.sass.hotspots import Hotspots
    from warpsight.simulate.simulation import Simulated


@dataclass(frozen=True)
class Analyzed(HtmlShown):
    """The result of :meth:`Questions.analyze`: a verdict if no analysis was named, and the results by name."""

    verdict: Verdict | None
    results: dict[str, Result] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdict's findings in reading order, then those of the analyses."""
        own = () if self.verdict is None else self.verdict.findings
        return (*own, *(finding for result in self.results.values() for finding in result.findings))

    def __getitem__(self, name: str) -> Result:
        """The result of one analysis."""
        return self.results[name]

    def __str__(self) -> str:
        """The verdict's sentences and findings, and each result, as text."""
        parts = [str(result) for result in self.results.values()]
        if self.verdict is not None:
            found = self.verdict
            listed = [f"{finding.severity}: {finding.text}" for finding in found.findings]
            parts.insert(0, "\n".join((found.headline, found.summary, *listed)))
        return "\n\n".join(parts)


class Questions(StoredTrace):
    """A trace whose methods are the reading verbs."""

    def info(self) -> dict[str, Any]:
        """Describe what the trace holds, how it was recorded and what is missing, like `warpsight info --json` (times in ns).

        :attr:`loss` is table `loss`, with every cause.
        """
        from warpsight.analysis.stats.contents import contents

        return contents(self)

    def stats(
        self,
        subject: str = "kernels",
        *,
        by: str = "name",
        names: str = "demangled",
        latency: bool = False,
        device: Numbers = (),
        stream: Numbers = (),
        process: Numbers = (),
        begin: Time | None = None,
        end: Time | None = None,
        name: str | None = None,
        top: int | None = None,
    ) -> Result:
        """Sum up kernels, copies, api, launches, nvtx, events, memory, counters, sync, ops or modules, longest first.

        Args:
            subject: one of these.
            by: group kernels by name, shape, stack, device, stream, process, range or op; memory by stack; ops by name, shapes,
                family or forward; modules by name or class.
            names: kernel names demangled, short or mangled.
            latency: add the wait between launch and kernel.
            device: Only these devices, by id.
            stream: Only these streams.
            process: Only these process ids of the trace.
            begin: Only what began from this time on: a text with a unit (`"200ms"`) or seconds, since the trace's start.
            end: Only what began before this time.
            name: only names that this regular expression matches.
            top: most rows; None and 0 mean all.

        Raises:
            UsageError: for a subject, grouping or time that does not exist.
        """
        from warpsight.analysis.stats.sums import stats

        rows = choice.rows(self, begin, end, device, stream, process, name)
        found = stats(self, subject, rows, by=by, names=names, latency=latency)
        if subject == "modules" and top:
            from warpsight.analysis.ops.modules import largest

            return replace(found, tables={name: largest(table, top) for name, table in found.tables.items()})
        return _cut(found, top)

    def analyze(
        self,
        *names: str,
        everything: bool = False,
        device: Numbers = (),
        stream: Numbers = (),
        process: Numbers = (),
        begin: Time | None = None,
        end: Time | None = None,
        top: int | None = None,
    ) -> Analyzed:
        """Say where the devices' time went, why they were idle and what to change; with `names`, run these analyses.

        Args:
            names: analyses to run, such as `"critical-path"`; :meth:`analyses` lists them.
            everything: without names, also run every analysis.
            device: As in :meth:`stats`.
            stream: As there.
            process: As there.
            begin: As there; without a time the verdict judges everything from the first to the last device work.
            end: As there.
            top: most rows of each table; None and 0 mean all.

        Raises:
            UsageError: for an unknown analysis.
        """
        from warpsight.analysis.base.registry import ANALYSES, analysis
        from warpsight.analysis.rules.verdict import verdict

        chosen = {name: analysis(name) for name in names}  # fail on a wrong name before reading anything
        rows = choice.rows(self, begin, end, device, stream, process)
        judged = None if names else verdict(self, rows)
        if everything and not names:
            chosen = {name: one for name, one in ANALYSES.items() if name != "findings"}
        return Analyzed(judged, {name: _cut(one.run(self, rows), top) for name, one in chosen.items()})

    @staticmethod
    def analyses() -> dict[str, str]:
        """Names of the analyses for :meth:`analyze`, each with a description."""
        from warpsight.analysis.base.registry import ANALYSES

        return {name: one.meaning for name, one in ANALYSES.items()}

    def query(
        self,
        sql: str | None = None,
        *,
        table: str = "kernel",
        filters: Words = (),
        fields: Words = (),
        group_by: Words = (),
        count: bool = False,
        top: int | None = None,
        head: int | None = None,
        tail: int | None = None,
    ) -> pa.Table:
        """Select rows with DuckDB's SQL or simple filters; only the trace can be read.

        Args:
            sql: one reading statement; views are named like the tables. Only `head` can be combined with it.
            table: the table to read without SQL.
            filters: `column=value`, with = != < <= > >= ~regex !~regex, or low..high; units as in `10us`, `64KiB`; all must
                hold; `|` within one means or.
            fields: columns, also comma-separated; all by default.
            group_by: columns to group by, for count and times of each group.
            count: only the number of rows (per group).
            top: the largest groups, or longest rows.
            head: the first rows.
            tail: the last rows.

        Raises:
            UsageError: for invalid SQL, an unknown table or column, an invalid condition, or options that exclude each other.
        """
        from warpsight.analysis.base import query

        return query.arrow(
            self,
            self.relation(
                sql,
                table=table,
                filters=filters,
                fields=fields,
                group_by=group_by,
                count=count,
                top=top,
                head=head,
                tail=tail,
            ),
        )

    def relation(
        self,
        sql: str | None = None,
        *,
        table: str = "kernel",
        filters: Words = (),
        fields: Words = (),
        group_by: Words = (),
        count: bool = False,
        top: int | None = None,
        head: int | None = None,
        tail: int | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Like :meth:`query`, but lazy: a DuckDB relation to continue with.

        Raises:
            UsageError: as :meth:`query`.
        """
        from warpsight.analysis.base import query

        for option, rows in (("top", top), ("head", head), ("tail", tail)):
            if rows is not None and rows < 1:
                raise UsageError(f"{option} must be a number of rows, 1 or more, not {rows}")
        if sql is None:
            question = query.Question(
                table,
                choice.words(filters),
                _listed(fields),
                _listed(group_by),
                count,
                top,
                head,
                tail,
            )
            return query.ask(self, question)
        if filters or fields or group_by or count or tail or top:
            raise UsageError(
                "SQL chooses its own rows and columns; of the selecting options only --head can be added"
            )
        relation = query.run(self, sql)
        return relation if head is None else relation.limit(head)

    def events(
        self,
        *,
        kind: Words = (),
        count: int | None = None,
        device: Numbers = (),
        stream: Numbers = (),
        process: Numbers = (),
        name: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
    ) -> Result:
        """List single events in time order, as `warpsight view --list` does; times count from the trace's start.

        Args:
            kind: kernel, memcpy, memset, sync, launch, api, nvtx, op, event, overhead, memory or counter; by default device
                work, ranges and the program's own events.
            count: most events; None and 0 mean all.
            device: As in :meth:`stats`.
            stream: As there.
            process: As there.
            name: As there.
            begin: As there.
            end: As there.

        Raises:
            UsageError: for a kind that does not exist, or that no device or stream has.
        """
        from warpsight.analysis.stats.listing import DEFAULT, events

        if count is not None and count < 0:
            raise UsageError(f"count must be a number of events, not {count}")
        rows = choice.rows(self, begin, end, device, stream, process, name)
        return events(self, rows, choice.words(kind) or DEFAULT, count or None)

    def hotspots(
        self,
        levels: Words = ("line",),
        *,
        top: int | None = 10,
        device: Numbers = (),
        process: Numbers = (),
        begin: Time | None = None,
        end: Time | None = None,
        name: str | None = None,
    ) -> Hotspots:
        """Show where warps were sampled in each kernel and what they waited for; needs a recording with `pc_sampling`.

        Args:
            levels: line (whole inline chains), ptx or instruction. Kernels without line information use instructions.
            top: kernels with places; None and 0 mean all. Others have only sums.
            device: Only these devices, by id.
            process: Only these process ids of the trace.
            begin: Only windows that began from this time on: a text with a unit (`"200ms"`) or seconds, since the trace's start.
            end: Only windows that began before this time.
            name: only kernels that this regular expression matches.

        Raises:
            UsageError: for an unknown level.
            WarpsightError: when the trace has no samples.
        """
        from warpsight.sass.hotspots import LEVELS, hotspots

        chosen = choice.words(levels)
        for level in chosen:
            if level not in LEVELS:
                raise UsageError(f"there is no level {level!r}{choices(level, LEVELS)}")
        return hotspots(self, choice.rows(self, begin, end, device, (), process, name), chosen, top or None)

    def diff(
        self,
        before: Side | Sequence[Side],
        *,
        by: str | None = None,
        process: Numbers = (),
        device: Numbers = (),
        top: int | None = None,
    ) -> Difference:
        """Compare this run with one or more earlier ones: :func:`warpsight.diff` with this trace as the second side.

        A single run says nothing about noise, so the verdict is `untested`; `ws.diff` takes several runs per side.

        Args:
            before: earlier runs: open traces, or paths of traces, other tools' files, or folders of them.
            by: keep one table: summary, kernel, role, stack, range, operator, tree, sequence or runs.
            process: only these process ids.
            device: only these devices.
            top: most rows of a table; None and 0 mean all.

        Raises:
            UsageError: as :func:`warpsight.diff`.
        """
        from warpsight.api.differences import diff

        return diff(before, self, by=by, process=process, device=device, top=top)

    def simulate(
        self,
        *what: str,
        process: Numbers = (),
        step: Time | None = None,
        out: str | os.PathLike[str] | None = None,
        force: bool = False,
        top: int | None = None,
    ) -> Simulated:
        """Predict how long the program's steps would take if something in it were different.

        Args:
            what: changes in order, such as `"kernel:gemm/2"`, `"graphs"`, `"sync:cudaStreamSynchronize"`.
            process: only these process ids.
            step: a step's time without recording (`"4.8ms"` or seconds), to correct for its cost.
            out: a new trace for the predicted times.
            force: replace an existing trace.
            top: most rows of each table; None and 0 mean all.

        Raises:
            UsageError: for an invalid change, or one for which the trace lacks data.
        """
        from warpsight.simulate.simulation import simulate

        found = simulate(self, what, choice.rows(self, process=process), choice.nanoseconds(step, "step"))
        if out is not None:
            from warpsight.simulate import trace_file

            trace_file.write(self, found, out, force)
        return replace(found, result=_cut(found.result, top))

    def merge(self, cpu: str | os.PathLike[str], *, tolerance: float = 10.0) -> Merged:
        """Match another tool's host stacks with launches; the result has `.folded()`, `.summary()` and `.counts()`.

        Args:
            cpu: stacks: extended folded, perf script, bpftrace or a trace.
            tolerance: largest distance between a stack and its launch, clocks aligned, in ms.

        Raises:
            WarpsightError: when `cpu` cannot be read.
        """
        from warpsight.analysis.merge.inputs import load_samples
        from warpsight.analysis.merge.merge import merge

        return merge(load_samples(os.fspath(cpu)), self, int(tolerance * 1_000_000))


def _cut(result: Result, top: int | None) -> Result:
    """The first rows of each table; all rows for None and 0."""
    if not top:
        return result
    if top < 0:
        raise UsageError(f"top must be a number of rows, not {top}")
    return replace(result, tables={name: table.slice(0, top) for name, table in result.tables.items()})


def _listed(names: Words) -> Sequence[str]:
    """Several names, given as a list or as one comma-separated string."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())
