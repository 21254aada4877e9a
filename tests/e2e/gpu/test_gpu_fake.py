# SPDX-License-Identifier: Apache-2.0
"""The played driver between processes: handles of memory, counters, faults (tests/unit/gpu/gpu_fake_test.c has what one process can see)."""
import ctypes
import threading

import pytest
from conftest import wait_for
from gpus import Client, DriverError, fake_gpus


def code_of(call, *arguments, **more):
    with pytest.raises(DriverError) as failure:
        call(*arguments, **more)
    return failure.value.code


def test_memory_is_read_in_another_process(tmp_path):
    gpus = fake_gpus(tmp_path, devices=2)
    with Client(gpus) as exporter, Client(gpus) as importer:
        memory = exporter.allocate(1000, device=1)
        exporter.write(memory, b"abc" * 300)
        handle = exporter.handle(memory)
        assert len(handle) == 64
        there = importer.open(handle, device=1)
        assert importer.open(handle, device=1) == there  # counted
        assert importer.read(there, 900) == b"abc" * 300
        importer.write(there, b"xyz")
        assert exporter.read(memory, 6) == b"xyzabc"
        importer.close(there)
        assert importer.read(there, 3) == b"xyz"
        importer.close(there)
        assert code_of(importer.close, there) == 1
        assert code_of(exporter.open, handle, device=1) == 201  # its own
        exporter.free(memory)
        assert code_of(importer.open, handle, device=1) == 1  # stale


def test_a_copy_from_a_process_that_has_gone_fails(tmp_path):
    gpus = fake_gpus(tmp_path)
    with Client(gpus) as exporter, Client(gpus) as importer:
        there = importer.open(exporter.handle(exporter.allocate(64)))
        exporter.kill()
        assert code_of(importer.read, there, 64) == 1
        own = importer.allocate(8)  # nothing else is wrong
        importer.write(own, b"12345678")
        assert importer.read(own, 8) == b"12345678"


def test_counters_tell_what_each_process_did(tmp_path):
    gpus = fake_gpus(tmp_path, devices=2)
    with Client(gpus) as one, Client(gpus) as other:
        memory = one.allocate(4096)
        one.write(memory, bytes(4096))
        assert gpus.counters(one.process.pid)["bytes_to_device"] == 4096
        assert gpus.counters()["used.0"] == 4096
        assert gpus.counters()["contexts.1"] == 0
        before = gpus.counters()
        other.allocate(10, device=1)
        assert gpus.counters().since(before)["allocations"] == 1
        assert gpus.counters(other.process.pid)["used.1"] == 10


def test_faults_come_and_go_while_processes_run(tmp_path):
    gpus = fake_gpus(tmp_path)
    with Client(gpus) as client:
        memory = client.allocate(16)
        gpus.fault("cuMemAlloc*", 2, at=2)
        client.allocate(16)
        assert code_of(client.allocate, 16) == 2
        client.allocate(16)
        gpus.fault("cuMemcpyHtoDAsync_v2", 700, later=True)
        assert code_of(client.write, memory, b"1") == 700
        gpus.heal()
        assert code_of(client.read, memory, 1) == 700  # the context is dead


def test_an_old_driver_lacks_functions(tmp_path):
    gpus = fake_gpus(tmp_path)
    with Client(gpus, gpus.variables_with(missing=["cuMemFree_v2"])) as client:
        memory = client.allocate(16)
        client.write(memory, b"1")
        client.process.stdin.close()
        client.process.wait()
    library = ctypes.CDLL(str(gpus.libraries(missing=["cuMemFree_v2"]) / "libcuda.so.1"))
    assert hasattr(library, "cuMemAlloc_v2") and not hasattr(library, "cuMemFree_v2")


def test_devices_are_what_the_file_says(tmp_path):
    gpus = fake_gpus(tmp_path, [{"memory": 1 << 20, "peers": [1]}, {"memory": 4096, "peers": []}, {"ipc": False}])
    with Client(gpus) as client:
        assert client.count() == 3
        assert client.reaches(0, 1) and not client.reaches(1, 0) and not client.reaches(0, 2)
        taken = client.allocate(4000, device=1)
        assert code_of(client.allocate, 97, device=1) == 2
        client.free(taken)
        client.allocate(4096, device=1)
        assert code_of(client.handle, client.allocate(64, device=2)) == 801
    uuid = gpus.devices[1]["uuid"]
    with Client(gpus, {"CUDA_VISIBLE_DEVICES": f"2,{uuid[:-1] + '1'},9,0"}) as client:
        assert client.count() == 2
        client.allocate(128, device=0)
        assert gpus.counters()["used.2"] == 128
        assert client.reaches(0, 1)


