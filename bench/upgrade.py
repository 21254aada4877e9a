#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Upgrades under load: clients over HTTP and gRPC ask at a steady rate while one server takes over from the other.

    bench/upgrade.py [--upgrades 20] [--http 9000] [--grpc 2200]

wrk asks over HTTP and grpcio over gRPC, of the release build. Neither sends a request twice; grpcio, as it is by default, moves a
call to the next connection that GOAWAY kept from leaving the client. Prints how many requests were answered and how many
failed; ends with status 1 if one failed.
"""
import argparse
import asyncio
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from load import POST  # noqa: E402

from conftest import Starter, link_backends, make_identity, wait_for  # noqa: E402

BODY = '{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
HTTP_CONNECTIONS = 64
GRPC_PROCESSES, GRPC_CHANNELS, GRPC_CALLS = 2, 4, 8  # calls in flight at a channel


async def ask_over_grpc(port, rate):
    """Prints answers, failures and the first failure's text at SIGINT."""
    import grpc
    import numpy
    import tritonclient.grpc as triton
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    given = triton.InferInput("INPUT0", [1, 1], "FP32")
    given.set_data_from_numpy(numpy.array([[7]], numpy.float32))
    request = service_pb2.ModelInferRequest(model_name="m", inputs=[given._get_tensor()], raw_input_contents=[given._get_content()])
    over, answered, failed = asyncio.Event(), 0, []
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, over.set)
    pause = GRPC_CHANNELS * GRPC_CALLS / rate

    async def ask(stub):
        nonlocal answered
        due = time.perf_counter()
        while not over.is_set():
            try:
                await stub.ModelInfer(request)
                answered += 1
            except grpc.RpcError as failure:
                failed.append(repr(failure))
            due = max(due + pause, time.perf_counter() - 1)  # who was held up for long does not ask all at once
            await asyncio.sleep(max(due - time.perf_counter(), 0))

    options = [("grpc.use_local_subchannel_pool", 1)]  # else all channels share one connection
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) for _ in range(GRPC_CHANNELS)]
    await asyncio.gather(*(ask(service_pb2_grpc.GRPCInferenceServiceStub(c)) for c in channels for _ in range(GRPC_CALLS)))
    print(answered, len(failed), failed[:1])


def start_http(port, rate, body):
    environment = os.environ | dict(NEREID_BENCH_BODY=str(body), NEREID_BENCH_PAUSE=str(max(round(HTTP_CONNECTIONS * 1000 / rate), 1)))
    command = ["wrk", "-t2", f"-c{HTTP_CONNECTIONS}", "-d3600", "--timeout", "30", "-s", str(POST), f"http://127.0.0.1:{port}/v2/models/m/infer"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def start_grpc(port, rate):
    command = [sys.executable, __file__, "--client", str(port), "--grpc", str(rate // GRPC_PROCESSES)]
    return [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(GRPC_PROCESSES)]


def finish(process):
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=300)[0]


def upgrade(starter, repository, server, flags):
    """The new server, and the seconds until the old one had ended."""
    begun = time.monotonic()
    new = starter(repository, flags=[*flags, "--upgrade"], wait=False)
    wait_for("the upgrade", lambda: "took over from process" in new.log or new.process.poll() is not None)
    assert new.process.poll() is None, new.log
    assert server.process.wait(300) == 0 and "every request that was taken on is answered" in server.log, server.log
    new.await_ports()
    return new, time.monotonic() - begun


def measure(arguments, directory):
    repository = directory / "models"
    repository.mkdir()
    make_identity(repository, "m")
    (directory / "body.json").write_text(BODY)
    build = ROOT / "build/release"
    starter = Starter(build / "bin/nereid", link_backends(directory, build), directory)
    flags = [f"--upgrade-address=unix:{directory}/upgrade.sock", "--exit-timeout-secs=60"]
    server, took = starter(repository, flags=flags), []
    begun = time.monotonic()
    http, grpc = start_http(server.http_port, arguments.http, directory / "body.json"), start_grpc(server.grpc_port, arguments.grpc)
    time.sleep(2)
    for _ in range(arguments.upgrades):
        server, seconds = upgrade(starter, repository, server, flags)
        took.append(seconds)
        time.sleep(1)
    told, counts = finish(http), [finish(p) for p in grpc]
    seconds = time.monotonic() - begun
    starter.stop_all()
    return told, counts, took, seconds


def report(told, counts, took, seconds):
    answered, _, failed, _, p99, p999 = (int(float(n)) for n in re.search(r"RESULT (.*)", told)[1].split())
    calls, lost = (sum(int(c.split()[i]) for c in counts) for i in (0, 1))
    print(f"{len(took)} upgrades in {seconds:.0f} s, each {min(took):.2f} to {max(took):.2f} s until the old server had ended")
    print(f"HTTP: {answered} requests ({answered / seconds:.0f}/s), {failed} failed, p99 {p99 / 1000:.1f} ms, p99.9 {p999 / 1000:.1f} ms")
    print(f"gRPC: {calls} requests ({calls / seconds:.0f}/s), {lost} failed")
    if failed or lost:
        print(told, *counts)
    return failed + lost > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrades", type=int, default=20)
    parser.add_argument("--http", type=int, default=9000, help="requests a second")
    parser.add_argument("--grpc", type=int, default=2200, help="requests a second")
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        return asyncio.run(ask_over_grpc(arguments.client, arguments.grpc))
    with tempfile.TemporaryDirectory() as directory:
        return report(*measure(arguments, pathlib.Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
