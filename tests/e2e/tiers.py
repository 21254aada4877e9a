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

# Their clients have timeouts of a fraction of a second, or they compare times: what runs beside them would be measured too.
ALONE = {
    "test_generate_limits.py", "test_grpc_frames.py", "test_grpc_life.py", "test_grpc_long.py", "test_large_json.py",
    "test_metrics_triton.py",
    "test_safety_backend.py", "test_safety_bodies.py", "test_safety_clients.py", "test_safety_mutations.py", "test_safety_pause.py",
    "test_safety_reload.py", "test_tls.py",
}


def is_alone(item):
    return item.path.name in ALONE


def is_quick(item):
    if item.path.name in ONLY_ALL or item.path.stem.endswith("_triton"):
        return False
    parameters = item.name.partition("[")[2]
    return not OTHER_SIDE.search(parameters)