def test_a_handle_opens_where_the_memory_is_or_can_be_reached(tmp_path):
    gpus = fake_gpus(tmp_path, [{"peers": [1]}, {"peers": [0]}, {"peers": []}])
    with Client(gpus) as exporter, Client(gpus) as importer, Client(gpus, {"CUDA_VISIBLE_DEVICES": "1"}) as blind:
        handle = exporter.handle(exporter.allocate(64))
        assert code_of(importer.open, handle, device=2) == 217
        importer.close(importer.open(handle, device=1))
        assert code_of(blind.open, handle) == 101
        assert code_of(importer.open, bytes(64)) == 1


def test_two_processes_share_one_memory(tmp_path):
    gpus = fake_gpus(tmp_path, [{"memory": 1 << 20}])
    with Client(gpus) as one, Client(gpus) as other:
        one.allocate(1 << 19)
        assert code_of(other.allocate, (1 << 19) + 1) == 2
        one.kill()
        other.allocate((1 << 19) + 1)


def test_a_call_hangs_until_it_is_let_on(tmp_path):
    gpus = fake_gpus(tmp_path)
    with Client(gpus) as client:
        client.allocate(1)
        gpus.fault("cuMemAlloc_v2", hang=True)
        before = gpus.counters()["allocations"]
        thread = threading.Thread(target=client.allocate, args=(1,))
        thread.start()
        wait_for("the call", lambda: gpus.counters()["cuMemAlloc_v2"] == 2)
        assert gpus.counters()["allocations"] == before
        gpus.heal()
        thread.join()
        assert gpus.counters()["allocations"] == before + 1


def test_faults_come_after_as_many_bytes(tmp_path):
    gpus = fake_gpus(tmp_path)
    with Client(gpus) as client:
        memory = client.allocate(1000)
        gpus.fault("cuMemcpy*", 2, after_bytes=1500)
        client.write(memory, bytes(1000))
        client.write(memory, bytes(600))
        assert code_of(client.write, memory, b"1") == 2
        client.write(memory, b"1")  # once


def test_a_copy_beyond_its_memory_is_the_last(tmp_path):
    gpus = fake_gpus(tmp_path, devices=2)
    with Client(gpus) as client:
        memory, freed = client.allocate(100), client.allocate(100)
        assert client.read(memory, 100) == bytes([0xA5]) * 100  # nobody has written it
        client.free(freed)
        other = client.allocate(100, device=1)
        assert code_of(client.write, other, bytes(101)) == 700
        assert code_of(client.read, other, 1) == 700
        client.enter(0)
        assert client.read(memory, 1)  # the other device's context lives
        assert code_of(client.read, freed, 1) == 700


def test_nvml_says_what_the_file_and_the_processes_say(tmp_path):
    slice, whole = "MIG-f4ce0000-0000-4000-8000-00000000000a", "GPU-f4ce0000-0000-4000-8000-00000000000b"
    gpus = fake_gpus(tmp_path, [{"utilization": 37, "power_mw": 250000, "memory_used": 1000}, {"uuid": slice, "parent_uuid": whole}])
    with Client(gpus) as client, Client(gpus) as other:
        other.allocate(24)
        uuid = gpus.devices[0]["uuid"]
        assert client.sample(uuid) == {"UtilizationRates": 37, "PowerUsage": 250000, "TotalEnergyConsumption": 1000000, "memory": 1024}
        gpus.devices[0]["energy_mj"] = 1000500
        gpus.write()
        assert client.sample(uuid)["TotalEnergyConsumption"] == 1000500
        assert client.sample(slice)["UtilizationRates"] == client.sample(slice)["PowerUsage"] == "error 3"
        assert client.sample(slice)["memory"] == 0
        assert client.sample(whole)["PowerUsage"] == 75000
        gpus.fault("nvmlDeviceGetPowerUsage", 15, times=0, device=0)
        assert client.sample(uuid)["PowerUsage"] == "error 15"
        assert code_of(client.sample, "GPU-unknown") == 6
