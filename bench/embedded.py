#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the server costs without a front end, beside Triton's library: the same program (embedded.c), linked to either.

    bench/embedded.py [--rounds 5] [--only TEXT]... [--output table.md]

Measures the processor time of one more step of an ensemble, the memory of an open sequence, and what a sequence with a slot
notices of 100,000 that wait for one. Needs the release build and Triton (scripts/setup --all).
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

import models
import sides
from bench import machine
from table import Table

ROOT = sides.ROOT
REQUESTS = 20_000
SEQUENCES = 10_000
BACKLOG = 100_000
LIBRARIES = sides.TRITON / "nvidia_pytriton.libs"
SEQUENCE = " sequence_batching { max_sequence_idle_microseconds: 3600000000 %s }"


class Side:
    """The program, linked to one server's library."""

    def __init__(self, name, core, directory, **environment):
        self.name, self.program, self.environment = name, directory / name, dict(os.environ, **environment)
        subprocess.run(["cc", "-std=c17", "-D_GNU_SOURCE", "-O2", f"-I{ROOT}/include", f"-I{ROOT}/tests/abi", ROOT / "bench/embedded.c", "-o",
                        self.program, core, f"-Wl,-rpath,{core.parent}", f"-Wl,-rpath-link,{LIBRARIES}", "-pthread"], check=True)

    def measure(self, repository, model, *arguments):
        command = [self.program, sides.RELEASE / "backends", repository, model, *map(str, arguments)]
        output = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [float(word) for word in output.split()]


def write_models(repository):
    models.write_model(repository, "one", "plain")
    for count in (1, 3):
        models.write_ensemble(repository, f"steps{count}", ["plain"] * count)
    write_identity(repository, "oldest", models.BATCHES + SEQUENCE % f"oldest {{ max_candidate_sequences: {SEQUENCES} }}")
    write_identity(repository, "direct", " max_batch_size: 1" + SEQUENCE % "direct { }")


def write_identity(repository, name, scheduling):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(models.IDENTITY + scheduling + models.instances(1) + models.tensors(16) + "\n")


def step_once(side, repository):
    plain, one, three = (side.measure(repository, model, "cost", REQUESTS)[0] for model in ("plain", "steps1", "steps3"))
    return {"plain": plain, "ensemble": one - plain, "step": (three - one) / 2}


def memory_once(side, repository):
    return {"memory": side.measure(repository, "oldest", "memory", SEQUENCES)[0]}


def backlog_once(side, repository):
    _, _, p50, p99, p50_before, p99_before, submit, leave = side.measure(repository, "direct", "backlog", BACKLOG, REQUESTS)
    return {"p50": p50, "p99": p99, "p50_before": p50_before, "p99_before": p99_before, "submit": submit, "leave": leave}


# name → what measures a round, and the figures of it: key, words, unit
CASES = {
    "ensembles": (step_once, (("plain", "a request of the identity model: CPU", "µs"), ("ensemble", "an ensemble of one step, beside its model alone: CPU", "µs"),
                              ("step", "one more step: CPU", "µs"))),
    "memory of sequences": (memory_once, (("memory", f"memory of an open sequence, {SEQUENCES:,} of them (oldest)", "bytes"),)),
    "backlog": (backlog_once, (("p50", "a sequence with a slot, nobody waits: p50", "µs"), ("p99", "the same: p99", "µs"),
                               ("p50_before", f"the same, {BACKLOG:,} sequences wait: p50", "µs"), ("p99_before", "the same: p99", "µs"),
                               ("submit", "a sequence that begins to wait", "µs"), ("leave", "a sequence that gets the slot, answers and ends", "µs"))),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", metavar="TEXT", help="only cases whose names hold this; may be repeated")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="nereid-bench-") as path:
        directory = pathlib.Path(path)
        repository = directory / "models"
        write_models(repository)
        # Triton's end is left out, for what tests/e2e/lib/python_sides.py says of it.
        both = [Side("nereid", sides.RELEASE / "lib/libtritonserver.so", directory),
                Side("Triton", next(LIBRARIES.glob("libtritonserver-*")), directory, LD_LIBRARY_PATH=str(LIBRARIES), LEAVE_SERVER="1")]
        for name, (measure, figures) in CASES.items():
            if arguments.only and not any(text in name for text in arguments.only):
                continue
            rounds = {side.name: [] for side in both}
            for i in range(arguments.rounds):
                for side in both if i % 2 == 0 else reversed(both):
                    rounds[side.name].append(measure(side, repository))
            for key, words, unit in figures:
                table.add(words, unit, "less", {name: [one[key] for one in each] for name, each in rounds.items()})
    print("\n" + machine())
    if arguments.output:
        pathlib.Path(arguments.output).write_text(table.markdown())


if __name__ == "__main__":
    main()
