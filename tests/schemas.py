"""The golden contracts as the code has them: `python -m tests.schemas` writes schemas/ anew."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from sparklog.config import TOPIC_CONFIG_KEYS
from sparklog.config.options import CONSUME_OPTIONS, PRODUCE_OPTIONS, STREAM_OPTIONS, Option
from sparklog.metadata.delta import DESCRIPTION
from sparklog.metadata.runs.tables import KEY_COLUMNS, RUN_SCHEMA
from sparklog.spark.schema import INPUT_COLUMNS, output_schema
from sparklog.storage.settings import STORAGE_SETTINGS

FOLDER = Path(__file__).parent.parent / "schemas"


def contracts() -> dict[str, Any]:
    """Return the contents of every golden file, by name."""
    return {
        "cluster_metadata.json": {
            "description": DESCRIPTION,
            "keys": KEY_COLUMNS,
            "columns": _table(RUN_SCHEMA),
        },
        "records.json": {
            "produce": INPUT_COLUMNS,
            "consume": _columns(output_schema()),
        },
        "options.json": {
            "produce": [_option(option) for option in PRODUCE_OPTIONS],
            "consume": [_option(option) for option in CONSUME_OPTIONS],
            "stream": [_option(option) for option in STREAM_OPTIONS],
            "storage": [
                {"key": setting.name, "type": setting.type, "secret": setting.secret}
                | {"doc": setting.doc}
                for setting in STORAGE_SETTINGS
            ],
            "topic": [
                {"key": key.name, "type": key.type.value, "default": key.default}
                | {"bounds": key.bounds.text, "used": key.is_used, "doc": key.doc}
                for key in TOPIC_CONFIG_KEYS.values()
            ],
        },
    }


def _table(schema: pa.Schema) -> list[dict[str, Any]]:
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in schema
    ]


def _columns(schema: StructType) -> list[dict[str, Any]]:
    return [
        {"name": field.name, "type": field.dataType.simpleString(), "nullable": field.nullable}
        for field in schema
    ]


def _option(option: Option) -> dict[str, Any]:
    return {
        "key": option.name,
        "type": option.type.value,
        "default": option.default,
        "bounds": option.bounds.text,
        "doc": option.doc,
    }


def as_text(contract: Any) -> str:
    """Return a contract as its file has it."""
    return json.dumps(contract, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    """Write every golden file."""
    for name, contract in contracts().items():
        (folder / name).write_text(as_text(contract), encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)
