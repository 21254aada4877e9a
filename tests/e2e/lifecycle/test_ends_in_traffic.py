# SPDX-License-Identifier: Apache-2.0
"""A server that ends, or whose models are unloaded, while requests of every scheduler are under way: each has one answer, nothing hangs."""
import concurrent.futures
import http.client
import itertools
import json
import os

import pytest
from conftest import PATIENCE, make_identity, wait_for
from ensembles import chain, make_ensemble
from fault_sequences import of_sequence
from sequence_models import controls

TIMES = int(os.environ.get("NEREID_TIMES", "2"))
SLOW = 'parameters { key: "execute_delay_ms" value { string_value: "2" } }'
FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--rate-limit=execution_count", "--cache-config=local,size=1000000"]
NAMES = ("direct", "oldest", "both", "limited", "cached")


def make(repository):
    sequences = f"sequence_batching {{ %s max_sequence_idle_microseconds: 100000 {controls()} }} {SLOW}"
    make_identity(repository, "direct", max_batch_size=2, more=sequences % "direct { }")
    make_identity(repository, "oldest", max_batch_size=2, more=sequences % "oldest { max_candidate_sequences: 2 }")
    make_identity(repository, "limited", more=f'instance_group {{ count: 3 kind: KIND_CPU rate_limiter {{ resources {{ name: "r" count: 1 }} }} }} {SLOW}')
    make_identity(repository, "cached", more=f"response_cache {{ enable: true }} {SLOW}")
    make_ensemble(repository, "both", chain("limited", "cached"))


def body(name, client, turn):
    """Sequences of three requests, whose slots are too few."""
    tensor = {"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [turn % 7]}
    more = of_sequence(client + 1, ("S", "", "E")[turn % 3]) if name in ("direct", "oldest") else {}
    return json.dumps({"inputs": [tensor], **more}).encode()


def ask_until(server, name, client, is_over, statuses):
    """Counts in `statuses` what was answered, by status; None where the connection was closed."""
    for turn in itertools.count():
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
        try:
            connection.request("POST", f"/v2/models/{name}/infer", body(name, client, turn))
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (ConnectionError, http.client.HTTPException):
            status = None
        finally:
            connection.close()
        statuses[status] = statuses.get(status, 0) + 1
        if is_over() or status is None:
            return


@pytest.mark.parametrize("what", ["exit", "unload"])
def test_all_that_is_under_way_is_answered(start_server, repository, what):
    make(repository)
    for _ in range(TIMES):
        server = start_server(repository, flags=FLAGS)
        over = []
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answered = [{} for _ in range(4 * len(NAMES))]
            clients = [pool.submit(ask_until, server, NAMES[n // 4], n % 4, lambda: over, statuses) for n, statuses in enumerate(answered)]
            wait_for("an answer to each client", lambda: all(200 in statuses for statuses in answered))
            if what == "unload":
                for name in NAMES:
                    assert server.ask(f"/v2/repository/models/{name}/unload", b"{}").status == 200
                wait_for("their ends", lambda: all(f"successfully unloaded '{name}' version 1" in server.log for name in NAMES))
                over.append(True)
            else:
                server.stop()
            for client in clients:
                client.result()
            assert set().union(*answered) <= {200, 400, 404, 500, 503, None}, answered
        if what == "unload":
            server.stop()
