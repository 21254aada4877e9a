#!/usr/bin/env python3
"""nereid beside the real Triton, both with nereid's own backends, in alternating rounds of one run.

    bench/bench.py [--rounds 5] [--seconds 4] [--only NAME] [--output table.md]

Needs the release build, wrk, and the Triton that PyPI's nvidia-pytriton carries (scripts/bench gets both). Every figure is
the median of the rounds; the ratio is nereid to Triton in the same run, and beside it stands the least and the largest
ratio of a single round.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
TRITON = ROOT / ".deps/pytriton"
ROWS, COLUMNS = 512, 14041
LABELS = {"rps": "throughput", "cpu": "server's CPU a request"}

MODELS = {
    "small": 'backend: "identity" max_batch_size: 64 dynamic_batching { }'
    ' instance_group { count: 2 kind: KIND_CPU }'
    ' input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }'
    ' output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }',
    "large": 'backend: "identity" instance_group { count: 2 kind: KIND_CPU }'
    ' input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }'
    ' output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }',
}


class Side:
    """One of the two servers."""

    def __init__(self, name, command, environment, port):
        self.name, self.command, self.environment, self.port = name, command, environment, port
        self.process = None

    def start(self, log):
        begin = time.monotonic()
        self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/ready", timeout=5) as reply:
                    if reply.status == 200:
                        return time.monotonic() - begin
            except (OSError, urllib.error.HTTPError):
                pass
            if self.process.poll() is not None:
                sys.exit(f"{self.name} ended with {self.process.returncode}: see {log.name}")
            time.sleep(0.001)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def memory(self):
        """Proportional set size in MiB."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1)) / 1024


def make_sides(folder):
    repository = folder / "models"
    for name, config in MODELS.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
    common = [f"--model-repository={repository}", f"--backend-directory={BUILD}/backends", "--allow-metrics=false",
              "--allow-grpc=false", "--http-address=127.0.0.1", "--log-info=false"]
    # This Triton (2.51) has no limit on bodies yet, nor the flag.
    nereid = Side(
        "nereid", [f"{BUILD}/bin/nereid", *common, "--http-port=18700", "--http-max-input-size=1000000000"],
        dict(os.environ), 18700,
    )
    libraries = str(TRITON / "nvidia_pytriton.libs")
    triton = Side(
        "triton", [f"{TRITON}/pytriton/tritonserver/bin/tritonserver", *common, "--http-port=18701"],
        dict(os.environ, LD_LIBRARY_PATH=libraries), 18701,
    )
    return nereid, triton


def cpu_seconds(side):
    """User and system time of a server so far."""
    fields = pathlib.Path(f"/proc/{side.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def json_body(shape, data):
    return json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": shape, "data": data}]}).encode()


def binary_body(shape, data, binary_out=True):
    head = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": len(data)}}],
            "parameters": {"binary_data_output": binary_out}}
    head = json.dumps(head).encode()
    return head + data, len(head)


def wrk(side, model, body, json_size, connections, seconds):
    """Requests a second and percentiles in microseconds."""
    environment = dict(os.environ, NEREID_BENCH_BODY=str(body))
    if json_size:
        environment["NEREID_BENCH_JSON"] = str(json_size)
    threads = min(2, connections)
    cpu = cpu_seconds(side)
    output = subprocess.run(
        ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(ROOT / "bench/post.lua"),
         f"http://127.0.0.1:{side.port}/v2/models/{model}/infer"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout
    requests, duration, errors, p50, p99, _ = map(float, re.search(r"RESULT (.*)", output).group(1).split())
    if errors:
        sys.exit(f"{side.name}: {errors:.0f} errors\n{output}")
    cpu = cpu_seconds(side) - cpu
    return {"rps": requests / (duration / 1e6), "p50": p50, "p99": p99, "cpu": cpu / requests * 1e6}


def curl(side, model, body, json_size, seconds):
    """Milliseconds of one large request; the reply is read and dropped."""
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", "--data-binary", f"@{body}",
               "-H", "Expect:", "-H", "Content-Type: application/octet-stream"]
    if json_size:
        command += ["-H", f"Inference-Header-Content-Length: {json_size}"]
    output = subprocess.run([*command, f"http://127.0.0.1:{side.port}/v2/models/{model}/infer"], capture_output=True, text=True,
                            check=True).stdout.split()
    if output[0] != "200":
        sys.exit(f"{side.name}: status {output[0]}")
    return {"ms": float(output[1]) * 1000}


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, unit, values, better):
        """`values`: side → one value for each round."""
        nereid, triton = statistics.median(values["nereid"]), statistics.median(values["triton"])
        ratios = [a / b for a, b in zip(values["nereid"], values["triton"])]
        self.rows.append((what, unit, nereid, triton, nereid / triton, min(ratios), max(ratios), better))
        print(f"{what:44} {unit:8} nereid {nereid:10.2f}  triton {triton:10.2f}  ratio {nereid / triton:6.2f}"
              f"  ({min(ratios):.2f} to {max(ratios):.2f}, {better} is better)", flush=True)

    def markdown(self):
        lines = ["| what | unit | nereid | Triton | ratio | least to largest | better |", "|---|---|---|---|---|---|---|"]
        for what, unit, nereid, triton, ratio, low, high, better in self.rows:
            lines.append(f"| {what} | {unit} | {nereid:.2f} | {triton:.2f} | **{ratio:.2f}** | {low:.2f} to {high:.2f} | {better} |")
        return "\n".join(lines) + "\n"


