"""Models that call themselves, and each other in a circle, with one instance each."""
import os
import signal
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
    self.folder, self.name, self.times = args["model_repository"], %(name)r, %(times)d
    self.inside = self.most = 0
def call(self, depth):
    made = pb_utils.InferenceRequest(model_name=self.name, requested_output_names=["OUT"],
                                     inputs=[pb_utils.Tensor("IN", np.array([depth], np.int32))])
    response = made.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return int(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[0])
def one(self, depth):
    return 1 + (sum(self.call(depth - 1) for _ in range(self.times)) if depth > 0 else 0)
def execute(self, requests):
    return [answer(np.array([self.one(int(value(r)[0]))], np.int32)) for r in requests]
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
