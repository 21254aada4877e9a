# SPDX-License-Identifier: Apache-2.0
"""Scenarios of fault_scenarios.py: sequences and their states."""
import concurrent.futures
import json

from conftest import make_identity
from fault_replies import Touch, ask, gives_back, json_body, ok, with_json
from sequence_models import controls
from state_models import IDLE, batching, first, make_onnx, make_stateful, state


def of_sequence(sequence, flags, **more):
    """The parameters of a request; `flags`: S, E, both or none."""
    return {"parameters": {"sequence_id": sequence, "sequence_start": "S" in flags, "sequence_end": "E" in flags, **more}}


def in_order(steps):
    """Until one of them fails. A sequence that is left open begins anew the next time, in its slot."""
    replies = []
    for one in steps:
        replies.append(one())
        if not replies[-1].is_right():
            break
    return replies


def infer_sequences(strategy):
    """Two sequences with all controls, one between the other's requests: a direct batch has a gap there."""

    def scenario(repository):
        make_identity(repository, "m", more=f"sequence_batching {{ {strategy} {IDLE} {controls()} }}")

        def act(server):
            def one(sequence, flags):
                data = [float(sequence), float(len(flags))]
                body = json_body(data, "FP32", **of_sequence(sequence, flags))
                return lambda: ask(server, gives_back(data), "/v2/models/m/infer", body)

            return in_order([one(5, "S"), one(6, "S"), one(6, "E"), one(5, ""), one(5, "E")])

        return act

    return scenario


def infer_backlog(repository):
    """Of three sequences of one slot two wait at a time; each of one request, which leaves nothing open."""
    make_identity(repository, "m", more=f"sequence_batching {{ oldest {{ max_candidate_sequences: 1 }} {IDLE} {controls('bool', 'TYPE_STRING')} }}"
                  ' parameters { key: "execute_delay_ms" value { string_value: "1" } }')
    pool = concurrent.futures.ThreadPoolExecutor(3)

    def one(server, sequence):
        data = [float(len(sequence)), 2.0]
        return ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "FP32", **of_sequence(sequence, "SE")))

    return lambda server: list(pool.map(lambda sequence: one(server, sequence), ["a", "bb", "ccc"]))


def states(repository):
    """A state of the fake backend that grows, then one of an ONNX model."""
    make_stateful(repository, "m", batching(state(dims="[ -1 ]", more=first()), controls()))
    make_onnx(repository, "sums")

    def act(server):
        def one(model, flags, data, expected, output, datatype, shape, **more):
            tensor = {"name": "INPUT", "shape": shape, "datatype": datatype, "data": data}
            body = json.dumps({"inputs": [tensor], "outputs": [{"name": output}], **of_sequence(5, flags, **more)}).encode()
            return lambda: ask(server, with_json(lambda answer: answer["outputs"][0]["data"] == expected), f"/v2/models/{model}/infer", body)

        grow = lambda flags, data, expected: one("m", flags, [data], expected, "OUTPUT", "INT32", [1], do="grow")  # noqa: E731
        add = lambda flags, data, expected: one("sums", flags, [data], [expected], "SUM", "FP32", [1])  # noqa: E731
        return in_order([grow("S", 1, [0, 1]), grow("", 2, [0, 1, 2]), grow("E", 3, [0, 1, 2, 3]), add("S", 1, 1), add("", 2, 3), add("E", 3, 6)])

    return act


def iterative(repository):
    """One request that goes three times."""
    make_stateful(repository, "m", f"sequence_batching {{ iterative_sequence: true oldest {{ max_candidate_sequences: 2 }} {IDLE} {state(more=first())} {controls()} }}")
    tensor = {"name": "INPUT", "shape": [1], "datatype": "INT32", "data": [2]}
    body = json.dumps({"inputs": [tensor], "parameters": {"until": 6}}).encode()
    right = with_json(lambda answer: answer["outputs"][0]["data"] == [6])
    return lambda server: [ask(server, right, "/v2/models/m/infer", body)]


def load_sequences(repository):
    """A load of a model with controls and states, one of them from a file, and a sequence of it."""
    files = {"seven": b"\x07\0\0\0"}
    make_stateful(repository, "m", batching(state(more=first('data_file: "seven"')), controls()), files=files)
    touch = Touch()

    def act(server):
        def one(flags, expected):
            tensor = {"name": "INPUT", "shape": [1], "datatype": "INT32", "data": [2]}
            body = json.dumps({"inputs": [tensor], **of_sequence(5, flags)}).encode()
            return lambda: ask(server, with_json(lambda answer: answer["outputs"][0]["data"] == [expected]), "/v2/models/m/infer", body)

        touch(repository / "m/1")
        return in_order([lambda: ask(server, ok, "/v2/repository/models/m/load", b""), one("S", 9), one("E", 11)])

    return act
