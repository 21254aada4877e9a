# SPDX-License-Identifier: Apache-2.0
"""Python models and the server around them: readiness, models that load others, calls that are given up, BF16."""
import json
import pathlib

import ml_dtypes
import numpy as np
import pytest
from conftest import make_identity, wait_for
from python_models import infer, make_python
from python_sides import put_model
from streaming import events

pytestmark = pytest.mark.gpu_host


def test_a_model_says_whether_it_is_ready(start_server, repository):
    directory = make_python(repository, "moody", """
        def initialize(self, args):
            self.directory = args["model_repository"]
        def is_ready(self):
            return not os.path.exists(f"{self.directory}/asleep")
        def execute(self, requests):
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository)
    readiness = ["/v2/models/moody/ready", "/v2/health/ready"]
    for is_asleep in (False, True, False):
        if is_asleep:
            pathlib.Path(directory / "asleep").touch()
        else:
            (directory / "asleep").unlink(missing_ok=True)
        assert [server.ask(path).status == 200 for path in readiness] == [not is_asleep] * 2
        assert infer(server, "moody").tolist() == [1]


LOADS = """
        def execute(self, requests):
            (request,) = requests
            given = json.loads(request.parameters())
            pb_utils.load_model(model_name=given["model"])
            return [answer(np.array([pb_utils.is_model_ready(model_name=given["model"])], np.int32))]
        """


def load(server, **parameters):
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [1]}], "parameters": parameters}
    answer = server.ask("/v2/models/loads/infer", json.dumps(body).encode())
    return answer.status, answer.text


def test_a_model_that_cannot_load_another_hears_why(start_server, repository):
    make_python(repository, "loads", LOADS)
    make_python(repository, "broken", "import no_such_module_at_all")
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=loads"])
    for model, expected in (("broken", "no_such_module_at_all"), ("nobody", "nobody")):
        status, text = load(server, model=model)
        assert status == 500
        assert "Failed to load model" in text and expected in text
    make_identity(repository, "spare")
    assert load(server, model="spare")[0] == 200


def test_a_call_that_is_given_up_ends_what_it_asked_for(start_server, repository):
    put_model(repository, "endless")
    make_python(repository, "impatient", """
        def execute(self, requests):
            call = pb_utils.InferenceRequest(model_name="endless", requested_output_names=["OUTPUT0"],
                                             inputs=[pb_utils.Tensor("INPUT0", np.array([1], np.int32))])
            seen = []
            for response in (responses := call.exec(decoupled=True)):
                if response.has_error():
                    assert response.error().code() == pb_utils.TritonError.CANCELLED, response.error().message()
                    break
                if response.output_tensors():
                    seen.append(int(pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()[0]))
                if len(seen) == 3:
                    responses.cancel()
            return [answer(np.array(seen[:3], np.int32)) for _ in requests]
        """)
    server = start_server(repository)
    for times in (1, 2):
        assert infer(server, "impatient").tolist() == [0, 1, 2]
        wait_for("the end of the work", lambda: server.log.count("endless: given up") == times)


def test_a_decoupled_model_that_returns_responses_is_told(start_server, repository):
    make_python(repository, "returns", """
        def execute(self, requests):
            return [answer(value(request)) for request in requests]
        """, more="model_transaction_policy { decoupled: true }")
    server = start_server(repository)
    stream = server.ask("/v2/models/returns/generate_stream", b'{"IN": [1]}')
    text = stream.text if stream.status != 200 else events(stream.text)[0]["error"]
    assert "using the decoupled mode" in text and "must return None" in text


def test_bf16_goes_through_dlpack(start_server, repository):
    make_python(repository, "halves", """
        def execute(self, requests):
            responses = []
            for request in requests:
                given = pb_utils.get_input_tensor_by_name(request, "IN")
                response = pb_utils.Tensor.from_dlpack("OUT", given.to_dlpack())
                responses.append(pb_utils.InferenceResponse([response]))
            return responses
        """, kind="TYPE_BF16")
    server = start_server(repository)
    data = np.array([1.5, -2, 0, 3.0e38], ml_dtypes.bfloat16)
    assert infer(server, "halves", data, "BF16").tolist() == data.tolist()
