"""What decode() refuses before it asks Spark."""

from typing import Any

import pytest

from sparklog.errors import SchemaError
from sparklog.spark.decode_json import json_decoded


def test_a_schema_of_another_type_is_refused() -> None:
    df: Any = None  # not read yet
    schema: Any = {"a": "int"}

    with pytest.raises(SchemaError, match="schema {'a': 'int'}: it must be a StructType, DDL or"):
        json_decoded(df, "value", schema, "decoded")
