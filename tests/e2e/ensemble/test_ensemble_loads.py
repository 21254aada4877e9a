# SPDX-License-Identifier: Apache-2.0
"""Ensembles as they are loaded, by nereid and by Triton 2.51: what is taken or refused, in which words, and which models come and go with which."""
import base64
import concurrent.futures
import contextlib
import json
import subprocess

import pytest
from conftest import BUILD, wait_for
from ensemble_sides import BODY, NEREID, TRITON, Life, chain, ensemble, identity, step, tensor, write
from test_demand import LARGE, size_of_a_model

IN, OUT = tensor("input", "INPUT0"), tensor("output", "OUTPUT0")
DECOUPLED = "model_transaction_policy { decoupled: true }"
DOUBLES = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", 2 * one)]) for one in given]
"""
UNREAD = "the configuration itself is refused"
FAILED_STEPS = {"model that is not read", "model that does not load", "model without version", "an ensemble that is invalid"}
TO, BACK = {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0"}


def two(kind, *more):
    return "".join(tensor(kind, f"{kind.upper()}PUT{i}".replace("PUTPUT", "PUT"), more=text) for i, text in enumerate(more))


PAIR = f'backend: "identity"\nmax_batch_size: 8\n{two("input", "", "")}{two("output", "", "")}'
MODELS = {
    "a": identity(), "b": identity(), "int32": identity(type="TYPE_INT32"), "small": identity(max_batch_size=4), "large": identity(max_batch_size=16),
    "flat": identity(max_batch_size=0), "pair": PAIR,
    "flat_rows": f'backend: "identity"\n{tensor("input", "INPUT0", dims="-1, -1")}{tensor("output", "OUTPUT0", dims="-1, -1")}',
    "four": f'backend: "identity"\nmax_batch_size: 8\n{tensor("input", "INPUT0", dims="4")}{tensor("output", "OUTPUT0", dims="4")}',
    "three": f'backend: "identity"\nmax_batch_size: 8\n{tensor("input", "INPUT0", dims="3")}{tensor("output", "OUTPUT0", dims="3")}',
    "optional": f'backend: "identity"\nmax_batch_size: 8\n{two("input", "", "optional: true")}{two("output", "", "")}',
    "stream": identity(more=DECOUPLED), "stream2": identity(more=DECOUPLED),
    "broken": 'backend: "nowhere"\n' + IN + OUT, "unread": "max_batch_size: ?", "unversioned": identity(more="version_policy { specific { versions: 7 } }"),
    "old": identity(more="version_policy { specific { versions: 1 } }"),
    "invalid": chain("a", "none"),
    "inner": chain("a", "b"),
}
BOTH = IN + tensor("input", "INPUT1")
CASES = {
    "unknown model": (chain("a", "none"),
        "ensemble CASE contains models that are not available or ambiguous: none"),
    "two unknown models": (chain("zz", "a", "none", "zz"),
        "ensemble CASE contains models that are not available or ambiguous: zz"),
    "model that is not read": (chain("unread"),
        "ensemble CASE contains models that are not available or ambiguous: unread"),
    "model that does not load": (chain("a", "broken"),
        "ensemble 'CASE' depends on 'broken' which has no loaded version. Model 'broken' loading failed with error: version 1 is at UNAVAILABLE state: Invalid argument: unable to find "),
    "model without version": (chain("unversioned"),
        "ensemble 'CASE' depends on 'unversioned' which has no loaded version. Model 'unversioned' loading failed with error: at least one version must be available under the version policy of model 'unversioned'"),
    "unknown version": (ensemble(step("a", TO, BACK, 3)),
        "ensemble 'CASE' depends on 'a' whose required version 3 is not loaded."),
    "known version": (ensemble(step("a", TO, BACK, 1)),
        None),
    "version that the policy leaves out": (ensemble(step("old", TO, BACK, 2)),
        "ensemble 'CASE' depends on 'old' whose required version 2 is not loaded."),
    "unknown input": (ensemble(step("a", {"INPUT9": "INPUT0"}, BACK)),
        "in ensemble CASE, ensemble tensor INPUT0 is mapping to non-existing input INPUT9 in model a"),
    "unknown output": (ensemble(step("a", TO, {"OUTPUT9": "OUTPUT0"})),
        "in ensemble CASE, ensemble tensor OUTPUT0 is mapped from non-existing output OUTPUT9 in model a"),
    "missing input": (ensemble(step("pair", TO, BACK)),
        "in ensemble CASE, input INPUT1 in model pair is not mapped to any ensemble tensors"),
    "optional input": (ensemble(step("optional", TO, BACK)),
        None),
    "all inputs but an optional one": (ensemble(step("optional", {"INPUT1": "INPUT0"}, BACK)),
        "in ensemble CASE, input INPUT0 in model optional is not mapped to any ensemble tensors"),
    "unused output": (ensemble(step("pair", {"INPUT0": "INPUT0", "INPUT1": "INPUT1"}, BACK), tensors=BOTH + OUT),
        None),
    "type at the beginning": (ensemble(step("int32", TO, BACK)),
        "in ensemble CASE, ensemble tensor INPUT0: inconsistent data type: TYPE_FP32 is inferred from model CASE while TYPE_INT32 is inferred from model int32"),
    "type in the middle": (ensemble(step("a", TO, {"OUTPUT0": "t"}), step("int32", {"INPUT0": "t"}, BACK), tensors=IN + tensor("output", "OUTPUT0", "TYPE_INT32")),
        "in ensemble CASE, ensemble tensor t: inconsistent data type: TYPE_FP32 is inferred from model a while TYPE_INT32 is inferred from model int32"),
    "type at the end": (ensemble(step("a", TO, BACK), tensors=IN + tensor("output", "OUTPUT0", "TYPE_INT32")),
        "in ensemble CASE, ensemble tensor OUTPUT0: inconsistent data type: TYPE_INT32 is inferred from model CASE while TYPE_FP32 is inferred from model a"),
    "shape at the beginning": (ensemble(step("four", TO, BACK), tensors=tensor("input", "INPUT0", dims="3") + tensor("output", "OUTPUT0", dims="4")),
        "in ensemble CASE, ensemble tensor INPUT0: inconsistent shape: [-1,3] is inferred from model CASE while [-1,4] is inferred from model four"),
    "shape in the middle": (chain("four", "three"),
        "in ensemble CASE, ensemble tensor between1: inconsistent shape: [-1,4] is inferred from model four while [-1,3] is inferred from model three"),
    "shape at the end": (ensemble(step("four", TO, BACK), tensors=IN + tensor("output", "OUTPUT0", dims="4, 1")),
        "in ensemble CASE, ensemble tensor OUTPUT0: inconsistent shape: [-1,4,1] is inferred from model CASE while [-1,4] is inferred from model four"),
    "shape that is variable": (chain("four", "a", "three"),
        None),
    "reshape": (ensemble(step("four", TO, BACK), tensors=tensor("input", "INPUT0", dims="2, 2", more="reshape { shape: [ 4 ] }") + OUT),
        None),
    "batch beyond a step's": (chain("a", "small"),
        "ensemble CASE allows maximum batch size 8, but it contains model small which only allows maximum batch size to be 4"),
    "batch below a step's": (chain("a", "large"),
        None),
    "step without batches": (chain("a", "flat"),
        None),
    "step without batches, of rows": (chain("a", "flat_rows"),
        None),
    "ensemble without batches": (chain("flat", max_batch_size=0),
        None),
    "ensemble without batches, of steps with": (chain("a", max_batch_size=0),
        None),
    "ensemble of rows, of steps with batches": (chain("a", max_batch_size=0, tensors=tensor("input", "INPUT0", dims="-1, -1") + tensor("output", "OUTPUT0", dims="-1, -1")),
        None),
    "two uses of unlike types": (ensemble(step("a", TO, {"OUTPUT0": "t"}), step("a", {"INPUT0": "t"}, BACK), step("int32", {"INPUT0": "t"}, {"OUTPUT0": "OUTPUT1"}), tensors=IN + OUT + tensor("output", "OUTPUT1", "TYPE_INT32")),
        "in ensemble CASE, ensemble tensor t: inconsistent data type: TYPE_FP32 is inferred from model a while TYPE_INT32 is inferred from model int32"),
    "branches": (ensemble(step("a", TO, {"OUTPUT0": "t"}), step("b", TO, {"OUTPUT0": "u"}), step("pair", {"INPUT0": "t", "INPUT1": "u"}, {"OUTPUT0": "OUTPUT0", "OUTPUT1": "OUTPUT1"}), tensors=IN + OUT + tensor("output", "OUTPUT1")),
        None),
    "decoupled step": (chain("a", "stream", "b"),
        None),
    "two decoupled steps": (chain("stream", "stream2"),
        None),
    "decoupled branches that meet": (ensemble(step("stream", TO, {"OUTPUT0": "t"}), step("stream2", TO, {"OUTPUT0": "u"}), step("pair", {"INPUT0": "t", "INPUT1": "u"}, BACK)),
        "in ensemble CASE, step of model 'CASE' receives inputs originated from different decoupled models"),
    "a decoupled branch that meets another": (ensemble(step("stream", TO, {"OUTPUT0": "t"}), step("a", TO, {"OUTPUT0": "u"}), step("pair", {"INPUT0": "t", "INPUT1": "u"}, {"OUTPUT0": "v"}), step("a", {"INPUT0": "v"}, BACK)),
        "in ensemble CASE, step of model 'pair' receives inputs originated from different decoupled models"),
    "a decoupled branch and the input": (ensemble(step("stream", TO, {"OUTPUT0": "t"}), step("pair", {"INPUT0": "t", "INPUT1": "INPUT0"}, BACK)),
        "in ensemble CASE, step of model 'CASE' receives inputs originated from different decoupled models"),
    "decoupled outputs that part": (ensemble(step("stream", TO, {"OUTPUT0": "OUTPUT0"}), step("a", TO, {"OUTPUT0": "OUTPUT1"}), tensors=IN + OUT + tensor("output", "OUTPUT1")),
        "in ensemble CASE, step of model 'CASE' receives inputs originated from different decoupled models"),
    "one decoupled step, two branches": (ensemble(step("stream", TO, {"OUTPUT0": "t"}), step("a", {"INPUT0": "t"}, {"OUTPUT0": "u"}), step("b", {"INPUT0": "t"}, {"OUTPUT0": "v"}), step("pair", {"INPUT0": "u", "INPUT1": "v"}, BACK)),
        None),
    "an ensemble": (chain("inner", "a"),
        None),
    "an ensemble that is invalid": (chain("invalid"),
        "ensemble 'CASE' depends on 'invalid' which is not valid. Model 'invalid' failed with error: ensemble invalid contains models that are not available or ambiguous: none"),
    "a circle": (chain("a", "around"),
        "circular dependency between ensembles: CASE -> ... -> around -> CASE"),
    "itself": (chain("CASE"),
        "circular dependency between ensembles: CASE -> ... -> CASE -> CASE"),
    "tensor written twice": (ensemble(step("a", TO, {"OUTPUT0": "OUTPUT0"}), step("b", TO, {"OUTPUT0": "OUTPUT0"})),
        UNREAD),
    "unused tensor": (ensemble(step("a", TO, {"OUTPUT0": "t"}), step("b", TO, BACK)),
        UNREAD),
    "unwritten tensor": (ensemble(step("a", {"INPUT0": "t"}, BACK), step("b", TO, {"OUTPUT0": "u"})),
        UNREAD),
    "unused input": (ensemble(step("a", TO, BACK), tensors=BOTH + OUT),
        UNREAD),
    "unwritten output": (ensemble(step("a", TO, BACK), tensors=IN + OUT + tensor("output", "OUTPUT1")),
        UNREAD),
    "step without model": (ensemble('step { model_version: 1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }'),
        UNREAD),
    "step without inputs": (ensemble(step("a", {}, BACK)),
        UNREAD),
    "step without outputs": (ensemble(step("a", TO, {})),
        UNREAD),
    "no steps": (ensemble(),
        UNREAD),
    "instances": (chain("a", more="instance_group { count: 2 }\n"),
        UNREAD),
    "another platform": (chain("a").replace('platform: "ensemble"', 'backend: "identity"'),
        UNREAD),
    "no scheduling": (f'platform: "ensemble"\nmax_batch_size: 8\n{IN}{OUT}',
        UNREAD),
    "decoupled by itself": (chain("a", more=DECOUPLED + "\n"),
        None),
    "a dynamic batcher too": (chain("a", more="dynamic_batching {}\n"),
        UNREAD),
}
MODELS["around"] = chain(f"case{list(CASES).index('a circle')}")
SIDES = [NEREID] if BUILD.name == "tsan" else [NEREID, TRITON]
of_sides = pytest.mark.parametrize("side", SIDES, ids=[side.name for side in SIDES], scope="module")


def named(cases):
    return {f"case{i}": config.replace("CASE", f"case{i}") for i, (config, _) in enumerate(cases.values())}


@contextlib.contextmanager
def living(side, directory, models, **how):
    life = Life(side, directory, models, **how)
    try:
        life.server.await_ready()
        yield life
    finally:
        life.stop()


# ---- what is refused ----


@pytest.fixture(scope="module")
def life(side, tmp_path_factory):
    with living(side, tmp_path_factory.mktemp(side.name), {**MODELS, **named(CASES)}) as made:
        yield made


@of_sides
@pytest.mark.parametrize("name", CASES)
def test_an_ensemble_is_taken_or_refused(life, name):
    config, words = CASES[name]
    case = f"case{list(CASES).index(name)}"
    status, text = life.load(case)
    said = json.loads(text)["error"] if text else None
    told = json.loads(life.server.ask(f"/v2/models/{case}/config").body)
    life.unload(case)  # its steps stay: Triton may end when one goes right behind its load (python_sides.py)
    if words is None:
        assert (status, said) == (200, None)
        assert told["model_transaction_policy"] == {"decoupled": '"stream' in config}
    elif words is UNREAD:
        assert status == 500 and said.startswith(f"failed to load '{case}', failed to poll from model repository")
    else:
        assert status == 400 and said.startswith(f"load failed for model '{case}': {words.replace('CASE', case)}")


def test_a_check_says_the_same_without_a_server(tmp_path):
    for name, config in {**MODELS, **named(CASES)}.items():
        write(tmp_path, name, config)
    run = subprocess.run([BUILD / "bin/nereid", "check", "--json", tmp_path], stdout=subprocess.PIPE, text=True, check=False)
    found = {}
    for problem in json.loads(run.stdout)["problems"]:
        if problem["severity"] == "error":
            found.setdefault(problem["model"], []).append(problem)
    for i, (name, (_, words)) in enumerate(CASES.items()):
        messages = [problem["message"] for problem in found.get(f"case{i}", [])]
        if words is None or name in FAILED_STEPS:  # of these the step's own check tells
            assert messages == [], name
        elif words is UNREAD:
            assert messages, name
        else:
            assert any(message.startswith(words.replace("CASE", f"case{i}")) for message in messages), (name, messages)
            assert all(problem["line"] > 0 for problem in found[f"case{i}"])


# ---- what comes and goes with what ----

LIVES = {"a": identity(), "b": identity(), "e": chain("a", "b"), "outer": chain("e", "a"), "bad": chain("a", "none")}
UNFIT = "Invalid argument: ensemble {} allows maximum batch size 8, but it contains model a which only allows maximum batch size to be 4"
ABSENT = "Invalid argument: ensemble {} contains models that are not available or ambiguous: {}"
INVALID = "Invalid argument: ensemble '{0}' depends on '{1}' which is not valid. Model '{1}' failed with error: {2}"
FAILED = "Invalid argument: ensemble '{0}' depends on '{1}' which has no loaded version. Model '{1}' loading failed with error: version 1 is at UNAVAILABLE state: "
NO_BACKEND = "Invalid argument: unable to find"


def change(name, config):
    return lambda life: write(life.repository, name, config)


def loads(name):
    return lambda life: life.load(name)


def unloads(name, dependents=False):
    return lambda life: life.unload(name, dependents)


def all_of(*steps):
    return lambda life: [one(life) for one in steps][-1]


def up(*names):
    return {f"loaded '{name}'" for name in names}


def down(*names):
    return {f"unloaded '{name}' version 1" for name in names}


# What is done, whether that succeeds, what serves then, what the log says.
HISTORY = (
    ("an ensemble without its step", loads("bad"), 400, "a",
     up("a") | {ABSENT.format("bad", "none"), "failed to poll model 'none': model not found in any model repository"}),
    ("the step comes", all_of(change("none", identity()), loads("none")), 200, "a bad none", up("none", "bad")),
    ("they go", all_of(unloads("none"), unloads("bad", True)), 200, "", down("none", "bad", "a") | {ABSENT.format("bad", "none")}),
    ("an ensemble brings its steps", loads("e"), 200, "a b e", up("a", "b", "e")),
    ("nothing has changed", loads("e"), 200, "a b e", set()),
    ("a step goes: the ensemble, too", unloads("a"), 200, "b", down("a", "e") | {ABSENT.format("e", "a")}),
    ("it comes again: the ensemble, too", loads("a"), 200, "a b e", up("a", "e")),
    ("the ensemble goes alone", unloads("e"), 200, "a b", down("e")),
    ("an ensemble of an ensemble", loads("outer"), 200, "a b e outer", up("e", "outer")),
    ("it goes with what it has brought", unloads("outer", True), 200, "a", down("outer", "e", "b")),
    ("and comes again", loads("outer"), 200, "a b e outer", up("b", "e", "outer")),
    ("a step's files change", all_of(change("a", identity(max_batch_size=9)), loads("a")), 200, "a b e outer",
     up("a", "e", "outer") | down("a", "e", "outer")),
    ("a step does not fit any more", all_of(change("a", identity(max_batch_size=4)), loads("a")), 200, "a b",
     up("a") | down("a", "e", "outer") | {UNFIT.format("e"), INVALID.format("outer", "e", UNFIT.format("e").partition(": ")[2])}),
    ("it fits again", all_of(change("a", identity()), loads("a")), 200, "a b e outer", up("a", "e", "outer") | down("a")),
    ("a step's files change, the ensemble is loaded", all_of(change("b", identity(max_batch_size=9)), loads("e")), 200, "a b e outer",
     up("b", "e", "outer") | down("b", "e", "outer")),
    ("a step goes with whatever it brought: nothing", unloads("b", True), 200, "a",
     down("b", "e", "outer") | {ABSENT.format("e", "b"), INVALID.format("outer", "e", ABSENT.format("e", "b").partition(": ")[2])}),
    ("it fails", all_of(change("b", 'backend: "nowhere"'), loads("b")), 400, "a",
     {f"failed to load 'b' version 1: {NO_BACKEND}", FAILED.format("e", "b") + NO_BACKEND,
      INVALID.format("outer", "e", FAILED.format("e", "b").partition(": ")[2]) + NO_BACKEND}),
    ("it is mended", all_of(change("b", identity()), loads("b")), 200, "a b e outer", up("b", "e", "outer")),
)


def serving(life):
    return {name for name, _, state, _ in life.index() if state == "READY"}


def check_agreement(life, ready):
    """Index, readiness and answers."""
    rows, _, answers = life.seen()
    assert {name for name, _, state, _ in rows if state == "READY"} == ready
    for name, (readiness, status, _) in answers.items():
        assert (readiness, status) == ((200, 200) if name in ready else (400, 404)), name
    for name, _, state, reason in rows:
        if state == "UNAVAILABLE" and "backend" not in reason:
            assert reason == "unloaded" or (life.side is NEREID and reason.startswith("ensemble")), name  # which says why


def walk(life, history):
    for what, act, status, ready, said in history:
        done = act(life)
        assert status is None or done[0] == status, (what, done)
        seen = set()

        def has_come():
            seen.update(life.said())
            return seen == said and serving(life) == set(ready.split())

        try:
            wait_for(what, has_come)
        except AssertionError:
            raise AssertionError(f"{what}: {sorted(serving(life))} serve; missing {said - seen}, unexpected {seen - said}") from None
        check_agreement(life, set(ready.split()))


@of_sides
def test_models_and_ensembles_come_and_go(side, tmp_path):
    with living(side, tmp_path, LIVES) as life:
        life.said()
        walk(life, HISTORY)


POLLED = (
    ("a step goes", lambda life: life.take("a"), None, "b", down("a", "e") | {ABSENT.format("e", "a")}),
    ("it comes again", change("a", identity()), None, "a b e", up("a", "e")),
    ("it changes", change("a", identity(max_batch_size=9)), None, "a b e", up("a", "e") | down("a", "e")),
    ("it does not fit any more", change("a", identity(max_batch_size=4)), None, "a b", up("a") | down("a", "e") | {UNFIT.format("e")}),
    ("the ensemble follows", change("e", chain("a", "b", max_batch_size=4)), None, "a b e", up("e")),
    ("another ensemble comes with its step", all_of(change("c", identity()), change("of_c", chain("c", "a", max_batch_size=4))), None, "a b c e of_c",
     up("c", "of_c")),
    ("an ensemble goes", lambda life: life.take("of_c"), None, "a b c e", down("of_c")),
)


@pytest.mark.slow
@of_sides
def test_polled_models_and_ensembles_come_and_go(side, tmp_path):
    models = {name: LIVES[name] for name in ("a", "b", "e")}
    with living(side, tmp_path, models, mode="poll", flags=["--repository-poll-secs=1"]) as life:
        life.said()
        walk(life, POLLED)


# ---- who else loads ----


def answers(server, name):
    return server.ask(f"/v2/models/{name}/infer", BODY).status


@of_sides
def test_an_ensemble_that_is_named_at_the_start_brings_its_steps(side, tmp_path):
    with living(side, tmp_path, LIVES, flags=["--load-model=outer"]) as life:
        assert serving(life) == {"a", "b", "e", "outer"}
        assert answers(life.server, "outer") == 200
        assert life.unload("outer", dependents=True)[0] == 200
        wait_for("the steps to go", lambda: serving(life) == set())


def test_ensembles_come_after_their_steps_whatever_the_order(start_server, repository):
    """Each is made of the one before, and their names say the contrary."""
    for name in ("z", "zz"):
        write(repository, name, identity())
    for i in range(20):
        write(repository, f"n{99 - i}", chain("z", f"n{100 - i}" if i > 0 else "zz"))
    server = start_server(repository, flags=["--model-load-thread-count=4"])
    assert {row["state"] for row in json.loads(server.ask("/v2/repository/index", b"").body)} == {"READY"}
    assert answers(server, "n80") == 200


def test_a_bad_ensemble_at_the_start_is_its_own_affair(start_server, repository):
    for name, config in {**LIVES, "c1": chain("c2"), "c2": chain("c3"), "c3": chain("c2")}.items():
        write(repository, name, config)
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    server.await_ready()
    assert [answers(server, name) for name in ("outer", "bad", "c1", "c2")] == [200, 404, 404, 404]
    reasons = {row["name"]: row.get("reason") for row in json.loads(server.ask("/v2/repository/index", b"").body)}
    assert reasons["bad"] == "ensemble bad contains models that are not available or ambiguous: none"
    assert reasons["c2"] == "circular dependency between ensembles: c2 -> ... -> c3 -> c2"
    assert reasons["c1"].startswith("ensemble 'c1' depends on 'c2' which is not valid. Model 'c2' failed with error: circular dependency")


@of_sides
def test_a_steps_model_is_of_the_ensembles_repository(side, tmp_path):
    """Or else the only one of its name."""
    other = tmp_path / "other"
    other.mkdir()
    write(other, "a", identity(max_batch_size=4))
    write(other, "c", identity())
    write(other, "small", chain("a", max_batch_size=4))
    models = {"a": identity(), "own": chain("a"), "far": chain("c"), "x": identity(type="TYPE_INT32")}
    with living(side, tmp_path, models, flags=["--model-namespacing=true", f"--model-repository={other}"]) as life:
        for name in ("own", "far", "small"):
            assert life.load(name) == (200, "")
            assert answers(life.server, name) == 200
        write(other, "far2", chain("a", "x"))
        status, text = life.load("far2")
        assert status == 400
        assert json.loads(text)["error"].startswith(
            f"load failed for model '{other}::far2': ensemble {other}::far2 allows maximum batch size 8, "
            "but it contains model a which only allows maximum batch size to be 4")


ON_DEMAND = ["--model-control-mode=ondemand"]


def test_a_request_for_an_ensemble_loads_its_steps(start_server, repository):
    for name, config in LIVES.items():
        write(repository, name, config)
    server = start_server(repository, flags=ON_DEMAND)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: answers(server, "outer" if i % 2 else "e"), range(8))) == [200] * 8
    assert {row["name"] for row in json.loads(server.ask("/v2/repository/index", b'{"ready":true}').body)} == {"a", "b", "e", "outer"}
    reply = server.ask("/v2/models/bad/infer", BODY)
    assert reply.status == 503 and "contains models that are not available or ambiguous: none" in reply.text


def test_a_step_that_is_evicted_takes_its_ensembles_with_it(start_server, repository):
    """There is room for two of three: who is used last is there, whole, and everybody is answered."""
    for name in "abc":
        write(repository, name, identity() + LARGE)
        (repository / name / "1/data").write_bytes(bytes(1 << 20))
    one = size_of_a_model(start_server, repository, "abc")
    write(repository, "of_ab", chain("a", "b"))
    write(repository, "of_c", chain("c"))
    server = start_server(repository, flags=[*ON_DEMAND, f"--model-memory-budget={2 * one + one // 2}"])
    for name in ("of_ab", "of_c") * 3:
        assert answers(server, name) == 200
        ready = {row["name"] for row in json.loads(server.ask("/v2/repository/index", b'{"ready":true}').body)}
        assert {"of_ab": {"of_ab", "a", "b"}, "of_c": {"of_c", "c"}}[name] <= ready
        assert "of_ab" not in ready or {"a", "b"} <= ready
    assert "evicted '" in server.log


@of_sides
def test_a_configuration_that_came_with_the_request_counts_when_a_step_changes(side, tmp_path):
    with living(side, tmp_path, {name: LIVES[name] for name in ("a", "b", "e")}) as life:
        assert life.load("e")[0] == 200
        told = json.loads(life.server.ask("/v2/models/e/config").body)
        steps = [{key: step[key] for key in ("model_name", "model_version", "input_map", "output_map")} for step in told["ensemble_scheduling"]["step"]]
        config = {"platform": "ensemble", "max_batch_size": 2, "input": told["input"], "output": told["output"], "ensemble_scheduling": {"step": steps}}
        assert life.load("e", config=json.dumps(config)) == (200, "")
        write(life.repository, "a", identity(max_batch_size=3))
        assert life.load("a")[0] == 200
        assert json.loads(life.server.ask("/v2/models/e/config").body)["max_batch_size"] == 2
        assert answers(life.server, "e") == 200


def test_a_step_that_came_with_a_load_request_only_is_as_good_as_any(tmp_path):
    """Triton 2.51 refuses the ensemble, which serves all the same, and the step drops out of its index."""
    config = {"backend": "python", "max_batch_size": 8, "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
              "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}
    with living(NEREID, tmp_path, {"a": LIVES["a"], "with_sent": chain("sent", "a")}, flags=["--load-model=a"]) as life:
        status, text = life.load("with_sent")
        assert status == 400 and "contains models that are not available or ambiguous: sent" in text
        code = base64.b64encode(DOUBLES.encode()).decode()
        assert life.load("sent", **{"config": json.dumps(config), "file:1/model.py": code}) == (200, "")
        assert life.load("with_sent") == (200, "")
        assert json.loads(life.server.ask("/v2/models/with_sent/infer", BODY).body)["outputs"][0]["data"] == [14]
        assert serving(life) == {"a", "sent", "with_sent"}
        assert {(name, state) for name, _, state, _ in life.index()} == {(name, "READY") for name in ("a", "sent", "with_sent")}
