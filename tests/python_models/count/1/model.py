# SPDX-License-Identifier: Apache-2.0
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Keeps metrics of what it is asked: how often, the last value, all values."""

    def initialize(self, args):
        labels = {"model": args["model_name"]}
        families = [
            pb_utils.MetricFamily(name=f"asked_{name}", description=f"What was asked: {name}", kind=kind)
            for name, kind in (
                ("times", pb_utils.MetricFamily.COUNTER),
                ("last", pb_utils.MetricFamily.GAUGE),
                ("values", pb_utils.MetricFamily.HISTOGRAM),
            )
        ]
        self.families = families
        self.times = families[0].Metric(labels=labels)
        self.last = families[1].Metric(labels=labels)
        self.values = families[2].Metric(labels=labels, buckets=[1.0, 10.0])

    def execute(self, requests):
        responses = []
        for request in requests:
            value = float(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()[0])
            self.times.increment(1)
            self.last.set(value)
            self.values.observe(value)
            now = numpy.array([self.times.value(), self.last.value()], numpy.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", now)]))
        return responses
