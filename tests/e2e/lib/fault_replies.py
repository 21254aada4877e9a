# SPDX-License-Identifier: Apache-2.0
"""Asks a server in which something fails, and tells a fair answer from another: for fault_scenarios.py."""
import contextlib
import http.client
import json
import os

from patience import PATIENCE
from streaming import events

# Triton's status is 400 when a model does not load, whatever the reason, and for a model that is not there now.
AS_TRITON = ("load failed for model ", "Model version not ready")


class Reply:
    """An answer and what it should be: `right` is called with it."""

    def __init__(self, answer, right):
        self.answer, self.right = answer, right

    def is_right(self):
        return self.answer is not None and self.right(*self.answer)

    def is_fair(self):
        """Right, or a failure that is told as one, or a closed connection."""
        if self.answer is None:
            return True
        status, headers, body = self.answer
        if headers.get_content_type() == "text/event-stream" and not self.is_right():
            return status in (200, 500, 503) and any("error" in event for event in events(body.decode()))
        if headers.get_content_type() != "application/json" or status < 400:
            return self.is_right()
        error = json.loads(body)["error"]
        return status in (500, 503) or self.is_right() or (status == 400 and error.startswith(AS_TRITON))

    def __repr__(self):
        return f"{self.answer and (self.answer[0], self.answer[2][:300])}"


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)


def ask(server, right, path, body=None, headers=(), port=None):
    """One request on a connection of its own."""
    with contextlib.closing(connect(port or server.http_port)) as connection:
        return ask_on(connection, right, path, body, headers)


def ask_on(connection, right, path, body=None, headers=()):
    """One request; no answer when the server closes the connection (or is gone, which is looked at later)."""
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        answer = connection.getresponse()
        return Reply((answer.status, answer.headers, answer.read()), right)
    except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError):
        connection.close()
        return Reply(None, right)


def ok(status, headers, body):
    return status == 200


def with_json(check):
    return lambda status, headers, body: status == 200 and check(json.loads(body))


def json_body(data, datatype, **more):
    tensor = {"name": "INPUT0", "shape": [1, len(data)], "datatype": datatype, "data": data}
    return json.dumps({"id": "seven", "inputs": [tensor], **more}).encode()


def gives_back(data):
    return with_json(lambda answer: answer["id"] == "seven" and answer["outputs"][0]["data"] == data)


class Touch:
    """Gives a file a new time each time, so that its model counts as changed."""

    def __init__(self):
        self.seconds = 4_000_000_000

    def __call__(self, path):
        self.seconds += 1
        os.utime(path, ns=(0, self.seconds * 10**9))
        return self.seconds
