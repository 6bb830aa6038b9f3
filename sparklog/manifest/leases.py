"""Leases: claims in `__cluster_metadata` that keep two from doing the same work.

    name         what is claimed: "<kind>/<topic id>"
    owner        who claims it, unique to a process
    expires_ms   until when, unless it is renewed

A lease only saves work. Nothing may rest on it, for clocks differ and a holder may sleep past its
end: what keeps the log right is that every commit checks its inputs.
"""

from dataclasses import replace
from typing import Final

from sparklog.manifest.cluster import ClusterState, ClusterStore, Lease

LEASE_TTL_MS: Final = 5 * 60 * 1000


def acquire(cluster: ClusterStore, name: str, owner: str, now_ms: int) -> Lease:
    """Claim `name` for LEASE_TTL_MS, or renew the claim; return the lease that is in force.

    It is somebody else's when that one has not expired. Leases of anybody that have expired are
    dropped. Raises what a commit of the state raises.
    """
    wanted = Lease(name, owner, now_ms + LEASE_TTL_MS)

    def plan(state: ClusterState) -> ClusterState | None:
        present = {key: one for key, one in state.leases.items() if one.expires_ms > now_ms}
        holder = present.get(name)
        if holder is not None and holder.owner != owner:
            return None
        return replace(state, leases={**present, name: wanted})

    return cluster.commit(plan).leases[name]


def release(cluster: ClusterStore, name: str, owner: str) -> None:
    """Give up the claim, if it is still the owner's."""

    def plan(state: ClusterState) -> ClusterState | None:
        holder = state.leases.get(name)
        if holder is None or holder.owner != owner:
            return None
        rest = {key: one for key, one in state.leases.items() if key != name}
        return replace(state, leases=rest)

    cluster.commit(plan)
