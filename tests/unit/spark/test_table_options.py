"""Options of a table in the metadata of its columns."""

import pytest
from pyspark.sql.types import StructType, VarcharType

from sparklog.errors import InvalidOptionError
from sparklog.spark.lake.table_options import options_of, plain, with_options, without_sparks_own
from sparklog.spark.schema import output_schema

GIVEN = {"path": "/data/log", "subscribe": "t"}


class TestOptions:
    def test_are_those_that_were_given(self) -> None:
        assert options_of(with_options(output_schema(), GIVEN)) == GIVEN

    def test_are_none_where_a_column_is_not_the_tables(self) -> None:
        table = with_options(output_schema(), GIVEN)

        assert options_of(StructType([*table, *output_schema()])) == {}
        assert options_of(output_schema()) == {}
        assert options_of(StructType()) == {}

    def test_leave_nothing_in_a_plain_schema(self) -> None:
        assert plain(with_options(output_schema(), GIVEN)) == output_schema()

    def test_give_the_column_topic_a_type_of_its_own(self) -> None:
        one, again, other = (
            with_options(output_schema(), {**GIVEN, "topic": topic}) for topic in "ttu"
        )
        assert one["topic"].dataType == again["topic"].dataType != other["topic"].dataType
        assert isinstance(one["topic"].dataType, VarcharType)

    def test_are_those_of_a_new_table_that_the_catalog_gives_twice(self) -> None:
        """TBLPROPERTIES come once."""
        given = {"provider": "sparklog", "path": "/d", "option.topic": "t", "topic": "t", "a": "b"}

        assert without_sparks_own(given) == {"path": "/d", "topic": "t"}
        assert without_sparks_own({"a": "b"}) == {"a": "b"}

    def test_are_no_storage_settings(self) -> None:
        with pytest.raises(
            InvalidOptionError, match=r"storage.aws_secret_access_key .* set it in"
        ) as caught:
            with_options(output_schema(), {**GIVEN, "storage.aws_secret_access_key": "hunter2"})
        assert "hunter2" not in str(caught.value)
