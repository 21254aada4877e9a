# SPDX-License-Identifier: Apache-2.0
"""A model that is asked for five times what it can do (row 49): scripts/overload [minutes, 10].

One instance answers a request in 5 ms and four may wait. Four clients find the peak; then 40 ask at five times that rate. The end
fails when less than 90 % of the peak was answered, when a refusal was anything but 503, when more than one of 100 refusals took
more than 50 ms, or when inferences are not what they were five seconds after it is over.
"""
import collections
import multiprocessing
import pathlib
import sys
import tempfile
import threading
import time

from conftest import ROOT, Starter, link_backends, make_identity
from safety import tensor
from wire import connect, receive_reply, request

MODEL = """
parameters { key: "execute_delay_ms" value { string_value: "5" } }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { default_queue_policy { max_queue_size: 4 } }
"""
BODY = request("POST", "/v2/models/busy/infer", tensor())
PROCESSES, THREADS = 4, 10
SPAN = 10  # seconds that are printed by themselves
TIMES = 5


def ask(connection):
    begun = time.perf_counter()
    connection.sendall(BODY)
    status = receive_reply(connection).status
    return status, time.perf_counter() - begun


def clients(server, rate, seconds, found):
    """One process: its threads ask at `rate` together, or as fast as they are answered when it is 0."""
    times, lock = collections.defaultdict(list), threading.Lock()

    def run(i):
        mine = collections.defaultdict(list)
        pause = THREADS / rate if rate else 0
        with connect(server) as connection:
            begun = time.perf_counter()
            due = begun + pause * i / THREADS
            while due < begun + seconds:
                time.sleep(max(due - time.perf_counter(), 0))
                status, took = ask(connection)
                mine[status].append(took)
                due = due + pause if rate else time.perf_counter()
        with lock:
            for status, values in mine.items():
                times[status] += values

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS if rate else 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put(dict(times))


def measure(server, processes, rate, seconds):
    """status → seconds that each took."""
    found, all_times = multiprocessing.Queue(), collections.defaultdict(list)
    workers = [multiprocessing.Process(target=clients, args=(server, rate / processes, seconds, found)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for _ in workers:
        for status, values in found.get().items():
            all_times[status] += values
    for worker in workers:
        worker.join()
    return all_times


def percentile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] * 1000 if values else 0


def describe(times, peak, seconds):
    rate, asked = len(times[200]) / seconds, sum(map(len, times.values())) / seconds
    print(f"asked {asked:.0f}/s, answered {rate:.0f}/s ({rate / peak:.0%} of the peak), p99 {percentile(times[200], 0.99):.1f} ms; "
          f"503 after {percentile(times[503], 0.5):.1f} ms, p99 {percentile(times[503], 0.99):.1f} ms, "
          f"at worst {percentile(times[503], 1):.1f} ms", flush=True)
    return rate, asked


def judge(times, peak, seconds):
    """What is wrong with the whole of it."""
    rate, asked = describe(times, peak, seconds)
    if set(times) - {200, 503}:
        yield f"statuses {sorted(times)}"
    if rate < 0.9 * peak:
        yield f"{rate:.0f} a second are answered, the peak is {peak:.0f}"
    if percentile(times[503], 0.99) > 50:
        yield "refusals take more than 50 ms"
    if asked < 0.9 * TIMES * peak:
        yield f"the clients asked {asked:.0f} times a second, not {TIMES * peak:.0f}: the machine is too small or too busy"


def run(server, minutes):
    calm = measure(server, 1, 0, SPAN)[200]
    peak, spans = len(calm) / SPAN, max(round(60 * minutes / SPAN), 1)
    print(f"four clients: {peak:.0f}/s, each {percentile(calm, 0.5):.1f} ms", flush=True)
    whole = collections.defaultdict(list)
    for _ in range(spans):
        times = measure(server, PROCESSES, TIMES * peak, SPAN)
        describe(times, peak, SPAN)
        for status, values in times.items():
            whole[status] += values
    print("all of it:")
    faults = list(judge(whole, peak, spans * SPAN))
    time.sleep(5)
    after = measure(server, 1, 0, SPAN)
    print(f"five seconds later: {len(after[200]) / SPAN:.0f}/s, each {percentile(after[200], 0.5):.1f} ms")
    if set(after) != {200} or percentile(after[200], 0.5) > 2 * percentile(calm, 0.5):
        faults.append(f"not as before five seconds later: {sorted(after)}")
    return faults


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory(prefix="nereid-overload-") as path:
        directory = pathlib.Path(path)
        (directory / "models").mkdir()
        make_identity(directory / "models", "busy", max_batch_size=1, more=MODEL)
        (directory / "backends").mkdir()
        build = ROOT / "build/release"
        starter = Starter(build / "bin/nereid", link_backends(directory / "backends", build), directory)
        server = starter(directory / "models")
        try:
            faults = run(server, minutes)
        finally:
            starter.stop_all()
    print("\n".join(faults) or "passed")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
