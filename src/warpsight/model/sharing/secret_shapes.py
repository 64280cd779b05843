"""The formats of secrets of well-known services: those that detect-secrets does not know, and the most common ones.

The prefixes are public: each service documents its own so that scanners find its tokens.
"""

from __future__ import annotations

import re

_WORD = "[A-Za-z0-9]"
_DASHED = "[A-Za-z0-9_-]"
_HEX = "[a-f0-9]"
#: The prefix of a token, and an expression for the rest of it.
_SERVICES: tuple[tuple[str, str], ...] = (
    # models and experiments
    ("hf_", _WORD + "{30,}"), ("api_org_", _WORD + "{30,}"), ("sk-", rf"(?:{_WORD}{{20,}}|(?=[\w-]*\d)[\w-]{{20,}})"),
    ("gsk_", _WORD + "{40,}"), ("r8_", _WORD + "{30,}"), ("pplx-", _WORD + "{40,}"), ("xai-", _WORD + "{60,}"),
    ("fw_", _WORD + "{22,}"), ("lsv2_", r"(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"), ("wandb_v1_", _DASHED + "{40,}"),
    ("nvapi-", _DASHED + "{20,}"), ("dapi", _HEX + "{32}"),
    # code, packages and builds
    *((f"gh{kind}_", _WORD + "{20,}") for kind in "pousr"), ("github_pat_", r"\w{20,}"),
    *((f"gl{kind}-", _DASHED + "{16,}") for kind in ("pat", "dt", "ft", "soat", "rt", "ptt", "cbt", "agent")),
    ("GR1348941", _DASHED + "{20,}"), ("ATBB", _WORD + "{28,}"), ("ATATT3x", "[A-Za-z0-9_=-]{50,}"),
    ("ATCTT3x", "[A-Za-z0-9_=-]{50,}"), ("npm_", _WORD + "{36}"), ("pypi-A", _DASHED + "{50,}"), ("rubygems_", _HEX + "{48}"),
    ("cio", _WORD + "{32}(?![A-Za-z0-9])"), ("oy2", "[a-z0-9]{43}(?![A-Za-z0-9])"), ("dckr_pat_", _DASHED + "{20,}"),
    ("AKCp", _WORD + "{60,}"), ("lin_api_", _WORD + "{32,}"), ("PMAK-", _HEX + r"{24}-[a-f0-9]{30,}"),
    # machines and data
    *((f"A{kind}", "[A-Z0-9]{16}") for kind in ("KIA", "SIA", "BIA", "CCA")), ("AIza", _DASHED + "{30,}"),
    ("ya29.", _DASHED + "{20,}"), ("GOCSPX-", _DASHED + "{20,}"), *((f"do{kind}_v1_", _HEX + "{40,}") for kind in "opr"),
    ("HRKU-", _DASHED + "{30,}"), ("nfp_", _WORD + "{30,}"), ("pul-", _HEX + "{40}"), ("sbp_", _HEX + "{40}"),
    *((f"hv{kind}.", _DASHED + "{20,}") for kind in "sb"), ("dp.", rf"(?:pt|st|ct|sa|scim|audit)\.{_DASHED}{{40,}}"),
    ("pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}"), ("tskey-", _DASHED + "{20,}"),
    ("glsa_", _WORD + r"{30,}_[A-Fa-f0-9]{8}"),
    ("glc_", "[A-Za-z0-9+/]{30,}=*"), ("NRAK-", "[A-Z0-9]{27}"), ("sntrys_", "[A-Za-z0-9+/=_-]{50,}"), ("sntryu_", _HEX + "{64}"),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]{50,}"), ("ops_eyJ", "[A-Za-z0-9+/=_-]{60,}"),
    ("A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3,4}[A-Z0-9]{5}"),
    # messages, payments and the rest
    *((f"xox{kind}", r"[.-][A-Za-z0-9.-]{10,}") for kind in "abeoprs"), ("xapp-", r"\d-[A-Za-z0-9-]{10,}"),
    ("hooks.slack.com/services/T", r"\w+/B\w+/\w+"), ("discord.com/api/webhooks/", r"\d+/[\w-]+"),
    ("discordapp.com/api/webhooks/", r"\d+/[\w-]+"), ("webhook.office.com/webhookb2/", r"[^\s\"']+"),
    *((f"{kind}k_{mode}_", _WORD + "{16,}") for kind in "sr" for mode in ("live", "test")), ("whsec_", "[A-Za-z0-9+/=]{24,}"),
    ("sq0csp-", _DASHED + "{20,}"), ("sq0atp-", _DASHED + "{20,}"), ("EAAA", _DASHED + "{60}(?![A-Za-z0-9+/])"),
    ("EAACEdEose0cBA", _WORD + "{20,}"), ("SG.", _DASHED + r"{20,24}\.[A-Za-z0-9_-]{39,50}"),
    *((f"shp{kind}_", "[a-fA-F0-9]{32}") for kind in ("at", "ca", "pa", "ss")), ("secret_", _WORD + "{42,}"),
    ("ntn_", _WORD + "{40,}"),
    ("figd_", _DASHED + "{36,}"), ("sl.", "[A-Za-z][A-Za-z0-9_-]{100,}"), ("sk.eyJ", r"[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{10,}"),
    # of any service: a token of JSON, starts of keys in PEM without their first line, hashed passwords
    ("eyJ", r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"), ("MII", "[A-Za-z0-9+/]{61,}=*"),
    ("b3BlbnNzaC1rZXkt", "[A-Za-z0-9+/]{20,}=*"),
    *((f"${kind}$", r"[^\s:\"']{8,}") for kind in ("apr1", "2a", "2b", "2y", "5", "6", "y", "argon2i", "argon2id")),
)  # fmt: skip
#: Discord's tokens, which have no distinctive prefix.
DISCORD = r"[MNO][A-Za-z0-9_-]{23,27}\."
#: Tokens recognized by a substring in their middle, and that substring in lower case.
_OTHERS: tuple[tuple[str, str], ...] = (
    ("-us", r"[a-f0-9]{32}-us\d{1,2}(?!\d)"),
    (":aa", r"\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    (".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    ("q~", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
)
#: A lower-cased string without any of these holds no token except Discord's.
SHAPE_HINTS = tuple(sorted({*(begin.lower() for begin, _ in _SERVICES), *(hint for hint, _ in _OTHERS)}))
#: Tokens of all of these services, as a regular expression.
SHAPES = (
    "(?<![A-Za-z0-9])(?:"
    + "|".join(
        [
            *(re.escape(begin) + rest for begin, rest in _SERVICES),
            *(shape for _, shape in _OTHERS),
            DISCORD + r"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        ]
    )
    + ")"
)
