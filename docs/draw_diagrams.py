#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw the diagrams in docs/diagrams: `python docs/draw_diagrams.py`.

Each diagram is an SVG with a background of its own and follows the colour scheme of the reader.
"""

from __future__ import annotations

import itertools
from html import escape
from pathlib import Path

FOLDER = Path(__file__).with_name("diagrams")
WIDTH = 760
LINE = 18

STYLE = """
  svg { --page: #ffffff; --ink: #1f2933; --soft: #5c6b7a; --box: #f1f4f7; --edge: #9aa7b4;
    --ours: #d7ebdd; --ours-edge: #2f7d4f; --slow: #f9dcd6; --slow-edge: #b4452c; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #1b2027; --ink: #e4e9ee; --soft: #9fb0c0; --box: #28303a; --edge: #66758a;
      --ours: #1e4530; --ours-edge: #6fc493; --slow: #54261c; --slow-edge: #ef8f78; }
  }
  text { font: 14px system-ui, sans-serif; fill: var(--ink); }
  .title { font-weight: 600; font-size: 15px; }
  .soft { fill: var(--soft); font-size: 13px; }
  .page { fill: var(--page); }
  .box { fill: var(--box); stroke: var(--edge); }
  .ours { fill: var(--ours); stroke: var(--ours-edge); }
  .slow { fill: var(--slow); stroke: var(--slow-edge); }
  .panel { fill: none; stroke: var(--edge); stroke-dasharray: 4 4; }
  .line { stroke: var(--soft); stroke-width: 1.5; fill: none; }
  .strong { stroke: var(--ours-edge); stroke-width: 3; fill: none; }
  .refused { stroke: var(--slow-edge); stroke-width: 2; fill: none; stroke-dasharray: 6 4; }
  .query { stroke: var(--soft); stroke-width: 1.5; fill: none; stroke-dasharray: 4 3; }
  .tip, .query-tip { fill: var(--soft); }
  .strong-tip { fill: var(--ours-edge); }
  .refused-tip { fill: var(--slow-edge); }
"""

#: In two parts: the licence check would take the rest of the line for its name.
LICENCE = "<!-- SPDX-" + "License-Identifier: MIT -->"


class Diagram:
    """A picture to which boxes, arrows and texts are added."""

    def __init__(self, name: str, height: int, title: str) -> None:
        self.path = FOLDER / f"{name}.svg"
        tips = "".join(
            f'<marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" '
            f'markerHeight="{size}" orient="auto"><path class="{tip}-tip tip-{tip}" '
            f'd="M0 0 8 4 0 8z"/></marker>'
            for tip, size in (("line", 7), ("strong", 5), ("refused", 6), ("query", 7))
        ).replace('class="line-tip tip-line"', 'class="tip"')
        self.parts = [
            LICENCE,
            "<!-- Drawn by docs/draw_diagrams.py. -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{tips}</defs>",
            f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
        ]

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write a line."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def box(
        self, x: float, y: float, width: float, height: float, words: str, kind: str = "box"
    ) -> None:
        """Draw a box with one or more centred lines; the lines after the first are small."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" '
            f'width="{width:g}" height="{height:g}" rx="5"/>'
        )
        lines = words.split("\n") if words else []
        top = y + height / 2 - (len(lines) - 1) * LINE / 2 + 5
        for i, line in enumerate(lines):
            self.text(x + width / 2, top + i * LINE, line, "soft" if i else "", "middle")

    def arrow(self, *points: float, kind: str = "line") -> None:
        """Draw an arrow through points."""
        pairs = " ".join(f"{x:g},{y:g}" for x, y in zip(points[::2], points[1::2], strict=True))
        self.parts.append(f'<polyline class="{kind}" points="{pairs}" marker-end="url(#{kind})"/>')

    def write(self) -> None:
        """Write the file."""
        FOLDER.mkdir(exist_ok=True)
        self.path.write_text("\n".join([*self.parts, "</svg>", ""]))


