"""TLS of the listeners: the certificate and its key, which are loaded again when they change."""

import logging
import ssl
from pathlib import Path
from typing import Final

from sparklog.errors import InvalidOptionError
from sparklog.service.watched_files import WatchedFiles
from sparklog.wire.settings import Settings

log: Final = logging.getLogger("sparklog.gateway")


class Tls:
    """The `context` of all TLS listeners. For one event loop."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load the certificate and its key. Raises InvalidOptionError."""
        self._files = certificate, key
        self._watched = WatchedFiles(certificate, key)
        self.context = self._newest = _context(certificate, key)
        # A context keeps a certificate for each kind of key, so a new one gets a new context.
        self.context.sni_callback = self._take_newest

    def follow(self) -> None:
        """Load the files again if they have changed: later handshakes show the new certificate.

        If that fails, an error is logged, and the certificate stays as it was.
        """
        if not self._watched.have_changed():
            return
        try:
            self._newest = _context(*self._files)
        except InvalidOptionError as error:
            log.error("%s; the certificate stays as it was", error)
        else:
            log.info("certificate %s read again", self._files[0])

    def _take_newest(self, connection: ssl.SSLObject, *_: object) -> None:
        """Let a handshake use the newest certificate. Called with and without a server's name."""
        connection.context = self._newest


def tls_of(settings: Settings) -> Tls | None:
    """Return the TLS of listeners; None if there is no certificate. Raises InvalidOptionError."""
    if settings.ssl_certificate_file is None or settings.ssl_key_file is None:
        return None
    return Tls(settings.ssl_certificate_file, settings.ssl_key_file)


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidOptionError(
            f"certificate {certificate}, key {key}: {error}", option="ssl_certificate_file"
        ) from error
    return context
