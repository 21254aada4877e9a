import itertools

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Counts on until its client gives up."""

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in itertools.count():
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array([value], numpy.int32))]))
            error = pb_utils.TritonError("given up", pb_utils.TritonError.CANCELLED)
            sender.send(pb_utils.InferenceResponse(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
