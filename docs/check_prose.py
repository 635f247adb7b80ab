#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count phrases that readers have to decode; part of `make lint`.

The patterns find constructions that are correct English but hard to read, such as a sentence that
begins with "Of", or "What" in place of a noun. The number of places may only go down: the check
fails if there are more than `docs/prose-limit.txt` says, and asks for a lower limit if there are
fewer. A place is not always a mistake, so the limit need not become zero.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = Path(__file__).with_name("prose-limit.txt")

_START = r'(^|[.:;)] |/\*\*? |^[[:space:]]*(\*|#:?|//) |""")'

#: the name of a pattern, the advice to the writer, and the expression
PATTERNS = [
    (
        "of-first",
        "begin the sentence with its subject instead of 'Of'",
        _START + r"Of (an?|all|any|both|each|few|fewer|its?|many|no|one|others?|some|such|that|"
        r"the|them|these|they|this|those|two|three|what|which|whom?|[a-z]+s)\b",
    ),
    (
        "who-subject",
        "name the user, caller or reader instead of 'who'",
        r'(^|[.:;,] |[(*#] |""")[Ww]ho(ever)? (else |then |also |only )?(asks?|brings?|'
        r"builds?|calls?|chooses?|closes?|does|ends?|follows?|frees?|gets?|gives?|has|holds?|is|"
        r"keeps?|knows?|leaves?|likes?|looks?|makes?|may|reads?|rides?|runs?|sends?|sees?|stays?|"
        r"takes?|tells?|traces?|tries|uses?|waits?|walks?|wants?|was|wins?|writes?|would)\b[^?]*$",
    ),
    (
        "what-subject",
        "write the noun instead of 'What'",
        r'(^|[.;] |/\*\*? |^[[:space:]]*(\*|#:?|//) |""")What (an?|all|any|each|both|one|it|its|is|'
        r"are|was|were|has|have|they|the|there|this|those|that|these|nobody|happens?|came|comes|"
        r"follows|reads?|users?|others)\b[^?]*$",
    ),
    (
        "docstring-noun",
        "begin the docstring with a verb",
        r'^[[:space:]]*r?"""(What|Whether|How|Which|When|Where|Who|Whose|By|Of|As|From|In|Those|Each|All)'
        r"\b",
    ),
    (
        "question-comment",
        "write 'Return true if' instead of a question",
        r"/\* (Is|Are|Does|Do|Did|Has|Have|May|Should|Would|Was|Were|Can|Must|Will|Could|Whose|"
        r"Which|Who|What|How|Where|When|Why) [^*]*\?",
    ),
    (
        "fused-relative",
        "write the noun: 'the reads that', not 'of what'",
        r"\b(of|to|by|for|from|with|at|on|in|against|beside|than) (what|who|whom|whoever) "
        r"(an?|all|any|are|asks?|each|else|follows|had|has|have|he|is|it|its|knows?|nobody|one|"
        r"others?|reads?|sends?|she|some|somebody|that|the|there|they|those|wants?|was|were|would)"
        r"\b",
    ),
    (
        "of-predicate",
        "use a verb: 'belongs to', 'comes from', 'has'",
        r"\b(is|are|was|were) of (a|all|an|any|both|each|few|its?|many|one|others?|reads|some|"
        r"that|the|these|this|those|three|two|what|which)\b",
    ),
    (
        "above-below",
        "write 'faster than', 'slower than', 'more than' or 'less than'",
        r"\b(is|are|was|were|be|being|hardly|nowhere|[0-9]+ %|percent|mean|means|p9[0-9]+|far|"
        r"both|wholly) (further |still |hardly |even )?(above|below)\b( (that|the|it|its|"
        r"all|doing|home|an? |any|each|another|no |one|two|three|[a-z`]+'s|[0-9`])|[,;.)|]|$)",
    ),
    ("beside", "write 'next to', 'compared with' or 'besides'", r"\b[Bb]eside\b"),
    (
        "so-many",
        "write the number or 'that many'",
        r"\b(so many(th)?|so manieth|how manieth|every how many|so much (is|of|counts|as|"
        r"each|more|at)|so long (ago|as that)|so often( |,|\.)|by so (much|many)|of so many|"
        r"as many leave)\b",
    ),
    (
        "tell-hear",
        "write 'informed', 'receives' or name the message",
        r"\b([Ii]s|[Aa]re|[Ww]as|[Ww]ere|be|been|not|nobody) (told|heard)( of| that| so| to|"
        r" by| what| when|[,.;:)]|$)|\b(tells|hears|heard|told) (of|what|whether|nothing|how|"
        r"it|us|him|who)\b",
    ),
    (
        "nobody",
        "write 'no one', 'no caller' or 'no other process'",
        r"\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]homever|[Ee]verybody)\b",
    ),
    (
        "archaic",
        "use the modern word",
        r"\b(anew|thrice|in vain|for ever|sooner|as it were|hardly|lest|forsakes?|forsaken|"
        r"foresaw|foresee[ns]?|betimes|likewise|hereby|whence|thereof|therein|by and by)\b",
    ),
    (
        "worth",
        "state the gain or the reason",
        r"\b(is|are|was|were|be) (it |they |not |hardly |little |nothing |most )?worth\b|"
        r"\bworth (it|of|to|asking|a)\b",
    ),
    (
        "inverted",
        "begin with the subject: 'Reads are refused', not 'Refused are reads'",
        r"(^|[.:;] |^[[:space:]]*(\*|#|//) )(Printed|Recorded|Refused|Counted|Let pass|Given|Left|"
        r"Asked|Hedged|Measured|Shown|Named|Checked|Taken|Lost|Known|Added|Sent|Written|Read|Kept|"
        r"Told|Called|Meant|Missing|So|Nor|Neither|Only then|Not) (is|are|was|were|does|do|did|"
        r"has|have|may|can|will)\b",
    ),
    (
        "genitive-noun",
        "write the noun after the possessive",
        r"\b(is|are|was|were|be|becomes?|stays?) (the |its |an? |their )?[a-z]+'s?( [a-z]+)?"
        r"([.,;:)]|$)",
    ),
    (
        "gloss",
        "write a sentence: '0 means that there is none'",
        r"(^|[;,.*@(] |[a-z]; )(0|-1|NULL|None|false|true|UINT64_MAX|U32_MAX|UINT32_MAX|all "
        r"zeros): (all|none|never|not|nowhere|nothing|no|it|they|there|that|at once|for ever|"
        r"only|as|the|since|already|unknown|nobody)\b",
    ),
    (
        "test-riddle",
        "name the unit and the behaviour: test_<unit>_<does>_<when>",
        r"def test_(what|who|whose|of|it|its|they|those|nobody|nothing|all_that|so|others|"
        r"whatever|which|how|that|a_thing|where|as|by|more|much)_[a-z0-9_]+",
    ),
    ("number-link", "link a word, not a number", r"\[[0-9][0-9., %to]*( times| %)?\]\("),
    ("two-facts-cell", "give each fact a cell of its own", r"\|[^|]*[0-9][^|]*; [^|]*[0-9][^|]*\|"),
]  # fmt: skip

