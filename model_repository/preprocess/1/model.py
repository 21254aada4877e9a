# SPDX-License-Identifier: Apache-2.0
"""A picture of a handwritten digit, as 8 x 8 pixels from 0 (paper) to 16 (ink)."""
import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image

SIDE = 8
INK = 16


def pixels(file):
    """FP32 [64] of the image file `file` (bytes). Dark ink on light paper is turned round."""
    with Image.open(io.BytesIO(file)) as image:
        grey = np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX), np.float32)
    edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    if edge.mean() > 127:
        grey = 255 - grey
    return (grey * (INK / 255)).reshape(-1)


class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    @staticmethod
    def respond(request):
        files = pb_utils.get_input_tensor_by_name(request, "file").as_numpy()
        try:
            images = np.stack([pixels(file) for file in files[:, 0]])
        except (OSError, Image.DecompressionBombError) as error:
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError(f"'file' is no image: {error}", pb_utils.TritonError.INVALID_ARG))
        return pb_utils.InferenceResponse([pb_utils.Tensor("image", images)])
