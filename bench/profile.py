# SPDX-License-Identifier: Apache-2.0
"""Instructions of the server for one small JSON request, by stage, counted by callgrind: the same whatever else the machine does.

    .venv/bin/python bench/profile.py [--requests 2000] [--keep FILE]

One loop and one connection, the identity model "small", the release build. What the kernel does is not in it. Under callgrind a model takes
longer, so that the server may take it for one that it does not execute on the loop's thread: then other threads execute.
"""
import argparse
import http.client
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy

import load
import models
import sides

ALL = "PROGRAM TOTALS"
LOOP = "http/transport/http_loop.c:run"
HANDLE = "http/exchange/exchange.c:exchange_handle"
ADMIT = "http/exchange/admission.c:exchange_admit"
FILL = "http/service/infer.c:fill"
SUBMIT = "api/api_request.c:TRITONSERVER_ServerInferAsync"
REPLY = "http/service/infer_response.c:infer_reply"
MEMSET = "__memset_avx2_unaligned_erms"
STAGES = {  # functions whose counts, with what they call, are added, and those that are taken off
    "libmicrohttpd: reading, headers, sending": ([LOOP], [HANDLE, MEMSET]),
    "headers, route, admission": ([ADMIT], []),
    "read the JSON, make the request": ([FILL], []),
    "queue, or execute and answer": ([SUBMIT], []),
    "other threads: execute and answer what was queued": ([ALL], [LOOP]),
    "format the reply": ([REPLY], []),
    "the rest of the exchange and its inference": ([HANDLE], [ADMIT, FILL, SUBMIT, REPLY]),
}


def post(connection, body, count):
    for _ in range(count):
        connection.request("POST", "/v2/models/small/infer", body)
        reply = connection.getresponse()
        text = reply.read()
        assert reply.status == 200, text


def record(directory, requests):
    """The file of callgrind's counts for so many requests, after a warm-up."""
    out = directory / "callgrind.out"
    models.write_model(directory / "models", "small")
    body = load.json_request(directory, "small", numpy.arange(16, dtype=numpy.float32).reshape(1, 16) / 4).body.read_bytes()
    command = [
        "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}", sides.RELEASE / "bin/nereid",
        f"--model-repository={directory / 'models'}", "--http-port={port}", "--http-address=127.0.0.1", "--allow-metrics=false", "--allow-grpc=false",
        "--http-thread-count=1", "--http-busy-poll-us=0",
    ]
    server = sides.Server("nereid", command, directory / "log")
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    post(connection, body, 300)
    for state, count in (("on", requests), ("off", 0)):
        subprocess.run(["callgrind_control", "-i", state, str(server.process.pid)], check=True, stdout=subprocess.DEVNULL)
        post(connection, body, count)
    server.stop()
    return out


def counts(out):
    """Instructions by "directory/file:function" as in STAGES, with what it calls."""
    text = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out], check=True, capture_output=True, text=True
    ).stdout
    lines = [(int(number.replace(",", "")), name) for number, name in re.findall(r"^ *([\d,]+) \([ \d.]+%\)  (.+?)(?: \[|$)", text, re.M)]
    found = {}
    for wanted in {function for parts in STAGES.values() for part in parts for function in part}:
        # what was inlined into a function out of a header has a line of its own
        found[wanted] = max((number for number, name in lines if re.search(rf"(^|[/:]){re.escape(wanted)}$", name)), default=0)
        if found[wanted] == 0:
            sys.exit(f"callgrind counted nothing for {wanted}, of which a stage is made: STAGES names a function that is not there")
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
    for stage, number in rows.items():
        if number < 0:
            sys.exit(f"the stage {stage!r} has {number:,.0f} instructions: what is taken off is no part of it")
    total = sum(rows.values())
    print("| stage | instructions a request | share |\n|---|---|---|")
    for stage, number in rows.items():
        print(f"| {stage} | {number:,.0f} | {number / total:.0%} |")
    print(f"| all | {total:,.0f} | |")
    print(f"\nlibmicrohttpd clears {found[MEMSET] / arguments.requests:,.0f} bytes or so with one repeated instruction: not in the table.")


main()