def draw_read() -> None:
    """Draw the path of a read with `fastest`, and with the paper's policy."""
    d = Diagram("read", 520, "The path of a read: with predictions of latency, and in the paper")
    d.text(
        20, 30, "Our policy, fastest: predict the latency on each replica, then read once", "title"
    )
    d.box(20, 100, 120, 60, "program\nread()")
    d.box(
        220,
        70,
        230,
        120,
        "md, linnos-ublk or a library\npredicts the read on each replica\nchooses the fastest one",
        "ours",
    )
    d.arrow(140, 130, 216, 130)
    for i, (name, prediction, kind) in enumerate(
        [
            ("replica A", "2100 us, stalled", "slow"),
            ("replica B", "90 us", "ours"),
            ("replica C", "120 us", "box"),
        ]
    ):
        d.box(580, 50 + 60 * i, 160, 46, f"{name}\n{prediction}", kind)
    d.arrow(450, 130, 576, 133, kind="strong")
    d.text(512, 122, "the read", "soft", "middle")
    d.arrow(740, 133, 752, 133, 752, 238, 335, 238, 335, 194)
    d.text(350, 228, "latencies of completed reads go into the next predictions", "soft")
    d.parts.append('<line class="panel" x1="20" y1="262" x2="740" y2="262"/>')
    d.text(
        20,
        296,
        "The paper's policy, LinnOS (OSDI'20): send the read, and refuse it if it would be slow",
        "title",
    )
    d.box(20, 350, 150, 100, "program\nread with the hint;\nafter EBUSY it tries\nthe next replica")
    d.box(290, 320, 220, 60, "block layer, replica A\nnetwork predicts: slow", "ours")
    d.box(290, 420, 220, 60, "block layer, replica B\nnetwork predicts: fast", "ours")
    d.box(600, 327, 140, 46, "replica A\nstalled", "slow")
    d.box(600, 427, 140, 46, "replica B", "box")
    d.arrow(170, 366, 286, 340)
    d.text(222, 338, "1. read", "soft", "middle")
    d.arrow(290, 364, 174, 392, kind="refused")
    d.text(240, 398, "2. EBUSY", "soft", "middle")
    d.text(555, 345, "not sent", "soft", "middle")
    d.arrow(170, 428, 286, 450)
    d.text(222, 462, "3. read", "soft", "middle")
    d.arrow(510, 450, 596, 450, kind="strong")
    d.text(
        20,
        506,
        "If all other replicas have refused the read, the last one serves it.",
        "soft",
    )
    d.write()


def draw_parts() -> None:
    """Draw in which layer each way of using LinnOS predicts and chooses."""
    d = Diagram("parts", 500, "The layers of the system, and the parts of LinnOS in each of them")
    rows = ["program", "library", "file system", "mirror, OSD", "block layer", "drives"]
    top, step, height = 64, 68, 52
    for i, name in enumerate(rows):
        d.text(8, top + i * step + 31, name, "soft")
    replicas = ("replicas", "box")
    unchanged = ("unchanged", "box")
    columns = [
        ("md raid", {
            0: unchanged, 2: ("any", "box"), 3: ("raid1.ko\nchooses", "ours"),
            4: ("linnos.ko\npredicts", "ours"), 5: replicas,
        }),
        ("linnos-ublk", {
            0: unchanged, 2: ("any", "box"), 3: ("linnos-ublk\npredicts, chooses", "ours"),
            4: ("any kernel", "box"), 5: replicas,
        }),
        ("liblinnos", {
            0: ("one call changes", "box"), 1: ("liblinnos\npredicts, chooses", "ours"),
            4: ("any kernel", "box"), 5: replicas,
        }),
        ("OSDI'20", {
            0: ("fails over", "box"), 2: ("ext4, xfs, f2fs", "box"),
            4: ("the patch\npredicts, refuses", "ours"), 5: replicas,
        }),
    ]  # fmt: skip
    width = 114
    for c, (title, cells) in enumerate(columns):
        x = 90 + c * 120
        d.text(x + width / 2, 36, title, "title", "middle")
        there = sorted(cells)
        for above, below in itertools.pairwise(there):
            y = top + above * step + height
            d.arrow(x + width / 2, y, x + width / 2, top + below * step - 2)
        for row, (words, kind) in cells.items():
            d.box(x, top + row * step, width, height, words, kind)
    _draw_ceph(d, [top + row * step for row in range(len(rows))], height)
    d.text(
        90,
        486,
        "Green: parts of LinnOS. Solid arrows: the path of a read. Dashed arrows: queries.",
        "soft",
    )
    d.write()


