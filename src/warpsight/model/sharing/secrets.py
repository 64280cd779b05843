"""Removes secrets (passwords, tokens and keys) from strings, by the names in front of them and by their format.

:func:`secretless` is quick and strict. Everything that is written into a trace goes through it: the text columns of every table
(the schema calls them `text`) and the manifest. What leaves the machine (reports, exports, packed traces, answers to agents)
goes through :func:`shareable` too, which also asks the rules of detect-secrets.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from warpsight.model.sharing.secret_shapes import DISCORD, SHAPE_HINTS, SHAPES

if TYPE_CHECKING:
    import pyarrow as pa

HIDDEN = "***"
_PART = r"[A-Za-z0-9_.-]{0,64}"
#: Passwords in other scripts, as such and as JSON has them.
_FOREIGN = tuple(
    form for word in ("пароль", "密码", "パスワード") for form in (word, json.dumps(word).strip('"'))
)
#: Names of options, variables and keys whose values are secret.
_SECRET_NAME = (
    _PART
    + r"(?:password|passwd|passphrase|passcode|passwort|mot_?de_?passe|contrase[nñ]a|senha|"
    + "|".join(map(re.escape, _FOREIGN))
    + r"|secret"
    r"|token(?!s|i[sz]|_?(?:len|count|limit|type|idx|index|per|num))"
    r"|(?:api|access|account|app|auth|client|deploy|encrypt|encryption|hmac|jwt|licen[cs]e|master|priv|private|secret|shared"
    r"|signing|ssh|storage|subscription|webhook)[-_]?key|shared[-_]?access[-_]?signature|credential|authorization|bearer|requirepass)"
    + _PART
)
_WHOLE_NAME = "(?i)" + _SECRET_NAME
#: Short names that mean a secret only before `=` (or as a quoted key) and something that looks like one.
_SHORT_NAME = (
    r"(?:(?:[A-Za-z0-9]{1,20}[_-]){0,4}_?(?:pass|pwd|pw|sig|signature|cookie|session[-_]?id|auth|creds?|login|otp|salt|pepper|mnemonic)"
    r"|(?-i:[A-Z0-9_]{1,40}(?:PASS|PWD|_KEY)|[a-z][A-Za-z0-9]{0,40}(?:Pass|Pwd)|(?<=[\"\'?&])key))"
)
_QUOTED = r'[bBrRuUfF]{0,2}(?:"(?:[^"\\]|\\.)*"?|\'[^\']*\'?)|\\{1,16}"[^"\\]*\\{0,16}"?'
_QUOTE = r"\\{0,16}[\"']"
_VALUE = rf"(?:{_QUOTED}|[^\s\"',;&]+)"
_SECRET_PAIR = (
    rf"(?i)(?<![A-Za-z0-9_.-])({_SECRET_NAME})(\\{{0,16}}[\"']?\s*(?::?=(?!=)>?|:(?!:))\s*)(?!\s)({_VALUE})"
)
_SHORT_PAIR = (
    rf"(?i)(?<![A-Za-z0-9_.-])(-{{0,2}}{_SHORT_NAME})(\s?=(?!=)\s?|\\{{0,16}}[\"']\s*[=:]\s*)(?!\s)({_VALUE})"
)
#: `Authorization: Bearer X`: the scheme stays, what follows it goes.
_SCHEME = (
    r"(?i)((?:authorization|api-?key)[\"']?\s*[:=]\s*[\"']?(?:basic|token|digest|negotiate|apikey)\s+|\bbearer[\s:=]+)"
    r"([A-Za-z0-9._~+/=-]{6,})"
)
#: The same option inside a longer string: `--password X`.
_SECRET_WORDS = rf"(?i)(?<![^\s\"'\[(,;])(--?{_SECRET_NAME})([\"']?,?\s+)(?!-)({_VALUE})"
#: A line of a PEM file, as a word of its own.
_PEM_BODY = r"[A-Za-z0-9+/=]{16,}"
#: The word after `Bearer`.
_TOKEN = r"[A-Za-z0-9._~+/=-]{6,}"
#: Options whose values are secret if they look like it.
_DOUBTFUL_OPTION = r"(?i)--?(?:[a-z]{1,20}[-_])?(?:key|pw|pwd|pass|passw|tok)$"
_SECRET_OPTION = rf"(?is)^(--?{_SECRET_NAME})(?:=(.*))?$"
#: A key of something like JSON whose value is the next word.
_SECRET_KEY = rf"(?i)^\W*{_SECRET_NAME}\W*:$"
_PRIVATE_KEY = (
    r"(?s)(-{4,5} ?BEGIN[A-Z0-9 \"',]{1,64}PRIVATE[\"', ]{1,8}KEY[A-Z ]{0,64}-{4,5}|Private-Lines: \d+).*?"
    r"(?:(-{4,5} ?END[A-Z0-9 \"',]{1,64}PRIVATE[\"', ]{1,8}KEY[A-Z ]{0,64}-{4,5}|Private-MAC)|\Z)"
)
#: The part of a URL between `//` and `@`: a password may hold a slash or an @ that should have been quoted.
_URL_LOGIN = (
    r"(?i)(\b[a-z][a-z0-9+.-]{0,30}(?:://|%3A%2F%2F))"
    r"(?:[^/\s\"'<>]{1,512}@|[^/\s:@\"'<>]{0,64}:(?!\d+/)[^\s@\"'<>]{1,256}@|(?:(?!%40)[^/\s\"'<>]){1,512}%40)"
)
_COOKIES = r"(?i)\b((?:set-)?cookies?[\"']?\s*:\s*[\"']?)(?=[^\s=;\"']{1,64}=)[^\r\n\"']+"
_BASIC = r"(?i)\b(basic\s+)([A-Za-z0-9+/]{8,}={0,2})(?![A-Za-z0-9+/=])"
#: Values after separators other than `=` and `:`, which are secrets only if they look like one.
_DOUBTFUL = (
    rf"(?i)(?<![A-Za-z0-9_.-])({_SECRET_NAME}|key)"
    rf"({_QUOTE}\s*,\s*(?:{_QUOTE}?value{_QUOTE}?\s*[:=]\s*)?|{_QUOTE}\s+value=|\s*==\s*|\s+is\s+"
    rf"|{_QUOTE}?\s*:\s*\{{\s*{_QUOTE}\w+{_QUOTE}\s*:\s*)({_VALUE})"
    rf"|((?:[?&]|\s--)(?:key|code)[=\s]|(?<![^\s\"'\[(,;])--?(?:key|pw|pwd|pass|passw|tok|[a-z-]{{1,20}}-tok)[\"']?,?\s+|\b(?:[\w-]{{0,30}}[_-])?(?:pass|pwd|pw):\s*)()({_VALUE})"
)
#: The suffix of a file's name, and the number of a line after it.
_SUFFIX = r"\.([A-Za-z][A-Za-z0-9]{0,4})>?$"
_LINE = r"\d{1,7}(?![A-Za-z0-9_])"
_ELEMENT = rf"(?i)(<{_SECRET_NAME}(?:\s[^<>]*)?>|<key>{_SECRET_NAME}</key>\s*<string>)[^<]+"
#: Passwords where a program or file format has its own place for them: netrc, Oracle, sshpass.
_IN_PLACE = (
    r"(\blogin\s+\S{1,64}\s+(?:password|passwd)\s+|\b(?:sqlplus|sqlldr|rman|thin:)(?:\s+-\S{1,20})*\s*[^\s/]{1,64}/"
    r"|\bsshpass\s+-p\s*)[^\s@\"']+"
)
#: In lower case: a string without any of these, and without Discord's format, matches none of the rules above.
_HINTS = (
    "pass", "secret", "tok", "key", "cred", "auth", "bearer", "basic ", "pwd", "pw=", "pw =", 'pw"', "pw'", "pw\\", "--pw",
    "sig", "cookie", "session", "://", "%3a%2f%2f", "?code=", "&code=", "-u", "--user", "--login", "--proxy-user", "-p", "otp",
    "salt", "pepper", "mnemonic", "contrase", "senha", *_FOREIGN, "private", "sqlplus", "thin:", *SHAPE_HINTS,
)  # fmt: skip
#: Every :data:`_SECRET_NAME` contains one of these.
_NAMED = (
    "pass",
    "contrase",
    "senha",
    *_FOREIGN,
    "secret",
    "token",
    "key",
    "signature",
    "credential",
    "authorization",
    "bearer",
)
#: The same as one expression in RE2's syntax, without case.
_SUSPICIOUS = "|".join([*map(re.escape, _HINTS), DISCORD])
#: Words after a name that are not secret, and placeholder values.
_HARMLESS = frozenset(
    {"true", "false", "none", "null", "nil", "yes", "no", "on", "off", "str", "string", "int", "float", "bool",
    "bytes", "tensor",
     "optional", "auto", "default", "required", "hidden", HIDDEN}
)  # fmt: skip
_LONG_HEX = r"[0-9a-fA-F]{32,}"
_NUMBER = r"(?i)[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?$"
_STANDS_FOR = r"(?is)(?:\$\w+|\$\{.*\}|\{.*\}?|<.*>|%\w|\*+|\[.*|\(.*|0x[0-9a-f]+)$"
#: `-u name:X` and `-pX` inside a longer string, where X must look like more than a word or a number.
_LOGIN_WORDS = (
    r"(?<![^\s\"'\[(,;])((?:-[uU]\s?|(?:--user|--proxy-user|--auth|--login)(?=[\"'=\s])=?)[\"']?,?\s*[\"']?"
    r"(?!\d+:\d+\b)[^:/\s]{1,64}:)[^:/\s\"',]+"
)
_PASSWORD_WORD = r"(?<![^\s\"'\[(,;])-p(?=[^\s\"',]*\d)(?=[^\s\"',]*[A-Za-z])[^\s=/\"',]{6,}"
#: Programs that take a password as `-p X` or `-a X`.
_PASSWORD_LETTER = {"sshpass": "-p", "redis-cli": "-a", "docker": "-p", "podman": "-p"}
#: `-pX`: of mysql and others; letters alone are another option's name, digits alone a port.
_PASSWORD_GLUED = r"(?s)^-p(?=.*[^A-Za-z_=./,-])(?!\d+(?:[:,.-]\d+)*$)([^=/]{4,})$"
_DISCORD_LIKE = re.compile(DISCORD)
_QUOTING = r"[^\w@%+=:,./*-]"
#: `-u name:X`
_LOGIN = r"^((?!\d+:\d+$)[^:/\s]+:)([^:/\s][^/\s]*)$"
_LOGIN_OPTIONS = frozenset({"-u", "-U", "--user", "--proxy-user", "--auth", "--login"})
#: Results for strings up to this length are cached.
_SHORT = 1024
#: Up to this many strings are checked one at a time, which takes as long as RE2 needs to compile its expression.
_FEW = 64
#: Texts that detect-secrets may find something in, RE2's syntax.
_LONG_WORD = r"[A-Za-z0-9+/_=.-]{20,}|://|AKC|AP[0-9A-F]"
#: Rules of detect-secrets that are not about secrets, or find only their first line.
_LEFT_OUT = frozenset({"Public IP (ipv4)", "Private Key"})


def secretless(text: str) -> str:
    """A string with the values of secrets replaced by `***`."""
    return _of_short(text) if len(text) <= _SHORT else _hidden(text)


def each(texts: Sequence[str]) -> list[str]:
    """Texts with the values of secrets replaced by `***`; if there are many, RE2 finds those to examine."""
    if len(texts) <= _FEW:
        return [secretless(text) for text in texts]
    import pyarrow as pa

    from warpsight.model import arrow

    try:
        found = arrow.matched(pa.array(texts, pa.string()), _SUSPICIOUS)
    except UnicodeEncodeError:  # file names that are not text
        return [secretless(text) for text in texts]
    return [secretless(text) if look else text for text, look in zip(texts, found.to_pylist(), strict=True)]


@lru_cache(maxsize=8192)
def _of_short(text: str) -> str:
    """Cached, because the same names occur in several columns of a trace and in the traces of all ranks of a job."""
    return _hidden(text)


def _hidden(text: str) -> str:
    if not suspicious(text):
        return text
    lower = text.casefold()
    for needs, expression, replacement in _REPLACED:
        if all(any(map(lower.__contains__, words)) for words in needs):
            text = re.sub(expression, replacement, text)
    return without_tokens(text)


def suspicious(text: str) -> bool:
    """Whether a string could hold a secret: every secret comes with one of a few words."""
    return any(map(text.casefold().__contains__, _HINTS)) or _DISCORD_LIKE.search(text) is not None


def without_tokens(text: str) -> str:
    """A string without the tokens of known services, whatever else it contains, such as code or a page."""
    if any(map(text.casefold().__contains__, SHAPE_HINTS)) or _DISCORD_LIKE.search(text):
        return re.sub(SHAPES, HIDDEN, text)
    return text


def shareable(text: str) -> str:
    """A string without secrets, checked against detect-secrets' rules too, for sharing."""
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
        word if HIDDEN in word and not re.search(_QUOTING, word) else shlex.quote(word) for word in words
    )


