# SPDX-License-Identifier: Apache-2.0
"""The socket at which a service manager hears its services (NOTIFY_SOCKET)."""
import socket

from conftest import PATIENCE


class NotifySocket:
    def __init__(self, directory):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(directory / "notify"))
        self.socket.settimeout(PATIENCE)
        self.variables = {"NOTIFY_SOCKET": str(directory / "notify")}  # of the service

    def hear(self):
        """The next message."""
        return self.socket.recv(256)

    def hear_until(self, last):
        """All messages up to `last`."""
        said = [self.hear()]
        while said[-1] != last:
            said.append(self.hear())
        return said

    def close(self):
        self.socket.close()
