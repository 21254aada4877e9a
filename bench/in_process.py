#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime without a server: in_process.py MODEL CALLERS INTRA_OP_THREADS ROWS SECONDS

CALLERS threads call one session without a pause, with ROWS rows each time. Prints the figures of bench/sides.py as JSON.
"""
import json
import sys
import threading
import time

import numpy
import onnxruntime


def main():
    callers, threads, rows, seconds = map(int, sys.argv[2:])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    width = session.get_inputs()[0].shape[1]
    data = {"INPUT0": numpy.random.default_rng(1).standard_normal((rows, width), numpy.float32)}
    session.run(None, data)
    counts = [0] * callers
    begin, cpu = time.monotonic(), time.process_time()

    def call(caller):
        while time.monotonic() < begin + seconds:
            session.run(None, data)
            counts[caller] += 1

    running = [threading.Thread(target=call, args=(i,)) for i in range(callers)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    requests = sum(counts)
    print(json.dumps({"requests": requests, "rps": requests / (time.monotonic() - begin),
                      "cpu": (time.process_time() - cpu) / requests * 1e6}))


if __name__ == "__main__":
    main()
