# SPDX-License-Identifier: Apache-2.0
"""Whose memory tensors are in, how long it stays, and when it goes back."""

import json

import numpy as np
import pytest

from host import BF16, DECOUPLED, LEVELS, RELEASED, Host, Raw
from patience import PATIENCE

LARGE = 1 << 20

WHERE = """
import _nereid

def where():
    return _nereid.memory()[0]

class TritonPythonModel:
    kept = None

    def execute(self, requests):
        responses = []
        for request in requests:
            before = where()
            array = request.inputs()[0].as_numpy() + 1
            placed = where() - before >= array.nbytes
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)], parameters={"placed": placed})
            responses.append(response)
        return responses
"""


SIZES = (4, 8191, 8192, 100000)  # of float64: large ones are views


def test_inputs_may_be_written_and_stay_what_was_sent(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for number, request in enumerate(requests):
                    tensor, other = request.inputs()
                    array = tensor.as_numpy()
                    said = {"owns": array.flags.owndata, "same": array is tensor.as_numpy(), "sum": int(array.sum())}
                    array += number + 1
                    responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array), tensor, other], parameters=said))
                assert all(np.all(r.inputs()[0].as_numpy() == n + 1) for n, r in enumerate(requests))
                return responses
    """)
    for is_again in (False, True, True):  # in the memory of before; then they are copies
        _, responses, _ = host.execute([{"inputs": {"X": np.zeros(size), "Y": np.full(size, 5.0)}} for size in SIZES])
        for number, (size, response) in enumerate(zip(SIZES, responses)):
            assert response.kind == 1, response.message
            said = json.loads(response.parameters)
            assert said == {"owns": size < 8192 or is_again, "same": True, "sum": 0}
            assert (response.outputs["OUT"] == number + 1).all()
            assert (response.outputs["X"] == 0).all() and (response.outputs["Y"] == 5).all()


def test_what_was_written_is_gone_with_the_array(started):
    host = started("""
        class TritonPythonModel:
            kept = None

            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                seen = array.copy()
                if requests[0].request_id():
                    array[len(array) // 2] = -1
                TritonPythonModel.kept = array if requests[0].request_id() == "keep" else None
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", seen)])]
    """)
    ids = ["", "write", "", "keep", "write", "", "keep", "keep", "", "write", "write", ""]
    # after one that was written to 64 are copied
    for number, id in enumerate(id for first in ids for id in [first, *[""] * 64 * (first != "")]):
        value = np.arange(number, number + (1 << 15), dtype=np.int32)
        _, [response], _ = host.execute([{"id": id, "inputs": {"X": value}}])
        assert (response.outputs["OUT"] == value).all()


def test_a_tensor_without_elements_may_be_written_too(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                array[:] = 1
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]
    """)
    _, [response], _ = host.execute([{"inputs": {"X": np.zeros((0, 3))}}])
    assert response.kind == 1 and response.outputs["OUT"].shape == (0, 3)


def test_what_a_child_process_writes_to_an_input_is_its_own(started):
    host = started("""
        import os

        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                array[1] = 4
                child = os.fork()
                if child == 0:
                    array[0] += 6
                    os._exit(int(array[0] + array[1]))
                status = os.WEXITSTATUS(os.waitpid(child, 0)[1])
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)], parameters={"child": status})]
    """)
    for size in (3, 50000):
        _, [response], _ = host.execute([{"inputs": {"X": np.full(size, 3, np.int16)}}])
        assert response.parameters == '{"child": 13}'
        assert response.outputs["OUT"].tolist() == [3, 4] + [3] * (size - 2)


def test_an_input_stays_as_long_as_its_array_is_kept(started):
    host = started("""
        class TritonPythonModel:
            kept = []

            def execute(self, requests):
                if requests[0].request_id() == "let go":
                    self.kept.clear()
                    return [pb_utils.InferenceResponse()]
                self.kept.append(requests[0].inputs()[0].as_numpy()[1:])
                return [pb_utils.InferenceResponse([pb_utils.Tensor("SUM", sum(a.sum() for a in self.kept).reshape(1))])]
    """)
    for number in range(1, 4):
        flags, [response], _ = host.execute([{"inputs": {"X": np.full(10000, float(number))}}])
        assert not flags & RELEASED and response.outputs["SUM"] == 9999 * sum(range(number + 1))
    assert host.used() > 3 * 80000
    host.execute([{"id": "let go"}])
    host.execute([{}])
    host.await_unused()
    assert len(host.releases) == 3


