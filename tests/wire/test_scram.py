"""SCRAM, the server's side: what breaks its rules ends the exchange."""

from base64 import b64encode

import pytest

from sparklog.errors import SaslAuthenticationError
from sparklog.wire.security.scram import HASHES, ITERATIONS, ScramExchange, credential

KNOWN = credential("SCRAM-SHA-256", b"salted", b"salt", ITERATIONS)
BINDING = b64encode(b"n,,").decode()


def exchange() -> ScramExchange:
    users = {"alice": KNOWN}
    return ScramExchange("SCRAM-SHA-256", users.get, "more", b"secret")


@pytest.mark.parametrize(
    "message", [b"\xff", b"", b"y,,n=alice,r=x", b"n,,n=alice", b"n,a=bob,n=alice,r=x"]
)
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationError):
        exchange().step(message)


@pytest.mark.parametrize(
    "message",
    [
        "nonsense",
        f"c={BINDING},r=other,p=AAAA",
        "c=eSws,r=xmore,p=AAAA",
        f"c={BINDING},r=xmore,p=A",
        f"c={BINDING},r=xmore,p=AAAA",
    ],
)
def test_a_final_message_that_does_not_follow_is_refused(message: str) -> None:
    found = exchange()
    found.step(b"n,,n=alice,r=x")
    with pytest.raises(SaslAuthenticationError):
        found.step(message.encode())
    assert found.user is None


def test_a_user_that_there_is_not_looks_like_one() -> None:
    answers = [exchange().step(b"n,,n=bob,r=x") for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0].startswith(b"r=xmore,s=")


def test_who_does_not_exist_has_another_salt_in_each_mechanism_as_a_user_has() -> None:
    """Else two equal salts show that there is no such user."""
    answers = {
        ScramExchange(mechanism, lambda _: None, "more", b"secret").step(b"n,,n=bob,r=x")
        for mechanism in HASHES
    }
    assert len(answers) == len(HASHES)
