# SPDX-License-Identifier: Apache-2.0
"""One extension file, every CPython from 3.8 on."""

import numpy as np
import pytest

import host as testing
import interpreters
from host import BYTES, Host, Raw, text
from test_memory import WHERE, check_places

FOUND = interpreters.found()

MODEL = """
import asyncio

class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("name", "what", pb_utils.MetricFamily.GAUGE)
        self.metric = self.family.Metric({"a": "b"})
        self.metric.set(2.5)

    async def execute(self, requests):
        responses = []
        for request in requests:
            pb_utils.Logger.log_info("hello " + request.request_id())
            call = pb_utils.InferenceRequest(
                model_name="other", requested_output_names=["X"], inputs=[pb_utils.Tensor("X", np.arange(3.0))])
            answers = await asyncio.gather(*[call.async_exec() for _ in range(3)])
            outputs = [pb_utils.Tensor(t.name(), np.array(t.as_numpy())) for t in request.inputs()]
            outputs.append(pb_utils.Tensor("CALLED", sum(pb_utils.get_output_tensor_by_name(a, "X").as_numpy() for a in answers)))
            responses.append(pb_utils.InferenceResponse(outputs, parameters={"key": 1}))
        return responses
"""


def test_there_is_at_least_one_interpreter():
    print("interpreters:", ", ".join(".".join(map(str, version)) for version in FOUND))
    assert FOUND


def serve(host, call):
    if call.kind == 5:  # an inference: its inputs, doubled
        _, _ = call.control.text(), call.control.get("q")
        call.control.text(), call.control.get("BQ"), call.control.get("IQQ"), call.control.text(), call.control.get("Q")
        for _ in range(call.control.get("I")):
            call.control.text()
        tensors = host.read_tensors(call.control)
        host.reply(call, outputs={name: value * 2 for name, value in tensors.items()})
    elif call.kind > 5:
        host.reply(call, value=17)


@pytest.mark.parametrize("version, path, numpy", list(interpreters.each()), ids=interpreters.name)
def test_a_model_that_uses_everything_runs_under(version, path, numpy, write_model):
    python = interpreters.with_numpy(version, numpy)
    inputs = {f"T{code}": np.arange(6).reshape(2, 3).astype(kind) for code, kind in testing.DTYPES.items()}
    inputs["EMPTY"] = np.empty((0, 4), np.float32)
    inputs["SCALAR"] = np.array(5, np.int64)
    inputs["TEXTS"] = Raw(BYTES, (2, 1), testing.bytes_form([b"", b"\0\xff text"]))
    with Host(str(python), on_call=serve) as host:
        assert host.load(write_model(MODEL)) == (0, 1, 0)
        host.initialize()
        _, [answer], _ = host.execute([{"inputs": inputs, "handle": 5, "id": "the id"}])
        assert answer.kind == 0, answer.message
        response = host.await_call(lambda call: call.kind == 1).response
        assert response.kind == 1, response.message
        assert response.parameters == '{"key": 1}'
        for name, value in inputs.items():
            output = response.outputs.pop(name)
            if isinstance(value, Raw):
                assert (output.datatype, tuple(output.shape), output.data) == (value.datatype, value.shape, value.data)
            else:
                assert output.dtype == value.dtype and output.shape == value.shape and (output == value).all()
        assert list(response.outputs) == ["CALLED"]
        assert (response.outputs["CALLED"] == np.arange(3.0) * 6).all()
        log = host.await_call(lambda call: call.kind == 3)
        assert log.flags == 1 and log.control.text() == "hello the id" and log.control.text() == "model.py"
        host.await_unused()
        assert host.finalize() == 0, host.output()


@pytest.mark.parametrize("version", FOUND, ids=interpreters.name)
def test_large_outputs_are_made_where_the_server_reads_them(version, write_model):
    python = interpreters.with_numpy(version)
    with Host(str(python)) as host:
        host.start(write_model(WHERE))
        check_places(host)
