"""`tools/bench kill`: packs are killed at random moments, and the next run of the same command must mend everything."""
from __future__ import annotations

import filecmp
import random
import subprocess
from pathlib import Path

from .measure import remove, run, warm
from .report import Report

PACK = "bench.pack"


def bench_kill(args):
    """Returns 1 if any run after a kill failed or left other bytes than a run that nobody killed."""
    report = Report(args)
    rng = random.Random(args.seed)
    reference, trial = args.work / "kill-reference", args.work / "kill-trial"
    fresh(reference)
    warm(args.tree)
    normal_s = run(command(args, reference)).wall_s
    print(f"uninterrupted: {normal_s:.3f} s; seed {args.seed}", flush=True)
    rounds = []
    for number in range(1, args.rounds + 1):
        delay = rng.uniform(0, 1.1 * normal_s)
        fresh(trial)
        killed = start_and_kill(command(args, trial), delay)
        again = subprocess.run(command(args, trial), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wrong = list(differences(reference, trial))
        if again.returncode:
            wrong.insert(0, f"exit {again.returncode}: {again.stderr.strip()[-300:]}")
        what = f"killed at {delay:.3f} s" if killed else f"done before {delay:.3f} s"
        print(f"round {number}: {what}: {'BAD' if wrong else 'ok'}", *wrong[:20], sep="\n  ", flush=True)
        rounds.append({"delay_s": delay, "killed": killed, "wrong": wrong})
        if wrong:
            kept = args.work / f"kill-bad-{number}"
            remove(kept)
            trial.rename(kept)
            print(f"  kept: {kept}")
    bad = sum(bool(row["wrong"]) for row in rounds)
    for folder in [trial, *([] if bad else [reference])]:
        remove(folder)
    killed = sum(row["killed"] for row in rounds)
    report.add(cache="warm: the tree is read once in full at the start")
    report.add(seed=args.seed, uninterrupted_s=normal_s, killed=killed, bad=bad, rounds=rounds)
    report.finish(f"{args.rounds} rounds, {killed} killed before they were done, {bad} BAD")
    return 1 if bad else 0


def command(args, folder: Path) -> list[str]:
    return [args.bin, "pack", str(args.tree), str(folder / PACK), "--quiet", *args.threads]


def fresh(folder: Path):
    """Empties the folder in which the pack will stand alone, so that what is left beside it is found too."""
    remove(folder)
    folder.mkdir()


def start_and_kill(words: list[str], delay: float) -> bool:
    """Whether the command was still running, and so was killed, after `delay` seconds."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=delay)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True


def differences(reference: Path, trial: Path):
    """One line for each file or folder that only one of them has or whose bytes differ, but for what can be made again."""
    expected, found = (entries(folder) for folder in (reference, trial))
    yield from (f"missing: {name}" for name in sorted(expected - found))
    yield from (f"left over: {name}" for name in sorted(found - expected))
    filecmp.clear_cache()
    for name in sorted(expected & found):
        if (reference / name).is_file() and not filecmp.cmp(reference / name, trial / name, shallow=False):
            yield f"differs: {name}"


def entries(folder: Path) -> set[str]:
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {name for name in names if not f"{name}/".startswith(f"{PACK}/derived/")}
