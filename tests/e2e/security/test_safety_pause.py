# SPDX-License-Identifier: Apache-2.0
"""A process that is stopped and goes on is as before (row 49). NEREID_PAUSE says for how many seconds (3; the scorecard has 30)."""
import contextlib
import json
import os
import signal
import time

import proc
from conftest import make_identity, wait_for
from oracle import survives
from wire import CANARY, CANARY_BODY, LIVE, connect, receive_reply, send

PAUSE = float(os.environ.get("NEREID_PAUSE", 3))
TIMEOUTS = [f"--http-{what}-timeout-ms={int(PAUSE + 60) * 1000}" for what in ("header", "body", "write", "idle")]


def ask(model):
    return CANARY.replace(b"canary", model)


def state(server):
    return proc.state(server.process.pid)


@contextlib.contextmanager
def stopped(server):
    server.process.send_signal(signal.SIGSTOP)
    try:
        wait_for("the stop", lambda: state(server) == "T")
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_a_process_that_was_stopped_answers_all_that_came(start_server, repository):
    for name, delay in (("canary", 0), ("fast", 0), ("slow", 300)):
        make_identity(repository, name, more='parameters { key: "execute_delay_ms" value { string_value: "%d" } } dynamic_batching { }' % delay)
    server = start_server(repository, flags=TIMEOUTS)
    with survives(server, singing=False) as survival, contextlib.ExitStack() as stack:
        idle, halfway, running, *late = [stack.enter_context(connect(server)) for _ in range(13)]
        idle.sendall(LIVE)
        assert receive_reply(idle).status == 200
        request = ask(b"fast")
        halfway.sendall(request[: len(request) // 2])
        running.sendall(ask(b"slow"))
        taken = 'nereid_batch_closed_total{model="slow",reason="idle",version="1"} 1'
        wait_for("the execution", lambda: taken in server.ask("/metrics", port=server.metrics_port).text)
        with stopped(server):
            halfway.sendall(request[len(request) // 2 :])
            late += [stack.enter_context(connect(server)) for _ in range(10)]  # the kernel takes them
            for client in (idle, *late):
                assert send(client, request)
            time.sleep(PAUSE)
        for client in (idle, halfway, running, *late):
            reply = receive_reply(client)
            assert reply.status == 200, reply
            assert json.loads(reply.body)["outputs"][0]["data"] == json.loads(CANARY_BODY)["inputs"][0]["data"]
            survival.count("slow" if client is running else "fast", 200)
