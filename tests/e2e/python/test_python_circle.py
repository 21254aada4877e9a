# SPDX-License-Identifier: Apache-2.0
"""Models that call themselves, and each other in a circle: the call that would close the circle fails and names it."""
import json
import os
import signal
import threading

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import PATIENCE, wait_for
from python_models import ask, await_gone, infer, make_python, together

# The number says how deep; the answer is how often a model was entered on the way. `name` is whom it calls, each time
# `times`.
CALLS = """
def initialize(self, args):
    self.directory, self.name, self.times = args["model_repository"], %(name)r, %(times)d
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


def circle(*names):
    """What the error says."""
    way = " -> ".join(f"{name} (version 1)" for name in names)
    return f"model '{names[0]}' would wait for itself: {way}; each time that a call comes back to a model takes one more " \
        "instance of it (instance_group)"


def assert_circle(server, asked, depth, *names):
    """Of the calls of one circle any may be the last for which somebody comes to wait: that is after it is sent."""
    status, reply = ask(server, asked, [depth])
    ways = [names[i:-1] + names[:i + 1] for i in range(len(names) - 1)]
    assert (status, any(circle(*way) in reply.get("error", "") for way in ways)) == (500, True), reply


def test_a_model_that_calls_itself_is_told_and_serves_on(start_server, repository):
    make_calls(repository, "own")
    server = start_server(repository)
    for _ in range(3):
        assert_circle(server, "own", 1, "own", "own")
        assert infer(server, "own", [0]).tolist() == [1]

    def counted():
        stats = statistics(server, "own")["inference_stats"]
        return stats["success"]["count"], stats["fail"]["count"]

    wait_for("the cancelled calls, which the queue counts when it gets to them", lambda: counted() == (3, 6))
    server.stop()


def test_more_instances_let_a_call_come_back_as_often(start_server, repository):
    make_calls(repository, "own", count=3)
    server = start_server(repository)
    for _ in range(3):
        assert infer(server, "own", [2]).tolist() == [3]
        status, reply = ask(server, "own", [3])  # each instance waits for all of them: a circle may lead through any number
        circles = [circle(*["own"] * length) for length in range(2, 5)]
        assert (status, any(text in reply.get("error", "") for text in circles)) == (500, True), reply


@pytest.mark.parametrize("models", ["ab", "abc", "abcd"])
def test_models_that_call_each_other_are_named_in_their_order(start_server, repository, models):
    for name, callee in zip(models, models[1:] + models[0]):
        make_calls(repository, name, callee)
    server = start_server(repository)
    for _ in range(3):
        assert infer(server, "a", [len(models) - 1]).tolist() == [len(models)]  # a chain
        assert_circle(server, "a", len(models), models[-1], *models)
    replies = together(8, lambda i: ask(server, models[i % len(models)], [20]))
    assert {status for status, _ in replies} == {500}
    assert all("would wait for itself" in reply["error"] for _, reply in replies)
    assert infer(server, "a", [0]).tolist() == [1]


def test_clients_that_call_a_chain_never_hear_of_circles(start_server, repository):
    make_calls(repository, "a", "b", count=2)
    make_calls(repository, "b", "c", times=2)
    make_calls(repository, "c", "a")
    server = start_server(repository)
    assert together(8, lambda i: [infer(server, "a", [2]).tolist() for _ in range(20)]) == [[[4]] * 20] * 8


def test_a_call_waits_while_its_model_has_others_to_serve(start_server, repository):
    make_calls(repository, "outer", "inner")
    make_python(repository, "inner", "def execute(self, requests):\n    time.sleep(0.002)\n"
                "    return [answer(np.ones_like(value(r))) for r in requests]\n")
    server = start_server(repository)
    replies = together(8, lambda i: [infer(server, "outer" if i % 2 else "inner", [1]).tolist() for _ in range(20)])
    assert replies == [[[2 if i % 2 else 1]] * 20 for i in range(8)]


def test_a_circle_through_a_coroutine(start_server, repository):
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
    assert infer(server, "a", [1]).tolist() == [2]
    assert infer(server, "b", [2]).tolist() == [3]  # its worker does not wait
    assert_circle(server, "a", 2, "b", "a", "b")
    assert together(8, lambda i: infer(server, "b", [2]).tolist()) == [[3]] * 8


# A decoupled model: depth, depth - 1, … 0, of which all but the first come from `callee`.
STREAM = """
def execute(self, requests):
    for request in requests:
        depth = int(value(request)[0])
        sender = request.get_response_sender()
        sender.send(answer(np.array([depth], np.int32)))
        if depth > 0:
            made = pb_utils.InferenceRequest(model_name="{callee}", requested_output_names=["OUT"],
                                             inputs=[pb_utils.Tensor("IN", np.array([depth - 1], np.int32))])
            for response in made.exec(decoupled=True):
                if response.has_error() or response.output_tensors():
                    sender.send(response)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def stream(server, name, depth):
    """The numbers, and the error that ended them, if one did."""
    data = json.dumps({"IN": [depth]}).encode()
    lines = server.ask(f"/v2/models/{name}/generate_stream", data).body.decode().split("\n\n")
    given = [json.loads(line[len("data: "):]) for line in lines if line]
    return [each["OUT"] for each in given if "OUT" in each], [each["error"] for each in given if "error" in each]


