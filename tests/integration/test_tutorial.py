"""The tutorial as its reader would follow it: its programs and commands, and what they print, figures apart."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import environment

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-recording.md"
SLOW, FIX, ASK = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
SHOWN = dict(
    re.findall(r"^\$ (warpsight [^\n]*)\n((?:(?![$>`]).*\n)*)", PAGE.read_text(), flags=re.MULTILINE)
)
_FIGURE = re.compile(r"\d[\d,.]*\s?(%|[nµm]?s\b|[kM]B\b|[KM]iB\b)?")


def words(text):
    """The text in one line, without figures, rules and the folder it was written in."""
    return " ".join(_FIGURE.sub("#", re.sub(r"\S*/(?=decay)", "", text)).split())


@pytest.fixture(scope="module")
def followed(library, tmp_path_factory):
    """The folder after the tutorial's first two steps, and a function that runs a command there."""
    require_pocl()
    pytest.importorskip("pyopencl")
    folder = tmp_path_factory.mktemp("first")
    (folder / "decay.py").write_text(SLOW)
    fixed, changes = re.subn(
        r"def decay\(steps\):.*?\n\n\n", f"{FIX}\n\n".replace("\\", r"\\"), SLOW, flags=re.DOTALL
    )
    assert changes == 1
    (folder / "fixed.py").write_text(fixed)
    environ = environment(library, COLUMNS="80", PYOPENCL_NO_CACHE="1")

    def run(command):
        script = f'warpsight() {{ "{sys.executable}" -m warpsight "$@"; }}; python() {{ "{sys.executable}" "$@"; }}\n'
        command = command.replace("-- python ", f"-- {sys.executable} ")
        done = subprocess.run(["bash", "-c", script + command], cwd=folder, env=environ, capture_output=True, text=True,
                              timeout=250)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return folder, run, run("warpsight record -- python decay.py")


def assert_shown(command, printed):
    rest = words(printed)
    for piece in re.split(r"(?:^|\s)…\s", SHOWN[command]):
        for line in filter(None, map(words, piece.splitlines() if "record" in command else [piece])):
            if "busy" in line or "launch # " in line:  # depends on how busy the machine is
                continue
            assert line in rest, f"{command} does not print: {line}"


def test_the_recording_is_summed_up_as_shown(followed):
    assert_shown("warpsight record -- python decay.py", followed[2])


def test_the_cause_and_its_line_are_found(followed):
    told = words(followed[1]("warpsight analyze decay.warp"))
    shown = words(SHOWN["warpsight analyze decay.warp"])
    headline = shown.partition(", …")[0]
    assert headline in told and "factor (decay.py:#)" in headline
    assert shown.rpartition("→ ")[2] in told
    number = SLOW.splitlines().index("def factor():") + 2
    assert f"`factor()`, in line {number}, again" in PAGE.read_text()
    assert f"factor (decay.py:{number})" in followed[1]("warpsight analyze decay.warp")


def test_the_fix_is_proved(followed):
    loop = re.search(
        r"^\$ (mkdir before.*?)^\$ warpsight diff", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE
    )[1]
    followed[1](re.sub(r"^[$>] ", "", loop, flags=re.MULTILINE))
    assert_shown("warpsight diff before after", followed[1]("warpsight diff before after"))


def test_sql_answers_on_the_command_line_and_in_python(followed):
    command = next(one for one in SHOWN if one.startswith("warpsight query"))
    assert_shown(command, followed[1](command))
    done = subprocess.run([sys.executable, "-c", ASK], cwd=followed[0], capture_output=True, text=True, timeout=100,
                          env=environment(Path()))  # fmt: skip
    assert done.returncode == 0 and "100" in done.stdout, done.stderr
