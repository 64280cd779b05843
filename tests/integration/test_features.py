"""Every command of the table of expected features runs and does what its row says (attach and detach: test_attach)."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import environment, launcher

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "features.md"
ROWS = [
    (line.split("|")[1].strip(), command)
    for line in PAGE.read_text().splitlines()
    if line.startswith("|")
    for command in re.findall(r"`warpsight ([^`]*)`", line)
    if not command.startswith(("attach", "detach"))
]
WORK = "from warpsight.recorder.demo import heat_opencl\nheat_opencl.main()\n"
#: Serve until they are interrupted, and what they print before.
SERVING = {"open": "127.0.0.1", "run.warp": "127.0.0.1", "record --open": "127.0.0.1"}
#: What each leaves or prints, by how the command begins; all end with 0.
LEFT = {
    "record -- python -m package": "package.warp", "record --ring": "train.warp", "record --stacks": "train.warp",
    "report run.warp": "run.report.html", "flame run.warp --to speedscope": "run.speedscope.json",
    "flame run.warp --to cpuprofile": "run.cpuprofile", "flame run.warp": "run.flame.html",
    "flame after.warp": "after.flame.html", "demo": "demo.warp",
}  # fmt: skip
SAID = {
    "stats": "heat_step", "query": "312", "analyze run.warp --json": '"verdict"', "analyze run.warp --sarif": '"2.1.0"',
    "analyze": "heat_step", "diff": "iteration", "info": "process", "doctor": "OpenCL", "dump": "heat_opencl.py",
    "top": "launches/s", "trigger": ".warp",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(library, tmp_path_factory):
    require_pocl()
    made = tmp_path_factory.mktemp("features")
    (made / "train.py").write_text(WORK)
    (made / "loop.py").write_text(WORK + "print('works', flush=True)\nwhile True:\n    heat_opencl.main()\n")
    (made / "package").mkdir()
    (made / "package" / "__main__.py").write_text(WORK)
    subprocess.run(launcher("-q", "-o", "run.warp", "--", sys.executable, "train.py"), cwd=made, check=True,
                   env=environment(library), stdout=subprocess.DEVNULL, timeout=120)  # fmt: skip
    for name in ("before.warp", "after.warp"):
        shutil.copytree(made / "run.warp", made / name)
    return made


@pytest.fixture(scope="module")
def recording(library, folder):
    """A flight recorder's recording that goes on: its folder and the process."""
    process = subprocess.Popen(
        launcher("-q", "--ring", "5s", "-o", "live.warp", "--", sys.executable, "loop.py"),
        cwd=folder, env=environment(library), stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while process.stdout.readline() != "works\n":
        assert process.poll() is None
    yield process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    process.stdout.close()


def words(command, pid):
    told = [
        {"python": sys.executable, "4711": str(pid), '"SELECT …"': ""}.get(w, w) for w in shlex.split(command)
    ]
    if told[0] == "query":
        told[-1] = "SELECT count(*) FROM kernel"
    if told[0] == "trigger":
        told[1] = "live.warp"
    if told[0] == "top":
        told += ["live.warp", "--once"]
    if told[0] in ("record", "report", "flame"):
        told.insert(1, "-f")
    return told


@pytest.mark.parametrize(("feature", "command"), ROWS, ids=[command for _, command in ROWS])
def test_the_command_of_a_feature(feature, command, library, folder, recording):
    call = [sys.executable, "-m", "warpsight", *words(command, recording)]
    env = environment(library, BROWSER="true", COLUMNS="200")
    serving = next((said for begin, said in SERVING.items() if command.startswith(begin)), None)
    if serving is not None:
        process = subprocess.Popen(
            call, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        while serving not in (line := process.stdout.readline()):
            assert line, f"{feature}: ended early"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) in (0, 130)
        process.stdout.close()
        return
    done = subprocess.run(call, cwd=folder, env=env, input="", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    left = next((name for begin, name in LEFT.items() if command.startswith(begin)), None)
    said = next((text for begin, text in SAID.items() if command.startswith(begin)), "")
    assert left is None or (folder / left).exists(), f"{feature}: {os.listdir(folder)}"
    assert said in done.stdout + done.stderr
    if "--json" in command or "--sarif" in command:
        assert json.loads(done.stdout)


def test_the_table_has_twenty_features_and_more():
    features = {line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("|")} - {
        "Feature",
        "-",
    }
    assert len(features) >= 20
