"""`tools/bench verify`: the rate of `packhorse verify` against that of SHA-256 alone on all cores, in the same run."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .machine import usable_cores
from .measure import Contender, interleave, note, size_of
from .report import Report, cost_table, spread, text_of

HASHER = Path(__file__).with_name("hash_rate.py")
SECONDS = 2.0


def bench_verify(args):
    report = Report(args)
    files, size = size_of(args.tree)
    limits = []
    contender = Contender(args.pack, None, lambda _: [("packhorse verify", [args.bin, "verify", str(args.pack)])],
                          prepare=lambda _: limits.append(hash_rate()))
    costs = interleave([contender], args.rounds)
    rates = [size / cost.wall_s for cost in costs["packhorse verify"]]
    share = spread(rate / limit for rate, limit in zip(rates, limits))
    report.add(tree={"files": files, "bytes": size}, hash_bytes_per_s=limits, share_of_hash_rate=share)
    report.add_costs(costs)
    limit = spread(limit / 1e6 for limit in limits)
    report.finish(f"{files:,} files, {size / 1e6:,.1f} MB, {args.rounds} rounds", cost_table(costs, size),
                  f"SHA-256 on {usable_cores()} cores, summed: {text_of(limit, 0)} MB/s\n"
                  f"packhorse verify reaches of that: {text_of(share, 3)}")


def hash_rate() -> float:
    """Bytes a second that as many hashers as there are cores get through together."""
    note(f"hashing for {SECONDS:.0f} s")
    hashers = [subprocess.Popen([sys.executable, "-I", HASHER, str(SECONDS)], stdout=subprocess.PIPE, text=True)
               for _ in range(usable_cores())]
    return sum(float(hasher.communicate()[0]) for hasher in hashers)
