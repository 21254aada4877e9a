# SPDX-License-Identifier: Apache-2.0
"""What the worker's side of one request costs: bench/python_worker.py [interpreter].

1,000 batches of one request wait in the ring; the worker's time for all of them is taken. So nothing of the server and
no waking is in it: decoding, the model's execute (add and subtract of 16 floats), encoding, the answer.
"""

import ctypes
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))

import numpy as np

import host as testing

ADD_SUB = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]))
        return responses
"""
BARE = """
class TritonPythonModel:
    def execute(self, requests):
        return [None] * len(requests)
"""
COUNT = 1000


class Waiting(testing.Host):
    """A host that sends first and reads the answers later."""

    is_waiting = False

    def answer(self):
        if not self.is_waiting:
            return super().answer()

        class Nothing:
            responses = None

        return 0, Nothing


def measure(directory, interpreter):
    values = np.arange(16, dtype=np.float32)
    batch = [{"inputs": {"INPUT0": values, "INPUT1": values}, "outputs": ["OUTPUT0", "OUTPUT1"]}]
    with Waiting(interpreter) as host:
        host.start(directory)
        best = None
        for _ in range(7):
            host.is_waiting = True
            host.process.send_signal(19)  # SIGSTOP: it begins when all is there
            for _ in range(COUNT):
                host.execute(batch)
            host.is_waiting = False
            start = time.perf_counter()
            host.process.send_signal(18)
            message = testing.Message()
            for _ in range(COUNT):
                testing._channel.channel_receive(host._self, testing.ANSWERS, -1, ctypes.byref(message))
                testing._channel.channel_done(host._self, testing.ANSWERS)
            taken = (time.perf_counter() - start) / COUNT * 1e6
            best = taken if best is None else min(best, taken)
        return best


class Timed(testing.Host):
    """A host that notes how long the worker has a batch."""

    sent = None

    def send(self, ring, *arguments, **named):
        self.sent = time.perf_counter()
        super().send(ring, *arguments, **named)

    def _read(self, offset, size):
        if self.sent is not None:
            self.taken, self.sent = time.perf_counter() - self.sent, None
        return super()._read(offset, size)


def measure_large(directory, interpreter):
    """The least time from the work to its answer, in microseconds."""
    values = np.ones(1 << 20, np.float32)
    batch = [{"inputs": {"INPUT0": values, "INPUT1": values}, "outputs": ["OUTPUT0", "OUTPUT1"]}]
    taken = []
    with Timed(interpreter) as host:
        host.start(directory)
        for _ in range(30):
            host.execute(batch)
            taken.append(host.taken * 1e6)
    return min(taken)


def main():
    interpreter = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with tempfile.TemporaryDirectory() as scratch:
        for name, code in (("add_sub", ADD_SUB), ("no response", BARE)):
            directory = pathlib.Path(scratch) / name.replace(" ", "_")
            (directory / "1").mkdir(parents=True)
            (directory / "1" / "model.py").write_text(code)
            print(f"{name}: {measure(directory, interpreter):.1f} us a request")
            if name == "add_sub":
                print(f"{name}, tensors of 4 MiB: {measure_large(directory, interpreter):.0f} us a request")


if __name__ == "__main__":
    main()
