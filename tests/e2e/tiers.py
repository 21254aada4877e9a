# SPDX-License-Identifier: Apache-2.0
"""Which end-to-end tests run alone, and which `scripts/test` leaves to `scripts/test --all`: those that need what only --all installs (Triton, Go, Node,
KServe, a collector, an old ONNX Runtime), and those that ask the same question very often (each allocation fails, each byte mutates).
"""
import re

ONLY_ALL = {
    "test_faults.py", "test_faults_loads.py", "test_faults_life.py", "test_faults_tls.py", "test_faults_gpu.py",  # each allocation and system call of a way fails once
    "test_grpc_mutations.py", "test_safety_mutations.py", "test_safety_config.py",  # thousands of mutated requests
    "test_grpc_storm.py", "test_safety_reload.py", "test_reload_proof.py", "test_python_hostile.py",  # the same, for long
    "test_safety_amplification.py", "test_safety_paths.py", "test_safety_bodies.py", "test_safety_clients.py",
    "test_grpc_messages.py", "test_grpc_frames.py", "test_safety_shared_memory.py", "test_large_bodies.py",
    "test_frameworks_models.py", "test_frameworks_together.py", "test_h2spec.py", "test_grpc_languages.py", "test_trace_collector.py", "test_python_surface.py", "test_outputs.py", "test_container.py",  # what --all installs
}
LARGE = re.compile(r"test_(tensorflow|pytorch)|\b(tensorflow|pytorch|torch)\b")  # files and parameters: the frameworks that only --all installs
# As much of one test: ten seconds and more.
LONG_TESTS = {
    "test_hostile_archives_are_refused_and_leave_nothing", "test_a_client_that_gives_no_sign_is_closed", "test_dozens_of_kills_leave_nothing_behind",
    "test_ten_thousand_models_cost_a_start_nothing", "test_megabytes_of_prints_hold_nobody_up", "test_cve_2026_47476_a_hundred_million_chunks_leave_no_memory",
    "test_a_crash_loop_makes_the_model_unavailable_with_growing_pauses", "test_the_whole_of_it_runs_to_its_end", "test_polled_models_and_ensembles_come_and_go",
}
OTHER_SIDE = re.compile(r"\btriton\b|two years old|\breal\b")  # in a test's parameters: NVIDIA's server, an old library, a real collector

# They measure the processor's time: what runs beside them would be measured too. All else passes on a machine that is loaded.
ALONE = {
    "test_a_flood_costs_little", "test_new_fields_in_each_call_cost_no_memory", "test_descriptors_that_run_out_cost_no_processor",
    "test_json_takes_time_in_proportion_to_its_size", "test_honest_clients_hardly_notice_slow_ones",
    "test_a_full_descriptor_table_costs_no_cpu", "test_handshakes_that_wait_cost_no_processor", "test_an_idle_worker_uses_no_processor",
    "test_the_start_and_the_index_take_time_in_proportion_to_the_models",
}

# They take a minute and more, so they begin first. The others follow by name.
LONG = [
    "test_faults.py", "test_faults_loads.py", "test_safety_shared_memory.py", "test_python_contract_examples.py", "test_python_contract_control.py",
    "test_faults_life.py", "test_safety_paths.py", "test_python_faults.py", "test_safety_bodies.py", "test_safety_amplification.py", "test_python_contract.py",
    "test_grpc_frames.py", "test_safety_clients.py", "test_safety_repository.py", "test_generate_limits.py",
]

# Real models, which compute for long where TSan sees nothing but each copy of a few bytes, and takes it for a race.
REAL = {"test_frameworks_models.py", "test_frameworks_pitch.py", "test_frameworks_serve.py"}

# What a driver that is there could change though nobody asked for a GPU: `--all` runs these once more on a machine with one that is played.
GPU_HOST = {
    "test_check_command.py", "test_http.py", "test_isolated.py", "test_lifecycle.py", "test_onnxruntime.py", "test_python_examples.py",
    "test_python_reach.py", "test_python_readiness.py", "test_start_output.py", "test_warmup.py",
}


def is_alone(item):
    return item.originalname in ALONE


def order(item):
    return LONG.index(item.path.name) if item.path.name in LONG else len(LONG)


def is_of_triton(item):
    return item.path.stem.endswith("_triton") or OTHER_SIDE.search(item.name.partition("[")[2]) is not None


def is_ours(item):
    return not is_of_triton(item) and item.path.name not in REAL


def is_quick(item):
    large = LARGE.search(f"{item.path.stem} {item.name.partition('[')[2]}") is not None
    return item.path.name not in ONLY_ALL and item.originalname not in LONG_TESTS and not is_of_triton(item) and not large


def is_of_release(item):
    """It asks the release build only, whatever NEREID_BUILD says: memory and time mean nothing under a sanitizer, and wheels and images have no sanitizer."""
    return not {"start_release", "release_target", "wheel", "images"}.isdisjoint(item.fixturenames) and "nereid" not in item.fixturenames
