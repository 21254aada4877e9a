"""Models that call themselves, and each other in a circle, with one instance each."""
import json
import os
import signal
import socket
import threading

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import wait_for
from python_models import ask, await_gone, infer, make_python, together

# The first number says how deep; the answer is how often a model was entered on the way. `name` is whom it calls, each
# time `times`.
CALLS = """
def initialize(self, args):
    self.directory, self.name, self.times = args["model_repository"], %(name)r, %(times)d
    self.inside = self.most = 0
def call(self, data):
    made = pb_utils.InferenceRequest(model_name=self.name, requested_output_names=["OUT"],
                                     inputs=[pb_utils.Tensor("IN", data)])
    response = made.exec()
    if response.has_error():
        raise self.Failed(response.error())
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
def one(self, data):
    depth = int(data.flat[0])
    return 1 + sum(self.call(data - 1) for _ in range(self.times)) if depth > 0 else np.ones_like(data)
def execute(self, requests):
    return [self.respond(value(r)) for r in requests]
def respond(self, data):
    try:
        return answer(self.one(data))
    except self.Failed as failed:
        return pb_utils.InferenceResponse(error=failed.args[0])
class Failed(Exception):
    pass
"""


def make_calls(repository, name, callee=None, times=1, **more):
    return make_python(repository, name, CALLS % dict(name=callee or name, times=times), **more)


def statistics(server, name):
    with triton.InferenceServerClient(server.url) as client:
        return client.get_inference_statistics(name)["model_stats"][0]


@pytest.mark.parametrize("depth", [1, 5, 40])
def test_a_model_calls_itself(start_server, repository, depth):
    make_calls(repository, "own")
    server = start_server(repository)
    for _ in range(3):
        assert infer(server, "own", [depth]).tolist() == [depth + 1]
    counted = statistics(server, "own")
    assert (counted["inference_count"], counted["execution_count"]) == (3 * (depth + 1), 3 * (depth + 1))
    assert counted["inference_stats"]["success"]["count"] == 3 * (depth + 1)
    server.stop()


def test_one_execution_makes_many_calls(start_server, repository):
    make_calls(repository, "own", times=2)
    server = start_server(repository)
    assert infer(server, "own", [6]).tolist() == [2**7 - 1]


def test_recursion_without_end_gets_its_error_and_the_model_serves_on(start_server, repository):
    make_calls(repository, "own")
    server = start_server(repository)
    for _ in range(3):
        status, reply = ask(server, "own", [1000])
        assert status == 500 and "the recursion is too deep: 64 executions" in reply["error"], reply
        assert infer(server, "own", [50]).tolist() == [51]


@pytest.mark.parametrize("circle,counts", [("ab", (1, 1)), ("ab", (1, 2)), ("ab", (2, 3)), ("abcd", (1, 1, 1, 1))])
def test_models_call_each_other_in_a_circle(start_server, repository, circle, counts):
    for name, callee, count in zip(circle, circle[1:] + circle[0], counts):
        make_calls(repository, name, callee, count=count)
    server = start_server(repository)
    for depth in (1, 2, 5, 40):
        assert infer(server, "a", [depth]).tolist() == [depth + 1]
    replies = together(8, lambda i: infer(server, circle[i % len(circle)], [20 + i]).tolist())
    assert replies == [[21 + i] for i in range(8)]


@pytest.mark.parametrize("clients,depth", [(2, 5), (8, 40)])
@pytest.mark.parametrize("batches", [False, True])
def test_many_clients_recurse_at_once(start_server, repository, clients, depth, batches):
    make_calls(repository, "own", **(dict(max_batch_size=4, more="dynamic_batching {}") if batches else {}))
    server = start_server(repository)
    data = np.array([[depth]] if batches else [depth], np.int32)
    assert together(clients, lambda i: [infer(server, "own", data).tolist() for _ in range(3)]) == [
        [(data + 1).tolist()] * 3
    ] * clients


# IN is (client, depth). Whoever finds another client's execution below its own says so.
NOTES = """
def initialize(self, args):
    self.below, self.met = [], 0
def execute(self, requests):
    return [self.one(r) for r in requests]
def one(self, request):
    client, depth = map(int, value(request))
    self.met += bool(self.below) and self.below[-1] != client
    self.below.append(client)
    if depth > 0:
        made = pb_utils.InferenceRequest(model_name=%r, requested_output_names=["OUT"],
                                         inputs=[pb_utils.Tensor("IN", np.array([client, depth - 1], np.int32))])
        response = made.exec()
        assert not response.has_error(), response.error().message()
    self.below.pop()
    return answer(np.array([self.met], np.int32))
"""


