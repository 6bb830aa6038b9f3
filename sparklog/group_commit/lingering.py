"""How long a group waits for more requests on an object store, where each commit is expensive."""

from typing import Final

REMOTE_LINGER_S: Final = 0.1
"""The least that a group waits on an object store."""
REMOTE_LINGER_MAX_S: Final = 1.0
"""The most: a commit may take minutes if the store is out of reach."""


def remote_linger_s(commit_s: float) -> float:
    """Return how long (s) a group waits after the last commit took `commit_s`: twice as long."""
    return min(max(REMOTE_LINGER_S, 2 * commit_s), REMOTE_LINGER_MAX_S)
