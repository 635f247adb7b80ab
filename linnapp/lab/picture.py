# SPDX-License-Identifier: MIT
"""Draw means and p99s as SVG without matplotlib, because the demo must need few packages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 900, 390, 60, 46, 60
_TICKS_US = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


def draw_dots(title: str, rows: Sequence[tuple[str, float, float]]) -> str:
    """Return an SVG with a line per row: a dot at its mean and a ring at its p99, both in us.

    A row is a name, the mean and the p99. A name can be followed by ": " and an explanation, which
    is drawn on a second line, so that the text does not reach the dots. The axis is logarithmic.
    """
    low = math.log(0.7 * min(mean for _, mean, _ in rows))
    high = math.log(1.3 * max(p99 for _, _, p99 in rows))
    bottom = _TOP + _ROW * len(rows)

    def x(us: float) -> float:
        return _LEFT + (math.log(us) - low) / (high - low) * (_WIDTH - _RIGHT - _LEFT)

    def text(at: float, y: float, words: str, anchor: str) -> str:
        return f'<text x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 60}" '
        'font-family="sans-serif" font-size="13" fill="#222" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<g font-size="16">{text(20, 28, title, "start")}</g>',
    ]
    for us in _TICKS_US:
        if low <= math.log(us) <= high:
            parts.append(
                f'<path d="M{x(us):.1f} {_TOP - 8}V{bottom}" stroke="#ddd"/>'
                + text(x(us), bottom + 18, f"{us:,}", "middle")
            )
    parts.append(text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 42, "us: ● mean, ○ p99", "middle"))
    for k, (name, mean_us, p99_us) in enumerate(rows):
        y = _TOP + _ROW * (k + 0.5)
        short, _, explanation = name.partition(": ")
        parts.append(
            f'<g font-weight="bold">{text(20, y - 4, short, "start")}</g>'
            f'<g fill="#555">{text(20, y + 13, explanation, "start")}</g>'
            f'<path d="M{x(mean_us):.1f} {y}H{x(p99_us):.1f}" stroke="#aa3377" opacity="0.4"/>'
            f'<circle cx="{x(mean_us):.1f}" cy="{y}" r="5" fill="#aa3377"/>'
            f'<circle cx="{x(p99_us):.1f}" cy="{y}" r="5" fill="white" stroke="#aa3377"/>'
            + text(x(mean_us) - 9, y + 4, f"{mean_us:.0f}", "end")
            + text(x(p99_us) + 9, y + 4, f"{p99_us:.0f}", "start")
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
