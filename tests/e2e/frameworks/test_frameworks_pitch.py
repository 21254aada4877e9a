# SPDX-License-Identifier: Apache-2.0
"""One model of pitch in three formats on three frameworks: a sine of 440 Hz is A4 for all, and what they say of it is the same."""
import shutil

import frameworks
import numpy as np
import pytest
import real_models as real
import tritonclient.http as triton

A4 = 69
CONTOUR_OF_A4 = 145  # three steps a key
SAME = 5e-3  # of 1; at most 1.3e-3 was seen, on a processor without AVX-512
WAYS = [
    "onnxruntime onnx",
    pytest.param("openvino onnx", marks=frameworks.needs("openvino")),
    *(pytest.param(f"openvino {format}", marks=[frameworks.needs("openvino"), pytest.mark.slow]) for format in ("savedmodel", "tflite")),
    pytest.param("tensorflow savedmodel", marks=frameworks.needs("tensorflow")),
]
pytestmark = [frameworks.needs("basic-pitch"), pytest.mark.once]


def add_pitch(repository, backend, format):
    """Without its tensors: they are read off the model."""
    model = repository / "pitch"
    (model / "1").mkdir(parents=True)
    source, target = real.pitch_file(format), model / f"1/model.{format}"
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    platform = 'platform: "tensorflow_savedmodel"' if backend == "tensorflow" else ""
    (model / "config.pbtxt").write_text(f'backend: "{backend}" default_model_filename: "{target.name}" {platform}')


def named(result, names):
    return next(array for array in (result.as_numpy(name) for name in names) if array is not None)


def in_this_process(sound):
    import onnxruntime

    session = onnxruntime.InferenceSession(real.pitch_file("onnx"))
    names = [output.name for output in session.get_outputs()]
    results = dict(zip(names, session.run(names, {session.get_inputs()[0].name: sound})))
    return [next(results[name] for name in kind if name in results) for kind in (real.ONSET, real.NOTE, real.CONTOUR)]


@pytest.mark.parametrize("way", WAYS)
def test_a_sine_of_440_hz_is_a4(start_server, repository, way):
    backend, format = way.split()
    add_pitch(repository, backend, format)
    server = start_server(repository, flags=frameworks.settings(backend), variables=frameworks.variables())
    for hertz, key in ((440, A4), (261.63, 60)):
        sound = real.sine(hertz)[None, :, None]
        with triton.InferenceServerClient(server.url) as client:
            (row,) = client.get_model_metadata("pitch")["inputs"]
            result = client.infer("pitch", [triton.InferInput(row["name"], sound.shape, "FP32").set_data_from_numpy(sound)])
        onset, note, contour = (named(result, names) for names in (real.ONSET, real.NOTE, real.CONTOUR))
        assert real.loudest_key(note) == real.loudest_key(onset) == key
        assert hertz != 440 or contour.mean(axis=(0, 1)).argmax() == CONTOUR_OF_A4
        for mine, other in zip((onset, note, contour), in_this_process(sound)):
            np.testing.assert_allclose(mine, other, rtol=0, atol=SAME)
