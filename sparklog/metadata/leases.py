"""Leases: claims that keep two processes from doing the same work.

    name         of the work: "<kind>/<topic id>"
    owner        unique to a process
    expires_ms   when the claim ends, unless it is renewed

A lease only saves work. No data may depend on it, because clocks differ and an owner may sleep past
its end. The log stays correct because every commit checks its inputs.
"""

from typing import Final

from sparklog.metadata.log import MetadataLog
from sparklog.metadata.plans.backups import BACKUPS
from sparklog.metadata.state.edit import Done, Edit, Lease
from sparklog.metadata.state.image import Image

LEASE_TTL_MS: Final = 5 * 60 * 1000


def acquire(
    log: MetadataLog,
    name: str,
    owner: str,
    now_ms: int,
    *,
    ttl_ms: int = LEASE_TTL_MS,
    longest_ms: int = LEASE_TTL_MS,
) -> Lease:
    """Claim `name` for `ttl_ms`, or renew the claim; return the lease that is in force.

    If another owner has a lease that has not expired, that lease is returned. A claim of this name
    is for `longest_ms` at most: one that ends after more than twice that time does not count,
    because it was made by a clock that was ahead. Expired leases of all owners are dropped, but not
    those of backups: a clock that is ahead would end them. Raises as `MetadataLog.commit` does.
    """
    wanted = Lease(name, owner, now_ms + ttl_ms)

    def plan(image: Image) -> Edit | Done:
        holder = image.leases.get(name)
        left_ms = 0 if holder is None or holder.owner == owner else holder.expires_ms - now_ms
        if 0 < left_ms <= 2 * longest_ms:
            return Done()
        expired = {
            key: None
            for key, one in image.leases.items()
            if one.expires_ms <= now_ms and not key.startswith(BACKUPS)
        }
        return Edit(
            operation="LEASE",
            parameters={"name": name, "owner": owner},
            leases={**expired, name: wanted},
        )

    return log.commit(plan).image.leases[name]


def release(log: MetadataLog, name: str, owner: str) -> None:
    """Give up the claim if it is still the owner's. Raises as `MetadataLog.commit` does."""

    def plan(image: Image) -> Edit | Done:
        holder = image.leases.get(name)
        if holder is None or holder.owner != owner:
            return Done()
        return Edit(
            operation="RELEASE", parameters={"name": name, "owner": owner}, leases={name: None}
        )

    log.commit(plan)
