"""`tools/bench containers`: packing one tree into each container, against the writers of their own ecosystems where they are installed."""
from __future__ import annotations

import subprocess
from pathlib import Path

from .measure import Contender, Cost, interleave, note, require_room, sync_command
from .packing import Tree
from .report import REPOSITORY, Report, cost_table, ratio_table, ratios

# Each reads the files in order of names, as packhorse does, and closes what it wrote; the sync comes after.
EACH = """
import os, sys
src, out = sys.argv[1:]
os.makedirs(out)
def images():
    for number, name in enumerate(sorted(os.listdir(src))):
        for file in sorted(os.listdir(f"{src}/{name}")):
            with open(f"{src}/{name}/{file}", "rb") as image:
                yield number, name, file, image.read()
"""
SHARD_WRITER = EACH + """
with webdataset.ShardWriter(out + "/data-%06d.tar", maxsize=256 << 20, maxcount=10**9, verbose=0) as writer:
    for number, name, file, image in images():
        writer.write({"__key__": f"{name}/{file.rsplit('.', 1)[0]}", "jpg": image, "cls": number, "json": {"class": name}})
"""
PY_LMDB = EACH + """
env = lmdb.open(out, map_size=1 << 40, sync=False, meminit=False)
txn = env.begin(write=True)
for count, (number, name, file, image) in enumerate(images(), 1):
    txn.put(f"{name}/{file}".encode(), image, append=True)
    if count % 1000 == 0:
        txn.commit()
        txn = env.begin(write=True)
txn.commit()
env.close()
"""
H5PY_FLAT = EACH + """
import numpy
with h5py.File(out + "/data.h5", "w") as file:
    sizes = [os.path.getsize(f"{src}/{name}/{one}") for name in sorted(os.listdir(src)) for one in sorted(os.listdir(f"{src}/{name}"))]
    offsets = numpy.concatenate(([0], numpy.cumsum(sizes)))
    data = file.create_dataset("data", (int(offsets[-1]),), "u1")
    keys, labels = [], []
    for count, (number, name, one, image) in enumerate(images()):
        data[offsets[count]:offsets[count + 1]] = numpy.frombuffer(image, "u1")
        keys.append(f"{name}/{one}")
        labels.append(number)
    file["offsets"], file["keys"], file["labels"] = offsets, keys, labels
"""
TFRECORD_WRITER = EACH + """
feature = lambda **kind: tf.train.Feature(**kind)
data = lambda value: feature(bytes_list=tf.train.BytesList(value=[value]))
with tf.io.TFRecordWriter(out + "/data.tfrecord") as writer:
    for number, name, file, image in images():
        label = feature(int64_list=tf.train.Int64List(value=[number]))
        features = {"image/encoded": data(image), "image/class/label": label, "image/filename": data(f"{name}/{file}".encode())}
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
"""
PEERS = {
    "hdf5": ("h5py", "import h5py", H5PY_FLAT),
    "lmdb": ("py-lmdb", "import lmdb", PY_LMDB),
    "tar": ("webdataset.ShardWriter", "import webdataset", SHARD_WRITER),
    "tfrecord": ("tf.io.TFRecordWriter", "import tensorflow as tf", TFRECORD_WRITER),
}


def bench_containers(args):
    report, tree = Report(args), Tree(args.tree)
    require_room(args.work, 16, tree.size * 10)

    def pack(name):
        label = f"pack --container {name}"
        return Contender(args.tree, args.work / f"bench.{name}", lambda out: [
            (label, [args.bin, "pack", str(args.tree), str(out), "--quiet", "--container", name, *args.threads])])

    def imports(name):
        label, line, _ = PEERS[name]
        return Contender(args.tree, None, lambda out: [(f"{label}: {line}", [str(pythons[name]), "-c", line])])

    def peer(name):
        label, line, script = PEERS[name]
        return Contender(args.tree, args.work / f"bench.peer-{name}", lambda out: [
            (label, [str(pythons[name]), "-c", line + script, str(args.tree), str(out)]),
            (f"{label} and sync", sync_command(Path(out).parent))])

    pythons = {name: python_that_can(args, label, line) for name, (label, line, _) in PEERS.items()}
    contenders = [pack(name) for name in ("shard", *PEERS)]
    for name in (name for name in PEERS if pythons[name]):
        contenders += [imports(name), peer(name)]
    try:
        costs = interleave(contenders, args.rounds)
    finally:
        for contender in contenders:
            contender.discard()
    compared = {}
    for name in PEERS:
        ours, others = f"pack --container {name}", ["pack --container shard"]
        if pythons[name]:
            label, line, _ = PEERS[name]
            alone = f"{label} and sync, without its import"
            costs[alone] = [minus(*pair) for pair in zip(costs[f"{label} and sync"], costs[f"{label}: {line}"])]
            others.append(alone)
        compared |= ratios(costs, ours, others)
    report.add(tree={"files": tree.files, "bytes": tree.size}, ratios=compared)
    report.add_costs(costs)
    report.finish(f"{tree.files:,} files, {tree.size / 1e6:,.1f} MB, {args.rounds} rounds",
                  cost_table(costs, tree.size), ratio_table(compared))


def python_that_can(args, label, imports):
    """The python of tools/interop, or that of --python, whichever can import what a peer needs."""
    for python in [REPOSITORY / "tools/.venv-interop/bin/python", *([args.python] if args.python else [])]:
        if python.exists() and subprocess.run([str(python), "-c", imports], capture_output=True).returncode == 0:
            return python
    note(f"no {label}: no python of tools/interop or --python can `{imports}`")
    return None


def minus(all_of_it, a_part):
    others = None if None in (all_of_it.others_cpu_s, a_part.others_cpu_s) else all_of_it.others_cpu_s
    return Cost(all_of_it.wall_s - a_part.wall_s, all_of_it.cpu_s - a_part.cpu_s, all_of_it.peak_bytes, others)
