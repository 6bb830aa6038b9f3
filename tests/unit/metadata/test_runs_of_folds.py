"""Runs of several folds: which of them an image reads, and which row of a key counts."""

from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.edit import Edit, Lease
from sparklog.metadata.upkeep.fold import fold
from tests.metadata_language import TOPIC, append, ends, new_log


class TestAnOldImage:
    def test_opens_its_topics_as_of_its_version(self) -> None:
        log = new_log()
        append(log)
        fold(log)
        reader = MetadataLog(log.files, log.clock)
        old = reader.image()
        append(log)
        fold(log)

        newest = reader.image(TOPIC)

        assert (ends(reader.opened_at(old, TOPIC)), ends(newest)) == (10, 20)


class TestAKeyThatIsGone:
    def test_stays_gone_although_a_large_older_run_has_it(self) -> None:
        log = new_log(topics=0)
        leases = {name: Lease(name, "me", 1) for name in map(str, range(20))}
        log.commit(lambda _: Edit(operation="LEASE", leases=leases))
        fold(log)
        log.commit(lambda _: Edit(operation="LEASE", leases={"7": None}))
        fold(log)

        image = MetadataLog(log.files, log.clock).image()

        assert len(image.fold.runs) == 2
        assert leases.keys() - image.leases.keys() == {"7"}
