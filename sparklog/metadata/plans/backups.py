"""Backups under way: each pins a version, whose files vacuum and cleaning spare until it ends.

    lease name    backup/<name>
    lease owner   <version> <time of its entry, ms>
    expires_ms    when vacuum no longer waits for the backup

A backup is a lease, as any process of this feature level understands; a forgotten one expires. It
pins the newest version. Later commits only add files, and the files of what they remove stay as
well: so a copy may be newer than the version, and may take as long as the lease.
"""

from typing import Final, NamedTuple

from sparklog.errors import UsageError
from sparklog.metadata.state.edit import Edit, Lease
from sparklog.metadata.state.image import Image

BACKUPS: Final = "backup/"


class Backup(NamedTuple):
    """A backup under way: the version that it pins, and the time of that version's entry."""

    name: str
    version: int
    version_ms: int
    expires_ms: int


class Pinned(NamedTuple):
    """The oldest version that backups pin at one time, and its entry's time; None: no backup."""

    now_ms: int
    version: int | None = None
    version_ms: int | None = None

    def released_ms(self, delay_ms: int) -> int:
        """Return the time up to which removed files may be deleted, `delay_ms` after that."""
        limit_ms = self.now_ms - delay_ms
        return limit_ms if self.version_ms is None else min(limit_ms, self.version_ms - 1)


def backups(image: Image, now_ms: int) -> list[Backup]:
    """Return the backups under way, the oldest version first."""
    found = [_backup_of(one) for name, one in image.leases.items() if name.startswith(BACKUPS)]
    return sorted((one for one in found if one.expires_ms > now_ms), key=lambda one: one.version)


def pinned(image: Image, now_ms: int) -> Pinned:
    """Return what the backups under way need."""
    found = backups(image, now_ms)
    return Pinned(now_ms, found[0].version, found[0].version_ms) if found else Pinned(now_ms)


def begun(image: Image, name: str, now_ms: int, expires_ms: int) -> Edit:
    """Return the edit that pins the image's version. Raises UsageError for a name in use."""
    for one in backups(image, now_ms):
        if one.name == name:
            raise UsageError(
                f"backup {name!r} of version {one.version} is under way: end it, or take another "
                f"name"
            )
    version, version_ms = image.version, image.stamp.timestamp_ms
    of_backups = {key: one for key, one in image.leases.items() if key.startswith(BACKUPS)}
    expired = {key: None for key, one in of_backups.items() if one.expires_ms <= now_ms}
    lease = Lease(f"{BACKUPS}{name}", f"{version} {version_ms}", expires_ms)
    return Edit(
        operation="BEGIN BACKUP",
        parameters={"name": name, "version": str(version), "expiresMs": str(expires_ms)},
        leases={**expired, lease.name: lease},
    )


def ended(image: Image, name: str) -> Edit:
    """Return the edit that ends a backup, expired or not. Raises UsageError if there is none."""
    lease = image.leases.get(f"{BACKUPS}{name}")
    if lease is None:
        raise UsageError(f"there is no backup {name!r}: it has ended, or expired")
    version = str(_backup_of(lease).version)
    return Edit(
        operation="END BACKUP",
        parameters={"name": name, "version": version},
        leases={lease.name: None},
    )


def _backup_of(lease: Lease) -> Backup:
    version, version_ms = map(int, lease.owner.split())
    return Backup(lease.name.removeprefix(BACKUPS), version, version_ms, lease.expires_ms)
