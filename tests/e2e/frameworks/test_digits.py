# SPDX-License-Identifier: Apache-2.0
"""The example classifier through the server: real handwritten digits that its training never saw."""
import numpy as np
import pytest
import tritonclient.http as triton
from conftest import ROOT


@pytest.mark.slow  # scikit-learn has the digits
def test_digits_are_recognised_through_the_server(server, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from train_digits import split  # here: scikit-learn takes seconds, in each process that looks for tests

    _, images, _, labels = split()
    answers = []
    with triton.InferenceServerClient(server.url, concurrency=4) as client:
        pending = []
        for i in range(0, len(images), 4):
            batch = np.ascontiguousarray(images[i : i + 4])
            tensor = triton.InferInput("image", batch.shape, "FP32").set_data_from_numpy(batch, binary_data=i % 8 == 0)
            pending.append(client.async_infer("digits", [tensor]))
        for request in pending:
            result = request.get_result()
            digits = result.as_numpy("digit").reshape(-1)
            probabilities = result.as_numpy("probabilities")
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
            np.testing.assert_array_equal(probabilities.argmax(axis=1), digits)
            answers.extend(digits)
    assert len(answers) == len(labels) == 450
    accuracy = np.mean(np.array(answers) == labels)
    assert accuracy >= 0.95
