"""The grants of open connections, which follow the file of tokens."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway


class Grants:
    """The grants that the clients of a gateway have. For one event loop."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._given = gateway.tokens.file

    def renew(self) -> None:
        """Give clients the grants that the file has now; cut those off whose token has gone."""
        file = self._gateway.tokens.file
        if file is None or file is self._given:
            return
        self._given = file
        for connection in list(self._gateway.connections):
            session = connection.session
            if session.principal is None:
                continue
            session.principal = file.again(session.principal)
            if session.principal is None:
                connection.cut_off("authentication", "its token is not in the file any more")
