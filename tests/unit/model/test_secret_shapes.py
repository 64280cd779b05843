"""Tokens of every service that is known: one of the least length is seen, and what is shorter is not taken for one."""

from __future__ import annotations

import re

import pytest

from warpsight.model.sharing import secrets
from warpsight.model.sharing.secret_shapes import SHAPE_HINTS, SHAPES

#: What each token begins with, the letters of the rest, and how many there are at least.
WORDS, HEX, UPPER = "aB3dE6gH9", "0a1b2c3d4e5f", "A1B2C3D4E5"
TOKENS = [
    ("hf_", WORDS, 30), ("api_org_", WORDS, 30), ("sk-", WORDS, 20), ("gsk_", WORDS, 40), ("r8_", WORDS, 30),
    ("pplx-", WORDS, 40), ("xai-", WORDS, 60), ("fw_", WORDS, 22), ("wandb_v1_", WORDS, 40), ("nvapi-", WORDS, 20),
    ("dapi", HEX, 32), ("ghp_", WORDS, 20), ("gho_", WORDS, 20), ("ghu_", WORDS, 20), ("ghs_", WORDS, 20),
    ("ghr_", WORDS, 20), ("github_pat_", WORDS, 20), ("glpat-", WORDS, 16), ("gldt-", WORDS, 16), ("glft-", WORDS, 16),
    ("glsoat-", WORDS, 16), ("glrt-", WORDS, 16), ("glptt-", WORDS, 16), ("glcbt-", WORDS, 16), ("glagent-", WORDS, 16),
    ("GR1348941", WORDS, 20), ("ATBB", WORDS, 28), ("ATATT3x", WORDS, 50), ("ATCTT3x", WORDS, 50), ("npm_", WORDS, 36),
    ("pypi-A", WORDS, 50), ("rubygems_", HEX, 48), ("cio", WORDS, 32), ("oy2", "a1b2", 43), ("dckr_pat_", WORDS, 20),
    ("AKCp", WORDS, 60), ("lin_api_", WORDS, 32), ("AKIA", UPPER, 16), ("ASIA", UPPER, 16), ("ABIA", UPPER, 16),
    ("ACCA", UPPER, 16), ("AIza", WORDS, 30), ("ya29.", WORDS, 20), ("GOCSPX-", WORDS, 20), ("doo_v1_", HEX, 40),
    ("dop_v1_", HEX, 40), ("dor_v1_", HEX, 40), ("HRKU-", WORDS, 30), ("nfp_", WORDS, 30), ("pul-", HEX, 40),
    ("sbp_", HEX, 40), ("hvs.", WORDS, 20), ("hvb.", WORDS, 20), ("dp.pt.", WORDS, 40), ("dp.st.", WORDS, 40),
    ("dp.ct.", WORDS, 40), ("dp.sa.", WORDS, 40), ("dp.scim.", WORDS, 40), ("dp.audit.", WORDS, 40),
    ("pscale_tkn_", WORDS, 30), ("pscale_pw_", WORDS, 30), ("pscale_oauth_", WORDS, 30), ("tskey-", WORDS, 20),
    ("glc_", WORDS, 30), ("NRAK-", UPPER, 27), ("sntrys_", WORDS, 50), ("sntryu_", HEX, 64),
    ("AGE-SECRET-KEY-1", UPPER, 50), ("ops_eyJ", WORDS, 60), *((f"xox{kind}-", WORDS, 10) for kind in "abeoprs"),
    ("xapp-1-", WORDS, 10), ("sk_live_", WORDS, 16), ("sk_test_", WORDS, 16), ("rk_live_", WORDS, 16),
    ("rk_test_", WORDS, 16), ("whsec_", WORDS, 24), ("sq0csp-", WORDS, 20), ("sq0atp-", WORDS, 20), ("EAAA", WORDS, 60),
    ("EAACEdEose0cBA", WORDS, 20), ("shpat_", HEX, 32), ("shpca_", HEX, 32), ("shppa_", HEX, 32), ("shpss_", HEX, 32),
    ("secret_", WORDS, 42), ("ntn_", WORDS, 40), ("figd_", WORDS, 36), ("sl.B", WORDS, 100), ("MII", WORDS, 61),
    ("b3BlbnNzaC1rZXkt", WORDS, 20), *((f"${kind}$", WORDS, 8) for kind in ("apr1", "2a", "2b", "2y", "5", "6", "y", "argon2i",
                                                                           "argon2id")),
]  # fmt: skip
#: Tokens of several parts: the parts after the first, each as letters and how many; what stands before each.
PARTS = [
    ("lsv2_pt_", HEX, 32, "_", HEX, 10), ("lsv2_sk_", HEX, 32, "_", HEX, 10), ("PMAK-", HEX, 24, "-", HEX, 30),
    ("glsa_", WORDS, 30, "_", HEX, 8), ("SG.", WORDS, 20, ".", WORDS, 39), ("SG.", WORDS, 24, ".", WORDS, 50),
    ("sk.eyJ", WORDS, 20, ".", WORDS, 10), ("eyJ", WORDS, 10, ".aB3dE6gH9a.", WORDS, 5), ("", HEX, 32, "-us", "1", 1),
    ("", HEX, 32, "-us", "12", 2), ("", "12345678", 8, ":AA", WORDS, 33), ("", "1234567890", 10, ":AA", WORDS, 33),
    ("", WORDS, 14, ".atlasv1.", WORDS, 60), ("A3-", UPPER, 6, "-ABC123-ABC12-ABC12-", UPPER, 5),
    ("aB3", "4", 1, "Q~", WORDS, 31), ("M", WORDS, 23, ".aB3dE6.", WORDS, 27), ("N", WORDS, 27, ".aB3dE6.", WORDS, 27),
    ("O", WORDS, 24, ".aB3dE6.", WORDS, 30),
]  # fmt: skip


