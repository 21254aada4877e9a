# SPDX-License-Identifier: Apache-2.0
"""What a batch of requests comes to: decoding, `execute`, its checks, the answer."""

import time

import numpy as np

from host import DECOUPLED, LEVELS, RELEASED

ADD_SUB = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "B").as_numpy()
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("SUM", a + b), pb_utils.Tensor("DIFF", a - b)]))
        return responses
"""


def test_each_request_gets_the_sum_and_difference_of_its_inputs(started):
    host = started(ADD_SUB)
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    flags, responses, _ = host.execute(
        [{"inputs": {"A": a * n, "B": b}, "outputs": ["SUM", "DIFF"]} for n in range(3)]
    )
    for n, response in enumerate(responses):
        assert (response.outputs["SUM"] == a * n + 1).all()
        assert (response.outputs["DIFF"] == a * n - 1).all()
    assert flags & RELEASED
    assert host.used() == 0


def test_the_answer_says_when_execute_began_and_ended(started):
    host = started('''
import time

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)
        return [None for request in requests]
''')
    for _ in range(2):
        before = time.monotonic_ns()
        host.execute([{}])
        assert before <= host.begun_ns <= host.ended_ns - 20_000_000 < host.ended_ns <= time.monotonic_ns()


def test_outputs_that_are_not_requested_are_left_out_unless_the_configuration_does_not_know_them(started):
    host = started(ADD_SUB, model_config='{"output": [{"name": "SUM"}]}')
    one = np.ones(1, np.int32)
    for requested, expected in ([], ["SUM", "DIFF"]), (["DIFF"], ["DIFF"]), (["OTHER"], ["DIFF"]):
        _, [response], _ = host.execute([{"inputs": {"A": one, "B": one}, "outputs": requested}])
        assert list(response.outputs) == expected


def failing(started, code, flags=LEVELS, count=2):
    """What two requests are answered with by an `execute` of that body."""
    host = started("class TritonPythonModel:\n    def execute(self, requests):\n" + "".join(
        f"        {line}\n" for line in code.strip().splitlines()))  # fmt: skip
    _, responses, _ = host.execute([{}] * count, flags)
    assert [response.kind for response in responses] == [2] * count
    assert host.execute([{}] * count, flags)[1]  # it lives on
    return responses[0].message


def test_an_exception_fails_the_whole_batch_with_its_text_and_place(started):
    message = failing(started, "raise ValueError('no good')")
    start = "Failed to process the request(s) for model 'm_0_0', message: ValueError: no good\n\nAt:\n  "
    assert message.startswith(start)
    assert message.endswith("/1/model.py(5): execute\n")
    misused = failing(started, "requests[0].get_response_sender().send(None, 2)")
    at = misused.partition("\n\nAt:\n")[2].splitlines()
    assert len(at) == 1 and at[0].endswith("/1/model.py(5): execute"), "the worker's own frames are nobody's concern"
    host = started("class TritonPythonModel:\n    def execute(requests):\n        return []")
    assert host.execute([{}])[1][0].message.endswith("execute() takes 1 positional argument but 2 were given")


def test_exits_are_exceptions_too(started):
    assert "message: SystemExit: 3\n" in failing(started, "raise SystemExit(3)")
    assert "message: KeyboardInterrupt: <EMPTY MESSAGE>\n" in failing(started, "raise KeyboardInterrupt()")


def test_the_return_value_is_checked(started):
    said = failing(started, "return [pb_utils.InferenceResponse()]")
    assert said.endswith(
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        "InferenceRequest(s) size is:2, and InferenceResponse(s) size is:1\n"
    )
    said = failing(started, "return (1, 2)")
    assert said.endswith("Expected a list in the execute return, found type '<class 'tuple'>'.")
    said = failing(started, "return [pb_utils.InferenceResponse(), 5]")
    assert said.endswith(
        "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'."
    )
    said = failing(started, "return [pb_utils.InferenceResponse()] * 2", LEVELS | DECOUPLED)
    assert said.endswith(
        "Python model 'm_0_0' is using the decoupled mode and the execute function must return None."
    )


def test_a_model_without_execute_says_so(started):
    host = started("class TritonPythonModel:\n    pass")
    _, [response], _ = host.execute([{}])
    assert response.message.endswith("model.py does not implement `execute` method.")


def test_a_model_may_put_another_execute_in_its_place(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                self.execute = self.second
                return [pb_utils.InferenceResponse(error=pb_utils.TritonError("first"))]

            def second(self, requests):
                return [pb_utils.InferenceResponse(error=pb_utils.TritonError("second"))]
    """)
    assert [host.execute([{}])[1][0].message for _ in range(2)] == ["first", "second"]


