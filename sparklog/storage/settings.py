"""Storage settings: one row each, with delta-rs's names.

A setting comes from the options of a call, as `storage.<NAME>` or as the bare name. Names ignore
case, because Spark passes options in lower case. A setting that the options leave out comes from
the environment, unless it is a secret; a setting for every store has the prefix SPARKLOG_STORAGE_
there. obstore gets the result, and a pickled `Files` takes it to Spark's workers. It holds no
secret of the environment: the process that connects reads those from its own environment or gets
them from its platform, and gets new ones when they have expired.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from sparklog.errors import InvalidOptionError

PREFIX = "storage."
DEFAULT_REGION = "us-east-1"
"""For a server given by AWS_ENDPOINT_URL: it takes any region, but the client requires one."""

TRUE = frozenset({"1", "true", "on", "yes", "y"})
FALSE = frozenset({"0", "false", "off", "no", "n"})

STORES = ("AWS", "GOOGLE", "AZURE")
"""Prefixes of the settings of S3, Google Cloud Storage and Azure."""


class StorageSetting(NamedTuple):
    """One setting: delta-rs's name, its type, whether its value is secret, and its meaning."""

    name: str
    type: Literal["string", "boolean", "url", "duration", "integer"]
    secret: bool
    doc: str


STORAGE_SETTINGS = (
    StorageSetting(
        "AWS_ENDPOINT_URL", "url", False, "address of an S3-compatible server: http[s]://host:port"
    ),
    StorageSetting("AWS_ACCESS_KEY_ID", "string", True, "access key; needs the secret key"),
    StorageSetting("AWS_SECRET_ACCESS_KEY", "string", True, "secret key; needs the access key"),
    StorageSetting("AWS_SESSION_TOKEN", "string", True, "token of temporary credentials"),
    StorageSetting("AWS_REGION", "string", False, "region; AWS_DEFAULT_REGION is read as well"),
    StorageSetting(
        "AWS_ALLOW_HTTP", "boolean", False, "allow an endpoint without TLS; false by default"
    ),
    StorageSetting(
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
        "boolean",
        False,
        "the bucket is part of the host name, also at an endpoint",
    ),
    StorageSetting(
        "AWS_SERVER_SIDE_ENCRYPTION", "string", False, "AES256, aws:kms or aws:kms:dsse"
    ),
    StorageSetting("AWS_SSE_KMS_KEY_ID", "string", False, "key of aws:kms"),
    StorageSetting(
        "AWS_SSE_BUCKET_KEY_ENABLED", "boolean", False, "encrypt with a key of the bucket"
    ),
    StorageSetting(
        "GOOGLE_BASE_URL", "url", False, "address of a server that speaks Google's protocol"
    ),
    StorageSetting(
        "GOOGLE_ALLOW_HTTP", "boolean", False, "allow such a server without TLS; false by default"
    ),
    StorageSetting("GOOGLE_SERVICE_ACCOUNT", "string", False, "path of a service account's file"),
    StorageSetting("GOOGLE_SERVICE_ACCOUNT_KEY", "string", True, "content of such a file"),
    StorageSetting(
        "GOOGLE_APPLICATION_CREDENTIALS", "string", False, "path of application credentials"
    ),
    StorageSetting("GOOGLE_BEARER_TOKEN", "string", True, "a token as it is; never renewed"),
    StorageSetting("AZURE_STORAGE_ACCOUNT_NAME", "string", False, "storage account"),
    StorageSetting("AZURE_STORAGE_ACCOUNT_KEY", "string", True, "key of the storage account"),
    StorageSetting("AZURE_STORAGE_SAS_TOKEN", "string", True, "shared access signature"),
    StorageSetting("AZURE_STORAGE_TOKEN", "string", True, "a bearer token as it is; never renewed"),
    StorageSetting("AZURE_STORAGE_CLIENT_ID", "string", False, "id of a service principal"),
    StorageSetting("AZURE_STORAGE_CLIENT_SECRET", "string", True, "secret of the principal"),
    StorageSetting("AZURE_STORAGE_TENANT_ID", "string", False, "tenant of the principal"),
    StorageSetting(
        "AZURE_STORAGE_ENDPOINT", "url", False, "address of a blob service, with its path"
    ),
    StorageSetting(
        "AZURE_ALLOW_HTTP", "boolean", False, "allow an endpoint without TLS; false by default"
    ),
    StorageSetting("TIMEOUT", "duration", False, "how long one try may take; 30s"),
    StorageSetting("CONNECT_TIMEOUT", "duration", False, "how long connecting may take; 5s"),
    StorageSetting(
        "MAX_RETRIES", "integer", False, "how often a failed request is tried again; 10"
    ),
    StorageSetting(
        "RETRY_TIMEOUT",
        "duration",
        False,
        "how long after the first try a request is repeated; 60s",
    ),
)
"""Every storage setting."""

ENVIRONMENT_PREFIX = "SPARKLOG_STORAGE_"
"""Prefix, in the environment, of the settings for every store: SPARKLOG_STORAGE_TIMEOUT."""
RETRIES_MAX = 100
SECONDS_MAX = 300
"""The limits of MAX_RETRIES and of a duration: they limit how late a retry of a put may arrive.

An entry stays for an hour after a fold has covered it. After that its name is free: a late put
would succeed there, and its commit would be lost.
"""

