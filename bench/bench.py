#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nereid beside the real Triton, both with nereid's own backends, in alternating rounds of one run.

    bench/bench.py [--rounds 5] [--seconds 4] [--only TEXT]... [--output table.md]

Some cases stand beside a floor instead: a bare libmicrohttpd server, or ONNX Runtime without a server. Needs the release
build, wrk, and the Triton that PyPI's nvidia-pytriton carries (scripts/bench gets all). Every figure is the median of the
rounds; the ratio is nereid to the other in the same run, and beside it stands the least and the largest ratio of a single
round. --only measures the cases whose names hold TEXT, or any of several.
"""
import argparse
import contextlib
import os
import pathlib
import platform
import re
import tempfile
import time

import cases
from table import Table


class Bench:
    """What the cases share: which are wanted, how rounds go, where results go."""

    def __init__(self, arguments):
        self.count, self.seconds, self.only = arguments.rounds, arguments.seconds, arguments.only
        self.table = Table()

    def wants(self, *names):
        return not self.only or any(text in name for text in self.only for name in names)

    @contextlib.contextmanager
    def directory(self):
        with tempfile.TemporaryDirectory(prefix="nereid-bench-") as path:
            yield pathlib.Path(path)

    def rounds(self, sides, call):
        """One figure set for each side and round; which side begins moves on from round to round."""
        results = {side.name: [] for side in sides}
        for i in range(self.count):
            first = i % len(sides)
            for side in [*sides[first:], *sides[:first]]:
                results[side.name].append(call(side))
        return results

    def add(self, what, unit, better, rounds, figure):
        self.table.add(what, unit, better, {name: [one[figure] for one in each] for name, each in rounds.items()})


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return (f"{time.strftime('%Y-%m-%d')}, {cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} CPUs, "
            f"{platform.system()} {platform.release()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", action="append", metavar="TEXT", help="only cases whose names hold this; may be repeated")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    cases.measure_all(bench)
    print("\n" + machine())
    if arguments.output:
        pathlib.Path(arguments.output).write_text(bench.table.markdown())


if __name__ == "__main__":
    main()