def letters(some: str, count: int) -> str:
    return (some * (count // len(some) + 1))[:count]


@pytest.mark.parametrize(("begin", "some", "least"), TOKENS, ids=lambda one: str(one)[:20])
def test_a_token_of_one_part(begin: str, some: str, least: int) -> None:
    token = begin + letters(some, least)
    assert any(hint in token.lower() for hint in SHAPE_HINTS)
    found = re.search(SHAPES, f"run {token} now")
    assert found is not None and found[0] == token
    assert re.fullmatch(SHAPES, token[:-1]) is None
    assert token not in secrets.secretless(f"run {token} now")


@pytest.mark.parametrize(("begin", "one", "size", "middle", "two", "rest"), PARTS)
def test_a_token_of_two_parts(begin: str, one: str, size: int, middle: str, two: str, rest: int) -> None:
    token = begin + letters(one, size) + middle + letters(two, rest)
    found = re.search(SHAPES, f"run {token} now")
    assert found is not None and found[0] == token
    assert token not in secrets.secretless(f"run {token} now")


@pytest.mark.parametrize(
    "address",
    [
        "hooks.slack.com/services/T0A1/B0A1/aB3dE6",
        "discord.com/api/webhooks/123/aB3-dE6",
        "discordapp.com/api/webhooks/123/aB3-dE6",
        "acme.webhook.office.com/webhookb2/aB3@dE6/IncomingWebhook/1",
    ],
)
def test_addresses_that_are_secrets(address: str) -> None:
    hidden = secrets.secretless(f"curl https://{address} -d x")
    assert address.rpartition("/")[2] not in hidden and hidden.endswith(" -d x")


@pytest.mark.parametrize(
    "text", ["xsk-" + "a1" * 12, "0AKIA" + "A1" * 8, "ghq_" + "a1" * 20, "glxx-" + "a1" * 20]
)
def test_other_words_with_such_letters_stay(text: str) -> None:
    assert re.search(SHAPES, text) is None
