# SPDX-License-Identifier: Apache-2.0
"""Puts the bugs of seeds.py into a copy of the sources, one at a time; see scripts/seeded."""
import argparse
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import seeds

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/seeded"
TREE = WORK / "tree"  # the copy, with build directories of its own
SHARED = (".venv", ".deps")
TEST_SECONDS = 600  # a test that hangs has failed
Outcome = collections.namedtuple("Outcome", "seed result seconds")


# --- The copy


def sources():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout.decode()
    return [name for name in listed.split("\0") if name and name not in SHARED and (ROOT / name).is_file()]


def copy_changed():
    """Makes the copy equal to the tree; files that are equal keep their time, so that little is built again."""
    wanted = sources()
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)
    known = {TREE / name for name in wanted}
    for directory in {path.parts[0] for path in map(pathlib.Path, wanted) if len(path.parts) > 1}:
        for path in (TREE / directory).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path not in known:
                path.unlink()
    for name in SHARED:
        if not (TREE / name).is_symlink():
            (TREE / name).symlink_to(ROOT / name)


# --- Building and testing


def log_of(name):
    return WORK / "logs" / f"{name}.log"


def run(command, log, seconds=None, **variables):
    """The exit status, or None when the time was over: the command is ended then, and what it started."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as out:
        process = subprocess.Popen(
            command, cwd=TREE, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            env=dict(os.environ, CCACHE_DIR=str(WORK / "ccache"), **variables),
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def configure(preset, log):
    """Warnings are none: a bug may leave a variable unused."""
    if (TREE / "build" / preset / "build.ninja").exists():
        return True
    command = ["cmake", "--preset", preset, "-DNEREID_WERROR=OFF"]
    if shutil.which("ccache"):
        command.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    return run(command, log) == 0


def build(preset, log):
    return configure(preset, log) and run(["cmake", "--build", f"build/{preset}", "-j2"], log) == 0


def path_of(name):
    """Of an end-to-end test's file: in which room it is; None where none has it."""
    return next((str(path.relative_to(ROOT)) for path in (ROOT / "tests/e2e").glob(f"*/{name}")), None)


def passes(catcher, log):
    if catcher.kind == "unit":
        command = ["ctest", "--test-dir", f"build/{catcher.preset}", "--output-on-failure", "--no-tests=error",
                   "-R", f"^{catcher.name}$"]
    else:
        command = [".venv/bin/python", "-m", "pytest", "-q", "-x", path_of(catcher.name), "-k", catcher.chosen]
    return run(command, log, TEST_SECONDS, NEREID_BUILD=f"build/{catcher.preset}")


def is_failure(catcher, status):
    """Whether a test failed, and not its being found or run."""
    return status is None or status == 1 or (catcher.kind == "unit" and status == 8)


# --- The experiment


def try_seed(seed):
    log = log_of(seed.name)
    log.unlink(missing_ok=True)
    file = TREE / seed.file
    clean = file.read_text()
    start = time.monotonic()
    file.write_text(clean.replace(seed.before, seed.after))
    try:
        if not build(seed.caught_by.preset, log):
            return Outcome(seed, "DOES NOT BUILD", time.monotonic() - start)
        status = passes(seed.caught_by, log)
    finally:
        file.write_text(clean)
    if status == 0:
        result = "SURVIVED"
    else:
        result = "caught" if is_failure(seed.caught_by, status) else f"NO TEST RAN ({status})"
    return Outcome(seed, result, time.monotonic() - start)


def check_clean(chosen):
    """What is built from the sources as they are passes each test; else a failure would say nothing."""
    log = log_of("clean")
    log.unlink(missing_ok=True)
    catchers = sorted({seed.caught_by for seed in chosen}, key=str)
    for preset in sorted({catcher.preset for catcher in catchers}):
        if not build(preset, log):
            sys.exit(f"the sources do not build with the preset {preset}, see {log}")
    for catcher in catchers:
        if passes(catcher, log) != 0:
            sys.exit(f"{catcher} does not pass without a bug, see {log}")


def faults_of(seed):
    count = (ROOT / seed.file).read_text().count(seed.before)
    if count != 1:
        yield f"{seed.name}: what it replaces stands {count} times in {seed.file}, expected once"
    if seed.before == seed.after:
        yield f"{seed.name}: it changes nothing"
    if seed.caught_by.kind == "e2e" and path_of(seed.caught_by.name) is None:
        yield f"{seed.name}: no room of tests/e2e has {seed.caught_by.name}"


def tests_in(names):
    """What pytest finds in these files: "test_x.py::test_y[z]"."""
    command = [".venv/bin/python", "-m", "pytest", "-q", "--collect-only", *map(path_of, names)]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (line.partition("::") for line in found.splitlines() if "::" in line)
    return [f"{pathlib.Path(path).name}::{test}" for path, _, test in paths]


def chooses(catcher, test):
    """As pytest's -k for words that are joined by "and", maybe with "not" before them."""
    file, _, name = test.partition("::")
    words = [word.split() for word in catcher.chosen.lower().split(" and ")]
    return file == catcher.name and all((word[-1] in name.lower()) == (len(word) == 1) for word in words)


def catchers_without_tests(chosen):
    catchers = {seed.caught_by for seed in chosen if seed.caught_by.kind == "e2e"}
    tests = tests_in(sorted({catcher.name for catcher in catchers})) if catchers else []
    for catcher in sorted(catchers, key=str):
        if not any(chooses(catcher, test) for test in tests):
            yield f"{catcher} selects no test"


def check_places(chosen):
    faults = [fault for seed in chosen for fault in faults_of(seed)]
    faults += [] if faults else catchers_without_tests(chosen)
    names = collections.Counter(seed.name for seed in chosen)
    faults += [f"{name}: stands {count} times" for name, count in names.items() if count > 1]
    if faults:
        sys.exit("\n".join(faults))


def select(names):
    unknown = set(names) - {seed.name for seed in seeds.ALL}
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; scripts/seeded --list names all")
    return [seed for seed in seeds.ALL if not names or seed.name in names]


def row(seed, *more):
    return " | ".join([f"{seed.name:30}", f"{seed.what:60}", f"{str(seed.caught_by):80}", *more])


def main():
    parser = argparse.ArgumentParser(description="Whether the tests catch bugs that are put into the sources.")
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--list", action="store_true", help="tell the bugs and end")
    parser.add_argument("--check", action="store_true", help="only look whether each bug's place is found once, and its test chosen")
    arguments = parser.parse_args()
    chosen = select(arguments.names)
    if arguments.list:
        print("\n".join(row(seed) for seed in chosen))
        return
    check_places(chosen)
    if arguments.check:
        return
    copy_changed()
    check_clean(chosen)
    outcomes = []
    for seed in chosen:
        outcomes.append(try_seed(seed))
        print(row(seed, f"{outcomes[-1].seconds:5.0f} s", outcomes[-1].result), flush=True)
    left = [outcome for outcome in outcomes if outcome.result != "caught"]
    print(f"{len(outcomes) - len(left)} of {len(outcomes)} caught; logs: {WORK / 'logs'}")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
