"""What the documents promise exists: verbs, options, files they link to. Their commands run in test_page_commands."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsight.ui.cli import parser
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
    """Line number and words of every command of ours that is in a code block, without what is not ours."""
    within = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            within = not within
        elif not within and page.name == FEATURES and line.startswith("|"):
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


def test_the_check_of_commands_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ warpsight stats x --no-such | head\n$ cat y | warpsight nothing -- --own\n```\n"
    )
    assert list(commands(page)) == [(2, ["stats", "x", "--no-such"]), (3, ["nothing"])]
    assert "--no-such" not in options_of_verbs()["stats"]
    assert "--json" in options_of_verbs()["stats"]
