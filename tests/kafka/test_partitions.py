"""Keys go to the partitions that Kafka's clients put them in."""

import numpy as np
import pyarrow as pa
import pytest

from sparklog.config.partitioners import DEFAULT
from sparklog.produce.partitioner import resolve_partitioner
from sparklog.record.rows import RecordColumns
from tests.kafka.conftest import Written
from tests.kafka.scenarios import PARTITIONS

pytestmark = pytest.mark.kafka


class TestDefaultPartitioner:
    def test_puts_a_key_where_a_kafka_producer_does(self, written: Written) -> None:
        keys, partitions = zip(*written.partition_by_key.items(), strict=True)
        count = len(keys)
        nothing = pa.nulls(count, pa.binary())
        columns = RecordColumns(pa.array(keys, pa.binary()), nothing, np.zeros(count, np.int64))

        found = resolve_partitioner(DEFAULT, 16384, 0).assign(columns, PARTITIONS)
        assert found.tolist() == list(partitions)
        assert set(partitions) == set(range(PARTITIONS))
