"""Running a function over ranks: one item's failure is its own, also where it takes a worker process along."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.cluster.executor import Dask, Executor, LocalExecutor
from warpsight.errors import UsageError, WarpsightError


def work(item: int) -> int:
    """What the workers do: some items are bad."""
    if item == 3:
        raise WarpsightError("three is damaged")
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def outcomes(executor: Executor, items: list[int]) -> tuple[dict[int, int | None], dict[int, str]]:
    found = list(executor.map(work, items))
    assert sorted(one.place for one in found) == list(range(len(items)))
    return {items[o.place]: o.value for o in found}, {items[o.place]: o.error for o in found if o.error}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_damaged_item_leaves_the_others(workers: int) -> None:
    values, errors = outcomes(LocalExecutor(workers), [1, 2, 3, 4])
    assert values == {1: 1, 2: 4, 3: None, 4: 16}
    assert errors == {3: "three is damaged"}


def test_a_worker_that_is_killed_costs_its_item_alone() -> None:
    values, errors = outcomes(LocalExecutor(2), [1, 2, 5, 4])
    assert values == {1: 1, 2: 4, 5: None, 4: 16}
    assert list(errors) == [5] and "died" in errors[5]


def test_without_dask_the_error_says_how_to_get_it() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        with pytest.raises(UsageError, match=r"warpsight\[cluster\]"):
            list(Dask("tcp://127.0.0.1:1").map(work, [1]))


def test_dask_answers_as_the_local_pool_does() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        values, errors = outcomes(Dask(cluster.scheduler_address), [1, 2, 3, 4])
    assert values == {1: 1, 2: 4, 3: None, 4: 16}
    assert errors == {3: "three is damaged"}


def test_a_lost_dask_worker_costs_its_item_alone() -> None:
    distributed = pytest.importorskip("distributed")
    # Workers of their own: those of a local cluster are given up when they end too often on a busy machine.
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        command = [sys.executable, "-m", "dask", "worker", cluster.scheduler_address, "--nworkers", "2", "--nthreads", "1",
                   "--no-dashboard"]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as workers:
            try:
                # How long the tool waits for workers is another test's matter: here they come back, sooner or later.
                values, errors = outcomes(Dask(cluster.scheduler_address, timeout=600), [1, 2, 5, 4])
            finally:
                workers.terminate()
    assert values == {1: 1, 2: 4, 5: None, 4: 16}
    assert list(errors) == [5] and "its worker was lost" in errors[5]


def test_a_dask_cluster_that_loses_its_last_worker_ends() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        command = [sys.executable, "-m", "dask", "worker", cluster.scheduler_address, "--no-nanny", "--nthreads", "1",
                   "--no-dashboard"]  # fmt: skip
        with (
            subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker,
            distributed.Client(cluster) as client,
        ):
            client.wait_for_workers(1, timeout=120)
            values, errors = outcomes(Dask(cluster.scheduler_address, timeout=2), [5, 1])
            assert worker.wait(60) == -signal.SIGKILL
    assert values[5] is None
    assert errors[5] == "no worker is left"


def test_a_script_without_a_main_guard_is_not_run_again_by_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "ask.py"
    script.write_text(
        "from warpsight.cluster.executor import LocalExecutor\nimport math\nprint('begin')\n"
        "print(sorted(one.value for one in LocalExecutor(2).map(math.sqrt, [1.0, 4.0, 9.0])))\n"
    )
    asked = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=True
    )
    assert asked.stdout == "begin\n[1.0, 2.0, 3.0]\n"
