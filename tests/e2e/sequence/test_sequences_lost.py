# SPDX-License-Identifier: Apache-2.0
"""Processes that end while they have sequences: who went on with one is told that its state is lost, and new ones serve (docs/sequences.md)."""
import concurrent.futures
import os
import signal

import numpy as np
import pytest
from conftest import PATIENCE, make_identity, wait_for
from python_models import tensor
from sequence_models import SUMS, controls, http_client, make_sequences
from sequence_situations import LONG_US, OLDEST, STRATEGIES, await_pending, steps, told
from test_isolated import processes
from test_sequences import NO_START, said

LOST = ("500: [request id: <id_unknown>] the state of sequence %s of model 'm' is lost, because the process that had it has ended: "
        "the sequence must begin again, with the START flag")
KNOWS_ITS_PROCESS = SUMS.replace("self.sums = {}", """self.sums = {}
    with open(os.path.join(os.path.dirname(__file__), "pid"), "w") as file:
        file.write(str(os.getpid()))""").replace("    while any(", """    if any(len(d) > 1 for d in data):
        open(os.path.join(os.path.dirname(__file__), "began"), "w").close()
    while any(""")


def holds(server, number, who, start=False):
    """A request whose execution waits for the file `go`."""
    with http_client(server) as client:
        return told(client.infer, "m", [tensor(np.array([[number, 0]], np.int32))], sequence_id=who, sequence_start=start)


def kill(directory):
    os.kill(int((directory / "1/pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_goes_on_is_told_and_others_begin(start_server, repository, strategy):
    directory = make_sequences(repository, strategy=STRATEGIES[strategy], idle_us=LONG_US, body=KNOWS_ITS_PROCESS)
    server = start_server(repository)
    row = (lambda n: dict(row=n, size=n + 1)) if strategy == "direct" else (lambda n: {})
    assert steps(server, "m", (1, 11, "start"), (2, 12, "start")) == [said(1, 1), said(2, 1, **row(1))]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        held = threads.submit(holds, server, 3, 13, True)
        wait_for("the execution", (directory / "1/began").exists)
        kill(directory)
        fallen = held.result(PATIENCE)
    assert fallen.startswith("500: ") and "SIGKILL" in fallen and "; the states of the sequences that it had are lost: they must begin again" in fallen
    assert steps(server, "m", (1, 11, ""), (1, 11, ""), (1, 13, "")) == [LOST % 11, LOST % 11, LOST % 13]
    assert steps(server, "m", (5, 14, "start"), (6, 14, "")) == [said(5, 1, **row(3)), said(11, **row(3))]
    assert steps(server, "m", (7, 11, "start"), (1, 11, "end"), (1, 11, "")) == [said(7, 1), said(8, end=1), NO_START % (11, "m")]
    assert steps(server, "m", (1, 12, "end"), (1, 12, "")) == [LOST % 12, NO_START % (12, "m")]
    assert server.log.count("the Python worker ended") == 1


def test_what_waits_behind_is_told_too_and_what_starts_is_served(start_server, repository):
    """Behind the request that was executed: one of the sequence, one that begins it anew, one after that; and a sequence in the backlog."""
    directory = make_sequences(repository, strategy=OLDEST % 1, idle_us=LONG_US, max_batch_size=1, body=KNOWS_ITS_PROCESS)
    server = start_server(repository)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        held = threads.submit(holds, server, 1, 5, True)
        wait_for("the execution", (directory / "1/began").exists)
        waiting = []
        for one in ((2, 5, ""), (3, 5, "start"), (4, 5, "end"), (9, 6, "start end")):
            waiting.append(threads.submit(steps, server, "m", one))
            await_pending(server, "m", len(waiting))
        kill(directory)
        answers = [one.result(PATIENCE)[0] for one in waiting]
        assert "they must begin again" in held.result(PATIENCE)
    assert answers == [LOST % 5, said(3, 1), said(7, end=1), said(9, 1, 1)]


def test_a_model_whose_states_the_server_keeps_has_lost_nothing(start_server, repository):
    state = 'state [ { input_name: "WAS" output_name: "IS" data_type: TYPE_INT32 dims: [ 1 ] } ]'
    directory = make_sequences(repository, strategy="direct { } " + state, idle_us=LONG_US, body=KNOWS_ITS_PROCESS)
    server = start_server(repository)
    assert steps(server, "m", (1, 11, "start")) == [said(1, 1)]
    kill(directory)
    wait_for("the end", lambda: "the Python worker ended" in server.log)
    assert steps(server, "m", (1, 11, "")) == [said(-999)]  # what the model kept beside them is its own affair


def test_a_model_with_a_process_of_its_own(start_server, repository):
    make_identity(repository, "m", more=f"sequence_batching {{ {OLDEST % 4} max_sequence_idle_microseconds: {LONG_US} {controls(corrid='TYPE_STRING')} }}"
                  ' parameters { key: "isolate" value { string_value: "process" } }')
    server = start_server(repository)

    def ask(flags):
        data = np.ones((1, 2), np.float32)
        with http_client(server) as client:
            answer = told(client.infer, "m", [tensor(data, "FP32", "INPUT0")], sequence_id="a name", sequence_start="start" in flags, sequence_end="end" in flags)
            return answer if isinstance(answer, str) else answer.as_numpy("OUTPUT0").tolist()

    good = [[1, 1]]
    assert [ask("start"), ask("")] == [good, good]
    os.kill(processes(server)[0], signal.SIGKILL)
    wait_for("the end", lambda: "ended by signal SIGKILL" in server.log)
    assert [ask(""), ask(""), ask("start"), ask("end")] == [LOST % "a name", LOST % "a name", good, good]
