"""`tools/bench containers`: packing one tree into each container, against the writer of its own ecosystem where `tools/interop` has installed it."""
from __future__ import annotations

from pathlib import Path

from .measure import Contender, interleave, note, require_room, sync_command
from .packing import Tree
from .report import REPOSITORY, Report, cost_table, ratio_table, ratios

SHARD_WRITER = """
import os, sys, webdataset
src, out = sys.argv[1:]
os.makedirs(out)
with webdataset.ShardWriter(out + "/data-%06d.tar", maxsize=256 << 20, maxcount=10**9, verbose=0) as writer:
    for number, name in enumerate(sorted(os.listdir(src))):
        for file in sorted(os.listdir(f"{src}/{name}")):
            with open(f"{src}/{name}/{file}", "rb") as image:
                writer.write({"__key__": f"{name}/{file.rsplit('.', 1)[0]}", "jpg": image.read(), "cls": number, "json": {"class": name}})
"""


def bench_containers(args):
    report, tree = Report(args), Tree(args.tree)
    require_room(args.work, 8, tree.size * 3)

    def pack(name):
        label = f"pack --container {name}"
        return Contender(args.tree, args.work / f"bench.{name}", lambda out: [
            (label, [args.bin, "pack", str(args.tree), str(out), "--quiet", "--container", name, *args.threads])])

    contenders = [pack(name) for name in ("shard", "tar", "tfrecord")]
    python = REPOSITORY / "tools/.venv-interop/bin/python"
    if python.exists():
        contenders.append(Contender(args.tree, args.work / "bench.writer", lambda out: [
            ("webdataset.ShardWriter", [str(python), "-c", SHARD_WRITER, str(args.tree), str(out)]),
            ("ShardWriter and sync", sync_command(Path(out).parent))]))
    else:
        note("no webdataset.ShardWriter: `tools/interop` on a pack of tars installs it")
    try:
        costs = interleave(contenders, args.rounds)
    finally:
        for contender in contenders:
            contender.discard()
    compared = ratios(costs, "pack --container tar", ["ShardWriter and sync"]) if python.exists() else {}
    for name in ("tar", "tfrecord"):
        compared |= ratios(costs, f"pack --container {name}", ["pack --container shard"])
    report.add(tree={"files": tree.files, "bytes": tree.size}, ratios=compared)
    report.add_costs(costs)
    report.finish(f"{tree.files:,} files, {tree.size / 1e6:,.1f} MB, {args.rounds} rounds",
                  cost_table(costs, tree.size), ratio_table(compared))