def arguments(words: list[str]) -> list[str]:
    """Arguments with the values of secret options replaced, given as `--token X`, `--token=X`, `-pX` or `-u name:X`."""
    programs = {word.rsplit("/", 1)[-1] for word in words}
    letters = {letter for program, letter in _PASSWORD_LETTER.items() if program in programs}
    out: list[str] = []
    hide, key, before = False, False, ""
    for word in words:
        key = (key or word == "-----BEGIN") and word != "-----END"
        named = _may_name(word)
        option = re.match(_SECRET_OPTION, word) if named else None
        if (key and re.fullmatch(_PEM_BODY, word)) or (
            re.match(_DOUBTFUL_OPTION, before) and _random(word, 8)
        ):
            out.append(HIDDEN)
        elif hide and not (word.startswith("-") and len(word) < 24):
            out.append(_instead(before, word))
            if word.lower() in ("basic", "bearer", "digest", "token"):  # the rest is the secret
                out[-1], before = word, word
                continue
        elif option and option[2] is not None:
            out.append(f"{option[1]}={_instead(option[1], option[2])}")
        elif before.lower() == "bearer" and re.fullmatch(_TOKEN, word):
            out.append(HIDDEN)
        elif before in _LOGIN_OPTIONS and (login := re.match(_LOGIN, word)):
            out.append(login[1] + HIDDEN)
        elif out and re.match(_PASSWORD_GLUED, word):
            out.append("-p" + HIDDEN)
        else:
            out.append(secretless(word))
        hide = (
            (option is not None and option[2] is None)
            or word in letters
            or (word in ("=", ":=", "=>") and _names_secret(before))
            or (named and re.match(_SECRET_KEY, word) is not None)
        )
        before = word
    return out


