# SPDX-License-Identifier: Apache-2.0
"""Models from packages of other people, what they are asked, and how their answers are read."""
import json

import frameworks
import numpy as np

# ---- pitch: which notes sound (basic-pitch) ----

PITCH_RATE, PITCH_SAMPLES = 22050, 43844
LOWEST_KEY = 21  # of a piano: A0 as MIDI counts
ONSET, NOTE, CONTOUR = ("onset", "StatefulPartitionedCall:2"), ("note", "StatefulPartitionedCall:1"), ("contour", "StatefulPartitionedCall:0")


def pitch_file(ending):
    """The same model as onnx, tflite or savedmodel."""
    directory = frameworks.package("basic-pitch") / "basic_pitch/saved_models/icassp_2022"
    return directory / ("nmp" if ending == "savedmodel" else f"nmp.{ending}")


def sine(hertz, rate=PITCH_RATE, samples=PITCH_SAMPLES):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(samples) / rate)).astype(np.float32)


def loudest_key(notes):
    """The MIDI number of a [1, time, 88]; A4 is 69."""
    return LOWEST_KEY + int(notes.mean(axis=(0, 1)).argmax())


# ---- voice: whether somebody speaks (silero-vad), 16 kHz ----

VOICE_RATE, WINDOW, CONTEXT = 16000, 512, 64


def voice_file(name):
    return frameworks.package("silero-vad") / f"silero_vad/data/{name}.onnx"


def vowels(seconds=1):
    """A, I, U, E: pulses as from vocal cords through the resonances of a mouth."""
    from scipy.signal import lfilter

    time = np.arange(seconds * VOICE_RATE) / VOICE_RATE
    phase = np.cumsum(120 + 15 * np.sin(2 * np.pi * 3 * time)) / VOICE_RATE
    cords = np.diff(np.floor(phase), prepend=0) + np.random.default_rng(0).normal(0, 0.01, time.size)
    sound, length = np.zeros(time.size), VOICE_RATE // 5
    mouths = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480)]
    for begin in range(0, time.size, length):
        part = cords[begin : begin + length]
        for resonance in mouths[begin // length % len(mouths)]:
            damping = np.exp(-np.pi * 80 / VOICE_RATE)
            part = lfilter([1 - damping], [1, -2 * damping * np.cos(2 * np.pi * resonance / VOICE_RATE), damping**2], part)
        sound[begin : begin + length] = part * np.minimum(1, np.minimum(np.arange(part.size), np.arange(part.size)[::-1]) / 800)
    return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def voice_windows(sound):
    """What the model gets, one after the other: each window has the end of the one before in front."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), sound])
    return [padded[None, k : k + CONTEXT + WINDOW] for k in range(0, sound.size - WINDOW + 1, WINDOW)]


# ---- what a file is (magika) ----


def file_type_model():
    return frameworks.package("magika") / "magika/models/standard_v3_3/model.onnx"


def file_type_input(content):
    """[1, 2048]: 1,024 bytes of the beginning, and of the end, without white space around; 256 where there are none."""
    block, size, nothing = 4096, 1024, 256
    first, last = content[:block].lstrip()[:size], content[-block:].rstrip()[-size:]
    values = [*first, *[nothing] * (size - len(first)), *[nothing] * (size - len(last)), *last]
    return np.array([values], np.int32)


def file_type(scores):
    labels = json.loads(file_type_model().with_name("config.min.json").read_text())["target_labels_space"]
    return labels[int(scores.argmax())]


# ---- text in pictures (PaddleOCR's models, from rapidocr) ----


def reader_file(name):
    return frameworks.package("rapidocr-onnxruntime") / "rapidocr_onnxruntime/models" / name


READER, TURN = "ch_PP-OCRv4_rec_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx"


def line_of_text(text, turned=False):
    """[1, 3, 48, width]: black on white, from -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=32)
    picture = Image.new("RGB", (int(font.getlength(text)) + 24, 48), "white")
    ImageDraw.Draw(picture).text((12, 4), text, fill="black", font=font)
    if turned:
        picture = picture.rotate(180)
    return np.ascontiguousarray(np.asarray(picture, np.float32).transpose(2, 0, 1)[None] / 127.5 - 1)


def to_turn_size(image):
    """[1, 3, 48, 192], white where there is nothing."""
    filled = np.ones((1, 3, 48, 192), np.float32)
    width = min(192, image.shape[3])
    filled[..., :width] = image[..., :width]
    return filled


def read_text(probabilities):
    """The characters of a [1, time, 6625]: equal neighbours are one, 0 is none."""
    import onnxruntime

    session = onnxruntime.InferenceSession(reader_file(READER))
    characters = ["", *session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
    best = probabilities[0].argmax(axis=1)
    return "".join(characters[value] for i, value in enumerate(best) if i == 0 or value != best[i - 1])
