# SPDX-License-Identifier: MIT
"""Kibana's dashboard of what was watched, as the saved objects that it imports.

A panel is one of Kibana's own aggregation-based visualizations, so it can be changed there. They
are written as Kibana 7.10 exports them, and later versions bring them up to date on import.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from linnapp.commands.screens import call_parts

_VERSIONS = {"index-pattern": "7.6.0", "visualization": "7.10.0", "dashboard": "7.9.3"}
_SEARCH = "kibanaSavedObjectMeta.searchSourceJSON"
_AXIS, _VALUES = "CategoryAxis-1", "ValueAxis-1"

_Aggregation = tuple[str, str, dict[str, Any]]


def _metric(kind: str, field: str | None, label: str, **parameters: Any) -> _Aggregation:
    field_ = {} if field is None else {"field": field}
    return kind, "metric", {**field_, "customLabel": label, **parameters}


def _terms(field: str, size: int, label: str = "", schema: str = "bucket") -> _Aggregation:
    """Buckets of a field's values: those with the most of the panel's first number."""
    parameters = {"field": field, "orderBy": "1", "order": "desc", "size": size}
    others = {"otherBucket": schema == "group", "otherBucketLabel": "others"}
    missing = {"missingBucket": False, "missingBucketLabel": "none"}
    return "terms", schema, {**parameters, **others, **missing, "customLabel": label or field}


_TIME: _Aggregation = (
    "date_histogram",
    "segment",
    {
        **{"field": "@timestamp", "useNormalizedEsInterval": True, "interval": "auto"},
        **{"drop_partials": False, "min_doc_count": 1, "extended_bounds": {}},
    },
)
_CALLS = _metric("count", None, "calls")
_IOS = _metric("count", None, "I/Os")
_BYTES = _metric("sum", "bytes", "bytes")
_NS_IN_CALLS = _metric("sum", "duration_ns", "ns in calls")


def _percentiles(field: str) -> _Aggregation:
    return _metric("percentiles", field, "ns", percents=[50, 99])


def _over_time(
    number: _Aggregation, field: str, size: int, label: str = ""
) -> tuple[_Aggregation, ...]:
    """A histogram's aggregations: a number as time goes by, stacked by a field."""
    return number, _TIME, _terms(field, size, label, schema="group")


@dataclasses.dataclass(frozen=True)
class Panel:
    """A visualization, and where it is.

    Attributes
    ----------
    title : str
    table : str
        `calls` or `ios`.
    kind : str
        Of Kibana's: ``metric``, ``table`` or ``histogram``.
    aggregations : tuple
        Of each its kind, what it is for in the panel, and its parameters; numbered from 1.
    place : tuple of int
        Columns from the left, of 48; rows from the top; width; height.
    query : str
        In KQL.
    """

    title: str
    table: str
    kind: str
    aggregations: tuple[_Aggregation, ...]
    place: tuple[int, int, int, int]
    query: str = ""


PANELS = (
    Panel(
        "System calls",
        "calls",
        "metric",
        (
            _CALLS,
            _metric("cardinality", "path", "files"),
            _metric("cardinality", "tid", "threads"),
            _percentiles("duration_ns"),
        ),
        (0, 0, 48, 6),
    ),
    Panel(
        "Calls by thread",
        "calls",
        "histogram",
        _over_time(_CALLS, "process", 10, "thread"),
        (0, 6, 24, 13),
    ),
    Panel(
        "Time in calls, ns",
        "calls",
        "histogram",
        _over_time(_NS_IN_CALLS, "call", 10),
        (24, 6, 24, 13),
    ),
    Panel(
        "Files",
        "calls",
        "table",
        (
            _NS_IN_CALLS,
            _CALLS,
            _percentiles("duration_ns"),
            _metric("max", "duration_ns", "longest, ns"),
            _terms("path", 50),
        ),
        (0, 19, 28, 16),
    ),
    Panel(
        "Calls",
        "calls",
        "table",
        (
            _NS_IN_CALLS,
            _CALLS,
            _percentiles("duration_ns"),
            _metric("avg", "bytes", "bytes asked for"),
            _terms("call", 50),
        ),
        (28, 19, 20, 16),
    ),
    Panel(
        "Errors",
        "calls",
        "table",
        (
            _CALLS,
            _terms("call", 20),
            _terms("result", 5, "error"),
            _terms("path", 20),
        ),
        (0, 35, 28, 14),
        "result < 0",
    ),
    Panel(
        "Sessions",
        "calls",
        "table",
        (
            _CALLS,
            _metric("min", "@timestamp", "began"),
            _terms("host", 20),
            _terms("session", 50),
        ),
        (28, 35, 20, 14),
    ),
    Panel(
        "Bytes of block I/Os",
        "ios",
        "histogram",
        _over_time(_BYTES, "op", 5),
        (0, 49, 24, 13),
        "below: false",
    ),
    Panel(
        "LinnOS' decisions",
        "ios",
        "histogram",
        _over_time(_IOS, "decision", 5),
        (24, 49, 24, 13),
        "decision: *",
    ),
    Panel(
        "Drives",
        "ios",
        "table",
        (
            _IOS,
            _percentiles("latency_ns"),
            _metric("avg", "plug_ns", "plug or free tag, ns"),
            _metric("avg", "scheduler_ns", "scheduler, ns"),
            _metric("avg", "drive_ns", "driver and drive, ns"),
            _terms("drive", 20),
            _terms("op", 5),
        ),
        (0, 62, 28, 14),
    ),
    Panel(
        "I/Os of calls",
        "ios",
        "table",
        (
            _BYTES,
            _IOS,
            _percentiles("latency_ns"),
            _terms("call", 20),
            _terms("op", 5),
        ),
        (28, 62, 20, 14),
        "below: false",
    ),
    Panel(
        "Where the time of calls went",
        "calls",
        "table",
        (
            *(_metric("sum", part, f"{words}, ns") for part, words in call_parts.WORDS.items()),
            _terms("call", 50),
        ),
        (0, 76, 48, 14),
    ),
    Panel(
        "Tags",
        "ios",
        "table",
        (
            _IOS,
            _BYTES,
            _percentiles("latency_ns"),
            _metric("avg", "drive_ns", "driver and drive, ns"),
            _terms("tag", 50),
            _terms("op", 5),
        ),
        (0, 90, 48, 14),
        "tag: *",
    ),
)


