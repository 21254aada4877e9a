# SPDX-License-Identifier: Apache-2.0
"""The end of --exit-timeout-secs: what is still queued is refused, and the refusals are sent before the process ends."""
import http.client
import json
import threading

import numpy
import pytest
import tritonclient.grpc as triton
from conftest import DEADLINE, SANITIZER_REPORT, environment, make_identity, wait_for
from grpc_sides import tensor
from oracle import Counters

SLOW = 'parameters { key: "execute_delay_ms" value { string_value: "%d" } }'
FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--exit-timeout-secs=1"]
BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT32","data":[7]}]}'
LEAVES_THREADS = {"TSAN_OPTIONS": environment()["TSAN_OPTIONS"] + ":report_thread_leaks=0"}  # a process that ends at once
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


def over_http(server, model):
    """Status and text; None when the connection was closed without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE)
    try:
        connection.request("POST", f"/v2/models/{model}/infer", BODY)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError):
        return None
    finally:
        connection.close()


def over_grpc(server, model):
    try:
        with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            client.infer(model, [tensor(numpy.array([[7]], numpy.int32))], client_timeout=DEADLINE)
    except triton.InferenceServerException as refused:
        return refused.status(), refused.message()
    return "OK", ""


class Waiting:
    """Clients that wait for their answers on threads of their own."""

    def __init__(self, server, model):
        self.server, self.model, self.threads, self.answers = server, model, [], []

    def ask(self, how):
        thread = threading.Thread(target=lambda: self.answers.append(how(self.server, self.model)))
        thread.start()
        self.threads.append(thread)

    def pending(self):
        return Counters.of(self.server)[self.model]["pending"]

    def fill(self, ways):
        """One request over HTTP that is executed, one that waits for it, and then one of each way."""
        self.ask(over_http)
        for count, way in enumerate([over_http, *ways], 1):
            self.ask(way)
            wait_for("the queue", lambda: self.pending() == count)

    def join(self):
        for thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), "a client hangs"
        return self.answers


def end(server):
    """Ends the server, whose backend does not come to an end in time."""
    server.process.terminate()
    status = server.process.wait(DEADLINE)
    assert status == 1 and "Exit timeout expired. Exiting immediately." in server.log
    assert "Stopped after" in server.log
    assert not SANITIZER_REPORT.search(server.log), server.log


def assert_refused(answers, count):
    """Those that waited were refused, each over its protocol; what was executed got no answer."""
    refused = [answer for answer in answers if answer is not None and (answer[0] == 503 or answer[0] == "StatusCode.UNAVAILABLE")]
    assert len(refused) == count and all(STOPPING in text for _, text in refused), answers


@pytest.mark.parametrize("leaving", [None, "unload", "reload"])
def test_what_is_queued_at_the_exit_timeout_gets_its_refusal(start_server, repository, leaving):
    make_identity(repository, "slow", "TYPE_INT32", more=SLOW % 600000)
    server = start_server(repository, flags=FLAGS, variables=LEAVES_THREADS)
    waiting = Waiting(server, "slow")
    waiting.fill([over_grpc, over_http, over_grpc])
    if leaving == "unload":
        assert server.ask("/v2/repository/models/slow/unload", b"").status == 200
        states = [row["state"] for row in json.loads(server.ask("/v2/repository/index", b"").body)]
        assert states == ["UNLOADING"]
    elif leaving == "reload":  # the version that has the queue is not in the index any more
        make_identity(repository, "slow", "TYPE_INT32", more=SLOW % 1)
        assert server.ask("/v2/repository/models/slow/load", b"").status == 200
    end(server)
    assert_refused(waiting.join(), 4)
    assert "4 requests were refused, 1 were cut off (--exit-timeout-secs=1)" in server.log