@pytest.mark.parametrize("callees", [{"s": "s"}, {"s": "t", "t": "s"}])
def test_a_circle_through_the_responses_of_decoupled_models(start_server, repository, callees):
    for name, callee in callees.items():
        make_python(repository, name, STREAM.format(callee=callee), more="model_transaction_policy { decoupled: true }")
    server = start_server(repository)
    models = list(callees)
    for _ in range(3):
        last = len(models) - 1
        assert stream(server, "s", last) == (list(range(last, -1, -1)), [])
        numbers, [error] = stream(server, "s", last + 1)
        assert numbers == list(range(last + 1, 0, -1))
        assert circle(models[-1], *models) in error or circle(*models, models[0]) in error, error  # who waits last


def test_a_thread_that_answers_keeps_a_model_out_of_the_circle(start_server, repository):
    """`b` answers the call of `a` from a thread, while its execute waits for `a`."""
    make_calls(repository, "a", "b")
    make_python(repository, "b", """
        def execute(self, requests):
            for request in requests:
                sender, depth = request.get_response_sender(), int(value(request)[0])
                thread = threading.Thread(target=self.answer_later, args=(sender,))
                thread.start()
                made = pb_utils.InferenceRequest(model_name="a", requested_output_names=["OUT"],
                                                 inputs=[pb_utils.Tensor("IN", np.array([0], np.int32))])
                response = made.exec()
                assert not response.has_error(), response.error().message()
                thread.join()
        def answer_later(self, sender):
            time.sleep(0.2)
            sender.send(answer(np.array([7], np.int32)), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """)
    model = repository / "b/1/model.py"
    model.write_text("import threading\n" + model.read_text())
    server = start_server(repository)
    assert [infer(server, "a", [1]).tolist() for _ in range(3)] == [[8]] * 3
    assert statistics(server, "b")["inference_stats"]["fail"]["count"] == 0


def test_a_task_that_answers_keeps_a_model_out_of_the_circle(start_server, repository):
    """The same of a coroutine, and another task on its loop."""
    make_calls(repository, "a", "b")
    make_python(repository, "b", """
        async def execute(self, requests):
            for request in requests:
                task = asyncio.create_task(self.answer_later(request.get_response_sender()))
                made = pb_utils.InferenceRequest(model_name="a", requested_output_names=["OUT"],
                                                 inputs=[pb_utils.Tensor("IN", np.array([0], np.int32))])
                response = await made.async_exec()
                assert not response.has_error(), response.error().message()
                await task
        async def answer_later(self, sender):
            await asyncio.sleep(0.2)
            sender.send(answer(np.array([7], np.int32)), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """)
    model = repository / "b/1/model.py"
    model.write_text("import asyncio\n" + model.read_text())
    server = start_server(repository)
    assert [infer(server, "a", [1]).tolist() for _ in range(3)] == [[8]] * 3
    assert statistics(server, "b")["inference_stats"]["fail"]["count"] == 0


def test_a_version_may_call_another_and_not_itself(start_server, repository):
    directory = make_calls(repository, "own", more="version_policy { all {} }")
    text = (directory / "1/model.py").read_text()
    (directory / "2").mkdir()
    (directory / "2/model.py").write_text(text)  # asks for the newest
    server = start_server(repository)
    assert infer(server, "own", [1], model_version="1").tolist() == [2]
    status, reply = ask(server, "own", [1])
    assert status == 500 and "own (version 2) -> own (version 2);" in reply["error"], reply
    status, reply = ask(server, "own", [2])
    assert status == 500 and "own (version 2) -> own (version 2);" in reply["error"], reply


# While a file `hold` is in the model's directory, an execution of depth 0 waits.
def make_held(repository, name):
    directory = make_calls(repository, name)
    model = directory / "1/model.py"
    model.write_text(model.read_text().replace("depth = int(data.flat[0])", """depth = int(data.flat[0])
        if depth == 0:
            with open(f"{self.directory}/new", "w") as told:
                told.write(str(os.getpid()))
            os.rename(f"{self.directory}/new", f"{self.directory}/entered")
            while os.path.exists(f"{self.directory}/hold"):
                time.sleep(0.01)"""))
    return directory


def test_a_kill_of_who_is_waited_for_answers_all_that_wait(start_server, repository):
    make_calls(repository, "outer", "own")
    directory = make_held(repository, "own")
    server = start_server(repository)
    (directory / "hold").touch()
    replies = []
    clients = [threading.Thread(target=lambda: replies.append(ask(server, "outer", [1]))) for _ in range(4)]
    for client in clients:
        client.start()
    wait_for("the inner one", (directory / "entered").exists)
    pid = int((directory / "entered").read_text())
    os.kill(pid, signal.SIGKILL)
    (directory / "hold").unlink()
    for client in clients:
        client.join(PATIENCE)
    await_gone(pid)
    assert len(replies) == 4 and {status for status, _ in replies} <= {200, 500}
    assert any("SIGKILL" in reply.get("error", "") for _, reply in replies), replies
    wait_for("an answer", lambda: ask(server, "outer", [1])[0] == 200)
    server.stop()


def test_readiness_is_told_while_a_model_waits_for_another(start_server, repository):
    directory = make_calls(repository, "outer", "own")
    model = directory / "1/model.py"
    model.write_text(model.read_text() + "\n    def is_ready(self):\n        return True\n")
    held = make_held(repository, "own")
    server = start_server(repository)
    (held / "hold").touch()
    replies = []
    client = threading.Thread(target=lambda: replies.append(ask(server, "outer", [1])))
    client.start()
    wait_for("the inner one", (held / "entered").exists)
    assert server.ask("/v2/models/outer/ready").status == 200
    (held / "hold").unlink()
    client.join(PATIENCE)
    assert replies[0][0] == 200, replies
