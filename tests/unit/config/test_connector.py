"""A job that moves over keeps its options: what means nothing here is said, and harms nothing."""

import warnings

import pytest

from sparklog.config.connector import (
    IGNORED_OPTIONS,
    REFUSED_CLIENT_CONFIGS,
    without_connector_options,
)
from sparklog.errors import InvalidOptionError, SparklogWarning


class TestOptionsOfTheConnector:
    @pytest.mark.parametrize(
        "name", [*IGNORED_OPTIONS, "kafka.bootstrap.servers", "Kafka.Group.Id", "kafka.acks"]
    )
    def test_about_brokers_are_ignored_with_a_warning(self, name: str) -> None:
        with pytest.warns(SparklogWarning, match=f"option {name} has no meaning without brokers"):
            assert without_connector_options({name: "1", "subscribe": "t"}) == {"subscribe": "t"}

    @pytest.mark.parametrize("name", REFUSED_CLIENT_CONFIGS)
    def test_that_it_refuses_are_refused(self, name: str) -> None:
        with pytest.raises(InvalidOptionError, match=f"option kafka.{name} is not supported: "):
            without_connector_options({f"kafka.{name}": "x"})

    def test_of_a_producer_mean_what_they_mean_there(self) -> None:
        given = {"kafka.compression.type": "zstd", "KAFKA.batch.size": "1000"}

        assert without_connector_options(given) == {
            "compression.type": "zstd",
            "batch.size": "1000",
        }

    @pytest.mark.parametrize("name", ["compression.type", "compression_type", "Compression.Type"])
    def test_of_a_producer_give_way_to_ours(self, name: str) -> None:
        given = {name: "lz4", "kafka.compression.type": "zstd"}

        assert without_connector_options(given) == {name: "lz4"}
        assert without_connector_options(dict(reversed(given.items()))) == {name: "lz4"}

    def test_that_are_ours_too_pass_without_a_word(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            given = {"subscribe": "t", "includeHeaders": "true", "kafkaesque": "1"}

            assert without_connector_options(given) == given

    def test_of_a_producer_mean_nothing_to_who_only_reads(self) -> None:
        with pytest.warns(SparklogWarning, match=r"kafka\.batch\.size has no meaning"):
            assert without_connector_options({"kafka.batch.size": "1"}, client_options=()) == {}
