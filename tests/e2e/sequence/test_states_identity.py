# SPDX-License-Identifier: Apache-2.0
"""States in the identity backend (docs/backends.md): with them OUTPUT1 is what INPUT0 was in the request before. Triton's has none."""
import numpy as np
import pytest
import tritonclient.http as http
from gpus import fake_gpus
from python_models import tensor
from sequence_models import http_client
from sequence_situations import OLDEST, told
from state_models import first, state

STRATEGIES = {"direct": "direct { }", "oldest": OLDEST % 4}
ARRAYS = {"TYPE_INT32": ("INT32", np.int32), "TYPE_STRING": ("BYTES", object)}


def make(repository, strategy="direct", max_batch_size=0, kind="TYPE_INT32", shown=False, on="kind: KIND_CPU", more=""):
    of = state(kind, "[ -1 ]", more).replace("STATE_IN", "INPUT1").replace("STATE_OUT", "OUTPUT0")
    tensors = [f'{what} {{ name: "{name}" data_type: {kind} dims: [ -1 ] }}' for what, name in (("input", "INPUT0"), ("output", "OUTPUT1"), *[("output", "OUTPUT0")] * shown)]
    (repository / "m/1").mkdir(parents=True)
    (repository / "m/config.pbtxt").write_text("\n".join([
        'backend: "identity"', f"max_batch_size: {max_batch_size}", *tensors, f"instance_group {{ {on} }}",
        f"sequence_batching {{ {STRATEGIES[strategy]} max_sequence_idle_microseconds: 600000000 {of} }}"]))


def ask(server, given, who=1, flags="", rows=False, kind="TYPE_INT32", outputs=("OUTPUT1",)):
    datatype, array = ARRAYS[kind]
    data = np.array([given] if rows else given, array)
    with http_client(server) as client:
        answer = told(client.infer, "m", [tensor(data, datatype, "INPUT0")], outputs=[http.InferRequestedOutput(name) for name in outputs],
                      sequence_id=who, sequence_start="start" in flags, sequence_end="end" in flags)
        return answer if isinstance(answer, str) else [answer.as_numpy(name).reshape(-1).tolist() for name in outputs]


@pytest.mark.parametrize("more", ["", "use_same_buffer_for_input_output: true"], ids=["two buffers", "one buffer"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("on", ["kind: KIND_CPU", "kind: KIND_GPU gpus: [ 1 ]"], ids=["cpu", "gpu"])
@pytest.mark.parametrize("rows", [False, True], ids=["alone", "rows"])
def test_what_came_is_what_comes_next(start_server, repository, tmp_path, on, strategy, rows, more):
    gpus = fake_gpus(tmp_path, 2)
    make(repository, strategy, 4 if rows else 0, on=on, more=first() + more)
    server = start_server(repository, variables=gpus.variables)
    sequences = (1, 2, 3) if rows else (1,)
    for n in range(4):
        for who in sequences:
            flags = "start" if n == 0 else "end" if n == 3 else ""
            before = [0] if n == 0 else [10 * who + n - 1] * n
            assert ask(server, [10 * who + n] * (n + 1), who, flags, rows) == [before]
    assert ask(server, [5], 1, "start end", rows) == [[0]]


def test_a_state_is_an_output_where_it_is_listed(start_server, repository):
    make(repository, shown=True, more=first())
    server = start_server(repository)
    both = ("OUTPUT0", "OUTPUT1")
    assert [ask(server, [n], flags=flags, outputs=both) for n, flags in ((1, "start"), (2, ""), (3, "end"))] == [[[1], [0]], [[2], [1]], [[3], [2]]]
    assert [ask(server, [n], flags=flags) for n, flags in ((1, "start"), (2, ""))] == [[[0]], [[1]]]


def test_a_state_that_is_not_an_output_is_not_one_for_clients(start_server, repository):
    make(repository)
    server = start_server(repository)
    assert "unexpected inference output 'OUTPUT0' for model 'm'" in ask(server, [1], flags="start", outputs=("OUTPUT0",))


def test_texts_are_kept(start_server, repository):
    make(repository, kind="TYPE_STRING")
    server = start_server(repository)
    assert ask(server, ["grüße", ""], flags="start", kind="TYPE_STRING") == [[b""]]
    assert ask(server, ["x"], flags="end", kind="TYPE_STRING") == [["grüße".encode(), b""]]