@pytest.mark.parametrize("callee", ["own", "other"])
def test_a_model_is_entered_again_by_its_own_calls_only(start_server, repository, callee):
    make_python(repository, "own", NOTES % callee)
    make_python(repository, "other", "def execute(self, requests):\n    time.sleep(0.002)\n    return [answer(value(r)) "
                "for r in requests]\n")
    server = start_server(repository)
    together(8, lambda i: [infer(server, "own", [i, 3]) for _ in range(10)])
    assert infer(server, "own", [9, 0]).tolist() == [0]


def test_a_circle_through_coroutines(start_server, repository):
    make_calls(repository, "a", "b")
    make_python(repository, "b", """
        async def execute(self, requests):
            return [await self.one(int(value(r)[0])) for r in requests]
        async def one(self, depth):
            if depth == 0:
                return answer(np.array([1], np.int32))
            made = pb_utils.InferenceRequest(model_name="a", requested_output_names=["OUT"],
                                             inputs=[pb_utils.Tensor("IN", np.array([depth - 1], np.int32))])
            response = await made.async_exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            return answer(1 + pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy())
        """)
    server = start_server(repository)
    for depth in (1, 2, 5, 20):
        assert infer(server, "a", [depth]).tolist() == [depth + 1]
    assert together(8, lambda i: infer(server, "ab"[i % 2], [10 + i]).tolist()) == [[11 + i] for i in range(8)]


# A decoupled model: depth, depth - 1, … 0, of which all but the first come from itself.
STREAM = """
def execute(self, requests):
    for request in requests:
        depth = int(value(request)[0])
        sender = request.get_response_sender()
        sender.send(answer(np.array([depth], np.int32)))
        if depth > 0:
            for given in walk(depth - 1):
                sender.send(given)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

WALK = """
def walk(depth):
    made = pb_utils.InferenceRequest(model_name="stream", requested_output_names=["OUT"],
                                     inputs=[pb_utils.Tensor("IN", np.array([depth], np.int32))])
    for response in made.exec(decoupled=True):
        if response.has_error() or response.output_tensors():
            yield response
