"""What a batch of requests comes to: decoding, `execute`, its checks, the answer."""

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


def test_outputs_that_are_not_requested_are_left_out(started):
    host = started(ADD_SUB)
    one = np.ones(1, np.int32)
    _, [response], _ = host.execute([{"inputs": {"A": one, "B": one}, "outputs": ["DIFF"]}])
    assert list(response.outputs) == ["DIFF"]
