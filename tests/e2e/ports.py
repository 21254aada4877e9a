"""A port for a server that does not tell which one it took for port 0: Triton, and what is measured beside it."""
import random
import socket


def free_port():
    """One below those that the kernel gives to clients: a client that waits for its server could be given the server's."""
    while True:
        port = random.randrange(18000, 32000)
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) != 0:
                return port
