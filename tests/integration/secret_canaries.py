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
    _canary("cookies", _word() + "9fK2", "Cookie: session=%s; theme=dark"),
    _canary("cookie that is set", _word() + "9fK2", "Set-Cookie: sid=%s; HttpOnly"),
    _canary("pass in YAML", _word(), "pass: %s"),
    _canary("password in bytes", _word(), "login(password=b'%s')"),
    _canary("password in a tuple", _word(), "('password', '%s')"),
    _canary("password => X", _word(), "password => %s"),
    _canary("password is X", _word(), "password is %s"),
    _canary("password in XML", _word(), "<password>%s</password>"),
    _canary("attribute of XML", _word(), '<add key="password" value="%s"/>'),
    _canary("property list", _word(), "<key>token</key><string>%s</string>"),
    _canary("name and value", _word(), '{"name": "DB_PASSWORD", "value": "%s"}'),
    _canary("key that is an object", _word(), '{"api_key": {"value": "%s"}}'),
    _canary("login in a URL, with an @", _word(), "https://me:p@%s@host/x"),
    _canary("login in a URL, with a slash", _word(), "https://me:p/%s@host/x"),
    _canary("login in a quoted URL", _word(), "next=https%3A%2F%2Fme%3A%s%40host"),
    _canary("Basic alone", base64.b64encode(b"me:" + _word().encode()).decode(), "Basic %s"),
    _canary("docker's configuration", base64.b64encode(b"me:" + _word().encode()).decode(), '{"auths":{"x":{"auth":"%s"}}}'),
    _canary("_auth of npm", base64.b64encode(b"me:" + _word().encode()).decode(), "//registry/:_auth=%s"),
    _canary("key in a query", _of(_ALNUM, 39), "https://maps/api?key=%s"),
    _canary("code in a query", _of(_ALNUM, 39), "https://host/back?code=%s&state=1"),
    _canary("netrc", _word(), "machine github.com login me password %s"),
    _canary("sqlplus", _word(), "sqlplus scott/%s@db"),
    _canary("SSHPASS=", _word(), "SSHPASS=%s"),
    _canary("userPwd=", _word(), "userPwd=%s"),
    _canary("FASTLY_KEY=", _of(_ALNUM, 32), "FASTLY_KEY=%s"),
    _canary("ssh_key", _of(_ALNUM, 40), "SSH_KEY=%s"),
    _canary("Kaggle", _of(_HEX, 32), '{"username":"me","key":"%s"}'),
    _canary("Kubernetes", _of(_ALNUM, 60), "client-key-data: %s"),
    _canary("CREDS=", _word(), "CREDS=%s"),
    _canary("REDISCLI_AUTH=", _word(), "REDISCLI_AUTH=%s"),
    _canary("passwort", _word(), "--passwort=%s"),
    _canary("пароль", _word(), "пароль=%s"),
    _canary("--key X", _word(), "--key", "%s"),
    _canary("--pass X", _word(), "--pass", "%s"),
    _canary("--pw=X", _word(), "--pw=%s"),
    _canary("--hf-tok X", _word(), "--hf-tok", "%s"),
    _canary("--auth name:X", _word(), "--auth", "me:%s"),
    _canary("--login=name:X", _word(), "--login=me:%s"),
    _canary("--otp=X", _of(string.digits, 8), "--otp=%s"),
    _canary("docker -e", _word(), "-e", "OPENAI_API_KEY=%s"),
    _canary("PEM in words", _PEM[5:] + "9", "-----BEGIN", "RSA", "PRIVATE", "KEY-----", "%s", "-----END", "RSA",
    "PRIVATE", "KEY-----"),
    _canary("PEM of SSH 2", _PEM[7:] + "8",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n%s\n---- END SSH2 ENCRYPTED PRIVATE KEY ----"),
    _canary("PuTTY", _PEM[9:] + "6", "Private-Lines: 1\n%s\nPrivate-MAC: 0"),
    _canary("PEM's first line", "MIIEpAIBAAKCAQEA" + _of(_ALNUM, 48)),
    _canary("hashed password", "$apr1$" + _of(_ALNUM, 8) + "$" + _of(_ALNUM, 22)),
    _canary("Slack application", "xapp-1-A" + _of(string.digits, 9) + "-" + _of(_ALNUM, 30)),
    _canary("Slack's configuration", "xoxe.xoxp-1-" + _of(_ALNUM, 40)),
    _canary("Discord hook", _of(_ALNUM, 60), "https://discord.com/api/webhooks/123456789012345678/%s"),
    _canary("Teams hook", _of(_HEX, 32), "https://x.webhook.office.com/webhookb2/%s/IncomingWebhook"),
    _canary("GitLab runner", "GR1348941" + _of(_ALNUM, 20)),
    _canary("Hugging Face, organization", "api_org_" + _of(_ALNUM, 34)),
    _canary("Linear", "lin_api_" + _of(_ALNUM, 40)),
    _canary("Notion", "ntn_" + _of(_ALNUM, 46)),
    _canary("Figma", "figd_" + _of(_ALNUM, 40)),
    _canary("Tailscale", "tskey-auth-" + _of(_ALNUM, 12) + "-" + _of(_ALNUM, 30)),
    _canary("xAI", "xai-" + _of(_ALNUM, 80)),
    _canary("LangSmith", "lsv2_pt_" + _of(_HEX, 32) + "_" + _of(_HEX, 10)),
    _canary("Supabase", "sbp_" + _of(_HEX, 40)),
    _canary("Pulumi", "pul-" + _of(_HEX, 40)),
    _canary("Terraform", _of(_ALNUM, 14) + ".atlasv1." + _of(_ALNUM, 66)),
    _canary("Doppler", "dp.pt." + _of(_ALNUM, 43)),
    _canary("Grafana", "glsa_" + _of(_ALNUM, 32) + "_" + _of(_HEX, 8)),
    _canary("Sentry", "sntrys_eyJ" + _of(_ALNUM, 60)),
    _canary("RubyGems", "rubygems_" + _of(_HEX, 48)),
    _canary("crates.io", "cio" + _of(_ALNUM, 32)),
    _canary("Heroku", "HRKU-AA" + _of(_ALNUM, 58)),
    _canary("PlanetScale", "pscale_tkn_" + _of(_ALNUM, 40)),
    _canary("Azure application", "abc8Q~" + _of(_ALNUM, 34)),
    _canary("1Password", "ops_eyJ" + _of(_ALNUM, 80)),
    _canary("curl -u", _word(), "-u", "me:%s"),
    _canary("mysql -p", "S" + _word(), "-p%s"),
)  # fmt: skip
#: Kinds that can be in an identifier: a kernel's name.
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
    "cache_key=sm90_fused_attention_v2", "sort_key: duration", "pass: fuse_conv2d_bias", "bypass=true", "--key name",
    "auth=basic",
    "basic block 12", "cookie: str", "author=me", "compass=north", "cudaEvent is recorded", "key == value2",
    "https://host:8080/a@b", "PWD=/srv/data", "-p8080", "-pthread", "author: me", "password: str", "keyboard",
    "signature: (int, float)", "resolve (/app/future_token_ids.py:40)", "gate (/app/secret_store.cuh:123) ← f", "passwd.cpp:10:5",
)  # fmt: skip
