"""What the documents promise exists: verbs, options, files they link to."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsight.ui.cli import app, parser
from warpsight.ui.cli.app import VERBS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
#: `warpsight VERB …` at the start of a command, after a prompt, a pipe or another command.
COMMAND = re.compile(r"(?:^\s*|\$ |[;|`(] ?|-- )warpsight (?P<rest>[a-z][^`]*)")


@functools.cache
def options_of_verbs() -> dict[str, set[str]]:
    """Options of each verb (`sass query` is one) as the command line parses them."""
    commands = {verb: parser.verb_command(verb) for verb in VERBS}
    for verb, command in list(commands.items()):
        below = getattr(command, "commands", {})
        commands |= {f"{verb} {name}": below[name] for name in below}
    common = {"-h", "--help", "-q", "--quiet", "-v", "--verbose", "--no-color"}
    return {
        verb: common | {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        for verb, command in commands.items()
    }


#: The page whose table has commands beside what users of other tools expect.
FEATURES = "features.md"


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and words of every command of ours that stands in a code block, without what is not ours."""
    within = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            within = not within
        elif not within and page.name == FEATURES and line.startswith("| "):
            yield from (
                (number, shlex.split(one.partition(" -- ")[0]))
                for one in re.findall(r"`warpsight ([a-z]+(?: [^`]*)?)`", line)
            )
        elif within and (found := COMMAND.search(line)):
            lexer = shlex.shlex(found["rest"], posix=True, punctuation_chars=";|&()")
            lexer.whitespace_split = True
            words = []
            for word in lexer:
                if word == "--" or set(word) <= set(";|&()"):
                    break
                words.append(word)
            yield number, words


#: Not the page that a generator makes, nor what was true once.
WITH_COMMANDS = [page for page in PAGES if page.name not in ("cli.md", "CHANGELOG.md")]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_documents_have_real_verbs_and_options(page: Path) -> None:
    verbs = options_of_verbs()
    wrong = []
    for number, words in commands(page):
        verb = " ".join(words[:2]) if " ".join(words[:2]) in verbs else words[0]
        if verb not in verbs:
            wrong.append(f"{page.name}:{number}: no verb {verb}")
            continue
        used = {
            word.partition("=")[0] for word in words[1:] if re.fullmatch(r"--?[a-zA-Z][\w-]*(=.*)?", word)
        }
        wrong += [f"{page.name}:{number}: {verb} has no option {one}" for one in sorted(used - verbs[verb])]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", target)]
    missing = [one for one in targets if not (page.parent / one.partition("#")[0]).exists()]
    assert not missing
    for file, _, place in (one.partition("#") for one in targets if ".md#" in one or one.startswith("#")):
        assert place in headings(page.parent / file if file else page), f"{file}#{place}"


def headings(page: Path) -> set[str]:
    """The places in a page that a link can name."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def printed(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command about a trace of `tests/golden`, and the pieces of its output that the page shows, `…` between them."""
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        for command, text in re.findall(r"^\$ warpsight (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
            if "tests/golden/" in command:
                yield (
                    command,
                    [" ".join(part.split()) for part in re.split(r"(?:^|\s)…\s", text) if part.strip()],
                )


PRINTED = [(page, *found) for page in PAGES for found in printed(page)]


@pytest.mark.parametrize(("page", "command", "pieces"), PRINTED, ids=[command for _, command, _ in PRINTED])
def test_commands_print_what_documents_show(
    page: Path,
    command: str,
    pieces: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    assert app.main(shlex.split(command)) == 0
    rest = " ".join(capsys.readouterr().out.split())
    for piece in pieces:
        assert piece in rest, f"{page.name} shows what `warpsight {command}` does not print"
        rest = rest.partition(piece)[2]


#: Commands whose printed output stands in a page and is not compared here or in test_tutorial, and why.
NOT_COMPARED = {
    "diff old new": "ten recordings, minutes of work", "race ": "needs a GPU: tests/gpu/test_race.py",
    "replay ": "needs a GPU: tests/gpu/test_replay.py", "core ": "dumps of the page are not kept: test_core.py has others",
    "import half.json": "a file of 31 MB that is not kept", "merge --cpu": "files that are not kept: test_merge_verb.py",
    "export run.warp": "any recording", "sanitize ": "needs a GPU",
    "record -- python decay.py": "test_tutorial", "analyze decay.warp": "test_tutorial", "diff before after": "test_tutorial",
    "query decay.warp": "test_tutorial", "mcp --install-skill": "writes a folder: test_mcp",
}  # fmt: skip


def test_what_pages_print_is_compared_or_says_why_not() -> None:
    pages = [page for page in PAGES if page.parent.name in ("how-to", "tutorial") or page.name == "README.md"]
    untested, used = [], set()
    for page in pages:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
            for command, text in re.findall(
                r"^\$ warpsight (.*)\n((?:(?![$>] ).*\n)*)", block, flags=re.MULTILINE
            ):
                reason = next((one for one in NOT_COMPARED if command.startswith(one)), None)
                used |= {reason} - {None}
                if text.replace("…", "").strip() and "tests/golden/" not in command and reason is None:
                    untested.append(f"{page.name}: {command}")
    assert not untested
    assert used == set(NOT_COMPARED)


def test_the_check_of_commands_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ warpsight stats x --no-such | head\n$ cat y | warpsight nothing -- --own\n```\n"
    )
    assert list(commands(page)) == [(2, ["stats", "x", "--no-such"]), (3, ["nothing"])]
    assert "--no-such" not in options_of_verbs()["stats"]
    assert "--json" in options_of_verbs()["stats"]