def plain(value: object, key: str = "") -> Any:
    """A value of JSON without secrets; the value of a key that names a secret is replaced as a whole."""
    if isinstance(value, dict):
        named = key if _names_secret(key) else str(value.get("name") or value.get("key") or "")
        return {
            secretless(str(k)): plain(v, named if _names_secret(named) and k == "value" else str(k))
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        if all(isinstance(v, str) for v in value):
            return arguments(list(value))
        return [plain(v, key) for v in value]
    if not isinstance(value, str):
        return value
    if key == "command":
        return command(value)
    if _names_secret(key):
        return _instead(key, value)
    return secretless(value)


def column(name: str, values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column of strings without secrets, or the unchanged column; costs one pass over the distinct strings."""
    import pyarrow as pa

    from warpsight.model import arrow

    coded = values if pa.types.is_dictionary(values.type) else arrow.encoded(values)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
        if isinstance(coded, pa.ChunkedArray):  # no rows
            return values
    texts = arrow.cast(coded.dictionary, pa.string())
    change = command if name == "command" else secretless
    old = texts.to_pylist()
    if name != "command" and len(old) > _FEW:
        doubtful = arrow.matched(texts, _SUSPICIOUS).to_pylist()
        if not any(doubtful):
            return values
    else:
        doubtful = old
    new = [change(text) if look and text else text for text, look in zip(old, doubtful, strict=True)]
    if new == old:
        return values
    return (
        pa.array(new, pa.string())
        .take(coded.indices)
        .cast(values.type.value_type if pa.types.is_dictionary(values.type) else values.type)
    )


def _may_name(text: str) -> bool:
    return any(map(text.casefold().__contains__, _NAMED))


def _names_secret(key: str) -> bool:
    return _may_name(key) and re.fullmatch(_WHOLE_NAME, key) is not None


def _hidden_value(match: re.Match[str]) -> str:
    name, between, value = match[1], match[2], match[3]
    if between == ":" and _is_source_line(name, value):
        return match[0]
    return f"{name}{between}{_instead(name, value)}"


def _is_source_line(name: str, value: str) -> bool:
    """Whether this is a file and a line in it, `token_ids.py:40)`: the suffix of the file is no word for a secret."""
    suffix = re.search(_SUFFIX, name)
    return (
        suffix is not None
        and re.match(_LINE, value) is not None
        and not any(map(suffix[1].lower().__contains__, _HINTS))
    )


def _hidden_short(match: re.Match[str]) -> str:
    name, between, value = match[1], match[2], match[3]
    bare = value.strip("\\\"'")
    last = re.split(r"[_-]", name.lower())[-1]
    if last in ("key", "salt", "pepper", "auth", "login", "cred", "creds"):
        looks = _random(bare, 8 if last == "auth" else 12) or (bare.count(":") == 1 and len(bare) >= 8)
    elif last == "mnemonic":
        looks = bare.count(" ") >= 4
    else:
        long = last in ("sig", "signature", "cookie", "id", "sessionid")
        other = any(not c.isalpha() for c in bare)
        looks = len(bare) >= (16 if long else 4) and (other or "pwd" in last or last == "pw")
    return f"{name}{between}{_instead(name, value)}" if looks and bare[:1] not in "/~.[({" else match[0]


def _hidden_doubtful(match: re.Match[str]) -> str:
    name, between, value = (match[1], match[2], match[3]) if match[1] else (match[4], "", match[6])
    return f"{name}{between}{_instead('password', value)}" if _random(value.strip("\\\"'"), 8) else match[0]


def _hidden_login(match: re.Match[str]) -> str:
    """`Basic X` without `X` where that is a name and a password."""
    try:
        login = base64.b64decode(match[2] + "=" * (-len(match[2]) % 4), validate=True).decode()
    except ValueError:
        return match[0]
    return match[1] + HIDDEN if ":" in login and login.isprintable() else match[0]


def _random(text: str, least: int) -> bool:
    """Whether a string looks machine-generated: digits and letters of both cases, or long hexadecimal."""
    digits = any(map(str.isdigit, text))
    cases = any(map(str.islower, text)) and any(map(str.isupper, text))
    return len(text) >= least and digits and (cases or bool(re.fullmatch(_LONG_HEX, text)))


def _instead(name: str, value: str) -> str:
    """The replacement for a value after a secret's name; quotes stay."""
    bare = value.strip("\\\"'")
    if not bare or bare.lower() in _HARMLESS or re.match(_STANDS_FOR, bare):
        return value
    if re.match(_NUMBER, bare) and not re.search("pass|secret|otp", name, re.IGNORECASE):
        return value
    quote = re.match(r"\\*[\"']", value)
    return f"{quote[0]}{HIDDEN}{quote[0]}" if quote else HIDDEN


#: What is replaced, in this order: words of which a match has one of each tuple, in lower case (compiling an expression takes a
#: millisecond or more, and most traces need none), the expression, and what stands in its place.
_REPLACED: tuple[tuple[tuple[tuple[str, ...], ...], str, str | Callable[[re.Match[str]], str]], ...] = (
    ((("private",),), _PRIVATE_KEY, lambda m: f"{m[1]}{HIDDEN}{m[2] or ''}"),
    ((("@", "%40"),), _URL_LOGIN, rf"\1{HIDDEN}@"),
    ((("authorization", "apikey", "api-key", "bearer"),), _SCHEME, rf"\1{HIDDEN}"),
    ((("basic",),), _BASIC, _hidden_login),
    ((("cookie",),), _COOKIES, rf"\1{HIDDEN}"),
    ((("<",), _NAMED), _ELEMENT, rf"\1{HIDDEN}"),
    ((("login", "sqlplus", "sqlldr", "rman", "thin:", "sshpass"),), _IN_PLACE, rf"\1{HIDDEN}"),
    ((("=", ":"), _NAMED), _SECRET_PAIR, _hidden_value),
    ((("=", "'", '"'),), _SHORT_PAIR, _hidden_short),
    (((*_NAMED, "code", "pw", "tok"),), _DOUBTFUL, _hidden_doubtful),
    ((("-",), _NAMED), _SECRET_WORDS, _hidden_value),
    ((("-u", "--auth", "--login", "--proxy-user"), (":",)), _LOGIN_WORDS, rf"\1{HIDDEN}"),
    ((("-p",),), _PASSWORD_WORD, f"-p{HIDDEN}"),
)


@lru_cache(maxsize=1)
def _rules() -> tuple[re.Pattern[str], ...]:
    """detect-secrets' rules about formats; empty if it is not installed, which `doctor` reports.

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


#: Some of detect-secrets' expressions take quadratic time in the length of a string: they see pieces of this length, with this
#: overlap.
_WINDOW, _OVERLAP = 4096, 512
#: Shorter values are fragments rather than secrets; replacing them would mangle other words.
_SHORTEST = 8


@lru_cache(maxsize=65_536)
def _by_rules(text: str) -> str:
    if not re.search(_LONG_WORD, text):
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
SUSPICIOUS_TO_OTHERS = f"{_SUSPICIOUS}|{_LONG_WORD}"
