"""`tools/bench sources`: packing one tree from a folder, a list and archives."""
from __future__ import annotations

import csv
import zipfile

from .measure import Contender, files_under, interleave, note, remove, require_room, run
from .packing import Tree, make_tar
from .report import Report, cost_table, ratio_table, ratios


def bench_sources(args):
    report, tree = Report(args), Tree(args.tree)
    require_room(args.work, 8, tree.size * 5)
    names = ["bench.csv", "bench.tar", "bench.zip", "bench.tar.gz"]
    table, tar, archive, packed = sources = [args.work / name for name in names]
    note("making the list and the archives")
    with open(table, "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["path", "class"])
        for entry in files_under(args.tree):
            path = entry.path[len(str(args.tree)) + 1:]
            rows.writerow([path, path.split("/")[0]])
    run(make_tar(args.tree, tar))
    run(["tar", "czf", str(packed), "-C", str(args.tree), "."])
    with zipfile.ZipFile(archive, "w") as out:
        for entry in files_under(args.tree):
            out.write(entry.path, entry.path[len(str(args.tree)) + 1:])

    def contender(label, source, reads, *options):
        return Contender(reads, args.work / "bench.pack", lambda pack: [
            (label, [args.bin, "pack", str(source), str(pack), "--quiet", *options, *args.threads])])

    contenders = [
        contender("folder", args.tree, args.tree),
        contender("CSV", table, args.tree, "--root", str(args.tree)),
        contender("tar", tar, tar),
        contender("zip, stored", archive, archive),
        contender("tar.gz", packed, packed),
    ]
    try:
        costs = interleave(contenders, args.rounds)
    finally:
        for contender in contenders:
            contender.discard()
        for source in sources:
            remove(source)
    compared = {}
    for label in ["CSV", "tar", "zip, stored", "tar.gz"]:
        compared |= ratios(costs, label, ["folder"])
    report.add(tree={"files": tree.files, "bytes": tree.size}, ratios=compared)
    report.add_costs(costs)
    report.finish(f"{tree.files:,} files, {tree.size / 1e6:,.1f} MB, {args.rounds} rounds",
                  cost_table(costs, tree.size), ratio_table(compared))