def _draw_ceph(d: Diagram, rows: list[float], height: float) -> None:
    """Draw the column of Ceph, in which the client and the OSD are on different machines."""
    x, width, half = 572, 182, 86
    left, right = x + half / 2, x + width - half / 2
    d.text(x + width / 2, 36, "Ceph", "title", "middle")
    d.box(x, rows[0], width, height, "uses librados")
    d.box(x, rows[1], width, height, "liblinnos-cluster, -ceph\nchoose an OSD", "ours")
    d.text(x + width / 2, rows[2] + 31, "network", "soft", "middle")
    d.box(x, rows[3], half, height, "OSD")
    d.box(x + width - half, rows[3], half, height, "linnos-agent\nreports", "ours")
    d.box(x, rows[4], width, height, "linnos.ko or the patch\npredicts", "ours")
    d.box(x, rows[5], width, height, "drives of a node")
    d.arrow(x + width / 2, rows[0] + height, x + width / 2, rows[1] - 2)
    d.arrow(left, rows[1] + height, left, rows[3] - 2)
    d.arrow(left, rows[3] + height, left, rows[4] - 2)
    d.arrow(x + width / 2, rows[4] + height, x + width / 2, rows[5] - 2)
    d.arrow(right, rows[1] + height, right, rows[3] - 2, kind="query")
    d.arrow(right, rows[3] + height, right, rows[4] - 2, kind="query")


def draw_data() -> None:
    """Draw the way from a recording to a model at work, with the commands."""
    d = Diagram("data", 330, "From a recording to a model at work, and back")
    steps = [
        ("record", "linnapp trace", "NAME.blk"),
        ("label", "linnapp label", "slow threshold"),
        ("train", "linnapp train", "NAME.linnos, .json"),
        ("upload", "linnapp upload", "kernel or liblinnos"),
        ("watch", "linnapp top, trial", "benefit and errors"),
    ]
    for i, (step, command, result) in enumerate(steps):
        x = 20 + i * 148
        d.box(x, 60, 128, 50, f"{step}\n{command}", "ours")
        d.box(x, 138, 128, 40, "")
        d.text(x + 64, 162, result, "soft", "middle")
        d.arrow(x + 64, 110, x + 64, 134)
        if i:
            d.arrow(x - 20, 85, x - 4, 85)
    d.text(20, 36, "For an md array, linnapp enable records, trains and uploads", "title")
    d.text(380, 197, "The lower boxes are the results of the steps.", "soft", "middle")
    d.arrow(676, 178, 676, 238, 8, 238, 8, 85, 16, 85)
    d.text(
        380,
        230,
        "linnapp recalibrate, every six hours: if a drive has changed, train again",
        "soft",
        "middle",
    )
    d.box(
        20,
        256,
        720,
        46,
        "only for the paper's policy: linnapp keep, the kill switch\n"
        "no read is refused if predictions stay wrong",
    )
    d.write()


def draw_folders() -> None:
    """Draw the folders of the repository and who uses whom."""
    d = Diagram(
        "folders", 420, "The folders of the repository; arrows point to the code that is used"
    )
    d.box(
        20, 40, 720, 50, "eval/\nevery experiment and benchmark, and the committed results", "ours"
    )
    d.box(
        20,
        140,
        340,
        66,
        "linnapp/\ncommand and Python library:\nrecord, train, upload, watch, lab",
        "ours",
    )
    d.box(400, 140, 340, 66, "replayer/\nreplays traces\nunder every policy", "ours")
    d.box(20, 256, 220, 66, "kernel/\npatch, modules,\nflashsim: emulated drives", "ours")
    d.box(280, 256, 200, 66, "liblinnos/\nlibrary, linnos-ublk,\nRust crate", "ours")
    d.box(520, 256, 220, 66, "cluster/\nagent, library for nodes,\nlibrary for Ceph", "ours")
    d.box(
        20,
        360,
        720,
        42,
        "core/: features, history and models, compiled into the five folders above",
        "ours",
    )
    d.arrow(190, 90, 190, 136)
    d.arrow(570, 90, 570, 136)
    d.arrow(130, 206, 130, 252)
    d.arrow(480, 206, 420, 252)
    d.arrow(520, 289, 484, 289)
    for x in (130, 380, 630):
        d.arrow(x, 322, x, 356)
    for x in (260, 500):
        d.arrow(x, 206, x, 356)
    d.text(
        20,
        26,
        "Arrows point to the code that is used. Not all folders are shown.",
        "soft",
    )
    d.write()


def main() -> None:
    """Draw all diagrams."""
    for draw in (draw_read, draw_parts, draw_data, draw_folders):
        draw()


if __name__ == "__main__":
    main()
