"""Removes secrets from texts: passwords, tokens and keys, by the names before them and by their shapes.

:func:`secretless` is quick and strict. Everything that is written into a trace goes through it: the text columns of every table
(the schema calls them `text`) and the manifest. What leaves the machine (reports, exports, packed traces, answers to agents)
goes through :func:`shareable` too, which also asks the rules of detect-secrets.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

HIDDEN = "***"
_PART = r"[A-Za-z0-9_.-]{0,64}"
#: Names of options, variables and keys whose values are secret.
_SECRET_NAME = (
    _PART
    + r"(?:password|passwd|passphrase|passcode|secret|token(?!s|i[sz]|_?(?:len|count|limit|type|idx|index|per|num))"
    r"|(?:api|access|account|auth|encryption|master|private|secret|shared|signing|storage)[-_]?key"
    r"|shared[-_]?access[-_]?signature|credential|authorization|bearer|requirepass)" + _PART
)
#: Short names that mean a secret only before `=` (or as a quoted key) and something that looks like one.
_SHORT_NAME = r"(?:[A-Za-z0-9]{1,20}[_-]){0,4}(?:pass|pwd|pw|sig|signature|cookie|session[-_]?id)"
_QUOTED = r'"(?:[^"\\]|\\.)*"?|\'[^\']*\'?|\\{1,16}"[^"\\]*\\{0,16}"?'
_VALUE = rf"(?:{_QUOTED}|[^\s\"',;&]+)"
_SECRET_PAIR = re.compile(
    rf"(?<![A-Za-z0-9_.-])({_SECRET_NAME})(\\{{0,16}}[\"']?\s*(?:=(?!=)|:(?!:))\s*)(?!\s)({_VALUE})",
    re.IGNORECASE,
)
_SHORT_PAIR = re.compile(
    rf"(?<![A-Za-z0-9_.-])({_SHORT_NAME})(\s?=(?!=)\s?|\\{{0,16}}[\"']\s*[=:]\s*)(?!\s)({_VALUE})",
    re.IGNORECASE,
)
#: `Authorization: Bearer X`: the scheme stays, what follows it goes.
_SCHEME = re.compile(
    r"((?:authorization|api-?key)[\"']?\s*[:=]\s*[\"']?(?:basic|token|digest|negotiate|apikey)\s+|\bbearer[\s:=]+)([A-Za-z0-9._~+/=-]{6,})",
    re.IGNORECASE,
)
#: The same option inside a longer text: `--password X`.
_SECRET_WORDS = re.compile(
    rf"(?<![^\s\"'\[(,])(--?{_SECRET_NAME})([\"']?,?\s+)(?!-)({_VALUE})", re.IGNORECASE
)
_SECRET_OPTION = re.compile(rf"^(--?{_SECRET_NAME})(?:=(.*))?$", re.IGNORECASE | re.DOTALL)
#: A key of something like JSON whose value is the next word.
_SECRET_KEY = re.compile(rf"^\W*{_SECRET_NAME}\W*:$", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----).*?(?:(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----)|\Z)",
    re.DOTALL,
)
_URL_LOGIN = re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^/\s@\"'<>]{1,512}@", re.IGNORECASE)
#: What secrets of well-known services look like; those that detect-secrets does not know, and those that are seen most.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{30,}|sk-(?:[A-Za-z0-9]{20,}|(?=[\w-]*\d)[\w-]{20,})|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|dt|ft|soat|rt|ptt|cbt|agent)-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|xapp-\d-[A-Za-z0-9-]{10,}|A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}|npm_[A-Za-z0-9]{36}"
    r"|pypi-A[A-Za-z0-9_-]{50,}|SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}|[a-f0-9]{32}-us\d{1,2}(?!\d)|dckr_pat_[A-Za-z0-9_-]{20,}"
    r"|hv[sb]\.[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32}|dop_v1_[a-f0-9]{40,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|gsk_[A-Za-z0-9]{40,}"
    r"|r8_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{40,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}|ATATT3x[A-Za-z0-9_=-]{50,}|PMAK-[a-f0-9]{24}-[a-f0-9]{30,}"
    r"|sq0(?:csp|atp)-[A-Za-z0-9_-]{20,}|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}|\d{8,10}:AA[A-Za-z0-9_-]{33}"
    r"|hooks\.slack\.com/services/T[A-Za-z0-9_]+/B[A-Za-z0-9_]+/[A-Za-z0-9_]+"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
)
#: In lower case: a text without any of these, and without Discord's shape, holds nothing for the rules above.
_HINTS = (
    "pass", "secret", "token", "key", "credential", "authorization", "bearer", "pwd", "pw=", "pw =", 'pw"', "pw'",
    "pw\\", "sig", "cookie",
    "session", "://", "-u", "--user", "--proxy-user", "-p", "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat", "glpat-",
    "gldt-", "glft-", "glsoat-", "glrt-", "glptt-", "glcbt-", "glagent-", "xox", "xapp-", "akia", "asia", "abia",
    "acca", "aiza", "ya29.",
    "gocspx-", "nvapi-", "k_live_", "k_test_", "whsec_", "npm_", "pypi-", "sg.", "-us", "dckr_", "hvs.", "hvb.",
    "dapi", "dop_v1", "shpat_",
    "shpca_", "shppa_", "shpss_", "gsk_", "r8_", "pplx-", "hooks.slack", "atatt3", "pmak-", "sq0", ":aa", "eyj",
)  # fmt: skip
_DISCORD = r"[MNO][A-Za-z0-9_-]{23,27}\."
#: The same as one expression in RE2's syntax, without case.
SUSPICIOUS = "|".join([*map(re.escape, _HINTS), _DISCORD])
#: Words after a name that are not secret, and forms of a value that only stand for one.
_HARMLESS = frozenset(
    {"true", "false", "none", "null", "nil", "yes", "no", "on", "off", "str", "string", "int", "float", "bool",
    "bytes", "tensor",
     "optional", "auto", "default", "required", "hidden", HIDDEN}
)  # fmt: skip
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?$", re.IGNORECASE)
_STANDS_FOR = re.compile(
    r"(?:\$\w+|\$\{.*\}|\{.*\}?|<.*>|%\w|\*+|\[.*|\(.*|0x[0-9a-f]+)$", re.IGNORECASE | re.DOTALL
)
#: `-u name:X` and `-pX` inside a longer text, where X must look like more than a word or a number.
_LOGIN_WORDS = re.compile(
    r"(?<![^\s\"'\[(,])((?:-[uU]|--user|--proxy-user)[\"']?,?\s+[\"']?(?!\d+:\d+\b)[^:/\s]{1,64}:)[^:/\s\"',]+"
)
_PASSWORD_WORD = re.compile(r"(?<![^\s\"'\[(,])-p(?=[^\s\"',]*\d)(?=[^\s\"',]*[A-Za-z])[^\s=/\"',]{6,}")
#: Programs to which `-p X`, `-a X` give a password.
_PASSWORD_LETTER = {"sshpass": "-p", "redis-cli": "-a", "docker": "-p", "podman": "-p"}
#: `-pX`: of mysql and others; letters alone are another option's name, digits alone a port.
_PASSWORD_GLUED = re.compile(r"^-p(?=.*[^A-Za-z_=./,-])(?!\d+(?:[:,.-]\d+)*$)([^=/]{4,})$", re.DOTALL)
_DISCORD_LIKE = re.compile(_DISCORD)
_QUOTING = re.compile(r"[^\w@%+=:,./*-]")
#: `-u name:X`
_LOGIN = re.compile(r"^((?!\d+:\d+$)[^:/\s]+:)([^:/\s][^/\s]*)$")
_LOGIN_OPTIONS = frozenset({"-u", "-U", "--user", "--proxy-user"})
#: Texts that detect-secrets may find something in, RE2's syntax.
_LONG_WORD = r"[A-Za-z0-9+/_=.-]{20,}|://|AKC|AP[0-9A-F]"
#: Rules of detect-secrets that are not about secrets, or find only their first line.
_LEFT_OUT = frozenset({"Public IP (ipv4)", "Private Key"})


def secretless(text: str) -> str:
    """A text with the values of secrets replaced by `***`."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS) and not _DISCORD_LIKE.search(text):
        return text
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(lambda m: f"{m[1]}{HIDDEN}{m[2] or ''}", text)
    text = _URL_LOGIN.sub(rf"\1{HIDDEN}@", text)
    text = _SCHEME.sub(rf"\1{HIDDEN}", text)
    text = _SECRET_PAIR.sub(_hidden_value, text)
    text = _SHORT_PAIR.sub(_hidden_short, text)
    text = _SECRET_WORDS.sub(_hidden_value, text)
    text = _LOGIN_WORDS.sub(rf"\1{HIDDEN}", text)
    text = _PASSWORD_WORD.sub(f"-p{HIDDEN}", text)
    return _SHAPES.sub(HIDDEN, text)


