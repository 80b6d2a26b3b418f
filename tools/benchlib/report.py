"""Turns costs into medians, ratios, Markdown tables and a JSON file with all that is needed to judge them."""
from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from . import machine
from .measure import CACHE_STATE, CannotRun, Cost

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RESULTS = REPOSITORY / "docs" / "benchmarks"


def spread(values) -> dict:
    values = list(values)
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def text_of(found: dict, digits: int) -> str:
    """A spread as "median (min to max)"."""
    return f"{found['median']:.{digits}f} ({found['min']:.{digits}f} to {found['max']:.{digits}f})"


def ratios(costs: dict[str, list[Cost]], ours: str, others: list[str]) -> dict:
    """Wall time of `ours` over each of the others: the ratio of the medians, and the spread of the rounds' own ratios."""
    def walls(label):
        return [cost.wall_s for cost in costs[label]]

    return {f"{ours} / {other}": {
        "of_medians": statistics.median(walls(ours)) / statistics.median(walls(other)),
        "of_rounds": spread(mine / theirs for mine, theirs in zip(walls(ours), walls(other)))} for other in others}


def cost_table(costs: dict[str, list[Cost]], payload: int | None = None) -> str:
    """One row a label; with the payload's bytes, the rate too."""
    rows = [["", "wall s (min to max)", "CPU s", "peak MB", *(["MB/s"] if payload else []), "CPUs busy elsewhere"]]
    for label, rounds in costs.items():
        wall = spread(cost.wall_s for cost in rounds)
        elsewhere = [cost.others_cpu_s / cost.wall_s for cost in rounds if cost.others_cpu_s is not None]
        rows.append([label, text_of(wall, 3), f"{statistics.median(cost.cpu_s for cost in rounds):.2f}",
                     f"{max(cost.peak_bytes for cost in rounds) / 1e6:.1f}",
                     *([f"{payload / wall['median'] / 1e6:.0f}"] if payload else []),
                     f"{statistics.median(elsewhere):.2f}" if elsewhere else ""])
    return markdown(rows)


def ratio_table(found: dict) -> str:
    rows = [["wall time", "ratio of the medians", "median of the rounds' ratios (min to max)"]]
    rows += [[label, f"{ratio['of_medians']:.3f}", text_of(ratio["of_rounds"], 3)] for label, ratio in found.items()]
    return markdown(rows)


def markdown(rows: list[list[str]]) -> str:
    head, *rest = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *rest])


def shown(word: str) -> str:
    """A word of a command line as it may be published: of a path outside the repository only the last part."""
    option, equals, value = word.rpartition("=")
    if os.sep not in value:
        return word
    path = Path(value).resolve()
    inside = path.is_relative_to(REPOSITORY)
    return option + equals + (path.relative_to(REPOSITORY).as_posix() if inside else f".../{path.name}")


def revision() -> str | None:
    """The commit that is checked out, marked where files differ from it."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


class Report:
    """What one benchmark found: printed, and saved where the user gave a label."""

    def __init__(self, args):
        today = datetime.date.today()
        self.file = RESULTS / f"{today}-{args.what}-{args.save}.json" if args.save else None
        if self.file and self.file.exists():
            raise CannotRun(f"{shown(str(self.file))} exists\nhint: give --save another label, or move the file away")
        self.content = {"what": args.what, "date": str(today), "revision": revision(),
                        "command": " ".join(["tools/bench", *map(shown, sys.argv[1:])]),
                        "machine": machine.describe(args.work), "cache": CACHE_STATE}

    def add(self, **parts):
        self.content.update(parts)

    def add_costs(self, costs: dict[str, list[Cost]]):
        medians = {label: {"wall_s": spread(cost.wall_s for cost in rounds), "cpu_s": spread(cost.cpu_s for cost in rounds),
                           "peak_bytes": max(cost.peak_bytes for cost in rounds)} for label, rounds in costs.items()}
        self.add(medians=medians, rounds={label: [asdict(cost) for cost in rounds] for label, rounds in costs.items()})

    def finish(self, *parts: str):
        """Prints the parts, one under the other, and saves all that was added."""
        self.add(load_average_after=os.getloadavg())
        print("\n\n".join(parts))
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.content, indent=1) + "\n")
            print(f"\nsaved: {shown(str(self.file))}")
