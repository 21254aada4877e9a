"""Which end-to-end tests run alone, and which `scripts/test` leaves to `scripts/test --all`: those that need what only --all installs (Triton, Go, Node,
KServe, a collector, an old ONNX Runtime), and those that ask the same question very often (each allocation fails, each byte mutates).
"""
import re

ONLY_ALL = {
    "test_faults.py", "test_faults_life.py", "test_faults_tls.py",  # each allocation and system call of a way fails once
    "test_grpc_mutations.py", "test_safety_mutations.py", "test_safety_config.py",  # thousands of mutated requests
    "test_grpc_storm.py", "test_safety_reload.py", "test_python_hostile.py",  # the same, for long
    "test_safety_amplification.py", "test_safety_paths.py", "test_safety_bodies.py", "test_safety_clients.py",
    "test_grpc_messages.py", "test_grpc_frames.py", "test_safety_shared_memory.py", "test_large_bodies.py",
    "test_h2spec.py", "test_grpc_languages.py", "test_trace_collector.py", "test_python_surface.py", "test_outputs.py",  # what --all installs
}
OTHER_SIDE = re.compile(r"\btriton\b|two years old|\breal\b")  # in a test's parameters: NVIDIA's server, an old library, a real collector

# They measure the processor's time: what runs beside them would be measured too. All else passes on a machine that is loaded.
ALONE = {
    "test_a_flood_costs_little", "test_new_fields_in_each_call_cost_no_memory", "test_descriptors_that_run_out_cost_no_processor",
    "test_json_takes_time_in_proportion_to_its_size", "test_honest_clients_hardly_notice_slow_ones",
    "test_a_full_descriptor_table_costs_no_cpu", "test_handshakes_that_wait_cost_no_processor", "test_an_idle_worker_uses_no_processor",
}

# They take a minute and more, so they begin first. The others follow by name.
LONG = [
    "test_faults.py", "test_safety_shared_memory.py", "test_python_contract_examples.py", "test_python_contract_control.py", "test_faults_life.py",
    "test_safety_bodies.py", "test_grpc_frames.py", "test_safety_repository.py", "test_generate_limits.py",
]


def is_alone(item):
    return item.originalname in ALONE


def order(item):
    return LONG.index(item.path.name) if item.path.name in LONG else len(LONG)


def is_quick(item):
    if item.path.name in ONLY_ALL or item.path.stem.endswith("_triton"):
        return False
    parameters = item.name.partition("[")[2]
    return not OTHER_SIDE.search(parameters)