def shareable(text: str) -> str:
    """A text without secrets, by detect-secrets' rules too: for what leaves the machine."""
    return _by_rules(secretless(text))


def command(text: str) -> str:
    """A command line, shell-quoted, without secrets."""
    try:
        words = shlex.split(text)
    except ValueError:
        return secretless(text)
    hidden = arguments(words)
    return text if hidden == words else joined(hidden)


def joined(words: list[str]) -> str:
    """Arguments as a shell would take them, except for quotes that only the asterisks need."""
    return " ".join(
        word if HIDDEN in word and not _QUOTING.search(word) else shlex.quote(word) for word in words
    )


def arguments(words: list[str]) -> list[str]:
    """Arguments with the values of secret options replaced, given as `--token X`, `--token=X`, `-pX` or `-u name:X`."""
    programs = {word.rsplit("/", 1)[-1] for word in words}
    letters = {letter for program, letter in _PASSWORD_LETTER.items() if program in programs}
    out: list[str] = []
    hide, before = False, ""
    for word in words:
        option = _SECRET_OPTION.match(word)
        if hide and not (word.startswith("-") and len(word) < 24):
            out.append(_instead(before, word))
        elif option and option[2] is not None:
            out.append(f"{option[1]}={_instead(option[1], option[2])}")
        elif before in _LOGIN_OPTIONS and (login := _LOGIN.match(word)):
            out.append(login[1] + HIDDEN)
        elif out and _PASSWORD_GLUED.match(word):
            out.append("-p" + HIDDEN)
        else:
            out.append(secretless(word))
        hide = (
            (option is not None and option[2] is None)
            or word in letters
            or _SECRET_KEY.match(word) is not None
        )
        before = word
    return out


