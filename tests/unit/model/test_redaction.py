"""What redaction takes out of texts, paths and command lines, and what it leaves."""

import pytest

from warpsight.model.sharing.redaction import Redactor
from warpsight.model.sharing.secrets import HIDDEN, secretless

PRIVATE = Redactor((("gpu17", "host-1"), ("margaret", "user-1")))
OPEN = Redactor(paths=False, arguments=False, environment=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forward (/home/margaret/src/net/model.py:12)", "forward (…/net/model.py:12)"),
        ("/Users/margaret/x.py", "~/x.py"),
        ("/home/margaret/net/x.py", "~/net/x.py"),
        ("C:\\Users\\margaret\\x.py", "~\\x.py"),
        ("/root/x.py", "~/x.py"),
        ("/srv/home/x.py", "…/home/x.py"),
        (
            "call (/opt/venv/lib/python3.12/site-packages/torch/nn/linear.py:114)",
            "call (torch/nn/linear.py:114)",
        ),
        ("/srv/tools/lib/python3.11/threading.py", "python3.11/threading.py"),
        ("/srv/customers/acme/src/train.py", "…/src/train.py"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.1"),
        ("at gpu17 by margaret", "at host-1 by user-1"),
        ("gpu170 margarets", "gpu170 margarets"),
        ("memcpy HtoD (pageable)", "memcpy HtoD (pageable)"),
        ("void at::native::add<float>(int, float*)", "void at::native::add<float>(int, float*)"),
        ("a/b quotient", "a/b quotient"),
    ],
)
def test_paths_and_names(text, expected):
    assert PRIVATE.text(text) == expected
    assert OPEN.text(text) == text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --lr 1", "python train.py … (2 arguments hidden)"),
        (
            "/opt/conda/bin/python3.12 -m torch.distributed.run --x",
            "python3.12 -m torch.distributed.run … (1 argument hidden)",
        ),
        ("/srv/bin/server --port 1", "server … (2 arguments hidden)"),
        ("torchrun --nproc 8 /home/margaret/a/train.py --y", "torchrun train.py … (3 arguments hidden)"),
        ("python -c 'print(1)'", "python -c … (1 argument hidden)"),
        ("", ""),
        ("unbalanced 'quote", "unbalanced … (1 argument hidden)"),
    ],
)
def test_commands_keep_program_and_script(command, expected):
    assert PRIVATE.command(command) == expected


@pytest.mark.parametrize(
    "text",
    ["--token abc123", "--api-key=abc123", "WANDB_API_KEY=abc123", "password: abc123", "https://me:abc123@host/x",
     '{"secret": "abc123"}', "--db-password abc123 --lr 1"],
)  # fmt: skip
def test_secrets_go_even_when_everything_else_is_asked_for(text):
    assert "abc123" not in OPEN.command(f"python train.py {text}")
    assert HIDDEN in OPEN.command(f"python train.py {text}")


@pytest.mark.parametrize(
    "secret",
    ["hf_" + "a" * 34, "sk-" + "b" * 24, "ghp_" + "c" * 36, "AKIA" + "D" * 16, "xoxb-" + "1" * 12, "glpat-" + "e" * 20,
     "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc"],
)  # fmt: skip
def test_secrets_are_known_by_their_shape(secret):
    assert secretless(f"x {secret} y") == f"x {HIDDEN} y"


def test_what_is_no_secret_stays():
    for text in (
        "tokenizer.encode(batch)",
        "--max-tokens 128",
        "secretary",
        "gpt2_token_embedding_kernel<float>",
        "moe::gate_token::kernel<int>(float*)",
    ):
        assert secretless(text) == text
    assert OPEN.command("python serve.py --max-tokens 128") == "python serve.py --max-tokens 128"
    assert OPEN.command("python train.py --lr 1 --data '/a b'") == "python train.py --lr 1 --data '/a b'"


def test_a_secret_option_inside_a_text_is_found():
    assert secretless("started as x --token abc --lr 1") == f"started as x --token {HIDDEN} --lr 1"
    assert secretless("x --password --lr 1") == "x --password --lr 1"