def check_places(host):
    for number in range(20):
        _, [large, small], _ = host.execute(
            [{"inputs": {"X": np.full(LARGE, number, np.float32)}}, {"inputs": {"X": np.zeros(4, np.float32)}}]
        )
        assert large.parameters == '{"placed": true}', large.message
        assert small.parameters == '{"placed": false}'
        assert (large.outputs["OUT"] == number + 1).all()
        assert large.outputs.places["OUT"] != host.data_place == small.outputs.places["OUT"]


def test_large_outputs_are_made_where_the_server_reads_them(started):
    """test_interpreters.py asks each interpreter."""
    check_places(started(WHERE))


def test_what_is_not_contiguous_or_not_made_here_is_copied(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                return [pb_utils.InferenceResponse([
                    pb_utils.Tensor("SAME", array), requests[0].inputs()[0], pb_utils.Tensor("TURNED", array.T),
                    pb_utils.Tensor("EACH", (array + 0)[::2]), pb_utils.Tensor("PART", (array + 0)[100:200])])]
    """)
    value = np.arange(300 * 400, dtype=np.int32).reshape(300, 400)
    _, [response], _ = host.execute([{"inputs": {"X": value}}])
    for name, expected in {"SAME": value, "X": value, "TURNED": value.T, "EACH": value[::2],
                           "PART": value[100:200]}.items():  # fmt: skip
        assert (response.outputs[name] == expected).all()


def test_a_sent_array_may_be_changed_at_once(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                sender = requests[0].get_response_sender()
                array = np.empty(1 << 18, np.float32)
                for number in range(50):
                    array[:] = number
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
                    array[:] = -1
                sender.send(flags=1)
    """)
    host.execute([{"handle": 1}], LEVELS | DECOUPLED)
    host.await_call(lambda call: call.kind == 1 and call.flags == 1)
    responses = [call.response for call in host.calls if call.kind == 1][:-1]
    assert [set(response.outputs["OUT"]) for response in responses] == [{number} for number in range(50)]


def test_free_memory_goes_back_when_the_worker_is_idle(started):
    import time

    host = started(WHERE)
    host.execute([{"inputs": {"X": np.zeros(16 * LARGE, np.float32)}}])
    blocks = host.region_pages()
    assert blocks * 512 > 64 * LARGE
    deadline = time.monotonic() + PATIENCE
    while host.region_pages() * 512 > 2 * 64 * LARGE * 0.6 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert host.region_pages() * 512 < 2 * 64 * LARGE * 0.6  # the host's own block of inputs is left


def test_dlpack_goes_both_ways(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                given, brain = requests[0].inputs()
                taken = pb_utils.Tensor.from_dlpack("TAKEN", given)
                capsule = pb_utils.Tensor.from_dlpack("CAPSULE", given.to_dlpack())
                if hasattr(np, "from_dlpack"):
                    array = np.from_dlpack(given)
                else:
                    array = given.as_numpy()
                try:
                    brain.as_numpy()
                except pb_utils.TritonModelException as problem:
                    said = str(problem)
                again = pb_utils.Tensor.from_dlpack("BRAIN", brain.to_dlpack())
                assert again.triton_dtype() == 14 and again.shape() == [2, 2]
                assert given.__dlpack_device__() == (1, 0)
                return [pb_utils.InferenceResponse(
                    [taken, capsule, pb_utils.Tensor("ARRAY", array + 0), again], parameters={"said": said})]
    """)
    value = np.arange(6, dtype=np.int16).reshape(2, 3)
    brain = Raw(BF16, (2, 2), b"12345678")
    _, [response], _ = host.execute([{"inputs": {"X": value, "B": brain}}])
    assert response.kind == 1, response.message
    for name in ("TAKEN", "CAPSULE", "ARRAY"):
        assert (response.outputs[name] == value).all()
    assert response.outputs["BRAIN"].data == brain.data
    assert "Tensor dtype is BF16 and cannot be converted to NumPy" in response.parameters


def test_an_array_without_elements_is_contiguous_for_dlpack_whatever_its_strides(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                masked = np.zeros((5, 4), np.float32)[np.zeros(5, bool)]
                turned = np.zeros((3, 0, 4), np.float32).transpose(2, 0, 1)
                strided = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (0, 4), (28, 12))
                given = {"MASKED": masked, "TURNED": turned, "STRIDED": strided}
                if not hasattr(masked, "__dlpack__"):
                    return [pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in given.items()])]
                return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack(name, array) for name, array in given.items()])]
    """)
    _, [response], _ = host.execute([{}])
    assert response.kind == 1, response.message
    assert {name: array.shape for name, array in response.outputs.items()} == {"MASKED": (0, 4), "TURNED": (4, 3, 0), "STRIDED": (0, 4)}
