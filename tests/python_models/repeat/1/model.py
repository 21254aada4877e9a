# SPDX-License-Identifier: Apache-2.0
import threading

import numpy
import triton_python_backend_utils as pb_utils


def answer(sender, values):
    for value in values:
        if value < 0:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(f"{value} is negative")))
        else:
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array([value], numpy.int32))]))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class TritonPythonModel:
    """One response for each value of the input, an error for negative ones, sent by a thread after execute returned."""

    def initialize(self, args):
        self.threads = []

    def execute(self, requests):
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy().copy()
            thread = threading.Thread(target=answer, args=(request.get_response_sender(), values))
            thread.start()
            self.threads.append(thread)

    def finalize(self):
        for thread in self.threads:
            thread.join()
