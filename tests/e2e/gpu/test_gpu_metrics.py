# SPDX-License-Identifier: Apache-2.0
"""Metrics of GPUs, played ones (tests/fakes/gpu): Triton's families to the letter, and nereid's own."""
import json
import subprocess

from conftest import WITHOUT_GPUS, make_faulty, make_identity, wait_for
from gpus import fake_gpus
from prometheus_client.parser import text_string_to_metric_families
from test_metrics import BODY, scrape

ON_GPU = "instance_group [ { kind: KIND_GPU } ]"
PINNED = ["nv_pinned_memory_pool_total_bytes", "nv_pinned_memory_pool_used_bytes"]
SAMPLED = ["nv_gpu_utilization", "nv_gpu_memory_total_bytes", "nv_gpu_memory_used_bytes", "nv_gpu_power_usage", "nv_gpu_power_limit",
           "nv_energy_consumption"]


def values(server, family, *labels):
    """By its other labels, in the order of their names."""
    found = {}
    for f in text_string_to_metric_families(scrape(server)):
        for s in f.samples:
            if s.name.removesuffix("_total") == family.removesuffix("_total"):
                found[tuple(s.labels.get(name) for name in labels)] = s.value
    return found


def infer(server, name):
    assert server.ask(f"/v2/models/{name}/infer", BODY).status == 200


def test_the_families_are_tritons_from_the_first_scrape_on(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{"memory": 1 << 34, "memory_used": 3 << 20, "utilization": 37, "power_mw": 75500, "power_limit_mw": 700000},
                                {"memory": 1 << 30}])
    server = start_server(repository, variables=gpus.variables)
    first, second = (device["uuid"] for device in gpus.devices)
    text = scrape(server)
    at = text.index("# HELP nv_gpu_utilization")
    assert text[at:].startswith(f"""\
# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{{gpu_uuid="{first}"}} 0.37
nv_gpu_utilization{{gpu_uuid="{second}"}} 0
# HELP nv_gpu_memory_total_bytes GPU total memory, in bytes
# TYPE nv_gpu_memory_total_bytes gauge
nv_gpu_memory_total_bytes{{gpu_uuid="{first}"}} 17179869184
nv_gpu_memory_total_bytes{{gpu_uuid="{second}"}} 1073741824
# HELP nv_gpu_memory_used_bytes GPU used memory, in bytes
# TYPE nv_gpu_memory_used_bytes gauge
nv_gpu_memory_used_bytes{{gpu_uuid="{first}"}} 3145728
nv_gpu_memory_used_bytes{{gpu_uuid="{second}"}} 0
# HELP nv_gpu_power_usage GPU power usage in watts
# TYPE nv_gpu_power_usage gauge
nv_gpu_power_usage{{gpu_uuid="{first}"}} 75.5
nv_gpu_power_usage{{gpu_uuid="{second}"}} 75
# HELP nv_gpu_power_limit GPU power management limit in watts
# TYPE nv_gpu_power_limit gauge
nv_gpu_power_limit{{gpu_uuid="{first}"}} 700
nv_gpu_power_limit{{gpu_uuid="{second}"}} 700
# HELP nv_energy_consumption GPU energy consumption in joules since the Triton Server started
# TYPE nv_energy_consumption counter
nv_energy_consumption{{gpu_uuid="{first}"}} 0
nv_energy_consumption{{gpu_uuid="{second}"}} 0
""")
    assert """\
# HELP nv_pinned_memory_pool_total_bytes Pinned memory pool total memory size, in bytes
# TYPE nv_pinned_memory_pool_total_bytes gauge
nv_pinned_memory_pool_total_bytes 268435456
# HELP nv_pinned_memory_pool_used_bytes Pinned memory pool used memory size, in bytes
# TYPE nv_pinned_memory_pool_used_bytes gauge
nv_pinned_memory_pool_used_bytes 0
""" in text  # what was asked for, as in Triton; nothing uses a GPU, so that none is taken
    assert "Collecting metrics for GPU 0: NVIDIA Fake GPU" in server.log
    assert gpus.counters()["cuDevicePrimaryCtxRetain"] == 0
    ours = "".join(line + "\n" for line in text.splitlines() if "nereid_" in line)
    checked = subprocess.run(["promtool", "check", "metrics"], input=ours, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_samples_follow_the_devices_and_ask_nobody_but_nvml(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{"utilization": 10, "energy_mj": 5_000_000}])
    server = start_server(repository, flags=["--metrics-interval-ms=50"], variables=gpus.variables)
    uuid = (gpus.devices[0]["uuid"],)
    wait_for("the first sample", lambda: values(server, "nv_gpu_utilization", "gpu_uuid") == {uuid: 0.1})
    before = gpus.counters()
    gpus.devices[0] |= {"utilization": 90, "energy_mj": 5_002_500}
    gpus.write()
    wait_for("a later sample", lambda: values(server, "nv_gpu_utilization", "gpu_uuid") == {uuid: 0.9})
    wait_for("energy", lambda: values(server, "nv_energy_consumption", "gpu_uuid") == {uuid: 2.5})
    since = gpus.counters().since(before)
    assert since["nvmlDeviceGetUtilizationRates"] > 0
    assert not [name for name, count in since.items() if name.startswith("cu") and count > 0]


