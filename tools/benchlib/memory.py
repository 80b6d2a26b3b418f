"""`tools/bench memory`: whether the peak of `packhorse pack` stays where it is when there are ten times as many files."""
from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path

from .measure import Contender, files_under, interleave, note, require_room, run
from .report import Report, cost_table


def bench_memory(args):
    report = Report(args)
    tenth = packing_of(args, max(1, args.files // 10), max(1, args.folders // 10))
    whole = packing_of(args, args.files, args.folders)
    listed = listing_of(args, whole)
    costs = interleave([tenth, whole, listed], args.rounds)
    small, large, _ = (max(cost.peak_bytes for cost in rounds) for rounds in costs.values())
    stat = [args.bin, "stat", str(whole.makes)]
    costs["stat"] = [run(stat)]
    said = subprocess.run(stat, capture_output=True, text=True, check=True).stdout.split("\n\n")[0].strip()
    tenth.discard()
    whole.discard()
    listed.discard()
    report.add(files=args.files, folders=args.folders, peak_growth=large / small, stat=said)
    report.add_costs(costs)
    report.finish(cost_table(costs), f"peak with all files / with a tenth of them: {large / small:.3f}", f"```\n{said}\n```")


def packing_of(args, files: int, folders: int) -> Contender:
    tree = make_tree(args.work, files, folders)
    return Contender(tree, args.work / f"{tree.name}.pack", lambda pack: [
        (f"pack {files:,} files", [args.bin, "pack", str(tree), str(pack), "--quiet", *args.threads])])


def listing_of(args, whole: Contender) -> Contender:
    """Packs the same files from a CSV, in another order than that of keys."""
    table = args.work / "bench.csv"
    with open(table, "w") as out:
        out.write("path,class\n")
        for entry in files_under(whole.reads):
            path = entry.path[len(str(whole.reads)) + 1:]
            out.write(f"{path},{path.split('/')[0]}\n")
    return Contender(whole.reads, args.work / "bench.csv.pack", lambda pack: [
        ("pack the list of them", [args.bin, "pack", str(table), str(pack), "--quiet", "--root", str(whole.reads), *args.threads])])


def make_tree(work: Path, files: int, folders: int) -> Path:
    """A tree of `files` pictures of one pixel in `folders` folders, made once and then kept."""
    tree = work / f"tree-{files}-{folders}"
    if tree.exists():
        return tree
    require_room(work, files, 85 * files)
    note(f"making {files:,} files in {tree}")
    part = work / f"{tree.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    for folder in range(folders):
        path = part / f"class-{folder:05d}"
        path.mkdir(parents=True)
        for number in range(folder, files, folders):
            with open(path / f"{number:08d}.png", "wb", buffering=0) as file:
                file.write(pixel(number))
    return part.rename(tree)


def pixel(number: int) -> bytes:
    """A PNG of one pixel, no two alike: the number's 24 low bits the colour and all of it in a private chunk."""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
            + chunk(b"phNr", struct.pack(">I", number))
            + chunk(b"IDAT", zlib.compress(b"\0" + struct.pack(">I", number)[1:])) + chunk(b"IEND", b""))


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
