from sparklog.clock import ManualClock
from sparklog.manifest.cluster import ClusterStore, Lease, MemoryClusterStore
from sparklog.manifest.leases import LEASE_TTL_MS, acquire, release

NOW = ManualClock().now_ms()


def leases(cluster: ClusterStore) -> dict[str, str]:
    """Who holds what."""
    return {name: lease.owner for name, lease in cluster.state().leases.items()}


class TestAcquire:
    def test_a_free_lease_is_the_owners_for_five_minutes(self) -> None:
        cluster = MemoryClusterStore()

        assert acquire(cluster, "rewrite/T", "a", NOW) == Lease("rewrite/T", "a", NOW + 300_000)
        assert leases(cluster) == {"rewrite/T": "a"}

    def test_a_held_lease_stays_the_others_until_it_expires(self) -> None:
        cluster = MemoryClusterStore()
        held = acquire(cluster, "x", "a", NOW)

        assert acquire(cluster, "x", "b", NOW + LEASE_TTL_MS - 1) == held
        assert acquire(cluster, "x", "b", NOW + LEASE_TTL_MS).owner == "b"

    def test_ones_own_is_renewed(self) -> None:
        cluster = MemoryClusterStore()
        acquire(cluster, "x", "a", NOW)

        assert acquire(cluster, "x", "a", NOW + 7).expires_ms == NOW + 7 + LEASE_TTL_MS

    def test_names_are_apart(self) -> None:
        cluster = MemoryClusterStore()
        acquire(cluster, "x", "a", NOW)
        acquire(cluster, "y", "b", NOW)

        assert leases(cluster) == {"x": "a", "y": "b"}

    def test_what_has_expired_is_dropped(self) -> None:
        cluster = MemoryClusterStore()
        acquire(cluster, "x", "a", NOW)
        acquire(cluster, "y", "b", NOW + LEASE_TTL_MS)

        assert leases(cluster) == {"y": "b"}


class TestRelease:
    def test_makes_it_free(self) -> None:
        cluster = MemoryClusterStore()
        acquire(cluster, "x", "a", NOW)
        release(cluster, "x", "a")

        assert leases(cluster) == {}

    def test_leaves_the_others_alone(self) -> None:
        cluster = MemoryClusterStore()
        acquire(cluster, "x", "a", NOW)
        release(cluster, "x", "b")
        release(cluster, "y", "a")

        assert leases(cluster) == {"x": "a"}
