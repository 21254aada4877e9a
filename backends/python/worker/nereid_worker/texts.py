# SPDX-License-Identifier: Apache-2.0
"""Texts from models: str, or bytes, which Triton takes too (an element of a BYTES tensor is bytes)."""

import enum


class Named(enum.IntEnum):
    """Numbers that print as their names under every Python, as those of Triton's compiled classes."""

    __str__ = enum.Enum.__str__

    def __format__(self, form):
        return format(str(self), form)


def as_text(value, what):
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "surrogateescape")
    raise TypeError(f"{what} must be a str, not {type(value).__name__}")


def shown(text):
    """A text for people, cut at a NUL: the server's texts end there."""
    return text.replace("\0", " ")