"""


def make_streams(repository):
    bodies = {"stream": STREAM, "collect": """
        def execute(self, requests):
            return [self.one(int(value(r)[0])) for r in requests]
        def one(self, depth):
            given = list(walk(depth))
            if given[-1].has_error():
                return pb_utils.InferenceResponse(error=given[-1].error())
            return answer(np.concatenate([response.output_tensors()[0].as_numpy() for response in given]))
        """}
    for name, body in bodies.items():
        directory = make_python(repository, name, body, more="model_transaction_policy { decoupled: true }" if name == "stream" else "")
        model = directory / "1/model.py"
        model.write_text(model.read_text().replace("class TritonPythonModel", WALK + "\nclass TritonPythonModel"))


def test_a_decoupled_model_walks_through_its_own_responses(start_server, repository):
    make_streams(repository)
    server = start_server(repository)
    for depth in (1, 5, 30):
        assert infer(server, "collect", [depth]).tolist() == list(range(depth, -1, -1))
    assert together(4, lambda i: infer(server, "collect", [5 + i]).tolist()) == [list(range(5 + i, -1, -1)) for i in range(4)]
    status, reply = ask(server, "collect", [100])
    assert status == 500 and "the recursion is too deep" in reply["error"], reply
    assert infer(server, "collect", [3]).tolist() == [3, 2, 1, 0]


def test_an_error_at_the_bottom_comes_up(start_server, repository):
    directory = make_calls(repository, "own")
    model = directory / "1/model.py"
    model.write_text(model.read_text().replace("depth = int(data.flat[0])", "depth = int(data.flat[0])\n        if depth == 0:\n"
                                               "            raise ValueError('the bottom')"))
    server = start_server(repository)
    for _ in range(3):
        status, reply = ask(server, "own", [5])
        assert status == 500 and "the bottom" in reply["error"], reply
    assert statistics(server, "own")["inference_stats"]["fail"]["count"] == 18


# While a file `hold` is in the model's directory, the innermost execution waits.
def make_held(repository, name="own", callee=None):
    directory = make_calls(repository, name, callee)
    model = directory / "1/model.py"
    model.write_text(model.read_text().replace("depth = int(data.flat[0])", """depth = int(data.flat[0])
        if depth == 0:
            with open(f"{self.directory}/new", "w") as told:
                told.write(str(os.getpid()))
            os.rename(f"{self.directory}/new", f"{self.directory}/entered")
            while os.path.exists(f"{self.directory}/hold"):
                time.sleep(0.01)"""))
    return directory


@pytest.mark.parametrize("callee", ["own", "other"])
def test_a_kill_in_the_middle_of_a_circle_answers_all_that_were_in_it(start_server, repository, callee):
    directory = make_held(repository, "own", callee)
    if callee == "other":
        make_calls(repository, "other", "own")
    server = start_server(repository)
    (directory / "hold").touch()
    replies = []
    clients = [threading.Thread(target=lambda: replies.append(ask(server, "own", [4]))) for _ in range(4)]
    for client in clients:
        client.start()
    wait_for("the bottom", (directory / "entered").exists)
    pid = int((directory / "entered").read_text())
    os.kill(pid, signal.SIGKILL)
    (directory / "hold").unlink()
    for client in clients:
        client.join(60)
    await_gone(pid)
    assert len(replies) == 4 and {status for status, _ in replies} <= {200, 500}
    assert any("SIGKILL" in reply.get("error", "") for _, reply in replies), replies
    wait_for("an answer", lambda: ask(server, "own", [4])[0] == 200)
    server.stop()


def test_a_client_that_goes_leaves_the_circle_as_it_is(start_server, repository):
    directory = make_held(repository)
    server = start_server(repository)
    (directory / "hold").touch()
    data = json.dumps({"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [3]}]}).encode()
    with socket.create_connection(("localhost", server.http_port)) as client:
        client.sendall(b"POST /v2/models/own/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        wait_for("the bottom", (directory / "entered").exists)
    (directory / "hold").unlink()
    assert infer(server, "own", [3]).tolist() == [4]
    assert statistics(server, "own")["execution_count"] == 8


def test_an_unload_in_the_middle_lets_the_circle_end(start_server, repository):
    directory = make_held(repository)
    model = directory / "1/model.py"  # a second call after the unload has begun
    model.write_text(model.read_text().replace("range(self.times)", "range(2 if depth == 2 else 1)"))
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=own"])
    (directory / "hold").touch()
    replies = []
    client = threading.Thread(target=lambda: replies.append(ask(server, "own", [3])))
    client.start()
    wait_for("the bottom", (directory / "entered").exists)
    unload = threading.Thread(target=server.ask, args=["/v2/repository/models/own/unload", b"{}"])
    unload.start()
    wait_for("the unload", lambda: server.ask("/v2/models/own/ready").status != 200)
    (directory / "hold").unlink()
    client.join(60)
    unload.join(60)
    [(status, reply)] = replies  # its second call came when the model was on its way out
    assert status == 500 and "Model 'own' is not ready" in reply["error"], reply
    assert server.ask("/v2/repository/models/own/load", b"{}").status == 200
    assert infer(server, "own", [3]).tolist() == [6]


def test_readiness_is_told_while_a_model_waits(start_server, repository):
    directory = make_held(repository)
    model = directory / "1/model.py"
    model.write_text(model.read_text() + "\n    def is_ready(self):\n        return True\n")
    server = start_server(repository)
    assert infer(server, "own", [5]).tolist() == [6]
    assert server.ask("/v2/models/own/ready").status == 200


def test_a_version_calls_itself(start_server, repository):
    directory = make_calls(repository, "own", more="version_policy { all {} }")
    text = (directory / "1/model.py").read_text()
    (directory / "2").mkdir()
    (directory / "2/model.py").write_text(text)  # asks for the newest
    (directory / "1/model.py").write_text(text.replace("model_name=self.name,", "model_name=self.name, model_version=1,"))
    server = start_server(repository)
    for version in "12":
        assert infer(server, "own", [5], model_version=version).tolist() == [6]
    assert together(6, lambda i: infer(server, "own", [9], model_version="12"[i % 2]).tolist()) == [[10]] * 6