def _parameters(panel: Panel) -> dict[str, Any]:
    if panel.kind == "metric":
        style = {"bgColor": False, "labelColor": False, "bgFill": "#000", "subText": ""}
        return {
            "addTooltip": True,
            "addLegend": False,
            "type": "metric",
            "metric": {
                "percentageMode": False,
                "useRanges": False,
                "colorSchema": "Green to Red",
                "metricColorMode": "None",
                "colorsRange": [{"from": 0, "to": 10000}],
                "labels": {"show": True},
                "invertColors": False,
                "style": {**style, "fontSize": 28},
            },
        }
    if panel.kind == "table":
        return {
            "perPage": 10,
            "showPartialRows": False,
            "showMetricsAtAllLevels": False,
            "showTotal": False,
            "totalFunc": "sum",
            "percentageCol": "",
        }
    label = panel.aggregations[0][2]["customLabel"]
    return {
        "type": "histogram",
        "grid": {"categoryLines": False},
        "categoryAxes": [
            {
                "id": _AXIS,
                "type": "category",
                "position": "bottom",
                "show": True,
                "style": {},
                "scale": {"type": "linear"},
                "labels": {"show": True, "filter": True, "truncate": 100},
                "title": {},
            }
        ],
        "valueAxes": [
            {
                "id": _VALUES,
                "name": "LeftAxis-1",
                "type": "value",
                "position": "left",
                "show": True,
                "style": {},
                "scale": {"type": "linear", "mode": "normal"},
                "labels": {"show": True, "rotate": 0, "filter": False, "truncate": 100},
                "title": {"text": label},
            }
        ],
        "seriesParams": [
            {
                "show": True,
                "type": "histogram",
                "mode": "stacked",
                "data": {"label": label, "id": "1"},
                "valueAxis": _VALUES,
                "drawLinesBetweenPoints": True,
                "lineWidth": 2,
                "showCircles": True,
            }
        ],
        "addTooltip": True,
        "addLegend": True,
        "legendPosition": "right",
        "times": [],
        "addTimeMarker": False,
        "labels": {"show": False},
    }


def _object(kind: str, name: str, attributes: dict[str, Any], references: Any = ()) -> Any:
    return {
        "id": name,
        "type": kind,
        "attributes": attributes,
        "references": list(references),
        "migrationVersion": {kind: _VERSIONS[kind]},
    }


def _search(query: str, **more: str) -> dict[str, str]:
    said = {"query": {"query": query, "language": "kuery"}, "filter": [], **more}
    return {"searchSourceJSON": json.dumps(said)}


def _visualization(number: int, panel: Panel) -> Any:
    state = {
        "title": panel.title,
        "type": panel.kind,
        "params": _parameters(panel),
        "aggs": [
            {"id": str(n), "enabled": True, "type": kind, "schema": schema, "params": parameters}
            for n, (kind, schema, parameters) in enumerate(panel.aggregations, 1)
        ],
    }
    return _object(
        "visualization",
        f"linnapp-watch-{number}",
        {
            "title": panel.title,
            "description": "",
            "version": 1,
            "visState": json.dumps(state),
            "uiStateJSON": "{}",
            "kibanaSavedObjectMeta": _search(panel.query, indexRefName=f"{_SEARCH}.index"),
        },
        [{"type": "index-pattern", "id": f"linnapp-{panel.table}", "name": f"{_SEARCH}.index"}],
    )


def saved_objects() -> list[dict[str, Any]]:
    """Index patterns, visualizations and the dashboard, in the order in which they need another."""
    found = [
        _object(
            "index-pattern",
            f"linnapp-{table}",
            {"title": f"linnapp-{table}*", "timeFieldName": "@timestamp"},
        )
        for table in ("calls", "ios")
    ]
    found += [_visualization(number, panel) for number, panel in enumerate(PANELS, 1)]
    panels = [
        {
            "version": "7.10.0",
            "gridData": {**dict(zip("xywh", panel.place, strict=True)), "i": str(number)},
            "panelIndex": str(number),
            "embeddableConfig": {},
            "panelRefName": f"panel_{number}",
        }
        for number, panel in enumerate(PANELS, 1)
    ]
    found.append(
        _object(
            "dashboard",
            "linnapp-watch",
            {
                "title": "linnapp watch",
                "description": "Storage system calls, and the block I/Os they cause",
                "hits": 0,
                "version": 1,
                "timeRestore": False,
                "panelsJSON": json.dumps(panels),
                "optionsJSON": json.dumps({"useMargins": True, "hidePanelTitles": False}),
                "kibanaSavedObjectMeta": _search(""),
            },
            [
                {
                    "type": "visualization",
                    "id": f"linnapp-watch-{number}",
                    "name": f"panel_{number}",
                }
                for number in range(1, len(PANELS) + 1)
            ],
        )
    )
    return found


def dashboard() -> str:
    """All of it as Kibana imports it: JSON, an object a line."""
    return "".join(json.dumps(each, sort_keys=True) + "\n" for each in saved_objects())
