#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first seeds of grpc_session, sessions as lists of steps (grpc_session_fuzz.c), one file for each:
tests/fuzz/grpc_session/seeds.py DIRECTORY"""
import pathlib
import struct
import sys

(RAW, FRAME, CALL, MESSAGE, INFER, RESET, WINDOW, AGAIN, TIME, JOB, ANSWER, READING, LEAVE, CLOSE, HALF) = range(15)
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
METHODS = ("infer stream live ready model_ready check watch metadata model_metadata config statistics index load unload system_status "
           "system_register system_unregister cuda_status cuda_register cuda_unregister reflection reflection_alpha trace log").split()
LAST, GZIP, DEFLATE, LONG, CLAIMS = 1, 2, 4, 8, 16
IDENTITY, HELD, LOOSE, NONE = range(4)
TYPED = 4
FAILS, RELEASES, FINAL_ALONE, NEWEST, LARGE, STAYS = 4, 8, 16, 32, 64, 128
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_GREETING, WIDE = 32, 64


def sized(payload):
    return struct.pack("<H", len(payload)) + payload


def raw(payload):
    return bytes([RAW]) + sized(payload)


def frame(type, flags=0, place=0, payload=b""):
    return bytes([FRAME, type, flags, place]) + sized(payload)


def call(stream, method, extras=0):
    return bytes([CALL, stream, METHODS.index(method) if method else 255, extras])


def message(stream, payload=b"", how=LAST, zeroes=None):
    return bytes([MESSAGE, stream, how]) + (bytes([zeroes]) if how & LONG else b"") + sized(payload)


def infer(stream, model=IDENTITY, log2=2, how=LAST, typed=False):
    return bytes([INFER, stream, how, model | (TYPED if typed else 0) | log2 << 3])


def answer(how=1):
    return bytes([ANSWER, how])


def field(number, value):
    """Of protobuf, short."""
    return bytes([number << 3 | 2, len(value)]) + value


def entry(key, value):
    """Of a map in field 1."""
    return field(1, field(1, key) + field(2, value))


def simple(method, payload=b"", extras=0, jobs=1):
    return call(0, method, extras) + message(0, payload) + bytes([JOB]) * jobs


def setting(number, value):
    return struct.pack(">HI", number, value)


reset = bytes([RESET, 0])
again = bytes([AGAIN, 255])
passes = lambda log2: bytes([TIME, log2])
stream = call(0, "stream")
named = field(1, b"identity")
SEEDS = {
    **{f"method_{name}": simple(name, named if name in ("model_ready", "model_metadata", "config", "statistics") else b"") for name in METHODS},
    "log_set": simple("log", entry(b"log_verbose_level", b"\x10\1") + entry(b"log_format", field(3, b"ISO8601")) + entry(b"log_info", b"\x08\1")),
    "log_refused": simple("log", entry(b"log_file", field(3, b"x"))),
    "trace_set": simple("trace", entry(b"trace_level", field(1, b"TIMESTAMPS")) + entry(b"trace_rate", field(1, b"2")) + field(2, b"identity")),
    "trace_cleared": simple("trace", entry(b"trace_level", b"") + entry(b"trace_count", field(1, b"5")) + entry(b"log_frequency", field(1, b"x"))),
    "load_config": simple("load", field(2, b"identity") + field(3, field(1, b"config") + field(2, field(3, b"{}")))),
    "unload_all": simple("unload", field(2, b"identity") + field(3, field(1, b"unload_dependents") + field(2, b"\x08\1"))),
    "system_region": simple("system_register", field(1, b"r") + field(2, b"/r") + b"\x18\0\x20\x40"),
    "cuda_region": simple("cuda_register", field(1, b"r") + field(2, bytes(64)) + b"\x18\0\x20\x40"),
    "region_status": simple("system_status", field(1, b"r")) + call(1, "system_unregister") + message(1, field(1, b"r")) + bytes([JOB]),
    "services": call(0, "reflection") + message(0, field(7, b""), how=0) + message(0, field(4, b"inference.GRPCInferenceService"), how=0)
    + message(0, field(3, b"health.proto"), how=0) + message(0, field(4, b"x"), how=0) + message(0, field(1, b"host")),
    "infer": call(0, "infer") + infer(0),
    "infer_typed": call(0, "infer") + infer(0, typed=True, log2=9),
    "infer_large": call(0, "infer") + infer(0, log2=16),
    "infer_large_typed": call(0, "infer") + infer(0, log2=18, typed=True),
    "infer_packed": call(0, "infer", 1 | 4) + infer(0, how=LAST | GZIP, log2=12),
    "infer_deflated": call(0, "infer", 2 | 4) + infer(0, how=LAST | DEFLATE, log2=18, typed=True),
    "infer_none": call(0, "infer") + infer(0, NONE),
    "infer_held": call(0, "infer") + infer(0, HELD) + answer(),
    "infer_held_large": call(0, "infer") + infer(0, HELD) + answer(LARGE | 1),
    "infer_fails": call(0, "infer") + infer(0, HELD) + answer(FAILS | 1),
    "infer_twice_answered": call(0, "infer") + infer(0, HELD) + answer(2),
    "infer_unanswered": call(0, "infer") + infer(0, HELD) + answer(0),
    "infer_cancelled": call(0, "infer") + infer(0, HELD) + reset + answer(),
    "infer_deadline": call(0, "infer", 8) + infer(0, HELD) + passes(7) + answer(RELEASES | 1),
    "infer_left": call(0, "infer") + infer(0, HELD) + bytes([CLOSE]) + answer(),
    "infer_decoupled": call(0, "infer") + infer(0, LOOSE),
    "infer_parameters": call(0, "infer") + message(0, named + field(4, field(1, b"priority") + field(2, b"\x10\x01")) + field(6, field(1, b"OUTPUT0"))),
    "stream": stream + infer(0, how=0) + infer(0, HELD, how=0) + infer(0, how=0) + answer() + infer(0),
    "stream_loose": stream + infer(0, LOOSE) + answer(STAYS | 2) + answer(3) + answer(FINAL_ALONE | 1),
    "stream_loose_cancelled": stream + infer(0, LOOSE, how=0) + answer(STAYS | 1) + reset + answer(1),
    "stream_loose_unread": bytes([READING]) + stream + infer(0, LOOSE) + answer(STAYS | LARGE | 3) + answer(LARGE | 3) + bytes([READING]),
    "stream_twice_answered": stream + infer(0, HELD, how=0) + answer(2) + infer(0),
    "stream_errors": call(0, "stream", 16) + infer(0, HELD, how=0) + infer(0, NONE, how=0) + answer(NEWEST | FAILS | 1),
    "stream_packed": call(0, "stream", 1 | 4) + infer(0, how=GZIP, log2=10) + infer(0, how=GZIP | LAST, log2=18, typed=True),
    "stream_empty": stream + message(0, how=0) + message(0),
    "stream_half": stream + infer(0, HELD, how=0) + bytes([HALF]) + answer(),
    "message_in_pieces": call(0, "infer") + frame(DATA, 0, 1, b"\0\0\0") + frame(DATA, 0, 1, b"\0\x05") + frame(DATA, 1, 1, b"hello"),
    "message_flag": call(0, "infer") + frame(DATA, 1, 1, b"\7\0\0\0\0"),
    "message_size": call(0, "infer") + frame(DATA, 1, 1, b"\0\xff\xff\xff\xff"),
    "message_claims": call(0, "infer", 1) + message(0, b"not packed", how=LAST | CLAIMS),
    "message_uncoded": call(0, "infer") + message(0, b"packed", how=LAST | GZIP),
    "message_bomb": call(0, "infer", 1) + message(0, b"\x3a\xff\xff\xff\x01", how=LAST | GZIP | LONG, zeroes=23),
    "message_stalls": call(0, "infer") + frame(DATA, 0, 1, b"\0\0\0\1\0") + passes(15),
    "messages_of_unary": call(0, "infer") + message(0, how=0) + message(0),
    "no_message": call(0, "live") + frame(DATA, 1, 1),
    "no_method": call(0, None) + message(0),
    "many": b"".join(call(i, "infer") + infer(i, HELD if i % 2 else IDENTITY) for i in range(8)) + answer(NEWEST | 1) * 4,
    "watch": call(0, "watch") + message(0) + bytes([JOB]) + passes(10) + bytes([JOB]) + reset,
    "job_cancelled": call(0, "index") + message(0) + reset + bytes([JOB]),
    "foreign": frame(HEADERS, 5, 1, b"\x82\x84\x86"),
    "ping": frame(PING, 0, 0, b"12345678") + again,
    "settings": frame(SETTINGS, 0, 0, setting(4, 0)) + simple("live") + frame(SETTINGS, 0, 0, setting(4, 65535) + setting(5, 16777215)) + again,
    "settings_ack": frame(SETTINGS, 1) + frame(PING, 1, 0, b"goodbye\0"),
    "reset_flood": (call(0, "infer") + reset) * 3 + call(3, "infer") + bytes([RESET, 3]) + again,
    "windows": bytes([WINDOW, 0, 20]) + call(0, "infer") + bytes([WINDOW, 1, 30]) * 2 + infer(0),
    "window_zero": call(0, "infer") + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\0"),
    "continuation": frame(HEADERS, 0, 1, b"\x83") + frame(CONTINUATION, 0, 1) + again,
    "priority": frame(PRIORITY, 0, 1, b"\0\0\0\0\x10") + again,
    "push": frame(PUSH_PROMISE, 4, 1, b"\0\0\0\2"),
    "goaway": frame(GOAWAY, 0, 0, bytes(8)) + simple("live"),
    "trailers": call(0, "infer") + frame(HEADERS, 4, 1, b"\x88"),
    "padding": call(0, "infer") + frame(DATA, 8, 1, b"\3\0\0\0") + again,
    "even_stream": raw(b"\0\0\1\1\5\0\0\0\2\x82"),
    "hpack": frame(HEADERS, 5, 1, b"\x40\x01a\x01b\xbe\xbe\x3f\xe1\x1f"),
    "leave": call(0, "infer") + infer(0, HELD) + bytes([LEAVE]) + frame(PING, 1, 0, b"goodbye\0") + answer(),
    "leave_late": call(0, "infer") + bytes([LEAVE]) + passes(11) + infer(0),
    "silence": passes(15),
}
OPTIONS = {"silence_keepalive": (1 | 2, passes(10) * 2 + passes(15)), "old": (4, simple("live") + passes(13) + passes(12)),
           "compressed": (8, call(0, "infer", 4) + infer(0, log2=8)), "forwarded": (16, call(0, "infer", 32) + infer(0)),
           "greeting": (NO_GREETING, raw(PREFACE) + frame(SETTINGS) + simple("live")),
           "http1": (NO_GREETING, raw(b"GET / HTTP/1.1\r\n\r\n")), "no_greeting": (NO_GREETING, passes(14))}

directory = pathlib.Path(sys.argv[1])
for name, steps in SEEDS.items():
    (directory / name).write_bytes(bytes([0, 0]) + steps)
for name, (options, steps) in OPTIONS.items():
    (directory / name).write_bytes(bytes([options, 0]) + steps)
for name in [name for name in SEEDS if "large" in name or "packed" in name or "deflated" in name]:
    (directory / f"{name}_wide").write_bytes(bytes([WIDE, 0]) + SEEDS[name])
for name in ("infer", "stream", "infer_packed", "method_index"):
    (directory / f"{name}_in_bytes").write_bytes(bytes([0, 1]) + SEEDS[name])
