# SPDX-License-Identifier: Apache-2.0
"""Which Python a model gets: directories, archives, settings; archives that are hostile (row 32) leave nothing behind."""
import bz2
import gzip
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tarfile
import zipfile

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import BUILD, ROOT
from python_models import infer, make_python, reason, together, wait_for

EXPLICIT = ["--model-control-mode=explicit"]

# Tells of the Python in which it runs.
TELL = """
def execute(self, requests):
    import shutil, subprocess
    told = {"prefix": sys.prefix, "virtual": os.environ.get("VIRTUAL_ENV"), "python": shutil.which("python3"), "marks": self.marks(),
            "conda": os.environ.get("CONDA_PREFIX"), "libraries": os.environ.get("LD_LIBRARY_PATH"), "directory": os.getcwd(),
            "child": subprocess.run(["python3", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout}
    return [answer(np.array([json.dumps(told).encode()], dtype=np.object_)) for request in requests]

def marks(self):
    try:
        import nereid_mark
        return nereid_mark.MARK
    except ImportError:
        return None
"""


@pytest.fixture(scope="session")
def virtual(tmp_path_factory):
    """A virtual environment that has numpy and a module nereid_mark."""
    directory = tmp_path_factory.mktemp("virtual") / "env"
    python = ROOT / ".venv/bin/python"
    subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", directory], check=True)
    numpy = subprocess.run([python, "-c", "import numpy; print(numpy.__path__[0])"], check=True, capture_output=True, text=True)
    packages, = directory.glob("lib/python*/site-packages")
    (packages / "more.pth").write_text(str(pathlib.Path(numpy.stdout.strip()).parent) + "\n")
    (packages / "nereid_mark.py").write_text("MARK = 'virtual'\n")
    return directory


def make_model(repository, name, environment=None, body=TELL):
    more = "" if environment is None else f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{environment}" }} }}'
    return make_python(repository, name, body, kind="TYPE_STRING", more=more)


def told(server, model):
    return json.loads(infer(server, model, np.array([b"x"], dtype=np.object_), "BYTES")[0])


def control(server, what, name):
    with triton.InferenceServerClient(server.url) as client:
        getattr(client, what)(name)


def cached(cache):
    """The unpacked environments."""
    return sorted(path for base in cache.iterdir() for path in base.iterdir())


@pytest.fixture
def cache(tmp_path):
    directory = tmp_path / "cache"
    directory.mkdir()
    return directory


@pytest.fixture
def start(start_server, repository, cache):
    def run(*flags, **options):
        return start_server(repository, flags=[*EXPLICIT, f"--backend-config=python,environment-cache={cache}", *flags], **options)
    return run


# ---- directories


def test_a_directory_is_used_as_it_is(start, repository, cache, virtual):
    shutil.copytree(virtual, make_model(repository, "own", "$$TRITON_MODEL_DIRECTORY/env") / "env", symlinks=True)
    make_model(repository, "far", virtual)
    server = start("--load-model=own", "--load-model=far")
    for name, directory in ("own", repository / "own/env"), ("far", virtual):
        answer = told(server, name)
        assert answer["prefix"] == answer["virtual"] == answer["child"].strip() == str(directory)
        assert answer["python"] == str(directory / "bin/python3")
        assert answer["marks"] == "virtual" and answer["conda"] is None
    assert cached(cache) == []


def test_a_conda_environment_brings_its_libraries(start, repository, virtual, tmp_path):
    directory = tmp_path / "conda"
    (directory / "bin").mkdir(parents=True)
    (directory / "conda-meta").mkdir()
    (directory / "bin/python3").write_text(f'#!/bin/sh\nexec {virtual}/bin/python3 "$@"\n')
    (directory / "bin/python3").chmod(0o755)
    make_model(repository, "conda", directory)
    server = start("--load-model=conda", variables={"LD_LIBRARY_PATH": "/elsewhere"})
    answer = told(server, "conda")
    assert answer["conda"] == str(directory) and answer["virtual"] is None
    assert answer["libraries"] == f"{directory}/lib:/elsewhere"


