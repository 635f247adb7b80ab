# SPDX-License-Identifier: MIT
"""The documents of recordings in Elasticsearch: their indices, fields and lines.

A row of `calls` or of `ios` becomes a document with the columns as fields. Three fields are added:
``@timestamp`` is `time_ns` as a date with nanoseconds, which Kibana needs; ``recording`` names the
recording, and ``host`` the machine. The document's identifier is made of the recording's name and
the row number, so that a document that is sent twice is stored once. The index of `recordings`
receives reports: how many rows there are, and how many calls and documents were dropped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from linnapp.files import AnyPath
from linnapp.insight.calls import COUNTS, DROPPED, TABLES, schemas
from linnapp.insight.elastic import ElasticsearchError, Outcome, Retries, Server, deliver
from linnapp.insight.query import chunks, opened, recording, recordings, session_folder

if TYPE_CHECKING:
    import pyarrow as pa

#: The third index has reports of recordings instead of rows of a table.
REPORTS = "recordings"
INDICES = {table: f"linnapp-{table}" for table in (*TABLES, REPORTS)}
#: documents of one bulk request, about 3 MB
BATCH = 5000

_FIELD_TYPES = {"int64": "long", "uint32": "long", "string": "keyword", "bool": "boolean"}
#: Longer strings are stored but not indexed: Lucene takes 32,766 bytes, up to four per character.
_MAX_INDEXED_LENGTH = 8191

_LINES = """
select string_agg(
  '{{"create":{{"_id":"' || $recording || '-{table}-' || ($first_row + row) || '"}}}}' || chr(10) ||
  to_json(struct_pack("@timestamp" := {timestamp}, recording := $recording, host := $host,
    {columns})),
  chr(10) order by row)
