"""`tools/bench stat`: what `packhorse stat` costs, by how closely it looks."""
from __future__ import annotations

import json
import subprocess

from .measure import Contender, interleave
from .report import Report, cost_table

CHECKS = ["index", "header", "decode"]


def bench_stat(args):
    report = Report(args)
    said = subprocess.run([args.bin, "stat", str(args.pack), "--format", "json"], stdout=subprocess.PIPE, check=True).stdout
    samples, size = (json.loads(said)[part] for part in ("samples", "bytes"))

    def contender(check):
        # An image that does not decode, exit code 1, is no failure of the benchmark.
        command = ["sh", "-c", '"$@"; test $? -le 1', "sh", args.bin, "stat", str(args.pack), "--quiet", "--check", check]
        return Contender(args.pack, None, lambda _: [(f"stat --check {check}", command)])

    costs = interleave([contender(check) for check in CHECKS], args.rounds)
    report.add(samples=samples, bytes=size)
    report.add_costs(costs)
    report.finish(f"{samples:,} samples, {size / 1e6:,.1f} MB, {args.rounds} rounds", cost_table(costs, size))