def test_without_one_the_setting_counts(start, repository, virtual):
    make_model(repository, "plain")
    server = start("--load-model=plain", f"--backend-config=python,python-executable={virtual}/bin/python3")
    answer = told(server, "plain")
    assert answer["prefix"] == answer["virtual"] == str(virtual) and answer["marks"] == "virtual"


# ---- archives


def tar(directory, path, mode):
    with tarfile.open(path, mode) as archive:
        archive.add(directory, ".")
    return path


def zip_(directory, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(directory.rglob("*")):
            info = zipfile.ZipInfo(str(file.relative_to(directory)) + "/" * (file.is_dir() and not file.is_symlink()))
            info.create_system, info.external_attr = 3, file.lstat().st_mode << 16
            archive.writestr(info, os.readlink(file) if file.is_symlink() else b"" if file.is_dir() else file.read_bytes())
    return path


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.bz2", "tar.xz", "zip"])
def test_an_archive_is_unpacked(start, repository, cache, virtual, form):
    path = make_model(repository, "packed", f"$$TRITON_MODEL_DIRECTORY/env.{form}") / f"env.{form}"
    zip_(virtual, path) if form == "zip" else tar(virtual, path, "w" + form.replace("tar", "").replace(".", ":"))
    server = start("--load-model=packed")
    unpacked, = cached(cache)
    answer = told(server, "packed")
    assert answer["prefix"] == answer["child"].strip() == str(unpacked) and answer["marks"] == "virtual"
    assert stat.S_IMODE(unpacked.stat().st_mode) == stat.S_IMODE(unpacked.parent.stat().st_mode) == 0o700
    server.stop()
    assert list(cache.iterdir()) == []


def test_models_share_what_is_unpacked_until_the_last_is_gone(start, repository, cache, virtual, tmp_path):
    path = tar(virtual, tmp_path / "env.tar.gz", "w:gz")
    for i in range(4):
        make_model(repository, f"m{i}", path)
    server = start()
    together(4, lambda i: control(server, "load_model", f"m{i}"))
    unpacked, = cached(cache)
    assert {told(server, f"m{i}")["prefix"] for i in range(4)} == {str(unpacked)}
    for i in range(3):
        control(server, "unload_model", f"m{i}")
    assert told(server, "m3")["prefix"] == str(unpacked)
    control(server, "unload_model", "m3")
    wait_for("the end of the directory", lambda: cached(cache) == [])


def test_an_archive_that_has_changed_is_unpacked_anew(start, repository, cache, virtual, tmp_path):
    path = tar(virtual, tmp_path / "env.tar.gz", "w:gz")
    make_model(repository, "m", path)
    server = start("--load-model=m")
    assert told(server, "m")["marks"] == "virtual"
    other = tmp_path / "other"
    shutil.copytree(virtual, other, symlinks=True)
    next(other.glob("lib/python*/site-packages/nereid_mark.py")).write_text("MARK = 'changed'\n")
    tar(other, path, "w:gz")
    os.utime(repository / "m/1/model.py")
    control(server, "load_model", "m")
    assert told(server, "m")["marks"] == "changed"
    wait_for("the end of the first", lambda: len(cached(cache)) == 1)


def test_what_a_killed_server_has_left_goes_with_the_next_and_what_runs_stays(start, repository, cache, virtual, tmp_path):
    make_model(repository, "m", tar(virtual, tmp_path / "env.tar.gz", "w:gz"))
    runs, killed = start("--load-model=m"), start("--load-model=m")
    assert len(cached(cache)) == 2
    killed.process.kill()
    killed.process.wait()
    again = start("--load-model=m")
    assert len(cached(cache)) == 2
    assert told(runs, "m")["marks"] == told(again, "m")["marks"] == "virtual"


@pytest.mark.parametrize("level", ["standard", "strict"])
def test_a_backend_made_of_python_brings_its_environment(start, repository, cache, virtual, tmp_path, level):
    backends = tmp_path / "backends"
    (backends / "teller").mkdir(parents=True)
    (backends / "python").symlink_to(BUILD / "backends/python")
    shutil.copy(make_model(tmp_path, "source", body=TELL) / "1/model.py", backends / "teller/model.py")
    tar(virtual, backends / "teller/pb_exec_env_model.py.tar.gz", "w:gz")
    directory = make_model(repository, "m")
    (directory / "1/model.py").unlink()
    (directory / "config.pbtxt").write_text((directory / "config.pbtxt").read_text().replace('"python"', '"teller"'))
    # the environment's numpy is elsewhere, as its .pth file says
    more = f"--backend-config=python,worker-read-paths={pathlib.Path(np.__file__).parent.parent}"
    server = start("--load-model=m", f"--backend-directory={backends}", f"--worker-sandbox={level}", more)
    unpacked, = cached(cache)
    answer = told(server, "m")
    assert answer["prefix"] == str(unpacked) and answer["marks"] == "virtual"


# ---- hostile archives (row 32)

MORE_THAN_ALLOWED = 64 << 20


def entry(name, kind=tarfile.REGTYPE, link="", data=b"x", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data) if kind == tarfile.REGTYPE else 0
    return info, data


def tar_of(*entries):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return packed.getvalue()


def zip_of(name, data=b"x", mode=stat.S_IFREG | 0o644):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        archive.writestr(info, data)
    return packed.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    return entry(name, kind, target)


def bomb():
    """4 GiB of zeros in less than 42 KB."""
    header = tarfile.TarInfo("zeros")
    header.size = 4 << 30
    packed = bz2.compress(header.tobuf()) + 64 * bz2.compress(bytes(64 << 20))
    assert len(packed) < 42_000
    return packed


def crowd():
    """1,000,001 entries."""
    header = entry("d", tarfile.DIRTYPE)[0].tobuf()
    return 100 * gzip.compress(header * 10_000, 1) + gzip.compress(header)


OUT = "leads out of the environment"
NAME = "the name is absolute, has"
KIND = "neither a file, a directory nor a link"

HOSTILE = {
    "up": (tar_of(entry("../canary")), NAME),
    "up_deep": (tar_of(entry("a/b/../../../canary")), NAME),
    "up_inside": (tar_of(entry("a/../b")), NAME),
    "up_at_the_end": (tar_of(entry("a/..", tarfile.DIRTYPE)), NAME),
    "absolute": (tar_of(entry("/tmp/nereid_canary")), NAME),
    "absolute_twice": (tar_of(entry("//tmp/nereid_canary")), NAME),
    "zip_up": (zip_of("../canary"), NAME),
    "zip_absolute": (zip_of("/tmp/nereid_canary"), NAME),
    "zip_link": (zip_of("a", "/etc", stat.S_IFLNK | 0o777), OUT),
    "link_absolute": (tar_of(link("a", "/etc/passwd")), OUT),
    "link_up": (tar_of(link("a/b", "../../canary")), OUT),
    "link_empty": (tar_of(link("a", "")), OUT),
    "link_together": (tar_of(entry("z/f"), entry("a/b/x", data=b""), link("a/d", "../z"), link("a/b/y", "../d/../../canary")), OUT),
    "link_to_proc": (tar_of(link("a", "/proc/self/root")), OUT),
    "link_interpreter_is_no_way": (tar_of(link("bin/python9", "/tmp/python"), link("a", "bin/python9/x")), OUT),
    "link_interpreter_elsewhere": (tar_of(link("bin/python9", "/etc/passwd")), OUT),
    "write_through_link": (tar_of(link("a", "b"), entry("b/f"), entry("a/g")), "Not a directory"),
    "write_through_interpreter": (tar_of(link("bin/python9", "/tmp/python"), entry("bin/python9/canary")), "Not a directory"),
    "hard_link_absolute": (tar_of(link("a", "/etc/passwd", tarfile.LNKTYPE)), OUT),
    "hard_link_up": (tar_of(link("a", "../../../etc/passwd", tarfile.LNKTYPE)), OUT),
    "hard_link_through_link": (tar_of(entry("b/f"), link("a", "b"), link("c", "a/f", tarfile.LNKTYPE)), "Not a directory"),
    "hard_link_to_link": (tar_of(entry("x"), link("a/b/l", "../../x"), link("l", "a/b/l", tarfile.LNKTYPE)), "not permitted"),
    "hard_link_to_nothing": (tar_of(link("a", "absent", tarfile.LNKTYPE)), "No such file"),
    "character_device": (tar_of(entry("null", tarfile.CHRTYPE)), KIND),
    "block_device": (tar_of(entry("disk", tarfile.BLKTYPE)), KIND),
    "fifo": (tar_of(entry("fifo", tarfile.FIFOTYPE)), KIND),
    "setuid": (tar_of(entry("su", mode=0o4755)), "setuid"),
    "setgid": (tar_of(entry("su", mode=0o2755)), "setuid"),
    "deep": (tar_of(entry("d/" * 65 + "f")), NAME),
    "long_name": (tar_of(entry("n" * 300)), NAME),
    "bomb": (bomb, "more bytes than are allowed"),  # made in the test: it takes a second
    "crowd": (crowd(), "more entries than are allowed"),
    "truncated": (tar_of(entry("f", data=os.urandom(100_000)))[:5000], "cannot be read"),
    "text": (b"this is no archive\n" * 100, "cannot be read"),
    "empty": (tar_of(), "the archive is empty"),
    "no_python": (tar_of(entry("bin/perl", mode=0o755)), "neither bin/python3 nor bin/python"),
    "python_is_a_directory": (tar_of(entry("bin/python3", tarfile.DIRTYPE, mode=0o755)), "neither bin/python3 nor bin/python"),
}


@pytest.mark.once
@pytest.mark.slow
def test_hostile_archives_are_refused_and_leave_nothing(start, repository, cache, tmp_path):
    """One server for all: what one leaves, another would find."""
    canary = pathlib.Path("/tmp/nereid_canary")
    for name, (packed, _) in HOSTILE.items():
        (make_model(repository, name, "$$TRITON_MODEL_DIRECTORY/env.archive") / "env.archive").write_bytes(packed() if callable(packed) else packed)
    before = sorted(path for path in tmp_path.rglob("*"))
    server = start(f"--backend-config=python,environment-most-bytes={MORE_THAN_ALLOWED}")
    for name, (_, words) in HOSTILE.items():
        with pytest.raises(Exception, match="load failed"):
            control(server, "load_model", name)
        assert words in reason(server, name), (name, reason(server, name))
        assert cached(cache) == [], name
    server.stop()
    assert not canary.exists()
    after = sorted(path for path in tmp_path.rglob("*") if not path.name.startswith("server"))
    assert after == [path for path in before if not path.name.startswith("server")]


def test_without_libarchive_directories_are_served_and_an_archive_says_what_is_missing(start, repository, cache, virtual, tmp_path):
    make_model(repository, "directory", virtual)
    make_model(repository, "archive", tar(virtual, tmp_path / "env.tar.gz", "w:gz"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/libarchive.so.13").write_text("no library")
    server = start("--load-model=directory", variables={"LD_LIBRARY_PATH": str(tmp_path / "broken")})
    with pytest.raises(Exception, match="load failed"):
        control(server, "load_model", "archive")
    words = reason(server, "archive")
    assert f"'{tmp_path}/env.tar.gz' is an archive, which libarchive reads" in words and f"{tmp_path}/broken/libarchive.so.13" in words, words
    assert told(server, "directory")["prefix"] == str(virtual)
    assert cached(cache) == []


def test_many_loads_of_a_hostile_archive_all_fail(start, repository, cache, tmp_path):
    (tmp_path / "bad.tar.gz").write_bytes(tar_of(*[entry(f"f{i}") for i in range(2000)], entry("../x")))
    for i in range(4):
        make_model(repository, f"m{i}", tmp_path / "bad.tar.gz")
    server = start()

    def load(i):
        with pytest.raises(Exception, match="load failed"):
            control(server, "load_model", f"m{i}")
        return True

    assert together(4, load) == [True] * 4
    assert cached(cache) == []


@pytest.mark.parametrize("environment, words", [
    ("/absent/env.tar.gz", "Failed to get the canonical path for /absent/env.tar.gz."),
    ("$$TRITON_MODEL_DIRECTORY/absent", "Failed to get the canonical path for"),
    ("/dev/null", "cannot read archive '/dev/null'"),
    ("/etc", "execution environment '/etc' has neither bin/python3 nor bin/python"),
])
def test_what_is_not_there_is_named(start, repository, environment, words):
    make_model(repository, "m", environment)
    server = start("--load-model=m", "--exit-on-error=false", ready=False)
    wait_for("the reason", lambda: words in reason(server, "m"))
