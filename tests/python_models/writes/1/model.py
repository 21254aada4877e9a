# SPDX-License-Identifier: Apache-2.0
import json

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Writes where its tensors are, and tells what it sees then: JSON."""

    def execute(self, requests):
        responses = []
        for request in requests:
            told = json.dumps(self.write(request.inputs()[0])).encode()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array([told], numpy.object_))]))
        return responses

    def write(self, tensor):
        array = tensor.as_numpy()
        told = {"writeable": bool(array.flags.writeable), "same": numpy.shares_memory(array, tensor.as_numpy())}
        array[0] = 7
        told["again"] = tensor.as_numpy().tolist()
        # a tensor that is handed on is what was sent; who gets it may do with it what it likes
        request = pb_utils.InferenceRequest(model_name="doubles", requested_output_names=["OUTPUT0"], inputs=[tensor])
        answers = [pb_utils.get_output_tensor_by_name(request.exec(), "OUTPUT0").as_numpy() for _ in range(70)]
        told["called"] = list({tuple(answer.tolist()) for answer in answers})
        told["after"] = array.tolist()
        answers[0][:] = 1
        told["answers"] = [answer.tolist() for answer in answers[:2]]
        made = numpy.arange(100000, dtype=numpy.int32)
        request = pb_utils.InferenceRequest(
            model_name="doubles", requested_output_names=["OUTPUT0"], inputs=[pb_utils.Tensor("INPUT0", made)])
        told["made"] = int(pb_utils.get_output_tensor_by_name(request.exec(), "OUTPUT0").as_numpy()[-1]), int(made[-1])
        return told