_DURATION = re.compile(r"([0-9]{1,6})(ms|s|m)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60}
_BY_NAME = {setting.name: setting for setting in STORAGE_SETTINGS}
_SECRETS = tuple(setting.name for setting in STORAGE_SETTINGS if setting.secret)
_OF_EVERY_STORE = tuple(name for name in _BY_NAME if not name.startswith(STORES))
_ENDPOINTS = ("AWS_ENDPOINT_URL", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT")


class StorageOptions(dict[str, str]):
    """Checked settings by delta-rs's names: a dict whose repr hides secret values."""

    def __repr__(self) -> str:
        shown = {name: "***" if _BY_NAME[name].secret else self[name] for name in self}
        return f"StorageOptions({shown})"

    def redact(self, text: str) -> str:
        """Return `text` with *** in place of every secret value."""
        for name in _SECRETS:
            if name in self:
                text = text.replace(self[name], "***")
        return text

    def is_true(self, name: str) -> bool:
        """Whether a boolean setting is on, in delta-rs's spellings; False if it is not given.

        Raises InvalidOptionError for another spelling.
        """
        value = self.get(name, "false").lower()
        if value not in TRUE | FALSE:
            raise InvalidOptionError(
                f"{name} is {value!r}; allowed: true or false (or 1, 0, on, off, yes, no)",
                option=name,
            )
        return value in TRUE

    def seconds(self, name: str) -> float | None:
        """Return a duration in seconds; None if it is not given. Raises InvalidOptionError."""
        if name not in self:
            return None
        match = _DURATION.fullmatch(self[name])
        found = int(match[1]) * _UNIT_SECONDS[match[2]] if match else 0
        if not 0 < found <= SECONDS_MAX:
            raise InvalidOptionError(
                f"{name} is {self[name]!r}; allowed: 1ms to {SECONDS_MAX}s, with ms, s or m",
                option=name,
            )
        return found

    def count(self, name: str) -> int | None:
        """Return a number of retries; None if it is not given. Raises InvalidOptionError."""
        if name not in self:
            return None
        if not re.fullmatch(r"[0-9]{1,3}", self[name]) or int(self[name]) > RETRIES_MAX:
            raise InvalidOptionError(
                f"{name} is {self[name]!r}; allowed: 0 to {RETRIES_MAX}", option=name
            )
        return int(self[name])


def storage_options(
    options: Mapping[str, str], environ: Mapping[str, str], store: str = "AWS"
) -> StorageOptions:
    """Return `options` and the settings of the environment, merged and checked.

    An option wins over the environment; an empty value counts as not given. `environ` gives the
    settings of `store`, one of STORES, and those for every store, but no secret. Raises
    InvalidOptionError for an unknown name, for a value that its setting does not allow, and for one
    half of a pair of keys; the message never shows a secret.
    """
    merged = _from_environment(environ, store) | _named(options)
    found = StorageOptions((name, value) for name, value in merged.items() if value)
    _check(found)
    if "AWS_ENDPOINT_URL" in found:
        found.setdefault("AWS_REGION", DEFAULT_REGION)
    return found


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options by delta-rs's names. Raises InvalidOptionError for an unknown name."""
    found = {}
    for key, value in options.items():
        name = key.upper().removeprefix(PREFIX.upper())
        if name not in _BY_NAME:
            raise InvalidOptionError(
                f"unknown storage option {key!r}; allowed: {', '.join(_BY_NAME)}, "
                f"each with or without {PREFIX!r} before it",
                option=key,
            )
        found[name] = value
    return found


def _from_environment(environ: Mapping[str, str], store: str) -> dict[str, str]:
    found = {
        name: environ[name]
        for name, setting in _BY_NAME.items()
        if environ.get(name) and name.startswith(f"{store}_") and not setting.secret
    }
    for name in _OF_EVERY_STORE:
        if environ.get(f"{ENVIRONMENT_PREFIX}{name}"):
            found[name] = environ[f"{ENVIRONMENT_PREFIX}{name}"]
    region = environ.get("AWS_DEFAULT_REGION")
    if region and store == "AWS":
        found.setdefault("AWS_REGION", region)
    return found


def _check(options: StorageOptions) -> None:
    for setting in STORAGE_SETTINGS:
        if setting.type == "boolean":
            options.is_true(setting.name)
        elif setting.type == "duration":
            options.seconds(setting.name)
        elif setting.type == "integer":
            options.count(setting.name)
    if ("AWS_ACCESS_KEY_ID" in options) != ("AWS_SECRET_ACCESS_KEY" in options):
        raise InvalidOptionError(
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is given; allowed: both, "
            "or neither for AWS's usual sources of credentials"
        )
    for name in _ENDPOINTS:
        if name in options:
            _check_endpoint(options, name)


def _check_endpoint(options: StorageOptions, name: str) -> None:
    endpoint = urlsplit(options[name])
    whole = endpoint.scheme in {"http", "https"} and endpoint.hostname
    may_have_path = name == "AZURE_STORAGE_ENDPOINT"
    # The value is not shown: it may hold a password, which is one reason to refuse it.
    has_more = (endpoint.path.strip("/") and not may_have_path) or endpoint.query
    if not whole or "@" in endpoint.netloc or has_more:
        refused = "a user or a query" if may_have_path else "a user, a path or a query"
        raise InvalidOptionError(
            f"{name} is not an address; allowed: http://host:port or https://host:port, "
            f"without {refused}",
            option=name,
        )
    allow_http = f"{name.partition('_')[0]}_ALLOW_HTTP"
    if endpoint.scheme == "http" and not options.is_true(allow_http):
        raise InvalidOptionError(
            f"{name} {options[name]!r} is not encrypted; "
            f"set {allow_http}=true to allow that, or use https://",
            option=name,
        )
