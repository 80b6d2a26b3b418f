"""`tools/bench reads`: random reads of packs of one tree in each container, and of the same files through h5py, py-lmdb and wids."""
from __future__ import annotations

import subprocess
from pathlib import Path

from .containers import python_that_can
from .measure import CannotRun, note, require_room, run
from .packing import Tree
from .report import REPOSITORY, Report, markdown, spread, text_of

CONTAINERS = ["shard", "hdf5", "lmdb", "tar", "tfrecord"]
# Each makes `read`, which copies sample i into the buffer.
EACH = """
import glob, random, sys, time
pack = sys.argv[1]
buffer = bytearray(64 << 20)
"""
PEERS = {
    "h5py": ("hdf5", "import h5py, numpy", EACH + """
files = [h5py.File(path) for path in sorted(glob.glob(pack + "/hdf5/*/*.h5"))]
places = [(file["data"], int(begin), int(end)) for file in files for begin, end in zip(file["offsets"][:-1], file["offsets"][1:])]
view = numpy.frombuffer(buffer, "u1")
def read(i):
    data, begin, end = places[i]
    data.read_direct(view, numpy.s_[begin:end], numpy.s_[0:end - begin])
    return end - begin
count = len(places)
"""),
    "py-lmdb": ("lmdb", "import lmdb", EACH + """
txn = lmdb.open(glob.glob(pack + "/lmdb/*/data.mdb")[0].rsplit("/", 1)[0], readonly=True, lock=False, readahead=False).begin(buffers=True)
keys = [key for key in txn.cursor().iternext(values=False) if bytes(key[:1]) != b"\\0"]
keys = [bytes(key) for key in keys]
def read(i):
    value = txn.get(keys[i])
    buffer[:len(value)] = value
    return len(value)
count = len(keys)
"""),
    "wids": ("tar", "import wids, tarfile, os", EACH + """
paths = sorted(glob.glob(pack + "/tar/*/*.tar"))
shards = [{"url": path, "nsamples": sum(name.endswith(".cls") for name in tarfile.open(path).getnames())} for path in paths]
samples = wids.ShardListDataset(shards, keep=True, localname=lambda url: url, transformations=[])
def read(i):
    sample = samples[i]
    return next(value for name, value in sample.items() if name[0] == "." and name not in (".cls", ".json")).readinto(buffer)
count = len(samples)
"""),
}
MEASURE = """
def epoch(seed):
    order = list(range(count))
    random.Random(seed).shuffle(order)
    start = time.monotonic()
    total = sum(map(read, order))
    return total / 1e6 / (time.monotonic() - start)
epoch(0)
print(epoch(1))
"""


def bench_reads(args):
    report, tree = Report(args), Tree(args.tree)
    require_room(args.work, 16, tree.size * 6)
    example = REPOSITORY / "target/release/examples/random_reads"
    if not example.exists():
        raise CannotRun(f"no program at {example}\nhint: cargo build --release --example random_reads -p packhorse --features hdf5")
    packs = {name: args.work / f"bench.{name}" for name in CONTAINERS}
    for name, pack in packs.items():
        if not pack.exists():
            note(f"packing into {name}")
            run([args.bin, "pack", str(args.tree), str(pack), "--quiet", "--container", name])

    def ours(name, threads):
        return [str(example), str(threads), "1", str(packs[name])]

    contenders = {f"packhorse, {name}, {threads} thread{'s' * (threads > 1)}": ours(name, threads)
                  for threads in (1, 2) for name in CONTAINERS}
    for peer, (name, imports, code) in PEERS.items():
        if python := python_that_can(args, peer, imports):
            contenders[peer] = [str(python), "-c", imports + code + MEASURE, str(packs[name])]
    speeds = {label: [] for label in contenders}
    for number in range(args.rounds):
        turn = list(contenders.items())
        for label, command in turn[number % len(turn):] + turn[:number % len(turn)]:
            note(f"round {number + 1}: {label}")
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise CannotRun(f"this failed: {label}\n{done.stderr[-2000:]}")
            speeds[label].append(float(done.stdout.split()[-1] if label in PEERS else done.stdout.split()[0]))
    shard = "packhorse, shard, 1 thread"
    rows = [["", "MB/s (min to max)", "of shard's, 1 thread"]]
    found = {label: spread(all_of_it) for label, all_of_it in speeds.items()}
    rows += [[label, text_of(one, 0), f"{one['median'] / found[shard]['median']:.2f}"] for label, one in found.items()]
    report.add(tree={"files": tree.files, "bytes": tree.size}, megabytes_per_second=speeds)
    report.finish(f"{tree.files:,} files, {tree.size / 1e6:,.1f} MB, second pass of a fresh order, {args.rounds} rounds", markdown(rows))
