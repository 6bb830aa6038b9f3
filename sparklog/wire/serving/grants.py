"""The grants of open connections, which follow the file of tokens."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway


class Grants:
    """The grants that the clients of a gateway have. For one event loop."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._given = self._seen = gateway.tokens.file

    def renew(self) -> None:
        """Give clients the grants that the file has now; cut those off whose token has gone.

        A new file counts when it is the same at two calls: at the first one an editor may have
        emptied it, and not yet written it.
        """
        file, before = self._gateway.tokens.file, self._seen
        self._seen = file
        if file is None or file is self._given or file is not before:
            return
        self._given = file
        for connection in list(self._gateway.connections):
            session = connection.session
            if session.principal is None or not session.listener.has_sasl:
                continue
            session.principal = file.again(session.principal)
            if session.principal is None:
                connection.cut_off("authentication", "its token is not in the file any more")
