# SPDX-License-Identifier: Apache-2.0
"""GPUs that are played (tests/fakes/gpu): servers see them by `variables`, tests change what they do and read what was done.

    gpus = fake_gpus(tmp_path, devices=[{"capability": "9.0", "memory": 1 << 30}, {"capability": "5.2"}])
    server = start_server(repository, variables=gpus.variables)
    before = gpus.counters()
    ...
    assert gpus.counters().since(before)["copies_to_host"] == 0
    gpus.fault("cuMemcpyHtoDAsync_v2", 700)          # the next such call of each process
    gpus.devices[0]["xids"] = [79]; gpus.write()

    with Client(gpus) as client:                     # another process, with the same driver
        memory = client.allocate(4096, device=1)
        client.write(memory, b"...")
        handle = client.handle(memory)               # 64 bytes, as tritonclient.utils.cuda_shared_memory gives them

What the file can say: docs/testing.md.
"""
import base64
import collections
import ctypes
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

import proc

FAKES = "tests/fakes/gpu"
HELD = re.compile(r"(used|contexts)\.|host_bytes$|ipc_opened$|streams$|events$")  # what a process that has ended no longer has
HEADER = 16384  # of the counters' file (tests/fakes/gpu/counters.c)
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = (ROOT / os.environ.get("NEREID_BUILD", "build/release")).resolve()


class Counters(collections.Counter):
    """By name: calls (`cuMemAlloc_v2`), `copies_to_host`, `bytes_on_device`, `syncs`, `allocations`, …; `used.0` and `contexts.0` by device."""

    def since(self, before):
        return Counters({name: value - before[name] for name, value in self.items()})


class FakeGPUs:
    def __init__(self, directory, devices=1, **settings):
        """`devices`: how many, or what each is like."""
        self.path = pathlib.Path(directory) / f"gpus{len(list(pathlib.Path(directory).glob('gpus*.json')))}.json"
        self.devices = [{} for _ in range(devices)] if isinstance(devices, int) else [dict(device) for device in devices]
        for i, device in enumerate(self.devices):
            device.setdefault("uuid", f"GPU-f4ce0000-0000-4000-8000-{i:012}")
        self.settings, self.faults = dict(settings), []
        self.write()

    def write(self):
        """Every process that has the driver sees the change with its next call."""
        changed = self.path.with_suffix(".new")
        changed.write_text(json.dumps(self.settings | {"devices": self.devices, "faults": self.faults}))
        changed.rename(self.path)

    def fault(self, function, code=0, **more):
        """The call of a function (or pattern) fails: at (which call from now on, 1), times (1; 0: all that follow), device, after_bytes,
        later (when the stream gets there, not by the call), hang (until `heal`), spares (the context lives, whatever the code)."""
        self.faults.append({"function": function, "code": code, **more})
        self.write()

    def heal(self):
        self.faults = []
        self.write()

    def libraries(self, missing=()):
        """The directory of the driver. `missing`: functions that an older one does not have."""
        if not missing:
            return BUILD / FAKES
        directory = self.path.with_suffix(".libraries")
        directory.mkdir(exist_ok=True)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            data = (BUILD / FAKES / name).read_bytes()
            for function in missing:  # the first is the table of dynamic symbols
                data = data.replace(b"\0" + function.encode() + b"\0", b"\0_" + function.encode()[1:] + b"\0", 1)
            (directory / name).write_bytes(data)
        return directory

    @property
    def variables(self):
        return self.variables_with()

    def variables_with(self, missing=()):
        # the second name is one that a Python worker's strict sandbox lets through
        return {"LD_LIBRARY_PATH": str(self.libraries(missing)), "NEREID_FAKE_GPU": str(self.path), "CUDA_FAKE_GPU": str(self.path)}

    @property
    def read_paths(self):
        """What a strictly kept worker must be let read to have the driver: --backend-config=python,worker-read-paths=…"""
        return f"{self.libraries()}:{self.path.parent}"

    def processes(self):
        """The counters of each process, by its id."""
        path = self.path.with_name(self.path.name + ".counters")
        found = collections.defaultdict(Counters)
        if not path.exists():
            return found
        data = path.read_bytes()
        words, *names = data[:HEADER].rstrip(b"\0").decode().split("\n")[1:-1]
        assert len(names) == int(words)
        for at in range(HEADER, len(data), 8 * len(names)):
            values = dict(zip(names, struct.unpack_from(f"{len(names)}q", data, at)))
            if not values["pid"]:
                break
            process = values.pop("pid")
            gone = proc.is_gone(process)
            found[process].update({name: 0 if gone and HELD.match(name) else value for name, value in values.items()})
        return found

    def counters(self, process=None):
        """Of all processes together, or of one (an id)."""
        if process is not None:
            return self.processes()[process]
        return sum_of(self.processes().values())


