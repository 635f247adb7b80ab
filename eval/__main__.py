# SPDX-License-Identifier: MIT
"""`python -m eval`: run experiments, and write the numbers, the tables and the figure of each.

Finished experiments are not run again: an experiment is finished when its
folder holds a record with the same parameters and the same version of the
code. `--any-version` takes results of earlier versions as well.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from eval import pages, report, seeds, workers
from eval.cache import LAB_SOURCES, RESULTS, Cache, code_version, digest, read_record
from eval.experiment import Context
from eval.experiments import NAMES, ON_REQUEST, load
from eval.long_table import LongTable
from eval.programs import keep_programs
from eval.study import Study
from linnapp.errors import LinnappError
from linnapp.lab.work import write_json, write_text

#: The times of a run that are committed.
TIMES = ("seconds", "cpu_seconds", "alone_seconds", "jobs")

#: The long table of a study, in its folder.
TABLE = "table.csv"

#: Figures and tables of the paper that are measured by an experiment of another name.
ALIASES = {"table2": "fig05", "fig12": "traces"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m eval", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"experiments; default: all but {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument("--force", action="store_true", help="run also what is finished")
    parser.add_argument("--any-version", action="store_true", help="accept results of older code")
    parser.add_argument("--redraw", action="store_true", help="only figures and tables")
    parser.add_argument("--dev", action="store_true", help="development seeds, out/eval-dev")
    parser.add_argument("--commit", action="store_true", help="write the results to eval/results")
    parser.add_argument(
        "--pages", action="store_true", help="only write what docs/ shows of eval/results"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N seeds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="guests at a time")
    arguments = parser.parse_args()

    names = [ALIASES.get(name, name) for name in arguments.names] or list(NAMES)
    for name in names:
        if name not in (*NAMES, *ON_REQUEST):
            known = ", ".join((*NAMES, *ON_REQUEST))
            parser.error(f"{name}: no such experiment; the experiments are {known}")
    if arguments.list:
        for name in names if arguments.names else (*names, *ON_REQUEST):
            experiment = load(name)
            print(f"{name:9} {experiment.source:22} {experiment.title}")
        return
    if arguments.pages:
        for name in names if arguments.names else (*names, *ON_REQUEST):
            pages.write(load(name))
        return
    if arguments.jobs < 1:
        parser.error(f"--jobs is {arguments.jobs}; it must be at least 1")
    if arguments.dev and arguments.commit:
        parser.error(
            "--commit and --dev exclude each other: eval/results has evaluation seeds only"
        )
    if arguments.seeds is not None and arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}; it must be at least 1")
    out = Path("out") / ("eval-dev" if arguments.dev else "eval")
    keep_programs(out)
    workers.use_workers(arguments.jobs)
    failed = []
    names = list(dict.fromkeys(names))
    for i, name in enumerate(names):
        print(f"[{i + 1}/{len(names)}] {name}", flush=True)
        try:
            run(load(name), out, arguments)
        except (LinnappError, OSError, ValueError) as error:
            print(f"  {name} failed: {error}", file=sys.stderr, flush=True)
            failed.append(name)
        finally:
            workers.stop()
    if failed:
        sys.exit(f"python -m eval: failed: {', '.join(failed)}")


def data_digest(folder: Path) -> str | None:
    """Return the digest of an experiment's long table, or None if there is no table."""
    path = folder / TABLE
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else None


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def run(experiment: Study, out: Path, arguments: argparse.Namespace) -> None:
    """Run one experiment unless it is finished, and draw it."""
    folder = out / experiment.name
    made_from = {
        "parameters": digest(
            [
                experiment.parameters,
                seeds.repeats(arguments.dev, arguments.seeds),
                [
                    data_digest(out / name)
                    for name in (experiment.view_of, *experiment.uses)
                    if name
                ],
            ]
        ),
        "code": code_version(*LAB_SOURCES, "eval", *experiment.sources),
    }
    record = read_record(folder)
    finished = record is not None and (
        record["made_from"] == made_from
        or (arguments.any_version and record["made_from"]["parameters"] == made_from["parameters"])
    )
    if arguments.redraw and record is None:
        print("  not run yet")
        return
    if (finished or arguments.redraw) and not arguments.force:
        assert record is not None
        print(f"  finished before, in {record['seconds']:.0f} s; see {folder}/")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "record.json").unlink(missing_ok=True)
        start, start_cpu = time.monotonic(), cpu_seconds()
        cache = Cache(out.resolve() / "cache", any_version=arguments.any_version)
        context = Context(
            experiment.name, cache, arguments.jobs, arguments.dev, folder.resolve(), arguments.seeds
        )
        measured = experiment.run(context)
        # The CPU time of the workers is known only after they have ended.
        workers.stop()
        measured.save(folder / TABLE)
        seconds, cpu = time.monotonic() - start, cpu_seconds() - start_cpu
        record = {
            "made_from": made_from,
            "parameters": experiment.parameters,
            "seconds": seconds,
            "cpu_seconds": cpu,
            # With an empty cache: the time of everything that it used, divided by the jobs.
            "alone_seconds": max(seconds, sum(cache.seconds.values()) / arguments.jobs),
            "jobs": arguments.jobs,
            "seeds": list(context.seeds),
        }
        print(f"  done in {seconds:.0f} s, {cpu:.0f} s of CPU time; see {folder}/", flush=True)
    # Figures and tables are made from the saved file, so that --redraw gives the same.
    table = LongTable.load(folder / TABLE)
    experiment.draw(table, folder / "figure.png")
    write_json(folder / "record.json", record)
    page = report.page(report.results_of(experiment, out))
    write_text(out / report.FOLDER / f"{experiment.name}.md", page)
    if arguments.commit:
        commit(experiment, table, record, folder / "figure.png")


def run_facts(experiment: Study, record: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a run that are committed with its numbers."""
    return {
        "command": experiment.command or f"make eval-{experiment.name}",
        "title": experiment.title,
        # Parameters of the run that made the data: the environment may name other traces now.
        "parameters": record["parameters"],
        "code": record["made_from"]["code"],
        "seeds": record.get("seeds"),
        **{key: round(record.get(key, 0)) for key in TIMES},
    }


def commit(study: Study, table: LongTable, record: dict[str, Any], figure: Path) -> None:
    """Write a study's long table and figure to where they are under version control."""
    path = RESULTS / f"{study.name}.csv"
    facts = run_facts(study, record)
    if study.adds and path.exists() and table.add_missing_places(LongTable.load(path)):
        # The figure and the parameters include the places that an earlier run measured.
        study.draw(table, figure)
        facts["parameters"] = {**facts["parameters"], "factors": table.factor_values()}
    if not study.view_of:
        table.save(path)
    shutil.copyfile(figure, RESULTS / f"{study.name}.png")
    write_json(path.with_suffix(".json"), facts)
    pages.write(study)


if __name__ == "__main__":
    try:
        main()
    except LinnappError as error:
        sys.exit(f"python -m eval: {error}")