_PATHS = [
    "*.c", "*.h", "*.cc", "*.rs", "*.py", "*.sh", "*.toml", "*.md", "*.1", "*.3", "*.8", "*.conf",
    "*.yml", "*.map", "*Makefile", "*Kbuild", "*Kconfig", "*.patch", "docs/ABI-sysfs-block-linnos",
    ":(exclude)eval/results", ":(exclude)models", ":(exclude)docs/check_prose.py",
]  # fmt: skip


def find_places() -> list[tuple[str, str]]:
    """Return (pattern, "file:line:phrase") of each place in the files that git tracks."""
    return [
        (name, place)
        for name, _, expression in PATTERNS
        for place in subprocess.run(
            ["git", "grep", "-InoE", expression, "--", *_PATHS],
            cwd=ROOT, check=False, capture_output=True, text=True,
        ).stdout.splitlines()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-l", "--list", action="store_true", help="list the places, with advice")
    parser.add_argument("paths", nargs="*", help="list only files whose path begins like this")
    arguments = parser.parse_args()
    places = find_places()
    if arguments.list or arguments.paths:
        advice = {name: text for name, text, _ in PATTERNS}
        for pattern, place in places:
            if place.startswith(tuple(arguments.paths) or ""):
                print(f"{place}\n    {pattern}: {advice[pattern]}")
        return 0
    limit = int(LIMIT.read_text())
    if len(places) > limit:
        print(
            f"{len(places)} phrases are hard to read, and {LIMIT.relative_to(ROOT)} allows {limit}."
            " Rewrite the new ones; docs/check_prose.py --list PATH shows them with advice.",
            file=sys.stderr,
        )
        return 1
    print(f"{len(places)} phrases are hard to read; {limit} are allowed.")
    if len(places) < limit:
        print(f"Lower the limit in {LIMIT.relative_to(ROOT)} to {len(places)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
