"""`tools/bench pack` and `tools/bench unpack`: packhorse against tar, both until the bytes are on the disk."""
from __future__ import annotations

from .measure import CannotRun, Contender, interleave, note, remove, require_room, run, size_of, sync_command
from .report import Report, cost_table, ratio_table, ratios


def bench_pack(args):
    report, tree = Report(args), Tree(args.tree)
    ours = Contender(args.tree, args.work / "bench.pack", lambda pack: [
        ("packhorse pack", [args.bin, "pack", str(args.tree), str(pack), "--quiet", *args.threads])])
    tar = Contender(args.tree, args.work / "bench.tar", lambda out: [
        ("tar", make_tar(args.tree, out)), ("tar + sync", sync_command(args.work))])
    copy = Contender(args.tree, args.work / "bench-copy", lambda out: [
        ("cp -r", ["cp", "-r", str(args.tree), str(out)]), ("cp -r + sync", sync_command(args.work))], many_files=True)
    require_room(args.work, tree.files * args.rounds * args.cp, tree.size * (2 + args.rounds * args.cp))
    compare(args, report, tree, [tar, ours, *([copy] if args.cp else [])], "packhorse pack", ["tar + sync", "tar"])


def bench_unpack(args):
    report, tree = Report(args), Tree(args.tree)
    require_room(args.work, tree.files * args.rounds * 2, tree.size * (1 + args.rounds * 2))
    archive = args.work / "bench.tar"
    note("making the tar")
    run(make_tar(args.tree, archive))
    ours = Contender(args.pack, args.work / "bench-from-pack", lambda out: [
        ("packhorse unpack", [args.bin, "unpack", str(args.pack), str(out)])], many_files=True)
    tar = Contender(archive, args.work / "bench-from-tar", lambda out: [
        ("tar xf", ["tar", "xf", str(archive), "-C", str(out)]), ("tar xf + sync", sync_command(args.work))],
        many_files=True, prepare=lambda out: out.mkdir())
    compare(args, report, tree, [tar, ours], "packhorse unpack", ["tar xf + sync", "tar xf"])
    remove(archive)


class Tree:
    """What there is to pack."""

    def __init__(self, path):
        self.files, self.size = size_of(path)
        if self.files == 0:
            raise CannotRun(f"no files under {path}")


def make_tar(tree, archive) -> list[str]:
    return ["tar", "cf", str(archive), "-C", str(tree), "."]


def compare(args, report, tree, contenders, ours, others):
    try:
        costs = interleave(contenders, args.rounds)
    finally:
        for contender in contenders:
            contender.discard()
    compared = ratios(costs, ours, others)
    report.add(tree={"files": tree.files, "bytes": tree.size}, ratios=compared)
    report.add_costs(costs)
    report.finish(f"{tree.files:,} files, {tree.size / 1e6:,.1f} MB, {args.rounds} rounds",
                  cost_table(costs, tree.size), ratio_table(compared))
