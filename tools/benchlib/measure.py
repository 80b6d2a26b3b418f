"""Measures commands: each in a fresh process, from a known cache state, contenders taking turns round by round."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

LAUNCH = Path(__file__).with_name("launch.py")
CACHE_STATE = "warm: before each measurement the file system is synced and the input read once in full"


class CannotRun(Exception):
    """The benchmark cannot be run or went wrong; the text says why and what to do."""


@dataclass
class Cost:
    """What one or more commands took, and the CPU seconds that all other processes spent meanwhile."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    others_cpu_s: float | None

    def __add__(self, other: Cost) -> Cost:
        others = None if self.others_cpu_s is None or other.others_cpu_s is None else self.others_cpu_s + other.others_cpu_s
        return Cost(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s, max(self.peak_bytes, other.peak_bytes), others)


@dataclass
class Contender:
    """Commands that run one after the other, with what they read and the file or folder that they make.

    `steps` gives a label and a command for each, told where to write. Under a label stand the costs of all steps so far: "tar",
    then "tar + sync". Output of `many_files` goes to a new place in each round and only `discard` removes it: for minutes after
    many files were deleted, ext4 is slow to create as many.
    """

    reads: Path
    makes: Path | None
    steps: Callable[[Path | None], list[tuple[str, list[str]]]]
    many_files: bool = False
    prepare: Callable[[Path | None], object] = lambda output: None
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    outputs: list[Path] = field(default_factory=list)

    def measure(self, number: int):
        output = self.makes
        if output:
            if self.many_files:
                output = output.with_name(f"{output.name}-{number}")
            self.outputs.append(output)
            remove(output)
        self.prepare(output)
        sync(output or self.reads)
        warm(self.reads)
        total = None
        for label, command in self.steps(output):
            note(f"round {number}: {label}")
            cost = run(command)
            total = total + cost if total else cost
            self.costs.setdefault(label, []).append(total)

    def discard(self):
        for output in self.outputs:
            remove(output)


def interleave(contenders: list[Contender], rounds: int) -> dict[str, list[Cost]]:
    """Runs every contender once a round, each round beginning with the next one; returns the costs by label."""
    for number in range(1, rounds + 1):
        first = (number - 1) % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            contender.measure(number)
    return {label: costs for contender in contenders for label, costs in contender.costs.items()}


def run(command: list[str]) -> Cost:
    """Runs a command that must succeed; what it prints is dropped."""
    with tempfile.TemporaryFile() as errors:
        launch = [sys.executable, "-I", "-S", LAUNCH, *command]
        launched = subprocess.run(launch, stdout=subprocess.PIPE, stderr=errors, text=True)
        errors.seek(0)
        said = errors.read().decode(errors="replace")[-2000:]
    figures = launched.stdout.split()
    if len(figures) != 5 or figures[4] != "0":
        raise CannotRun(f"this failed: {' '.join(command)}\n{said}")
    wall, cpu, peak, others, _code = figures
    return Cost(float(wall), float(cpu), int(peak), None if others == "unknown" else float(others))


def sync_command(path: Path) -> list[str]:
    """Makes the file system of `path` write out what it holds back; GNU sync can leave the others alone."""
    return ["sync", "-f", str(path)] if sys.platform == "linux" else ["sync"]


def sync(path: Path):
    while not path.exists():
        path = path.parent
    subprocess.run(sync_command(path), check=True)


def files_under(path: Path):
    """Entries of all regular files under a folder, one folder at a time: the list of a million files is never held."""
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry


def size_of(tree: Path) -> tuple[int, int]:
    """Number of files and their bytes."""
    files = size = 0
    for entry in files_under(tree):
        files, size = files + 1, size + entry.stat().st_size
    return files, size


def warm(path: Path):
    """Reads a file, or every file of a folder, so that the page cache has it."""
    block = bytearray(1 << 20)
    for name in [path] if path.is_file() else files_under(path):
        with open(name, "rb", buffering=0) as file:
            while file.readinto(block):
                pass


def require_room(folder: Path, files: int, size: int):
    """Refuses to start what would fill the file system."""
    room = os.statvfs(folder)
    blocks = size + files * room.f_bsize        # the last block of a file is half full on average, a small file has one
    if room.f_bavail * room.f_frsize < 1.1 * blocks or (room.f_files and room.f_favail < 1.1 * files):
        raise CannotRun(f"{folder} has no room for {files:,} files of {size / 1e6:,.0f} MB together\n"
                        "hint: --work takes a folder on another file system; fewer --rounds need less")


def remove(path: Path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def note(text: str):
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)
