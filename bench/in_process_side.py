# SPDX-License-Identifier: Apache-2.0
"""A framework's backend in a server beside the framework called in-process from C (bench/inprocess_*.c), which pytorch.py, tensorflow.py and trees.py share: the two
sides take turns; printed are medians of each, and the median of the rounds' ratios."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import numpy
import sides
from load import Request, wrk


def request(directory, model, shapes, output):
    """For `model`: zeros of each of `shapes` (name, shape), binary both ways."""
    inputs = [{"name": name, "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 4 * int(numpy.prod(shape))}} for name, shape in shapes]
    head = json.dumps({"inputs": inputs, "outputs": [{"name": output, "parameters": {"binary_data": True}}]}).encode()
    body = directory / f"{model}-{shapes[0][1][0]}"
    body.write_bytes(head + b"".join(numpy.zeros(shape, numpy.float32).tobytes() for _, shape in shapes))
    return Request(model, body, json_size=len(head))


def in_process(backend, *arguments, **variables):
    """What the program for `backend` measured; it is built when it is not there."""
    subprocess.run(["cmake", "--build", str(sides.RELEASE), "--target", f"inprocess_{backend}"], check=True, stdout=subprocess.DEVNULL)
    command = [str(argument) for argument in (sides.RELEASE / f"bench/inprocess_{backend}", *arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | variables).stdout)


def folder(files, config):
    """A new folder with a repository of `files` (model's name, path in its version, file or folder), each with `config(name)`."""
    directory = pathlib.Path(tempfile.mkdtemp())
    for name, path, source in files:
        (directory / "models" / name / "1").mkdir(parents=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, directory / "models" / name / "1" / path)
        (directory / "models" / name / "config.pbtxt").write_text(config(name))
    shutil.copytree(sides.ROOT / "model_repository/identity", directory / "models/identity")
    return directory


def compare(backend, library, directory, cases, seconds, rounds):
    """Prints a table. `cases` tell of each what it is, the model, its inputs, its output, connections, and a function that runs the other side once. Removes the folder."""
    command = [sides.RELEASE / "bin/nereid", f"--model-repository={directory / 'models'}", f"--backend-directory={sides.RELEASE / 'backends'}",
               "--http-port={port}", "--allow-grpc=false", "--allow-metrics=false", f"--backend-config={backend},library={library}"]
    server = sides.Server("nereid", command, directory / "log")
    print("ready after", round(server.start(), 2), "s;", round(server.idle_memory()), "MiB", flush=True)
    for what, model, inputs, output, connections, other in cases:
        sent, pairs = request(directory, model, inputs, output), []
        for _ in range(rounds):
            cpu = server.cpu_seconds()
            ours = wrk(server.url(f"models/{model}/infer"), sent, connections, seconds)
            ours["cpu"] = (server.cpu_seconds() - cpu) / ours["requests"] * 1e6
            pairs.append((ours, other()))
        for figure in ("rps", "cpu", "p50"):
            a, b = ([one[figure] for one in side] for side in zip(*pairs))
            ratio = sorted(x / y for x, y in zip(a, b))
            print(f"| {what}: {figure} | {statistics.median(a):.1f} | {statistics.median(b):.1f} | **{statistics.median(ratio):.2f}** | "
                  f"{ratio[0]:.2f} to {ratio[-1]:.2f} |", flush=True)
    print("memory after:", round(server.idle_memory()), "MiB; in-process:", {key: pairs[0][1][key] for key in ("open", "load", "rss")})
    server.stop()
    shutil.rmtree(directory)
