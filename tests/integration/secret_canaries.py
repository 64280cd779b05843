"""Made-up secrets of many kinds, in the texts in which they are met."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_LOWER = string.ascii_lowercase + string.digits
_HEX = "0123456789abcdef"


@dataclass(frozen=True)
class Canary:
    """A kind of secret: what may not be seen, and a text, or words of a command line, that holds it."""

    kind: str
    secret: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


_random = random.Random(20)


def _of(letters: str, count: int) -> str:
    return "".join(_random.choice(letters) for _ in range(count - 1)) + "7"


def _canary(kind: str, secret: str, *words: str) -> Canary:
    return Canary(kind, secret, tuple(word.replace("%s", secret) for word in words or ("%s",)))


def _word() -> str:
    return "Zq" + _of(_ALNUM, 12)


_BASE64 = base64.b64encode(_random.randbytes(64)).decode()
_PEM = _of(_ALNUM + "+/", 64)
_SIGNATURE = _of(_ALNUM, 43) + "%3D"
CANARIES = (
    _canary("--password X", _word(), "--password", "%s"),
    _canary("--password=X", _word(), "--password=%s"),
    _canary("--db-passwd X", _word(), "--db-passwd", "%s"),
    _canary("--api-key X", _word(), "--api-key", "%s"),
    _canary("--access_token=X", _word(), "--access_token=%s"),
    _canary("--client-secret X", _word(), "--client-secret", "%s"),
    _canary("--passphrase X", _word(), "--passphrase", "%s"),
    _canary("password with spaces", _word() + " and more", '{"password": "%s"}'),
    _canary("Pwd=", _word(), "Server=db;Uid=me;Pwd=%s;Database=x"),
    _canary("Password= of ADO", _word(), "Server=db;User Id=me;Password=%s;"),
    _canary("pass=", _word(), "user=me,pass=%s"),
    _canary("DB_PASS=", _word(), "DB_PASS=%s"),
    _canary("PGPASSWORD=", _word(), "PGPASSWORD=%s"),
    _canary("secret in YAML", _word(), "client_secret: %s"),
    _canary("secret in JSON", _word(), '{"secret_key":"%s"}'),
    _canary("secret in nested JSON", _word(), json.dumps({"x": json.dumps({"api_key": "%s"})})),
    _canary("token in a query", _word(), "https://host/x?access_token=%s&y=1"),
    _canary("Authorization: Bearer", _of(_ALNUM, 40), "Authorization: Bearer %s"),
    _canary("Bearer alone", _of(_ALNUM, 40), "Bearer %s"),
    _canary("Authorization: Basic", base64.b64encode(_random.randbytes(18)).decode(), "Authorization: Basic %s"),
    _canary("X-Api-Key", _word(), "X-Api-Key: %s"),
    _canary("login in a URL", _word(), "https://me:%s@host/x"),
    _canary("redis URL", _word(), "redis://:%s@cache:6379/0"),
    _canary("postgres URL", _word(), "postgresql://app:%s@db/x"),
    _canary("amqp URL", _word(), "amqps://app:%s@mq:5671"),
    _canary("Azure account key", _BASE64,
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=%s;EndpointSuffix=core.windows.net"),
    _canary("Azure SAS", _SIGNATURE, "https://x.blob.core.windows.net/c?sv=2022-11-02&se=2030&sp=r&sig=%s"),
    _canary("Azure service bus", base64.b64encode(_random.randbytes(32)).decode(),
    "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=%s"),
    _canary("AWS secret key", _of(_ALNUM + "/+", 40), "aws_secret_access_key = %s"),
    _canary("AWS key id", "AKIA" + _of(string.ascii_uppercase, 15) + "7"),
    _canary("AWS session token", _of(_ALNUM + "/+", 120), "AWS_SESSION_TOKEN=%s"),
    _canary("presigned URL", _of(_HEX, 64), "https://b.s3.amazonaws.com/k?X-Amz-Signature=%s"),
    _canary("PEM", _PEM, "-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----"),
    _canary("PEM of PKCS 8", _PEM[::-1], "-----BEGIN PRIVATE KEY----- %s -----END PRIVATE KEY-----"),
    _canary("JSON web token", "eyJ" + _of(_ALNUM, 20) + ".eyJ" + _of(_ALNUM, 30) + "." + _of(_ALNUM, 43)),
    _canary("GitHub", "ghp_" + _of(_ALNUM, 36)),
    _canary("GitHub, fine-grained", "github_pat_" + _of(_ALNUM, 82)),
    _canary("GitLab", "glpat-" + _of(_ALNUM, 20)),
    _canary("Slack", "xoxb-" + _of(string.digits, 12) + "-" + _of(string.digits, 12) + "-" + _of(_ALNUM, 24)),
    _canary("Slack hook", "T" + _of(_ALNUM, 8) + "/B" + _of(_ALNUM, 8) + "/" + _of(_ALNUM, 24),
    "https://hooks.slack.com/services/%s"),
    _canary("Stripe", "sk_live_" + _of(_ALNUM, 24)),
    _canary("Stripe, restricted", "rk_live_" + _of(_ALNUM, 24)),
    _canary("npm", "npm_" + _of(_ALNUM, 36)),
    _canary("npm in .npmrc", "npm_" + _of(_ALNUM, 36), "//registry.npmjs.org/:_authToken=%s"),
    _canary("PyPI", "pypi-AgEIcHlwaS5vcmc" + _of(_ALNUM, 120)),
    _canary("Hugging Face", "hf_" + _of(_ALNUM, 34)),
    _canary("OpenAI", "sk-proj-" + _of(_ALNUM, 48)),
    _canary("Anthropic", "sk-ant-api03-" + _of(_ALNUM, 80)),
    _canary("Google API", "AIza" + _of(_ALNUM, 35)),
    _canary("Google OAuth", "ya29." + _of(_ALNUM, 60)),
    _canary("NVIDIA", "nvapi-" + _of(_ALNUM, 64)),
    _canary("SendGrid", "SG." + _of(_ALNUM, 22) + "." + _of(_ALNUM, 43)),
    _canary("Mailchimp", _of(_HEX, 32) + "-us12"),
    _canary("Telegram", _of("123456789", 10) + ":AA" + _of(_ALNUM, 33)),
    _canary("Discord", "M" + _of(_ALNUM, 24) + "." + _of(_ALNUM, 6) + "." + _of(_ALNUM, 27)),
    _canary("Docker Hub", "dckr_pat_" + _of(_ALNUM, 27)),
    _canary("Vault", "hvs." + _of(_ALNUM, 90)),
    _canary("Databricks", "dapi" + _of(_HEX, 32)),
    _canary("Shopify", "shpat_" + _of(_HEX, 32)),
    _canary("WANDB_API_KEY", _of(_HEX, 40), "WANDB_API_KEY=%s"),
    _canary("curl -u", _word(), "-u", "me:%s"),
    _canary("mysql -p", "S" + _word(), "-p%s"),
)  # fmt: skip
#: Kinds that can stand in an identifier: a kernel's name.
IN_NAMES = tuple(
    one for one in CANARIES if one.words == (one.secret,) and one.secret.replace("_", "a").isalnum()
)
#: Texts that look a little like secrets and are none.
INNOCENT = (
    "tokenizer.encode", "num_tokens=512", "max_new_tokens: 128", "secretary_kernel", "forward_pass=3",
    "at::native::add<float>",
    "moe::gate_token::kernel", "SecretStorage==3.3.1", "fnmjqcbfe7xjvzwqhtdfd3kv63y3yn5r6u7kcyycfbfgy4z4h3kb",
    "disk-cache-lookup-of-block-12", "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64", "pass 2 of 3", "key=value",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "123e4567-e89b-12d3-a456-426614174000",
    "PWD=/srv/data", "-p8080", "-pthread", "author: me", "password: str", "keyboard", "signature: (int, float)",
)  # fmt: skip
