# SPDX-License-Identifier: Apache-2.0
"""Models with a sequence batcher, for nereid and for Triton: what they answer says what they were given."""
import numpy as np
import tritonclient.http as triton
from python_models import make_python, tensor

BOOLEANS = {"int32": "int32_false_true: [ 0, 1 ]", "fp32": "fp32_false_true: [ 0, 1 ]", "bool": "bool_false_true: [ false, true ]"}
KINDS = ("START", "END", "READY")

# OUT of each request: the sum of its sequence so far, START, END, READY, the row in the batch, the batch's size, those of it that are no null
# requests. Where IN has a second element the execution waits for the file `go` beside the model.
SUMS = """
def initialize(self, args):
    self.sums = {}
    self.name = args["model_instance_name"]
def execute(self, requests):
    rows = [{name: value(r, name).reshape(-1)[0] for name in ("START", "END", "READY", "CORRID")} for r in requests]
    data = [value(r).reshape(-1) for r in requests]
    real = sum(int(row["READY"]) for row in rows)
    while any(len(d) > 1 for d in data) and not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
        time.sleep(0.001)
    answers = []
    for n, (request, row, given) in enumerate(zip(requests, rows, data)):
        who = row["CORRID"]
        if row["READY"]:
            self.sums[who] = (0 if row["START"] else self.sums.get(who, -1000)) + int(given[0])
        out = [self.sums.get(who, 0), int(row["START"]), int(row["END"]), int(row["READY"]), n, len(requests), real]
        answers.append(answer(np.array(out, np.int32).reshape(request_shape(request))))
    return answers
"""


def controls(boolean="int32", corrid="TYPE_UINT64"):
    inputs = [f'control_input [ {{ name: "{kind}" control [ {{ kind: CONTROL_SEQUENCE_{kind} {BOOLEANS[boolean]} }} ] }} ]' for kind in KINDS]
    inputs.append(f'control_input [ {{ name: "CORRID" control [ {{ kind: CONTROL_SEQUENCE_CORRID data_type: {corrid} }} ] }} ]')
    return " ".join(inputs)


def make_sequences(repository, name="m", strategy="direct { }", idle_us=0, max_batch_size=4, count=1, boolean="int32", corrid="TYPE_UINT64", body=SUMS, more=""):
    """`strategy` is that of the configuration."""
    idle = f"max_sequence_idle_microseconds: {idle_us}" if idle_us else ""
    batching = f"sequence_batching {{ {strategy} {idle} {controls(boolean, corrid)} }} {more}"
    shape = "(1, 7)" if max_batch_size else "(7,)"
    body = body.replace("request_shape(request)", shape)
    return make_python(repository, name, body, max_batch_size=max_batch_size, count=count, more=batching)


def values(*numbers, batch=True):
    data = np.array(numbers, np.int32)
    return tensor(data.reshape(1, -1) if batch else data)


def step(client, number, sequence, start=False, end=False, model="m", batch=True, **more):
    """One request of a sequence over HTTP; gives what the model says, see SUMS."""
    answer = client.infer(model, [values(number, batch=batch)], sequence_id=sequence, sequence_start=start, sequence_end=end, **more)
    return answer.as_numpy("OUT").reshape(-1).tolist()


def http_client(server, concurrency=1):
    return triton.InferenceServerClient(server.url, concurrency=concurrency)
