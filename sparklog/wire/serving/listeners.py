"""Listeners: addresses and sockets."""

import socket
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from sparklog.errors import InvalidOptionError
from sparklog.metadata.state.cluster import Endpoint
from sparklog.tokens import is_loopback
from sparklog.wire.settings import Listener, Settings

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""org.apache.kafka.common.security.auth.SecurityProtocol: with SSL in the name it has TLS."""
SASL: Final = "SASL_"
"""The start of the names of protocols with authentication; others are for loopback alone."""
SYSTEMS_BUFFER: Final = -1
"""Selectable.USE_DEFAULT_BUFFER_SIZE."""


class Bound(NamedTuple):
    """A listener and its socket, which does not listen yet."""

    listener: Listener
    socket: socket.socket


def bind(settings: Settings) -> list[Bound]:
    """Bind all addresses.

    Raises InvalidOptionError for an address that cannot be parsed, that needs tokens or a
    certificate, that anybody could reach without authentication, or that clients cannot connect to,
    and OSError for an address that is taken.
    """
    if settings.advertise and len(settings.advertise) != len(settings.listen):
        raise InvalidOptionError(
            f"{len(settings.advertise)} --advertise for {len(settings.listen)} --listen: "
            f"allowed is one for each",
            option="advertise",
        )
    names: Counter[str] = Counter()
    found: list[Bound] = []
    try:
        for number, text in enumerate(settings.listen):
            told = settings.advertise[number] if settings.advertise else None
            found.append(_bound(settings, text, told, names))
        if settings.bootstrap is not None:
            found.append(_shared(settings.bootstrap, found[0].listener))
        if (send_bytes := settings.socket_send_buffer_bytes) != SYSTEMS_BUFFER:
            for one in found:  # connections inherit it
                one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    except BaseException:
        for one in found:
            one.socket.close()
        raise
    return found


def _bound(settings: Settings, text: str, told: str | None, names: Counter[str]) -> Bound:
    protocol, host, port = _with_protocol(settings, text)
    is_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith(SASL)
    if has_sasl and settings.tokens_file is None:
        raise InvalidOptionError(
            f"--listen {text}: {protocol} needs --tokens-file; "
            f"python -m sparklog.tokens makes a token",
            option="listen",
        )
    if is_tls and not (settings.ssl_certificate_file and settings.ssl_key_file):
        raise InvalidOptionError(
            f"--listen {text}: TLS needs --ssl-certificate-file and --ssl-key-file",
            option="listen",
        )
    told_address = None if told is None else address(told, "advertise")
    names[protocol] += 1
    name = protocol if names[protocol] == 1 else f"{protocol}-{names[protocol]}"
    bound = _within_reach(protocol, host, port)
    own_host, port = bound.getsockname()[:2]
    if _is_unspecified(own_host if told_address is None else told_address[0]):
        bound.close()
        raise InvalidOptionError(
            f"--listen {text}: clients cannot connect to {told or own_host}; allowed is "
            f"--advertise HOST:PORT with the address that they get",
            option="advertise",
        )
    # A name stays a name: certificates seldom have the address.
    told_host, told_port = told_address or (host, port)
    return Bound(Listener(own_host, port, told_host, told_port, name, is_tls, has_sasl), bound)


def _shared(text: str, first: Listener) -> Bound:
    """Return the bootstrap listener, whose port all processes share.

    It has the name and protocol of the first listener, so its clients get the addresses of the
    first listeners of all instances.
    """
    host, port = address(text, "bootstrap")
    bound = _within_reach(first.name, host, port, "bootstrap")
    return Bound(first._replace(host=host, port=port), bound)


def _within_reach(protocol: str, host: str, port: int, option: str = "listen") -> socket.socket:
    """Return `bound_to`; the port of `bootstrap` is shared.

    Raises InvalidOptionError if clients that do not authenticate could come from other machines.
    """
    _check_reach(protocol, host, option)
    found = bound_to(host, port, is_shared=option == "bootstrap")
    try:
        _check_reach(protocol, found.getsockname()[0], option)  # `localhost` may be any address
    except InvalidOptionError:
        found.close()
        raise
    return found


def _check_reach(protocol: str, host: str, option: str) -> None:
    if not protocol.startswith(SASL) and not is_loopback(host):
        raise InvalidOptionError(
            f"--{option}: host {host} listens beyond this machine, and {protocol} authenticates "
            f"nobody; allowed is {SASL}{protocol}:// with --tokens-file "
            f"(python -m sparklog.tokens makes a token)",
            option=option,
        )


def bound_to(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a socket at an address, not listening yet. Raises OSError, which names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        where = joined(host, port)
        raise OSError(error.errno, f"cannot listen at {where}: {error.strerror}") from None
    return found


def _is_unspecified(host: str) -> bool:
    """Whether a host is 0.0.0.0 or ::, which Kafka refuses to advertise (KafkaConfig)."""
    try:
        found = ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_unspecified


def _with_protocol(settings: Settings, text: str) -> tuple[str, str, int]:
    """Return protocol, host and port. Raises InvalidOptionError."""
    protocol, colon, rest = text.rpartition("://")
    if not colon:
        protocol = "PLAINTEXT" if settings.tokens_file is None else "SASL_PLAINTEXT"
    elif protocol.upper() not in PROTOCOLS:
        raise InvalidOptionError(
            f"--listen {text!r}: allowed is [PROTOCOL://]HOST:PORT; protocols are "
            f"{', '.join(PROTOCOLS)}",
            option="listen",
        )
    return (protocol.upper(), *address(rest, "listen"))


def address(text: str, option: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOptionError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise InvalidOptionError(f"--{option} {text!r}: allowed is HOST:PORT", option=option)
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """Return HOST:PORT, as `address` reads it; an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoints_of(listeners: Sequence[Listener]) -> tuple[Endpoint, ...]:
    """Return the endpoints that clients get: one for each name, of the first such listener."""
    found = {one.name: one for one in reversed(listeners)}
    return tuple(
        Endpoint(name, found[name].advertised_host, found[name].advertised_port)
        for name in dict.fromkeys(one.name for one in listeners)
    )
