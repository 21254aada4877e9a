# SPDX-License-Identifier: Apache-2.0
"""Compares the batcher that holds a latency objective with the best of many tuned settings, in a simulation (bench/simulator.c).

    bench/simulate.py record DIRECTORY    measures what executions of two ONNX models take here, by batch size
    bench/simulate.py compare [--seconds 12] [--simulator build/release/bench/simulator]
                                          prints a table, and draws docs/latency_objective.svg

An objective is three times what the largest batch takes. A load is a part of what the model can do at most.
"""
import argparse
import concurrent.futures
import itertools
import json
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = (1, 2, 4, 8, 16, 32)
WORKLOADS = ("poisson", "bursts", "diurnal", "mixed")
LOADS = (0.3, 0.6, 0.8, 0.9, 1.0, 1.5)
QUEUES = (8, 16, 24, 32, 48, 64)


# ---- record

def network(width, layers):
    """A chain of matrix products."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        weights.append(numpy_helper.from_array(numpy.random.default_rng(i).random((width, width), numpy.float32) / width, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"y{i}"]))
        last = f"y{i}"
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, width])],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, [None, width])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolution(channels, size, layers):
    import numpy
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        shape = (channels, channels, 3, 3)
        weights.append(numpy_helper.from_array(numpy.random.default_rng(i).random(shape, numpy.float32) / 100, f"w{i}"))
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"y{i}"], pads=[1, 1, 1, 1]))
        last = f"y{i}"
    dims = [None, channels, size, size]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, dims)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def record(directory):
    import numpy
    import onnxruntime
    models = {"products": (network(1024, 6), (1024,)), "convolutions": (convolution(16, 32, 4), (16, 32, 32))}
    for name, (model, shape) in models.items():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        lines = [f"# {name}: rows, then 21 quantiles of 300 executions, ns of CPU time of one thread (bench/simulate.py record)"]
        for rows in SIZES:
            data, took = numpy.ones((rows, *shape), numpy.float32), []
            for _ in range(320):
                begun = time.process_time_ns()
                session.run(None, {"x": data})
                took.append(time.process_time_ns() - begun)
            took = sorted(took[20:])
            lines.append(" ".join([str(rows)] + [str(took[round(q / 20 * (len(took) - 1))]) for q in range(21)]))
        (directory / f"{name}.txt").write_text("\n".join(lines) + "\n")


# ---- compare

def median_ns(curve, rows):
    for line in curve.read_text().splitlines():
        words = line.split()
        if words[0] == str(rows):
            return int(words[11])
    raise SystemExit(f"{curve}: no batch of {rows} rows")


def run(simulator, curve, **settings):
    out = subprocess.check_output([simulator, curve, *(f"{key}={value}" for key, value in settings.items())])
    return json.loads(out)


def tunings():
    """What a patient person would try."""
    for size, queue in itertools.product((4, 8, 16, 24, 32), QUEUES):
        yield dict(max_batch_size=size, preferred=size, delay_us=0, queue=queue)
    for size, delay, queue in itertools.product((4, 8, 16, 32), (1000, 4000), QUEUES):
        yield dict(max_batch_size=size, preferred=size, delay_us=delay, queue=queue)


def one_case(arguments, curve, workload, instances, load):
    largest = median_ns(curve, SIZES[-1])
    objective_us = 3 * largest // 1000
    most = max(rows * 1e9 / median_ns(curve, rows) for rows in SIZES) * instances
    rate = load * most / (2.5 if workload == "mixed" else 1)  # of mixed ones a request has 2.5 rows
    common = dict(workload=workload, rate=rate, instances=instances, objective_us=objective_us, seconds=arguments.seconds)
    ours = run(arguments.simulator, curve, latency=1, max_batch_size=SIZES[-1], **common)
    # The first seconds are for learning: what the tuned settings know before they begin.
    tried = [dict(run(arguments.simulator, curve, **common, **tuning), **tuning) for tuning in tunings()]
    good = [result for result in tried if result["p99_us"] <= objective_us]
    return dict(curve=curve.stem, workload=workload, instances=instances, load=load, objective_us=objective_us, ours=ours,
                best=max(good, key=lambda result: result["in_time"], default=None))


def compare(arguments):
    cases = list(itertools.product(sorted((ROOT / "bench/curves").glob("*.txt")), WORKLOADS, (1, 2), LOADS))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda case: one_case(arguments, *case), cases))
    print("| model | workload | instances | in time, of the best tuned setting's (least over loads) | mean | p99, of the objective (most) |")
    print("|---|---|---|---|---|---|")
    parts = []
    for (curve, workload, instances), group in itertools.groupby(results, lambda r: (r["curve"], r["workload"], r["instances"])):
        group = list(group)
        part = [r["ours"]["in_time"] / r["best"]["in_time"] for r in group if r["best"]]
        parts += part
        late = max(r["ours"]["p99_us"] / r["objective_us"] for r in group)
        print(f"| {curve} | {workload} | {instances} | {min(part):.3f} | {sum(part) / len(part):.3f} | {late:.2f} |")
    print(f"\nall: least {min(parts):.3f}, mean {sum(parts) / len(parts):.4f}, below 0.95: {sum(p < 0.95 for p in parts)} of {len(parts)}")
    draw([r for r in results if r["instances"] == 1 and r["curve"] == results[0]["curve"]], ROOT / "docs/latency_objective.svg")


# ---- the picture: answers in time over the load, one panel a workload

WIDTH, HEIGHT, GAP = 260, 180, 60


def panel(results, x0, y0):
    most = max(r["ours"]["offered"] for r in results)

    def points(values):
        return " ".join(f"{x0 + WIDTH * r['load'] / LOADS[-1]:.1f},{y0 + HEIGHT * (1 - value / most):.1f}" for r, value in values)
    best = [(r, r["best"]["in_time"]) for r in results if r["best"]]
    yield f'<rect x="{x0}" y="{y0}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    yield f'<text x="{x0}" y="{y0 - 8}">{results[0]["workload"]}</text>'
    yield f'<polyline points="{points([(r, r["ours"]["offered"]) for r in results])}" fill="none" stroke="#bbb" stroke-dasharray="4 3"/>'
    yield f'<polyline points="{points(best)}" fill="none" stroke="#d80" stroke-width="4" opacity="0.5"/>'
    yield f'<polyline points="{points([(r, r["ours"]["in_time"]) for r in results])}" fill="none" stroke="#06c" stroke-width="2"/>'
    yield f'<text x="{x0 + WIDTH - 4}" y="{y0 + HEIGHT + 16}" text-anchor="end">load {LOADS[-1]}</text>'
    yield f'<text x="{x0 + 4}" y="{y0 + 16}">{most:.0f} a second</text>'


def draw(results, path):
    panels = [list(group) for _, group in itertools.groupby(results, lambda r: r["workload"])]
    width, height = 2 * (WIDTH + GAP) + GAP, 2 * (HEIGHT + GAP) + GAP
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, group in enumerate(panels):
        lines += panel(group, GAP + i % 2 * (WIDTH + GAP), GAP + i // 2 * (HEIGHT + GAP))
    lines += [f'<text x="{GAP}" y="24">answers in time: <tspan fill="#06c">latency_objective_us</tspan>, '
              '<tspan fill="#d80">the best of 78 tuned settings at each load</tspan>, <tspan fill="#999">what comes</tspan></text>', "</svg>"]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("directory", type=pathlib.Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--seconds", type=int, default=12)
    comparing.add_argument("--simulator", default=ROOT / "build/release/bench/simulator")
    chosen = parser.parse_args()
    if chosen.command == "record":
        record(chosen.directory)
    else:
        compare(chosen)
