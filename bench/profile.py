"""Instructions of the server for one small JSON request, by stage, counted by callgrind: the same whatever else the machine does.

    .venv/bin/python bench/profile.py [--requests 2000] [--keep FILE]

One loop and one connection, the identity model "small", the release build. What the kernel does is not in it.
"""
import argparse
import http.client
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy

import load
import models
import sides

MEMSET = "__memset_avx2_unaligned_erms"
INFER = "TRITONSERVER_ServerInferAsync"
STAGES = {  # functions whose counts, with what they call, are added, and those that are taken off
    "libmicrohttpd: reading, headers, sending": (["run"], ["exchange_handle", MEMSET]),
    "headers, route, admission": (["exchange_handle"], ["handle_infer"]),
    "read the JSON, make the request": (["fill"], []),
    "queue, execute, answer": ([INFER], []),
    "format the reply": (["infer_reply"], []),
    "the rest of the inference": (["handle_infer"], ["fill", INFER, "infer_reply"]),
}


def post(connection, body, count):
    for _ in range(count):
        connection.request("POST", "/v2/models/small/infer", body)
        reply = connection.getresponse()
        text = reply.read()
        assert reply.status == 200, text


def record(directory, requests):
    """The file of callgrind's counts for so many requests, after a warm-up."""
    shim, out = directory / "openat2.so", directory / "callgrind.out"
    source = pathlib.Path(__file__).with_name("valgrind_openat2.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", shim, source], check=True)
    models.write_model(directory / "models", "small")
    body = load.json_request(directory, "small", numpy.arange(16, dtype=numpy.float32).reshape(1, 16) / 4).body.read_bytes()
    command = [
        "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}", sides.RELEASE / "bin/nereid",
        f"--model-repository={directory / 'models'}", "--http-port={port}", "--http-address=127.0.0.1", "--allow-metrics=false",
        "--http-thread-count=1", "--http-busy-poll-us=0",
    ]
    server = sides.Server("nereid", command, directory / "log", LD_PRELOAD=str(shim))
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    post(connection, body, 300)
    for state, count in (("on", requests), ("off", 0)):
        subprocess.run(["callgrind_control", "-i", state, str(server.process.pid)], check=True, stdout=subprocess.DEVNULL)
        post(connection, body, count)
    server.stop()
    return out


def counts(out):
    """Instructions by function, with what it calls."""
    text = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out], check=True, capture_output=True, text=True
    ).stdout
    found = {}
    for number, name in re.findall(r"^ *([\d,]+) \([ \d.]+%\)  \S*?:(\w+)(?: \[|$)", text, re.M):
        # what was inlined into a function out of a header has a line of its own
        found[name] = max(found.get(name, 0), int(number.replace(",", "")))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--keep", type=pathlib.Path, help="where callgrind's file goes, for kcachegrind")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        out = record(pathlib.Path(name), arguments.requests)
        if arguments.keep:
            shutil.copy(out, arguments.keep)
        found = counts(out)
    rows = {
        stage: (sum(found[f] for f in added) - sum(found[f] for f in taken)) / arguments.requests
        for stage, (added, taken) in STAGES.items()
    }
    total = sum(rows.values())
    print("| stage | instructions a request | share |\n|---|---|---|")
    for stage, number in rows.items():
        print(f"| {stage} | {number:,.0f} | {number / total:.0%} |")
    print(f"| all | {total:,.0f} | |")
    print(f"\nlibmicrohttpd clears {found[MEMSET] / arguments.requests:,.0f} bytes or so with one repeated instruction: not in the table.")


main()
