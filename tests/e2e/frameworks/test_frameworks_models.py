# SPDX-License-Identifier: Apache-2.0
"""Models that other people made and whose answers are known: the beginnings of files, drawn text, a voice. On ONNX Runtime and on OpenVINO."""
import io
import shutil
import zipfile

import frameworks
import numpy as np
import pytest
import real_models as real
import tritonclient.http as triton
from conftest import BUILD, ROOT, Starter

BACKENDS = ["onnxruntime", pytest.param("openvino", marks=frameworks.needs("openvino"))]
MODELS = {
    "types": (lambda: real.file_type_model(), [("bytes", "INT32", [2048])], [("target_label", [214])]),
    "reader": (lambda: real.reader_file(real.READER), [("x", "FP32", [3, 48, -1])], [("softmax_11.tmp_0", [-1, 6625])]),
    "turn": (lambda: real.reader_file(real.TURN), [("x", "FP32", [3, 48, 192])], [("save_infer_model/scale_0.tmp_1", [2])]),
}
pytestmark = [frameworks.needs("magika", "rapidocr-onnxruntime", "silero-vad"), pytest.mark.slow, pytest.mark.once]


def config(backend, inputs, outputs, more=""):
    tensors = [f'input {{ name: "{name}" data_type: TYPE_{type} dims: {dims} }}' for name, type, dims in inputs]
    tensors += [f'output {{ name: "{name}" data_type: TYPE_FP32 dims: {dims} }}' for name, dims in outputs]
    return "\n".join([f'backend: "{backend}" default_model_filename: "model.onnx"', *tensors, more])


def add_model(repository, name, file, text):
    (repository / name / "1").mkdir(parents=True)
    shutil.copy(file, repository / name / "1/model.onnx")
    (repository / name / "config.pbtxt").write_text(text)


@pytest.fixture(scope="module", params=BACKENDS)
def client(request, nereid, backends, tmp_path_factory):
    """Of a server of all models on one framework."""
    repository = tmp_path_factory.mktemp("models")
    for name, (file, inputs, outputs) in MODELS.items():
        add_model(repository, name, file(), config(request.param, inputs, outputs, "max_batch_size: 4 dynamic_batching { }"))
    add_voice(repository, request.param)
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    server = starter(repository, flags=frameworks.settings(request.param))
    with triton.InferenceServerClient(server.url, concurrency=8) as client:
        yield client
    starter.stop_all()


def tensor(name, values):
    return triton.InferInput(name, values.shape, {"float32": "FP32", "int32": "INT32", "int64": "INT64"}[values.dtype.name]).set_data_from_numpy(values)


# ---- what a file is ----


def zipped():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(ROOT / "README.md")
    return data.getvalue()


def picture():
    from PIL import Image

    data = io.BytesIO()
    Image.linear_gradient("L").save(data, "PNG")
    return data.getvalue()


FILES = {
    "c": lambda: (ROOT / "src/config/backend_traits.c").read_bytes(),
    "python": lambda: (ROOT / "tests/e2e/conftest.py").read_bytes(),
    "markdown": lambda: (ROOT / "README.md").read_bytes(),
    "shell": lambda: (ROOT / "scripts/setup").read_bytes(),
    "cmake": lambda: (ROOT / "CMakeLists.txt").read_bytes(),
    "elf": lambda: (BUILD / "bin/nereid").read_bytes(),
    "onnx": lambda: (ROOT / "model_repository/digits/1/model.onnx").read_bytes(),
    "zip": zipped,
    "png": picture,
}


def test_files_are_what_they_are(client):
    pending = {name: client.async_infer("types", [tensor("bytes", real.file_type_input(content()))]) for name, content in FILES.items()}
    found = {name: real.file_type(request.get_result().as_numpy("target_label")) for name, request in pending.items()}
    assert found == {name: name for name in FILES}


# ---- text ----


@pytest.mark.parametrize("text", ["nereid", "Hello, world", "440 Hz", "x + 3.14 = y"])
def test_drawn_text_is_read(client, text):
    result = client.infer("reader", [tensor("x", real.line_of_text(text))]).as_numpy("softmax_11.tmp_0")
    assert result.shape[0] == 1 and real.read_text(result).replace(" ", "") == text.replace(" ", "")


def test_text_that_stands_on_its_head_is_noticed(client):
    """The upright picture and the turned one of each text, in one batch."""
    for text in ("nereid", "Hello, world", "model"):
        pictures = [real.to_turn_size(real.line_of_text(text, turned)) for turned in (False, True)]
        upright, turned = client.infer("turn", [tensor("x", np.concatenate(pictures))]).as_numpy("save_infer_model/scale_0.tmp_1")
        assert upright.argmax() == 0 and turned.argmax() == 1, text


# ---- a voice, with its state in the sequence batcher ----

# a slot for each of three sequences
STATE = """
sequence_batching {
  max_sequence_idle_microseconds: 300000000
  state { input_name: "state" output_name: "stateN" data_type: TYPE_FP32 dims: [ 2, 1, 128 ]
          initial_state { name: "nothing yet" data_type: TYPE_FP32 dims: [ 2, 1, 128 ] zero_data: true } }
}
instance_group { count: 3 }
"""


def add_voice(repository, backend):
    """ONNX Runtime gets the rate with each request, OpenVINO a model made for one rate."""
    inputs = [("input", "FP32", [1, real.CONTEXT + real.WINDOW])]
    name = "silero_vad_openvino_16k"
    if backend == "onnxruntime":
        inputs, name = [*inputs, ("sr", "INT64", [1])], "silero_vad_16k_op15"
    add_model(repository, "voice", real.voice_file(name), config(backend, inputs, [("output", [1, 1])], STATE))


def expected(sound):
    """As a program of one's own has it, which keeps the state itself."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(real.voice_file("silero_vad_16k_op15"), options)
    state, found = np.zeros((2, 1, 128), np.float32), []
    for window in real.voice_windows(sound):
        probability, state = session.run(None, {"input": window, "state": state, "sr": np.array(real.VOICE_RATE, np.int64)})
        found.append(probability[0, 0])
    return np.array(found)


def test_a_voice_is_heard_and_each_sequence_has_its_own_state(client):
    """A voice, a tone and silence, window by window in turns."""
    sounds = [real.vowels(), real.sine(440, real.VOICE_RATE, real.VOICE_RATE), np.zeros(real.VOICE_RATE, np.float32)]
    needs_rate = any(row["name"] == "sr" for row in client.get_model_metadata("voice")["inputs"])
    windows = [real.voice_windows(sound) for sound in sounds]
    found = [[] for _ in sounds]
    for i in range(len(windows[0])):
        for number, window in enumerate(windows):
            inputs = [tensor("input", window[i])]
            if needs_rate:
                inputs.append(tensor("sr", np.array([real.VOICE_RATE], np.int64)))
            result = client.infer("voice", inputs, sequence_id=number + 1, sequence_start=i == 0, sequence_end=i == len(windows[0]) - 1)
            found[number].append(result.as_numpy("output")[0, 0])
    for sound, answers in zip(sounds, found):
        np.testing.assert_allclose(answers, expected(sound), atol=1e-4)
    voice, tone, silence = map(np.array, found)
    assert voice[15:].mean() > 0.5 and max(tone.max(), silence.max()) < 0.1
