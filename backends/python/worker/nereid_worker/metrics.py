# SPDX-License-Identifier: Apache-2.0
"""Custom metrics. Families and metrics live in the server; these objects hold their numbers."""

import json
import struct
import weakref

from . import calls
from .errors import TritonModelException
from .texts import Named


class MetricKind(Named):
    """TRITONSERVER_MetricKind."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


def _ask(failed, kind, value=0, control=None):
    try:
        return calls.ask(kind, value, 0, control)
    except TritonModelException as problem:
        raise TritonModelException(f"{failed}: {problem}") from None


def _tell_quietly(kind, value):
    try:
        calls.tell(kind, value)
    except (AttributeError, TypeError, ConnectionError, RuntimeError):
        pass  # the process ends


class MetricFamily:
    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    def __init__(self, name, description, kind):
        self._number = 0
        self._metrics = weakref.WeakSet()
        self._kind = MetricKind(kind)
        control = calls.text(name) + calls.text(description) + struct.pack("=I", self._kind)
        self._number = _ask("Error when creating MetricFamily", calls.FAMILY_NEW, 0, control)[0]

    def Metric(self, labels=None, buckets=None):
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None:
            if not isinstance(buckets, list):
                raise TritonModelException("Failed to create metric. Buckets must be a list.")
            if self._kind != MetricKind.HISTOGRAM:
                raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        elif self._kind == MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        metric = Metric(self._number, labels or {}, buckets or [])
        self._metrics.add(metric)
        return metric

    def __del__(self):
        for metric in list(self._metrics):
            metric._end()
        if self._number:
            _tell_quietly(calls.FAMILY_DELETE, self._number)


class Metric:
    def __init__(self, family, labels, buckets):
        self._number = 0
        control = calls.text(json.dumps(labels)) + struct.pack(f"=I{len(buckets)}d", len(buckets), *buckets)
        self._number = _ask("Error when creating Metric", calls.METRIC_NEW, family, control)[0]

    def _change(self, failed, kind, value):
        return _ask(failed, kind, self._live(), struct.pack("=d", value))

    def _live(self):
        if not self._number:
            raise TritonModelException(
                "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' "
                "object should be deleted AFTER its corresponding 'Metric' objects have been deleted."
            )
        return self._number

    def increment(self, value):
        self._change("Failed to increment metric value", calls.METRIC_ADD, value)

    def set(self, value):
        self._change("Failed to set metric value", calls.METRIC_SET, value)

    def observe(self, value):
        self._change("Failed to observe metric value", calls.METRIC_OBSERVE, value)

    def value(self):
        payload = _ask("Failed to get metric value", calls.METRIC_VALUE, self._live())[1]
        return struct.unpack("=d", payload)[0]

    def _end(self):
        number, self._number = self._number, 0
        if number:
            _tell_quietly(calls.METRIC_DELETE, number)

    __del__ = _end