def sum_of(counters):
    total = Counters()
    for each in counters:
        total.update(each)
    return total


def fake_gpus(directory, devices=1, **settings):
    return FakeGPUs(directory, devices, **settings)


class DriverError(Exception):
    def __init__(self, function, code):
        super().__init__(f"{function}: {code}")
        self.code = code


class Driver:
    """The driver in this process, as far as a client needs it."""

    def __init__(self, path="libcuda.so.1"):
        self.library = ctypes.CDLL(path)
        self.call("cuInit", 0)
        self.contexts = {}

    def call(self, function, *arguments):
        code = getattr(self.library, function)(*arguments)
        if code != 0:
            raise DriverError(function, code)

    def enter(self, device):
        if device not in self.contexts:
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            self.call("cuDeviceGet", ctypes.byref(handle), device)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self.contexts[device] = context
        self.call("cuCtxSetCurrent", self.contexts[device])

    def allocate(self, size, device=0):
        self.enter(device)
        memory = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
        return memory.value

    def free(self, memory):
        self.call("cuMemFree_v2", ctypes.c_uint64(memory))

    def write(self, memory, data):
        data = bytes(data)
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(memory), data, ctypes.c_size_t(len(data)), None)
        self.call("cuStreamSynchronize", None)

    def read(self, memory, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoHAsync_v2", data, ctypes.c_uint64(memory), ctypes.c_size_t(size), None)
        return data.raw

    def handle(self, memory):
        handle = ctypes.create_string_buffer(64)
        self.call("cuIpcGetMemHandle", handle, ctypes.c_uint64(memory))
        return handle.raw

    def open(self, handle, device=0):
        self.enter(device)
        memory = ctypes.c_uint64()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(memory), IpcHandle.from_buffer_copy(handle), 1)
        return memory.value

    def close(self, memory):
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(memory))

    def reaches(self, device, peer):
        can, handles = ctypes.c_int(), (ctypes.c_int(), ctypes.c_int())
        self.call("cuDeviceGet", ctypes.byref(handles[0]), device)
        self.call("cuDeviceGet", ctypes.byref(handles[1]), peer)
        self.call("cuDeviceCanAccessPeer", ctypes.byref(can), *handles)
        return bool(can.value)

    def count(self):
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def sample(self, uuid):
        """What NVML says of a GPU or a slice of one: number, or the error's code as text."""
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device, found = ctypes.c_void_p(), {}
        library.nvmlInit_v2()
        if code := library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)):
            raise DriverError("nvmlDeviceGetHandleByUUID", code)
        for function, kind in (("UtilizationRates", ctypes.c_uint * 2), ("PowerUsage", ctypes.c_uint), ("TotalEnergyConsumption", ctypes.c_ulonglong)):
            value = kind()
            code = getattr(library, f"nvmlDeviceGet{function}")(device, ctypes.byref(value))
            found[function] = f"error {code}" if code else value[0] if hasattr(value, "__len__") else value.value
        memory = NvmlMemory(version=ctypes.sizeof(NvmlMemory) | 2 << 24)
        found["memory"] = f"error {code}" if (code := library.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory))) else memory.used
        library.nvmlShutdown()
        return found


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class NvmlMemory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]


class Client:
    """A process of its own that has the driver: what Driver can, by a line of JSON each way. Ends with the `with`, or killed."""

    def __init__(self, gpus, variables=(), within=()):
        """`within`: the command that starts it."""
        self.process = subprocess.Popen(
            [*within, sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | gpus.variables | dict(variables))

    def ask(self, function, *arguments):
        arguments = [{"bytes": base64.b64encode(a).decode()} if isinstance(a, (bytes, bytearray)) else a for a in arguments]
        self.process.stdin.write(json.dumps([function, arguments]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "code" in answer:
            raise DriverError(answer["function"], answer["code"])
        result = answer["result"]
        return base64.b64decode(result["bytes"]) if isinstance(result, dict) and "bytes" in result else result

    def __getattr__(self, name):
        if not hasattr(Driver, name):
            raise AttributeError(name)
        return lambda *arguments, device=None: self.ask(name, *arguments, *([] if device is None else [device]))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve():
    driver = Driver()
    for line in sys.stdin:
        function, arguments = json.loads(line)
        arguments = [base64.b64decode(a["bytes"]) if isinstance(a, dict) else a for a in arguments]
        try:
            result = getattr(driver, function)(*arguments)
            answer = {"result": {"bytes": base64.b64encode(result).decode()} if isinstance(result, bytes) else result}
        except DriverError as failure:
            answer = {"function": str(failure).partition(":")[0], "code": failure.code}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