def test_one_error_in_a_batch_is_that_requests_alone(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                error = pb_utils.TritonError("not you", pb_utils.TritonError.UNAVAILABLE)
                return [pb_utils.InferenceResponse(error=error), pb_utils.InferenceResponse([])]
    """)
    _, [first, second], _ = host.execute([{}, {}])
    assert (first.kind, first.code, first.message) == (2, 4, "not you")
    assert second.kind == 1


def test_what_a_request_says_reaches_the_model(started):
    host = started("""
        import json

        class TritonPythonModel:
            def execute(self, requests):
                def say(r):
                    return json.dumps([r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.parameters(),
                                       sorted(r.requested_output_names()), r.trace().get_context()])
                return [pb_utils.InferenceResponse(parameters={"said": say(r)}) for r in requests]
    """)
    _, [one, two], _ = host.execute([
        {"id": "é", "correlation_id": 7, "flags": 3, "timeout": 9, "parameters": '{"a": 1}', "trace": "t"},
        {"correlation_id": "seven", "outputs": ["B", "A"]},
    ])  # fmt: skip
    import json

    said = [json.loads(json.loads(response.parameters)["said"]) for response in (one, two)]
    assert said[0] == ["é", 7, 3, 9, '{"a": 1}', [], "t"]
    assert said[1] == ["", "seven", 0, 0, "{}", ["A", "B"], None]


def test_coroutines_of_several_batches_overlap(started):
    host = started("""
        import asyncio

        class TritonPythonModel:
            arrived = 0

            async def execute(self, requests):
                self.arrived += 1
                while self.arrived < 3:  # each waits for all
                    await asyncio.sleep(0.001)
                return [pb_utils.InferenceResponse([pb_utils.Tensor("N", np.array([self.arrived]))])]
    """)
    for number in range(1, 4):
        _, [response], _ = host.execute([{"handle": number}])
        assert response.kind == 0
    for number in range(1, 4):
        sent = host.await_call(lambda call: call.kind == 1 and call.id == number)
        assert sent.flags == 1 and sent.response.outputs["N"] == [3]


def test_a_coroutine_that_fails_answers_its_requests_with_the_error(started):
    host = started("""
        class TritonPythonModel:
            async def execute(self, requests):
                requests[0].get_response_sender().send(pb_utils.InferenceResponse(), 1)
                raise RuntimeError("late")
    """)
    host.execute([{"handle": 1}, {"handle": 2}])
    failed = host.await_call(lambda call: call.kind == 1 and call.id == 2)
    assert failed.flags == 1 and "message: RuntimeError: late\n" in failed.response.message
    assert [call.id for call in host.calls if call.kind == 1] == [1, 2]


def test_exceptions_that_cannot_be_said_plainly_are_said_as_well_as_can_be(started):
    host = started(r"""
        class Silent(Exception):
            def __str__(self):
                raise ValueError()

        class TritonPythonModel:
            def execute(self, requests):
                kind = requests[0].request_id()
                if kind == "silent":
                    raise Silent()
                if kind == "endless":
                    raise ValueError("x" * (100 << 20))
                if kind == "deep":
                    return self.execute(requests)
                raise ValueError("\ud800 text")
    """)
    said = {}
    for kind in ("silent", "endless", "deep", "other"):
        _, [response], _ = host.execute([{"id": kind}])
        assert response.kind == 2
        said[kind] = response.message
    assert "message: Silent: <ValueError in its __str__>\n" in said["silent"]
    assert 1 << 20 < len(said["endless"]) < 2 << 20
    assert "message: RecursionError: maximum recursion depth" in said["deep"]
    assert "message: ValueError: ? text\n" in said["other"]
