# SPDX-License-Identifier: MIT
"""What was watched as documents: a row of `calls` or of `ios` is one, with the columns as fields.

Three fields are added. ``@timestamp`` is `time_ns` as a date with nanoseconds, which Kibana needs;
``recording`` names the recording, ``host`` the machine. A document's own name is the recording's
with the row's number, so that sending it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from linnapp.watch.watched import TABLES, schemas

if TYPE_CHECKING:
    import pyarrow as pa

INDICES = {table: f"linnapp-{table}" for table in TABLES}
#: documents of one bulk request: half a MiB, about
BATCH = 1000

_KINDS = {"int64": "long", "uint32": "long", "string": "keyword", "bool": "boolean"}
#: A longer one is kept, but not searched for: Lucene takes 32,766 bytes, four a letter at most.
_LONGEST_WORD = 8191

_LINES = """
select string_agg(
  '{{"create":{{"_id":"' || $recording || '-{table}-' || ($first_row + row) || '"}}}}' || chr(10) ||
  to_json(struct_pack("@timestamp" := {timestamp}, recording := $recording, host := $host,
    {columns})),
  chr(10) order by row)
from (select *, row_number() over () - 1 as row from rows)
group by row // {batch} order by row // {batch}
"""
_TIMESTAMP = (
    "strftime(make_timestamp(time_ns // 1000), '%Y-%m-%dT%H:%M:%S.') || "
    "printf('%09d', time_ns % 1000000000) || 'Z'"
)


def _mapping(schema: pa.Schema) -> dict[str, Any]:
    def kind(name: str) -> dict[str, Any]:
        kind = _KINDS[str(schema.field(name).type)]
        return {"type": kind, **({"ignore_above": _LONGEST_WORD} if kind == "keyword" else {})}

    return {
        "@timestamp": {"type": "date_nanos"},
        "recording": {"type": "keyword"},
        "host": {"type": "keyword"},
        **{name: kind(name) for name in schema.names},
    }


def mappings() -> dict[str, dict[str, Any]]:
    """Of each table the fields of its documents, and their types."""
    return {table: _mapping(schema) for table, schema in schemas().items()}


def index_template(table: str) -> dict[str, Any]:
    """How an index of a table's documents is made; a field that is unknown is refused."""
    return {
        "index_patterns": [f"{INDICES[table]}*"],
        # Templates for all indices, of the usual priority 0, give way to it.
        "priority": 200,
        "template": {
            "settings": {
                "index": {
                    "number_of_shards": 1,
                    "auto_expand_replicas": "0-1",
                    "codec": "best_compression",
                    "refresh_interval": "5s",
                }
            },
            "mappings": {"dynamic": "strict", "properties": mappings()[table]},
        },
        "_meta": {"description": "System calls and block I/Os that linnapp watch has recorded"},
    }


def bulk_lines(
    table: str, rows: pa.Table, first_row: int, recording: str, host: str | None
) -> Iterator[str]:
    """Bulk requests of up to `BATCH` rows of a recording, numbered from `first_row`."""
    import duckdb

    columns = ", ".join(f'"{name}" := "{name}"' for name in rows.schema.names)
    with duckdb.connect(":memory:", config={"threads": 1}) as database:
        database.execute("set timezone = 'UTC'")
        database.register("rows", rows)
        result = database.execute(
            _LINES.format(table=table, columns=columns, timestamp=_TIMESTAMP, batch=BATCH),
            {"first_row": first_row, "recording": recording, "host": host},
        )
        while row := result.fetchone():
            yield row[0]
