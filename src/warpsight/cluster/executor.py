"""Run one function over the ranks of a job: in a local pool of processes, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from warpsight.errors import UsageError, WarpsightError
from warpsight.model.allocator import keep_freed_memory
from warpsight.model.workers import processors

if TYPE_CHECKING:
    import distributed

T = TypeVar("T")
R = TypeVar("R")
#: How often to check whether an item has finished on a cluster, and whether the cluster has workers.
_POLL_S, _LOOK_S = 0.02, 0.5


@dataclass(frozen=True)
class _ItemOutcome(Generic[R]):
    """The outcome for one item, by position: a value, or the reason why there is none."""

    place: int
    value: R | None
    error: str = ""


class Executor(Protocol):
    """Runs a function over items; the failure of one item affects that item only."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[_ItemOutcome[R]]:
        """One outcome for each item, in the order in which they end. Function and items are pickled."""
        ...


def _begin_worker(scratch: str) -> None:
    """Leave Ctrl-C, which a terminal sends to workers too, to the process that ends them and removes their temporary files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = scratch


def _run_in_worker(function: Callable[[T], R], place: int, item: T) -> _ItemOutcome[R]:
    """One item in a process of ours: its arrays take the places of those of the item before."""
    keep_freed_memory()
    return _run(function, place, item)


def _run(function: Callable[[T], R], place: int, item: T) -> _ItemOutcome[R]:
    """One item; an error that a user can act on is an outcome."""
    try:
        return _ItemOutcome(place, function(item))
    except (WarpsightError, OSError) as error:
        return _ItemOutcome(place, None, str(error))
    except MemoryError:
        return _ItemOutcome(place, None, "out of memory")
    except Exception as error:  # a damaged file must not take the other ranks' answers along
        return _ItemOutcome(place, None, f"{type(error).__name__}: {error}")


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """Workers started inside never take Ctrl-C, not even while they are loaded; this process takes it when the block ends."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(
        signal.SIGINT, lambda number, frame: came.append(number)
    )  # another thread may take it
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # workers inherit this
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep workers started inside from running the user's script again, as happens without `if __name__ == "__main__"`."""
    main = sys.modules["__main__"]
    main_names = vars(main)
    held: dict[str, Any] = {}
    for name in ("__file__", "__spec__"):
        if name in main_names:
            held[name] = main_names.pop(name)
    main_names["__spec__"] = None
    try:
        yield
    finally:
        main_names.update(held)


@dataclass(frozen=True)
class LocalExecutor:
    """Local worker processes; with one worker or one item, everything runs in this process."""

    workers: int = 0

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[_ItemOutcome[R]]:
        """As in :class:`Executor`. When a worker dies, its possible items are tried once more."""
        workers = min(self.workers or processors(), len(items))
        if workers <= 1:
            yield from (_run(function, place, item) for place, item in enumerate(items))
            return
        waiting = dict(enumerate(items))
        for outcome in self._pooled(function, waiting, workers):
            waiting.pop(outcome.place)
            yield outcome
        for (
            place,
            item,
        ) in waiting.items():  # a worker died: each of the rest alone, so that the guilty one is known
            done = list(self._pooled(function, {place: item}, 1))
            yield done[0] if done else _ItemOutcome(place, None, "the worker process died (out of memory?)")

    def _pooled(
        self, function: Callable[[T], R], items: dict[int, T], workers: int
    ) -> Iterator[_ItemOutcome[R]]:
        # Not forked: the threads of DuckDB and Arrow do not survive that.
        with (
            tempfile.TemporaryDirectory(prefix="warpsight-") as scratch,
            ProcessPoolExecutor(workers, get_context("spawn"), _begin_worker, (scratch,)) as pool,
        ):
            futures: list[Future[_ItemOutcome[R]]] = []
            try:
                with _without_main(), _without_interrupt():
                    futures += [
                        pool.submit(_run_in_worker, function, place, item) for place, item in items.items()
                    ]
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool:
                return
            except BaseException:  # Ctrl-C: do not wait for what the workers are still doing
                for process in list(pool._processes.values()):
                    process.terminate()
                raise


def _outcome_of(place: int, future: distributed.Future | None) -> _ItemOutcome[Any] | None:
    """The outcome of an item on a cluster; None if the item or its result was lost with a worker."""
    from distributed.scheduler import KilledWorker

    if future is None:
        return _ItemOutcome(place, None, "no worker is left")
    if future.status == "lost":
        return None
    try:
        outcome: _ItemOutcome[Any] = future.result()
    except KilledWorker:
        return None
    except Exception as error:  # not caused by the item: it cannot be sent, or the scheduler dropped it
        return _ItemOutcome(place, None, f"Dask gave it up: {type(error).__name__}: {error}")
    return outcome


@dataclass(frozen=True)
class Dask:
    """The workers of a Dask cluster; they must see the traces under the same paths or URLs.

    `address` is that of the scheduler (`tcp://host:8786`), or a scheduler file. Clusters on Slurm or Kubernetes are started with
    dask-jobqueue or dask-kubernetes.
    """

    address: str
    timeout: float = 30.0

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[_ItemOutcome[R]]:
        """As in :class:`Executor`. Dask repeats a lost worker's items, finally each alone, as one may be to blame for all.

        When there has been no worker for `timeout` seconds, items that have not ended are outcomes without a value.
        """
        with self._client() as client:
            alone = []
            for place, future in self._ended(client, function, dict(enumerate(items))):
                if (outcome := _outcome_of(place, future)) is not None:
                    yield outcome
                else:
                    alone.append(place)
            lost = "its worker was lost whenever it ran (out of memory?)"
            for place in alone:
                for _, future in self._ended(client, function, {place: items[place]}):
                    yield _outcome_of(place, future) or _ItemOutcome(place, None, lost)

    def _ended(
        self, client: distributed.Client, function: Callable[[T], R], items: dict[int, T]
    ) -> Iterator[tuple[int, distributed.Future | None]]:
        """Items as they end; None for those that no worker is left for."""
        from distributed import as_completed as completed

        futures = {
            place: client.submit(_run_in_worker, function, place, item, pure=False)
            for place, item in items.items()
        }
        place_of = {future.key: place for place, future in futures.items()}
        ended = completed(list(futures.values()))
        seen = looked = time.monotonic()
        while not ended.is_empty():
            now = time.monotonic()
            if ended.has_ready():
                future = ended.next()
                yield place_of.pop(future.key), future
                seen = looked = time.monotonic()
            elif now - looked < _LOOK_S:
                time.sleep(_POLL_S)
            elif client.scheduler_info()["workers"]:
                seen = looked = now
            elif now - seen < self.timeout:
                looked = now
            else:
                yield from ((place, None) for place in place_of.values())
                return

    def _client(self) -> distributed.Client:
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "Dask is not installed: pip install 'warpsight[cluster]', or leave out --dask"
            ) from None
        try:
            if "://" not in self.address and os.path.exists(self.address):
                return Client(scheduler_file=self.address, timeout=self.timeout)
            return Client(self.address, timeout=self.timeout)
        except (OSError, ValueError, TimeoutError) as error:
            raise WarpsightError(f"no Dask scheduler answers at {self.address}: {error}") from None
