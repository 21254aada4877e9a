# SPDX-License-Identifier: Apache-2.0
"""Ensembles at run time, with real clients: nereid and NVIDIA's server of 2.51 side by side, each with nereid's backends."""
import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from conftest import PATIENCE, make_identity, wait_for
from ensembles import chain, make_ensemble, step, tensor_text
from grpc_sides import NEREID, SIDES, SideStarter, stop
from python_models import make_python
from streaming import make_streaming
from tritonclient.utils import InferenceServerException

FP32 = "TYPE_FP32"
TYPES = {"float32": "FP32", "int32": "INT32", "object": "BYTES"}

ADD = """
def execute(self, requests):
    return [answer(value(request, "A") + value(request, "B"), "SUM") for request in requests]
"""
# What the request is, as JSON.
TELL = """
def execute(self, requests):
    replies = []
    for request in requests:
        facts = dict(id=request.request_id(), sequence=request.correlation_id(), flags=request.flags(), timeout=request.timeout(),
                     parameters=json.loads(request.parameters()), inputs=[t.name() for t in request.inputs()], shape=list(value(request, "ALWAYS").shape))
        replies.append(answer(np.array([[json.dumps(facts)]], object), "FACTS"))
    return replies
"""
# Which sequence the next step's request belongs to.
NAMES_SEQUENCE = """
def execute(self, requests):
    return [answer(value(request, "INPUT0"), "OUTPUT0", parameters={"sequence_id": 7, "sequence_start": True, "other": 1}) for request in requests]
"""
TEXT_OF_A_SEQUENCE = "a sequence whose name is longer than what fits anywhere by chance"
FAILS = """
def execute(self, requests):
    return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no such luck", pb_utils.TritonError.NOT_FOUND)) for request in requests]
"""
SILENT = """
def execute(self, requests):
    return [pb_utils.InferenceResponse([]) for request in requests]
"""
# As many answers as the value of the input says, each with its number; 2 leaves the output of its last one out.
COUNTS = """
def execute(self, requests):
    for request in requests:
        sender, count = request.get_response_sender(), int(value(request, "INPUT0").flat[0])
        for i in range(count):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([[i]], np.float32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"


def config(inputs, outputs, max_batch_size=8, more=""):
    texts = [tensor_text("input", *one) for one in inputs] + [tensor_text("output", *one) for one in outputs]
    return "\n".join(['backend: "python"', f"max_batch_size: {max_batch_size}", *texts, "instance_group { kind: KIND_CPU }", more])


def one_to_one(**more):
    return config([("INPUT0", FP32, [-1])], [("OUTPUT0", FP32, [-1])], **more)


def make_models(directory):
    for name in "abc":
        make_identity(directory, name)
    make_identity(directory, "flat", max_batch_size=0)
    make_identity(directory, "versions", versions=(1, 3), more="version_policy { all {} }")
    make_python(directory, "add", ADD, config=config([("A", FP32, [-1]), ("B", FP32, [-1])], [("SUM", FP32, [-1])]))
    make_python(directory, "tell", TELL, config=config([("ALWAYS", FP32, [-1]), ("MAYBE", FP32, [-1], "optional: true")], [("FACTS", "TYPE_STRING", [1])]))
    for name, body, more in (("names_sequence", NAMES_SEQUENCE, ""),
                             ("names_it_by_text", NAMES_SEQUENCE.replace("7", repr(TEXT_OF_A_SEQUENCE)), ""), ("fails", FAILS, ""), ("silent", SILENT, ""), ("counts", COUNTS, DECOUPLED)):
        make_python(directory, name, body, config=one_to_one(more=more))
    make_ensembles(directory)
    return directory


def make_ensembles(directory):
    make_identity(directory, "text", "TYPE_STRING")
    make_ensemble(directory, "texts", chain("text", "text"), kind="TYPE_STRING")
    make_ensemble(directory, "fixed", chain("a", "b"), dims=[4])
    make_ensemble(directory, "chain", chain("a", "b", "c"))
    make_ensemble(directory, "nested", chain("a", "chain", "chain"))
    make_ensemble(directory, "versioned", [step("versions", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0"}, version=1)])
    make_ensemble(directory, "diamond", [*chain("a", "b", last="left"), step("c", {"INPUT0": "INPUT0"}, {"OUTPUT0": "right"}),
                                         step("add", {"A": "left", "B": "right"}, {"SUM": "OUTPUT0"})])
    make_ensemble(directory, "twice", [step("add", {"A": "INPUT0", "B": "INPUT0"}, {"SUM": "OUTPUT0"})])
    make_ensemble(directory, "outputs", [step("a", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0"}),
                                         step("b", {"INPUT0": "OUTPUT0"}, {"OUTPUT0": "OUTPUT1"}),
                                         step("c", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT2"})], outputs=("OUTPUT0", "OUTPUT1", "OUTPUT2"))
    make_ensemble(directory, "through_flat", chain("a", "flat", "b"), max_batch_size=8, dims=[-1])
    make_ensemble(directory, "unbatched", chain("a", "flat"), max_batch_size=0, dims=[-1])
    facts = tensor_text("output", "FACTS", "TYPE_STRING", [1])
    make_ensemble(directory, "tell_it", [step("a", {"INPUT0": "INPUT0"}, {"OUTPUT0": "told"}), step("tell", {"ALWAYS": "told"}, {"FACTS": "FACTS"})],
                  outputs=(facts,))
    make_ensemble(directory, "optional", [step("tell", {"MAYBE": "INPUT0", "ALWAYS": "INPUT1"}, {"FACTS": "FACTS"}),
                                          step("a", {"INPUT0": "INPUT1"}, {"OUTPUT0": "OUTPUT1"})],
                  inputs=(tensor_text("input", "INPUT0", FP32, [-1], "optional: true"), "INPUT1"), outputs=(facts, "OUTPUT1"))
    make_ensemble(directory, "sequenced", [*chain("names_sequence", last="named"), step("tell", {"ALWAYS": "named"}, {"FACTS": "FACTS"})], outputs=(facts,))
    make_ensemble(directory, "sequenced_by_text", [*chain("names_it_by_text", "a", "b", last="named"), step("tell", {"ALWAYS": "named"}, {"FACTS": "FACTS"})], outputs=(facts,))
    make_ensemble(directory, "failing", chain("a", "fails", "b"))
    make_ensemble(directory, "silence", chain("a", "silent"))
    make_ensemble(directory, "silence_told", [*chain("silent", last="nothing"), step("tell", {"MAYBE": "nothing", "ALWAYS": "INPUT0"}, {"FACTS": "FACTS"})], outputs=(facts,))
    make_ensemble(directory, "silence_needed", chain("silent", "a"))
    make_ensemble(directory, "counting", chain("a", "counts", "b"), more=DECOUPLED)
    make_ensemble(directory, "counting_twice", chain("counts", "a", "counts"), more=DECOUPLED)


@pytest.fixture(scope="module", params=SIDES, ids=[side.name for side in SIDES])
def side(request):
    return request.param


@pytest.fixture(scope="module")
def server(side, tmp_path_factory):
    starter = SideStarter(side, side.backends(tmp_path_factory.mktemp("backends")), tmp_path_factory.mktemp("ensembles"))
    try:
        yield starter(make_models(tmp_path_factory.mktemp("models")), flags=["--load-model=*"])
    finally:
        stop(starter)


def row(*values):
    return np.array([values], np.float32)


def client_of(server, kind):
    if kind is http:
        return http.InferenceServerClient(server.url)
    return grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")


def inputs_of(arrays, kind):
    arrays = arrays if isinstance(arrays, dict) else {"INPUT0": arrays}
    return [kind.InferInput(name, array.shape, TYPES[str(array.dtype)]).set_data_from_numpy(array) for name, array in arrays.items()]


def ask(server, model, arrays, kind=http, outputs=None, **options):
    """`arrays`: name → array, or that of INPUT0."""
    if outputs is not None:
        options["outputs"] = [kind.InferRequestedOutput(name) for name in outputs]
    with client_of(server, kind) as client:
        return client.infer(model, inputs_of(arrays, kind), **options)


def facts(result):
    return json.loads(result.as_numpy("FACTS").flat[0])


def counts(server, model):
    """Successes, failures, rows and executions."""
    found = json.loads(server.ask(f"/v2/models/{model}/stats").body)["model_stats"][0]
    stats = found["inference_stats"]
    return stats["success"]["count"], stats["fail"]["count"], found["inference_count"], found["execution_count"]


class Counted:
    """What a block adds to the counts of some models."""

    def __init__(self, server, *models):
        self.server, self.models = server, models
        self.before = {model: counts(server, model) for model in models}

    def added(self):
        return {model: tuple(now - was for now, was in zip(counts(self.server, model), self.before[model])) for model in self.models}

    def expect(self, added):
        """Triton may count after its answer."""
        wait_for(f"{added}", lambda: self.added() == added)


# ---- data ----


@pytest.mark.parametrize("kind", [http, grpc])
@pytest.mark.parametrize("model", ["chain", "nested"])
def test_a_chain_gives_back_what_it_gets(server, model, kind):
    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    for _ in range(3):
        assert (ask(server, model, data, kind).as_numpy("OUTPUT0") == data).all()


def test_an_answer_names_the_ensemble_and_the_sequence(server):
    reply = ask(server, "chain", row(1), request_id="its name").get_response()
    assert (reply["id"], reply["model_name"], reply["model_version"]) == ("its name", "chain", "1")
    assert reply["parameters"] == {"sequence_id": 0, "sequence_start": False, "sequence_end": False}


@pytest.mark.parametrize("kind", [http, grpc])
def test_texts_and_nothing_go_through(server, kind):
    texts = np.array([["", "one", "grüße"]], object)
    assert ask(server, "texts", texts, kind).as_numpy("OUTPUT0").tolist() == [["".encode(), b"one", "grüße".encode()]]
    for shape in ((1, 0), (3, 0)):
        assert ask(server, "chain", np.zeros(shape, np.float32), kind).as_numpy("OUTPUT0").shape == shape


def test_a_large_tensor_goes_through(server):
    data = np.arange(2_000_000, dtype=np.float32).reshape(4, -1)
    assert (ask(server, "nested", data).as_numpy("OUTPUT0") == data).all()


def test_a_raw_body_is_the_input(server):
    data = np.arange(4, dtype=np.float32).tobytes()
    reply = server.ask("/v2/models/fixed/infer", data, headers={"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"})
    assert reply.status == 200 and reply.body.endswith(data)


def test_branches_meet(server):
    assert (ask(server, "diamond", row(1, 2, 3)).as_numpy("OUTPUT0") == row(2, 4, 6)).all()
    assert (ask(server, "twice", row(1, 2, 3)).as_numpy("OUTPUT0") == row(2, 4, 6)).all()


def test_only_what_is_asked_for_is_computed(server, side):
    cases = [(["OUTPUT2"], "c"), (None, "abc")]
    if side is NEREID:  # Triton 2.51 takes out step a with the first of its readers: "unexpected deadlock"
        cases += [(["OUTPUT0"], "a"), (["OUTPUT2", "OUTPUT0"], "ac"), (["OUTPUT1"], "ab"), (["OUTPUT2", "OUTPUT1"], "abc")]
    for outputs, needed in cases:
        counted = Counted(server, *"abc")
        result = ask(server, "outputs", row(5), outputs=outputs)
        assert {one["name"] for one in result.get_response()["outputs"]} == set(outputs or ["OUTPUT0", "OUTPUT1", "OUTPUT2"])
        assert all((result.as_numpy(name) == row(5)).all() for name in outputs or ["OUTPUT0", "OUTPUT1", "OUTPUT2"])
        executed = {model: int(model in needed) for model in "abc"}
        wait_for(f"{executed}", lambda: {model: added[0] for model, added in counted.added().items()} == executed)


def test_models_with_and_without_batches_mix(server):
    assert (ask(server, "through_flat", row(1, 2)).as_numpy("OUTPUT0") == row(1, 2)).all()
    flat = np.arange(3, dtype=np.float32)
    assert (ask(server, "unbatched", flat).as_numpy("OUTPUT0") == flat).all()
    with pytest.raises(InferenceServerException, match=r"in ensemble 'through_flat', .*unexpected shape for input 'INPUT0' for model 'flat'"):
        ask(server, "through_flat", np.ones((2, 2), np.float32))


def test_an_input_may_be_left_out(server):
    result = ask(server, "optional", {"INPUT1": row(4)})
    assert facts(result)["inputs"] == ["ALWAYS"] and (result.as_numpy("OUTPUT1") == row(4)).all()
    assert facts(ask(server, "optional", {"INPUT1": row(4), "INPUT0": row(1, 2)}))["inputs"] in (["ALWAYS", "MAYBE"], ["MAYBE", "ALWAYS"])


def test_a_version_is_the_one_that_the_step_names(server):
    before = json.loads(server.ask("/v2/models/versions/versions/1/stats").body)["model_stats"][0]["inference_count"]
    ask(server, "versioned", row(1))
    assert json.loads(server.ask("/v2/models/versions/versions/1/stats").body)["model_stats"][0]["inference_count"] == before + 1


# ---- what reaches the steps ----


def test_properties_reach_the_steps(server):
    found = facts(ask(server, "tell_it", row(1, 2), request_id="its name", sequence_id=9, sequence_start=True, priority=0, timeout=77000000,
                      parameters={"a": "text", "b": 3, "c": True}))
    assert found["id"] == "its name" and found["sequence"] == 9 and found["flags"] == 1 and found["timeout"] == 77000000
    assert found["parameters"] == {"a": "text", "b": 3, "c": True} and found["shape"] == [1, 2]


def test_a_step_says_which_sequence_is_next(server):
    result = ask(server, "sequenced", row(1), sequence_id=9, sequence_end=True)
    found = facts(result)
    assert (found["sequence"], found["flags"]) == (7, 1)
    assert result.get_response()["parameters"] == {"sequence_id": 7, "sequence_start": True, "sequence_end": False}


# Long after the answer that named it is gone. Triton 2.51 is not asked: it reads the text then, where it was, and may end with SIGSEGV.
@pytest.mark.parametrize("side", [NEREID], ids=[NEREID.name], indirect=True)
def test_the_name_of_a_sequence_outlives_the_answer_that_it_came_with(server):
    result = ask(server, "sequenced_by_text", row(1))
    assert facts(result)["sequence"] == TEXT_OF_A_SEQUENCE
    assert result.get_response()["parameters"]["sequence_id"] == TEXT_OF_A_SEQUENCE


# ---- failures ----


def test_a_failure_names_the_ensemble(server, side):
    counted = Counted(server, "failing", "a", "b")
    with pytest.raises(InferenceServerException) as failure:
        ask(server, "failing", row(1))
    assert failure.value.message() == "in ensemble 'failing', no such luck" and failure.value.status() == "404"
    with pytest.raises(InferenceServerException) as failure:
        ask(server, "failing", row(1), grpc)
    assert failure.value.message() == "in ensemble 'failing', no such luck" and failure.value.status() == "StatusCode.NOT_FOUND"
    failures = 2 if side is NEREID else 4  # Triton 2.51 counts each twice
    counted.expect({"failing": (0, failures, 0, 0), "a": (2, 0, 2, 2), "b": (0, 0, 0, 0)})


def test_what_a_step_does_not_answer_is_left_out(server):
    for outputs in (None, ["OUTPUT0"]):
        assert ask(server, "silence", row(1), outputs=outputs).get_response().get("outputs", []) == []
    assert facts(ask(server, "silence_told", row(1)))["inputs"] == ["ALWAYS"]
    with pytest.raises(InferenceServerException, match=r"^\[400\] in ensemble 'silence_needed', \[request id: one\] expected 1 inputs but got 0 inputs for model 'a'"):
        ask(server, "silence_needed", row(1), request_id="one")


def test_a_request_that_does_not_fit_is_refused_as_any(server):
    with pytest.raises(InferenceServerException, match="unexpected shape for input 'INPUT0' for model 'chain'"):
        ask(server, "chain", np.ones((1, 1, 1), np.float32))
    with pytest.raises(InferenceServerException, match="unexpected inference output 'OTHER' for model 'chain'"):
        ask(server, "chain", row(1), outputs=["OTHER"])


# ---- decoupled ----


class Stream:
    def __init__(self, server):
        self.client, self.queue = client_of(server, grpc), queue.Queue()
        self.client.start_stream(lambda result, error: self.queue.put((result, error)))

    def ask(self, model, data):
        """All answers, up to the end: the values, or the error."""
        self.client.async_stream_infer(model, inputs_of(data, grpc), enable_empty_final_response=True)
        answers = []
        while True:
            result, error = self.queue.get(timeout=PATIENCE)
            if error is not None:
                return [*answers, error.message()]
            output = result.as_numpy("OUTPUT0")
            if output is not None:
                answers.append(output.tolist())
            if result.get_response().parameters["triton_final_response"].bool_param:
                return answers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()


def test_each_answer_of_a_decoupled_step_goes_on(server):
    with Stream(server) as stream:
        for count in (3, 0, 1, 50):
            counted = Counted(server, "counting", "a", "b")
            answers = stream.ask("counting", row(count))
            assert sorted(answers) == [[[i]] for i in range(count)]
            expected = {"counting": (1, 0, 1, 1), "a": (1, 0, 1, 1), "b": (count, 0, count, count)}
            counted.expect(expected)


def test_decoupled_steps_follow_each_other(server):
    with Stream(server) as stream:
        assert sorted(stream.ask("counting_twice", row(4))) == sorted([[i]] for n in range(4) for i in range(n))


# ---- statistics ----


def test_an_ensemble_counts_as_one_execution(server):
    counted = Counted(server, "chain", *"abc")
    ask(server, "chain", np.ones((3, 2), np.float32))
    ask(server, "chain", np.ones((2, 2), np.float32))
    counted.expect(dict.fromkeys(["chain", *"abc"], (2, 0, 5, 2)))
    stats = json.loads(server.ask("/v2/models/chain/stats").body)["model_stats"][0]
    own = stats["inference_stats"]
    assert own["success"]["count"] == own["queue"]["count"] == own["compute_infer"]["count"] > 0
    assert own["success"]["ns"] >= own["queue"]["ns"] and own["compute_infer"]["ns"] > 0
    assert {one["batch_size"] for one in stats["batch_stats"]} >= {2, 3}
