# SPDX-License-Identifier: Apache-2.0
import itertools
import time

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Counts on until its client gives up, with a pause of INPUT0 milliseconds after each number."""

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            pause = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy().item() / 1000
            for value in itertools.count():
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array([value], numpy.int32))]))
                if pause:
                    time.sleep(pause)
            pb_utils.Logger.log_info(f"endless: given up after {value}")
            error = pb_utils.TritonError("given up", pb_utils.TritonError.CANCELLED)
            sender.send(pb_utils.InferenceResponse(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