from (select *, row_number() over () - 1 as row from rows)
"""
_TIMESTAMP = (
    "strftime(make_timestamp(time_ns // 1000), '%Y-%m-%dT%H:%M:%S.') || "
    "printf('%09d', time_ns % 1000000000) || 'Z'"
)


def report(
    session: str | None, rows: Mapping[str, int], outcome: Outcome, counts: Mapping[str, int]
) -> pa.Table:
    """Return the row that reports the state of a recording now.

    `rows` has the number of rows of each table, and `counts` those of
    :data:`linnapp.insight.calls.COUNTS`.
    """
    import pyarrow as pa

    numbers = {
        "time_ns": time.time_ns(),
        **{table: rows.get(table, 0) for table in TABLES},
        "documents": outcome.created + outcome.there_already,
        "refused": outcome.refused.total(),
        "left_over": outcome.left,
        "dropped": sum(counts.get(name, 0) for name in DROPPED),
        **{name: counts.get(name, 0) for name in COUNTS},
    }
    return pa.table(
        {
            "session": pa.array([session], pa.string()),
            **{name: pa.array([n], pa.int64()) for name, n in numbers.items()},
        }
    )


def _mapping(schema: pa.Schema) -> dict[str, Any]:
    def field(name: str) -> dict[str, Any]:
        kind = _FIELD_TYPES[str(schema.field(name).type)]
        return {
            "type": kind,
            **({"ignore_above": _MAX_INDEXED_LENGTH} if kind == "keyword" else {}),
        }

    return {
        "@timestamp": {"type": "date_nanos"},
        "recording": {"type": "keyword"},
        "host": {"type": "keyword"},
        **{name: field(name) for name in schema.names},
    }


def mappings() -> dict[str, dict[str, Any]]:
    """Return the field types of the documents of each index."""
    of_all = {**schemas(), REPORTS: report(None, {}, Outcome(), {}).schema}
    return {table: _mapping(schema) for table, schema in of_all.items()}


#: Templates for overlapping names must have different priorities, so this is not a round number.
_PRIORITY = 1573
_DESCRIPTION = "System calls and block I/Os that linnapp watch has recorded"


def index_template(table: str) -> dict[str, Any]:
    """Return the index template of a table. Its index refuses documents with other fields."""
    return {
        # The name of one index: a pattern could also match an index of another program.
        "index_patterns": [INDICES[table]],
        "priority": _PRIORITY,
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
        "_meta": {"description": _DESCRIPTION},
    }


def prepare(server: Server) -> None:
    """Define the indices and their fields, so that the first document finds them."""
    server.check()
    for table, index in INDICES.items():
        _define(server, index, index_template(table))


def _define(server: Server, index: str, template: dict[str, Any]) -> None:
    indices = server.client.indices
    put = f"PUT /_index_template/{index}"
    remedy = f"the template defines the field types of {index}: change what it conflicts with"
    answer = server.request(
        put.replace("PUT", "GET"),
        lambda: indices.get_index_template(name=index),
        accepted=(404, None),
    )
    for found in (answer or {}).get("index_templates", ()):
        if found["index_template"].get("_meta") != template["_meta"]:
            raise ElasticsearchError(
                f"{server.name}: has a template {index} that is not linnapp's: rename it"
            )
    try:
        server.request(put, lambda: indices.put_index_template(name=index, **template), remedy)
    except ElasticsearchError as error:
        if "serverless" not in str(error):
            raise
        # A serverless project does not allow settings of its own.
        del template["template"]["settings"]
        server.request(put, lambda: indices.put_index_template(name=index, **template), remedy)
    is_new = server.request(
        f"PUT /{index}",
        lambda: indices.create(index=index),
        f"documents are stored in an index named {index}: rename the conflicting object",
        accepted=(400, "resource_already_exists_exception"),
    )
    if is_new:
        return
    # An older version may have created it with fewer fields.
    fields = template["template"]["mappings"]["properties"]
    server.request(
        f"PUT /{index}/_mapping",
        lambda: indices.put_mapping(index=index, properties=fields),
        f"{index} has a field of another type: rename this index",
    )


def deliver_rows(
    server: Server,
    table: str,
    rows: pa.Table,
    first_row: int,
    identity: Mapping[str, str | None],
    sent: Outcome,
    retries: Retries,
) -> Iterator[pa.Table]:
    """Send the rows of a table and yield them in parts, each after it was stored.

    `first_row` is the number of the first row. `identity` is the recording's name and its host.
    """
    import duckdb

    columns = ", ".join(f'"{name}" := "{name}"' for name in rows.schema.names)
    sql = _LINES.format(table=table, columns=columns, timestamp=_TIMESTAMP)
    with duckdb.connect(":memory:", config={"threads": 1}) as database:
        database.execute("set timezone = 'UTC'")
        for start in range(0, rows.num_rows, BATCH):
            part = rows.slice(start, BATCH)
            database.register("rows", part)
            [(lines,)] = database.execute(
                sql, {**identity, "first_row": first_row + start}
            ).fetchall()
            database.unregister("rows")
            deliver(server, INDICES[table], lines.encode(), sent, retries)
            yield part


def send(folder: AnyPath, server: Server, session: str | None = None) -> Outcome:
    """Send the recordings of a folder, or one session of it, until done or interrupted."""
    if session is not None:
        folder = session_folder(folder, session)
    with opened(folder):
        folders = recordings(folder)
    outcome, retries = Outcome(), Retries()
    properties = list(map(recording, folders))
    total = 0
    for each, found in zip(folders, properties, strict=True):
        identity = {"recording": found["recording"], "host": found.get("host")}
        rows: Counter[str] = Counter()
        for table, first_row, n, read in chunks(each):
            total += n
            rows[table] += n
            if outcome.why is None:
                with outcome.failures():
                    for _ in deliver_rows(
                        server, table, read(), first_row, identity, outcome, retries
                    ):
                        pass
        if outcome.why is None:
            # The reports of the recording itself begin with number 1.
            row = report(found.get("session"), rows, outcome, found)
            with outcome.failures():
                for _ in deliver_rows(server, REPORTS, row, 0, identity, Outcome(), retries):
                    pass
    outcome.left = total - outcome.known
    if outcome.why is None:
        with outcome.failures():
            refresh(server)
    return outcome


def refresh(server: Server) -> None:
    """Make the sent documents visible to searches."""
    names = ",".join(INDICES.values())
    server.request(f"POST /{names}/_refresh", lambda: server.client.indices.refresh(index=names))