def test_without_a_gpu_there_is_nothing_of_it(start_server, repository):
    server = start_server(repository, variables=WITHOUT_GPUS)
    names = {line.split("{")[0].split()[0] for line in scrape(server).splitlines() if not line.startswith("#")}
    assert sorted(name for name in names if "gpu" in name or "pinned" in name or "energy" in name) == PINNED


def test_gpu_metrics_can_be_turned_off(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make_identity(repository, "m", more=ON_GPU)
    server = start_server(repository, flags=["--allow-gpu-metrics=false"], variables=gpus.variables)
    infer(server, "m")
    text = scrape(server)
    assert not [line for line in text.splitlines() if line.startswith(("nv_gpu", "nv_energy", "nereid_gpu"))]
    assert values(server, PINNED[0]) == {(): 256 << 20}
    assert gpus.counters()["nvmlDeviceGetUtilizationRates"] == 0


def test_a_platform_without_nvml_serves_without_samples(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    gpus.fault("nvmlInit_v2", 9, times=0)
    make_identity(repository, "m", more=ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    infer(server, "m")
    text = scrape(server)
    assert not any(f"\n{name}{{" in text for name in SAMPLED)
    wait_for("its line", lambda: "GPU metrics will not be available: " in server.log)
    assert values(server, "nereid_gpu_memory_pool_total_bytes", "gpu_uuid") == {(gpus.devices[0]["uuid"],): 64 << 20}


def test_a_scrape_waits_for_no_nvml(start_server, repository, tmp_path):
    """Nor does the server, for long, which is ready without."""
    gpus = fake_gpus(tmp_path)
    gpus.fault("nvmlInit_v2", hang=True, times=0)
    server = start_server(repository, variables=gpus.variables)
    wait_for("who waits for NVML", lambda: gpus.counters()["nvmlInit_v2"] == 1)
    assert SAMPLED[0] not in scrape(server)
    gpus.heal()
    wait_for("the first sample", lambda: SAMPLED[0] in scrape(server))


def test_slices_of_mig_are_told_apart_by_their_uuids(start_server, repository, tmp_path):
    slices = [{"name": "NVIDIA Fake MIG 1g.18gb", "uuid": f"MIG-5ff3a0c4-0000-4000-8000-{i:012}", "parent_uuid": "GPU-f4ce0000-0000-4000-8000-00000000000f",
               "pci": "0000:3b:00.0", "memory": 1 << (30 + i), "utilization": 40} for i in range(2)]
    gpus = fake_gpus(tmp_path, slices)
    make_identity(repository, "m", more="instance_group [ { kind: KIND_GPU gpus: [ 1 ] } ]")
    server = start_server(repository, variables=gpus.variables)
    infer(server, "m")
    wait_for("samples", lambda: values(server, "nv_gpu_memory_total_bytes", "gpu_uuid") == {(s["uuid"],): s["memory"] for s in slices})
    assert values(server, "nv_gpu_utilization", "gpu_uuid") == {}  # NVML has none of a slice
    counted = values(server, "nv_inference_request_success", "gpu_uuid")
    assert counted == {(None,): 0, (slices[1]["uuid"],): 1}


def test_models_are_counted_on_the_device_that_they_run_on(start_server, repository, tmp_path):
    """Under CUDA_VISIBLE_DEVICES ordinal 0 is another board. What is no instance's has no gpu_uuid, as in Triton."""
    gpus = fake_gpus(tmp_path, 3)
    make_identity(repository, "m", more=f"instance_group [ {{ kind: KIND_GPU gpus: [ 0 ] count: 2 }} ]")
    make_identity(repository, "cpu", more="instance_group [ { kind: KIND_CPU } ]")
    make_identity(repository, "both", more="instance_group [ { kind: KIND_GPU gpus: [ 1 ] }, { kind: KIND_CPU } ]")
    server = start_server(repository, variables=gpus.variables | {"CUDA_VISIBLE_DEVICES": "2,0"})
    uuids = [gpus.devices[i]["uuid"] for i in (2, 0)]
    for _ in range(3):
        infer(server, "m")
        infer(server, "cpu")
    for _ in range(10):
        infer(server, "both")
    success = values(server, "nv_inference_request_success", "model", "gpu_uuid")
    assert {key: value for key, value in success.items() if key[0] == "m"} == {("m", None): 0, ("m", uuids[0]): 3}
    assert {key: value for key, value in success.items() if key[0] == "cpu"} == {("cpu", None): 3}
    assert success["both", None] + success["both", uuids[1]] == 10
    assert values(server, "nv_inference_count", "model", "gpu_uuid")["m", uuids[0]] == 6
    text = scrape(server)
    assert f'nv_inference_request_success{{gpu_uuid="{uuids[0]}",model="m",version="1"}} 3' in text
    assert set(values(server, "nv_inference_pending_request_count", "model", "gpu_uuid")) == {("m", None), ("cpu", None), ("both", None)}
    wait_for("samples of those that are visible", lambda: set(values(server, "nv_gpu_utilization", "gpu_uuid")) == {(uuid,) for uuid in uuids})
    statistics = json.loads(server.ask("/v2/models/m/stats").text)["model_stats"][0]
    assert statistics["inference_count"] == 6 and statistics["inference_stats"]["success"]["count"] == 3


def test_failures_are_counted_where_triton_counts_them(start_server, repository, tmp_path):
    """What a backend reports of a request is its device's; an execution that it refuses is the model's (read off Triton's source)."""
    gpus = fake_gpus(tmp_path)
    make_identity(repository, "m", more=ON_GPU)
    config = make_faulty(repository, "refuses", "execute_error") / "config.pbtxt"
    config.write_text(config.read_text() + ON_GPU)
    server = start_server(repository, variables=gpus.variables)
    infer(server, "m")
    gpus.fault("cuMemcpyHtoD*", 1)
    assert server.ask("/v2/models/m/infer", BODY).status == 500
    assert server.ask("/v2/models/refuses/infer", BODY.replace(b"FP32", b"INT32").replace(b"[2,1]", b"[2]")).status == 500
    uuid = gpus.devices[0]["uuid"]

    def failed():
        counts = values(server, "nv_inference_request_failure", "model", "gpu_uuid", "reason")
        return {key: value for key, value in counts.items() if value}

    wait_for("what the backend reports, behind its answer", lambda: sum(failed().values()) == 2)
    assert failed() == {("m", uuid, "BACKEND"): 1, ("refuses", None, "BACKEND"): 1}


def test_a_devices_counts_stay_when_its_instances_go(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    directory = make_identity(repository, "m", more=ON_GPU)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*"], variables=gpus.variables)
    for _ in range(4):
        infer(server, "m")
    before = values(server, "nv_inference_request_success", "gpu_uuid")
    assert sum(before.values()) == 4
    config = directory / "config.pbtxt"
    config.write_text(config.read_text().replace(ON_GPU, "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"))
    assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
    infer(server, "m")
    after = values(server, "nv_inference_request_success", "gpu_uuid")
    assert after == before | {(gpus.devices[0]["uuid"],): before[gpus.devices[0]["uuid"],] + 1}


def test_pools_copies_and_xids_are_shown(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make_identity(repository, "m", more=ON_GPU)
    server = start_server(repository, flags=["--cuda-memory-pool-byte-size=0:1048576", "--pinned-memory-pool-byte-size=2097152"],
                          variables=gpus.variables)
    uuid = (gpus.devices[0]["uuid"],)
    infer(server, "m")
    assert values(server, "nereid_gpu_memory_pool_total_bytes", "gpu_uuid") == {uuid: 1 << 20}
    assert values(server, "nereid_gpu_memory_pool_used_bytes", "gpu_uuid").keys() == {uuid}
    assert values(server, "nereid_gpu_memory_pool_misses_total", "gpu_uuid") == {uuid: 0}
    assert values(server, PINNED[0]) == {(): 2 << 20}
    assert values(server, "nereid_gpu_xids_total", "gpu_uuid") == {uuid: 0}
    assert set(values(server, "nereid_gpu_copies_total", "direction")) == {("to_device",), ("to_host",), ("on_device",), ("between_devices",)}
    wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)  # what was before that nobody hears of
    copied = values(server, "nereid_gpu_copied_bytes_total", "direction")
    assert copied["to_device",] == copied["to_host",] == gpus.counters()["bytes_to_device"] > 0
    gpus.devices[0]["xids"] = [13, 31]
    gpus.write()
    wait_for("Xids", lambda: values(server, "nereid_gpu_xids_total", "gpu_uuid") == {uuid: 2})
    assert values(server, "nereid_gpu_fault") == {}  # those are a program's own
    infer(server, "m")