def plain(value: object, key: str = "") -> Any:
    """A value of JSON without secrets; the value of a key that names a secret is replaced as a whole."""
    if isinstance(value, dict):
        return {k: plain(v, str(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if all(isinstance(v, str) for v in value):
            return arguments(list(value))
        return [plain(v, key) for v in value]
    if not isinstance(value, str):
        return value
    if key == "command":
        return command(value)
    if key and re.fullmatch(_SECRET_NAME, key, re.IGNORECASE):
        return _instead(key, value)
    return secretless(value)


def column(name: str, values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column of texts without secrets; itself when it holds none, which costs one pass over its distinct texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
        if isinstance(coded, pa.ChunkedArray):  # no rows
            return values
    texts = coded.dictionary.cast(pa.string())
    pattern = "" if name == "command" else SUSPICIOUS
    doubtful = pc.match_substring_regex(texts, pattern, ignore_case=True)
    if not pc.any(doubtful).as_py():
        return values
    change = command if name == "command" else secretless
    old = texts.to_pylist()
    new = [
        change(text) if look and text else text for text, look in zip(old, doubtful.to_pylist(), strict=True)
    ]
    if new == old:
        return values
    return (
        pa.array(new, pa.string())
        .take(coded.indices)
        .cast(values.type.value_type if pa.types.is_dictionary(values.type) else values.type)
    )


def _hidden_value(match: re.Match[str]) -> str:
    name, between, value = match[1], match[2], match[3]
    return f"{name}{between}{_instead(name, value)}"


def _hidden_short(match: re.Match[str]) -> str:
    name, between, value = match[1], match[2], match[3]
    bare = value.strip("\\\"'")
    last = re.split(r"[_-]", name.lower())[-1]
    long = last in ("sig", "signature", "cookie", "id", "sessionid")
    looks = len(bare) >= (16 if long else 4) and (
        any(not c.isalpha() for c in bare) or "pwd" in last or last == "pw"
    )
    return f"{name}{between}{_instead(name, value)}" if looks and bare[:1] not in "/~.[({" else match[0]


def _instead(name: str, value: str) -> str:
    """The replacement for a value after a secret's name; quotes stay."""
    bare = value.strip("\\\"'")
    if not bare or bare.lower() in _HARMLESS or _STANDS_FOR.match(bare):
        return value
    if _NUMBER.match(bare) and "pass" not in name.lower() and "secret" not in name.lower():
        return value
    quote = re.match(r"\\*[\"']", value)
    return f"{quote[0]}{HIDDEN}{quote[0]}" if quote else HIDDEN


@lru_cache(maxsize=1)
def _rules() -> tuple[re.Pattern[str], ...]:
    """detect-secrets' rules about shapes; none where it is not installed, as `doctor` says.

    Its rules about entropy are left out, because hashes are not secrets, and so are those about key names, which are above.
    """
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.base import RegexBasedDetector
    except ImportError:
        return ()
    kinds: dict[str, Any] = get_mapping_from_secret_type_to_class()
    return tuple(
        pattern
        for name, kind in kinds.items()
        if issubclass(kind, RegexBasedDetector) and name not in _LEFT_OUT
        for pattern in kind().denylist
    )


_MAYBE = re.compile(_LONG_WORD)
#: Some of detect-secrets' expressions take time that grows with the square of a text's length: they see pieces of so many
#: characters, which share so many.
_WINDOW, _OVERLAP = 4096, 512
#: What is shorter is not a secret but a piece of one; replacing it would tear other words apart.
_SHORTEST = 8


@lru_cache(maxsize=65_536)
def _by_rules(text: str) -> str:
    if not _MAYBE.search(text):
        return text
    pieces = [text[place : place + _WINDOW] for place in range(0, len(text), _WINDOW - _OVERLAP)]
    found = {
        secret
        for rule in _rules()
        for piece in pieces
        for match in rule.finditer(piece)
        for secret in _parts(match)
    }
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _parts(match: re.Match[str]) -> list[str]:
    """What is secret in a match: its groups, unless they only separate kinds of tokens."""
    return [part for part in match.groups() if part and len(part) >= _SHORTEST] or [match[0]]


#: Texts that :func:`shareable` may change, RE2's syntax, without case.
SUSPICIOUS_TO_OTHERS = f"{SUSPICIOUS}|{_LONG_WORD}"