def run(arguments, folder, table):
    sides = make_sides(folder)
    log = open(folder / "servers.log", "w")
    wanted = lambda name: arguments.only is None or arguments.only in name  # noqa: E731

    def measure(call):
        """Alternates the sides, and which one begins."""
        results = {"nereid": [], "triton": []}
        for i in range(arguments.rounds):
            for side in sides if i % 2 == 0 else reversed(sides):
                results[side.name].append(call(side))
        return results

    if wanted("start"):
        starts, memory = {"nereid": [], "triton": []}, {"nereid": [], "triton": []}
        for i in range(arguments.rounds):
            for side in sides if i % 2 == 0 else reversed(sides):
                starts[side.name].append(side.start(log) * 1000)
                time.sleep(0.5)  # what is started lazily is there
                memory[side.name].append(side.memory())
                side.stop()
        table.add("start to ready", "ms", starts, "less")
        table.add("idle memory (PSS)", "MiB", memory, "less")

    with contextlib.ExitStack() as stack:
        for side in sides:
            side.start(log)
            stack.callback(side.stop)
        small = folder / "small.json"
        small.write_bytes(json_body([1, 16], [i + 0.5 for i in range(16)]))
        for connections in (1, 32, 512):
            name = f"small JSON, {connections} connection{'s' if connections > 1 else ''}"
            if wanted(name):
                results = measure(lambda side: wrk(side, "small", small, None, connections, arguments.seconds))
                for key, unit, better in (("rps", "req/s", "more"), ("p50", "µs", "less"), ("p99", "µs", "less"),
                                          ("cpu", "µs", "less")):
                    table.add(f"{name}: {LABELS.get(key, key)}", unit,
                              {s: [r[key] for r in rs] for s, rs in results.items()}, better)
        body, size = binary_body([1024, 1024], os.urandom(4 << 20))
        four = folder / "four"
        four.write_bytes(body)
        for connections in (1, 4):
            name = f"4 MB binary, {connections} connection{'s' if connections > 1 else ''}"
            if wanted(name):
                results = measure(lambda side: wrk(side, "large", four, size, connections, arguments.seconds))
                for key, unit, better in (("rps", "req/s", "more"), ("p50", "µs", "less"), ("cpu", "µs", "less")):
                    table.add(f"{name}: {LABELS.get(key, key)}", unit,
                              {s: [r[key] for r in rs] for s, rs in results.items()}, better)
        if wanted("[512,14041]"):
            import numpy

            data = numpy.random.default_rng(1).standard_normal((ROWS, COLUMNS), numpy.float32)
            out = folder / "out"
            body, size = binary_body([ROWS, COLUMNS], data.tobytes(), binary_out=False)
            out.write_bytes(body)
            results = measure(lambda side: curl(side, "large", out, size, arguments.seconds))
            table.add(f"[{ROWS},{COLUMNS}] FP32 into a JSON reply", "ms", {s: [r["ms"] for r in rs] for s, rs in results.items()}, "less")
            into = folder / "into"
            body = json_body([ROWS, COLUMNS], [float(str(x)) for x in data.ravel()])
            body = body[:-1] + b',"parameters":{"binary_data_output":true}}'
            into.write_bytes(body)
            results = measure(lambda side: curl(side, "large", into, None, arguments.seconds))
            table.add(f"[{ROWS},{COLUMNS}] FP32 out of a JSON request", "ms", {s: [r["ms"] for r in rs] for s, rs in results.items()}, "less")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        run(arguments, pathlib.Path(folder), table)
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    print(f"\n{time.strftime('%Y-%m-%d')}, {cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} CPUs, "
          f"{platform.system()} {platform.release()}")
    if arguments.output:
        pathlib.Path(arguments.output).write_text(table.markdown())


if __name__ == "__main__":
    main()
