# SPDX-License-Identifier: Apache-2.0
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Asks the model that an input names, an element of TYPE_STRING as it is."""

    def execute(self, requests):
        responses = []
        for request in requests:
            name = pb_utils.get_input_tensor_by_name(request, "MODEL_NAME").as_numpy()[0]
            operands = [pb_utils.get_input_tensor_by_name(request, operand) for operand in ("INPUT0", "INPUT1")]
            call = pb_utils.InferenceRequest(
                model_name=name, requested_output_names=["OUTPUT0", "OUTPUT1"], inputs=operands
            )
            answer = call.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            responses.append(pb_utils.InferenceResponse(output_tensors=answer.output_tensors()))
        return responses
