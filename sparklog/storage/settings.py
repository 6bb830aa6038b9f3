"""Storage settings: delta-rs's names, one row each, and what pyarrow.fs calls them.

They come from the options of a call (`storage.<NAME>`, or the bare name; Spark hands options over
in lower case, so case does not count) and, for what is not given there, from the environment. The
result goes to delta-rs as it is, and travels to Spark's workers inside a pickled `Files`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from sparklog.errors import InvalidOptionError

PREFIX = "storage."
DEFAULT_REGION = "us-east-1"
"""For an endpoint of one's own: such servers take any region, but both libraries want one."""

TRUE = frozenset({"1", "true", "on", "yes", "y"})
FALSE = frozenset({"0", "false", "off", "no", "n"})


class StorageSetting(NamedTuple):
    """One setting: delta-rs's name, its type, whether it must stay out of sight, what it does."""

    name: str
    type: Literal["string", "boolean", "url"]
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
        "put the bucket into the host name; by default only without an endpoint of one's own",
    ),
)
"""Every storage setting there is. Without credentials both libraries ask AWS's usual sources."""

_BY_NAME = {setting.name: setting for setting in STORAGE_SETTINGS}
_CREDENTIALS = tuple(setting.name for setting in STORAGE_SETTINGS if setting.secret)


class StorageOptions(dict[str, str]):
    """Checked settings by delta-rs's names; a plain dict, but what is secret stays out of repr."""

    def __repr__(self) -> str:
        shown = {name: "***" if _BY_NAME[name].secret else self[name] for name in self}
        return f"StorageOptions({shown})"

    def redact(self, text: str) -> str:
        """Return `text` without the secret values, should any stand in it."""
        for name in _CREDENTIALS:
            if name in self:
                text = text.replace(self[name], "***")
        return text


def storage_options(options: Mapping[str, str], environ: Mapping[str, str]) -> StorageOptions:
    """Merge and check the settings; an option wins over the environment, "" is as if absent.

    The three credentials belong together: the environment's count only when the options give none.
    InvalidOptionError for an unknown name, a value that is none, or half a pair of keys; it never
    shows a secret.
    """
    given = _named(options)
    merged = _from_environment(environ)
    if any(name in given for name in _CREDENTIALS):
        merged = {name: merged[name] for name in merged if name not in _CREDENTIALS}
    merged.update(given)
    found = StorageOptions((name, value) for name, value in merged.items() if value)
    _check(found)
    if "AWS_ENDPOINT_URL" in found:
        found.setdefault("AWS_REGION", DEFAULT_REGION)
    return found


def arrow_arguments(options: StorageOptions) -> dict[str, Any]:
    """What pyarrow.fs.S3FileSystem must be called with to mean the same as delta-rs does."""
    arguments: dict[str, Any] = {
        "access_key": options.get("AWS_ACCESS_KEY_ID"),
        "secret_key": options.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": options.get("AWS_SESSION_TOKEN"),
        "region": options.get("AWS_REGION"),
    }
    if "AWS_ENDPOINT_URL" in options:
        endpoint = urlsplit(options["AWS_ENDPOINT_URL"])
        arguments |= {"scheme": endpoint.scheme, "endpoint_override": endpoint.netloc}
    if "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" in options:
        virtual = _is_true(options, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
        arguments["force_virtual_addressing"] = virtual
    return arguments


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


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    found = {name: environ[name] for name in _BY_NAME if environ.get(name)}
    if region := environ.get("AWS_DEFAULT_REGION"):
        found.setdefault("AWS_REGION", region)
    return found


def _check(options: StorageOptions) -> None:
    for setting in STORAGE_SETTINGS:
        if setting.type == "boolean":
            _is_true(options, setting.name)
    if ("AWS_ACCESS_KEY_ID" in options) != ("AWS_SECRET_ACCESS_KEY" in options):
        raise InvalidOptionError(
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is given; allowed: both, "
            "or neither for AWS's usual sources of credentials"
        )
    if "AWS_ENDPOINT_URL" in options:
        _check_endpoint(options)


def _check_endpoint(options: StorageOptions) -> None:
    endpoint = urlsplit(options["AWS_ENDPOINT_URL"])
    whole = endpoint.scheme in {"http", "https"} and endpoint.hostname
    # The value is not shown: it may hold a password, which is one reason to refuse it.
    if not whole or "@" in endpoint.netloc or endpoint.path.strip("/") or endpoint.query:
        raise InvalidOptionError(
            "AWS_ENDPOINT_URL is not an address; allowed: http://host:port or https://host:port, "
            "without a user, a path or a query",
            option="AWS_ENDPOINT_URL",
        )
    if endpoint.scheme == "http" and not _is_true(options, "AWS_ALLOW_HTTP"):
        raise InvalidOptionError(
            f"AWS_ENDPOINT_URL {options['AWS_ENDPOINT_URL']!r} is not encrypted; "
            "set AWS_ALLOW_HTTP=true to allow that, or use https://",
            option="AWS_ENDPOINT_URL",
        )


def _is_true(options: StorageOptions, name: str) -> bool:
    """Whether a boolean setting is on, with delta-rs's spellings; off when it is not given."""
    value = options.get(name, "false").lower()
    if value not in TRUE | FALSE:
        raise InvalidOptionError(
            f"{name} is {value!r}; allowed: true or false (or 1, 0, on, off, yes, no)", option=name
        )
    return value in TRUE
