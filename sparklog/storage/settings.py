"""Storage settings: delta-rs's names, one row each.

They come from the options of a call (`storage.<NAME>`, or the bare name; Spark hands options over
in lower case, so case does not count). A setting that is not given there and is no secret comes
from the environment; names that hold for every store have SPARKLOG_STORAGE_ before them there. The
result goes to obstore, and travels to Spark's workers inside a pickled `Files`. Secrets of the
environment do not travel: the process that connects takes them from its environment, or from the
platform, and takes them anew when they have expired.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from sparklog.errors import InvalidOptionError

PREFIX = "storage."
DEFAULT_REGION = "us-east-1"
"""For an endpoint of one's own: such servers take any region, but the client wants one."""

TRUE = frozenset({"1", "true", "on", "yes", "y"})
FALSE = frozenset({"0", "false", "off", "no", "n"})

STORES = ("AWS", "GOOGLE", "AZURE")
"""How the names of the settings of S3, Google Cloud Storage and Azure begin."""


class StorageSetting(NamedTuple):
    """One setting: delta-rs's name, its type, whether it must stay out of sight, what it does."""

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
        "the bucket is part of the host name, also of that of an endpoint of one's own",
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
    StorageSetting("AZURE_STORAGE_CLIENT_SECRET", "string", True, "its secret"),
    StorageSetting("AZURE_STORAGE_TENANT_ID", "string", False, "its tenant"),
    StorageSetting(
        "AZURE_STORAGE_ENDPOINT", "url", False, "address of a blob service, with its path"
    ),
    StorageSetting(
        "AZURE_ALLOW_HTTP", "boolean", False, "allow an endpoint without TLS; false by default"
    ),
    StorageSetting("TIMEOUT", "duration", False, "how long a try of a request may take; 30s"),
    StorageSetting("CONNECT_TIMEOUT", "duration", False, "how long to connect may take; 5s"),
    StorageSetting(
        "MAX_RETRIES", "integer", False, "how often a request that failed is tried again; 10"
    ),
    StorageSetting(
        "RETRY_TIMEOUT", "duration", False, "how long after its first try it is tried again; 60s"
    ),
)
"""Every storage setting there is."""

ENVIRONMENT_PREFIX = "SPARKLOG_STORAGE_"
"""In the environment, of the settings that have no store's name before them."""
RETRIES_MAX = 100
SECONDS_MAX = 300
"""A commit that is put after its entry was deleted would be lost; entries are there for an hour."""

_DURATION = re.compile(r"([0-9]{1,6})(ms|s|m)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60}
_BY_NAME = {setting.name: setting for setting in STORAGE_SETTINGS}
_SECRETS = tuple(setting.name for setting in STORAGE_SETTINGS if setting.secret)
_OF_EVERY_STORE = tuple(name for name in _BY_NAME if not name.startswith(STORES))
_ENDPOINTS = ("AWS_ENDPOINT_URL", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT")


class StorageOptions(dict[str, str]):
    """Checked settings by delta-rs's names; a plain dict, but what is secret stays out of repr."""

    def __repr__(self) -> str:
        shown = {name: "***" if _BY_NAME[name].secret else self[name] for name in self}
        return f"StorageOptions({shown})"

    def redact(self, text: str) -> str:
        """Return `text` without the secret values, should any stand in it."""
        for name in _SECRETS:
            if name in self:
                text = text.replace(self[name], "***")
        return text

    def is_true(self, name: str) -> bool:
        """Whether a boolean setting is on, with delta-rs's spellings; off when it is not given."""
        value = self.get(name, "false").lower()
        if value not in TRUE | FALSE:
            raise InvalidOptionError(
                f"{name} is {value!r}; allowed: true or false (or 1, 0, on, off, yes, no)",
                option=name,
            )
        return value in TRUE

    def seconds(self, name: str) -> float | None:
        """Return a duration, None for one that is not given. Raises InvalidOptionError."""
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
        """Return a number of retries, None when it is not given. Raises InvalidOptionError."""
        if name not in self:
            return None
        if not re.fullmatch(r"[0-9]{1,3}", self[name]) or int(self[name]) > RETRIES_MAX:
            raise InvalidOptionError(
                f"{name} is {self[name]!r}; allowed: 0 to {RETRIES_MAX}", option=name
            )
        return int(self[name])

    def of(self, store: str) -> dict[str, str]:
        """The settings of one of STORES by the names that its client has for them."""
        return {name.lower(): self[name] for name in self if name.startswith(f"{store}_")}


def storage_options(
    options: Mapping[str, str], environ: Mapping[str, str], store: str = "AWS"
) -> StorageOptions:
    """Merge and check the settings; an option wins over the environment, "" is as if absent.

    Of the environment count those of `store` that are no secret (module docstring).
    InvalidOptionError for an unknown name, a value that is none, or half a pair of keys; it never
    shows a secret.
    """
    merged = _from_environment(environ, store) | _named(options)
    found = StorageOptions((name, value) for name, value in merged.items() if value)
    _check(found)
    if "AWS_ENDPOINT_URL" in found:
        found.setdefault("AWS_REGION", DEFAULT_REGION)
    return found


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """The options under delta-rs's spelling of their names."""
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
        raise InvalidOptionError(
            f"{name} is not an address; allowed: http://host:port or https://host:port, "
            "without a user, a path or a query",
            option=name,
        )
    allow_http = f"{name.partition('_')[0]}_ALLOW_HTTP"
    if endpoint.scheme == "http" and not options.is_true(allow_http):
        raise InvalidOptionError(
            f"{name} {options[name]!r} is not encrypted; "
            f"set {allow_http}=true to allow that, or use https://",
            option=name,
        )
