# SPDX-License-Identifier: Apache-2.0
"""What a worker is kept from, at both levels: a model that tries (row 42's probe), and the launcher on its own."""
import ctypes
import errno
import fcntl
import os
import pathlib
import shutil
import socket
import subprocess

import numpy as np
import proc
import pytest
from conftest import BUILD, PATIENCE
from python_models import infer, make_python, reason, wait_for

LAUNCHER = BUILD / "backends/python/nereid-worker-launcher"

# Each attempt raises OSError or MemoryError when it is refused; else it says what it got.
PROBE = """
def execute(self, requests):
    return [self.answer(value(request)) for request in requests]

def answer(self, asked):
    name, *arguments = [text.decode() for text in asked]
    try:
        said = "done: " + repr(getattr(self, name)(*arguments))
    except (OSError, MemoryError) as failure:
        said = f"blocked: {failure!r}"
    return answer(np.array([said.encode()], dtype=np.object_))

def call(self, function, *arguments):
    import ctypes
    library = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if getattr(library, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)
    return function

def shadow(self):
    return open("/etc/shadow").read()

def other_model(self, path):
    return open(path).read()

def memory_of_server(self, *processes):
    for path in [f"/proc/{pid}/{name}" for name in ("mem", "environ", "maps", "fd/1") for pid in (os.getppid(), *processes)]:
        try:
            got = os.readlink(path) if path.endswith("fd/1") else open(path, "rb").read(0 if path.endswith("mem") else 1)
        except OSError as refused:
            last = refused
        else:
            return path, got
    raise last

def repository(self, path):
    return open(path, "w").write("x")

def connect(self, port):
    import socket
    return socket.create_connection(("127.0.0.1", int(port)), 10)

def bind(self):
    import socket
    return socket.create_server(("127.0.0.1", 0))

def server(self, *processes):
    import signal
    attempts = [lambda pid: os.kill(pid, 0), lambda pid: os.kill(-1, 0), lambda pid: os.kill(-os.getpgid(pid), 0),
                lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), 0),
                lambda pid: self.call("ptrace", 0x4206, pid, 0, 0),
                lambda pid: self.call("prlimit64", pid, 7, 0, 0),
                lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(0))]
    for i, attempt in enumerate(attempts):
        for pid in (os.getppid(), *map(int, processes)):  # the guard, the server
            try:
                return i, pid, attempt(pid)
            except OSError as refused:
                last = refused
    raise last

def shared_memory(self, name):
    found = os.listdir("/dev/shm")
    if name not in found:
        raise FileNotFoundError(name)
    return found

def fork_bomb(self):
    reading, writing = os.pipe()
    children = []
    try:
        while len(children) < 400:
            child = os.fork()
            if child == 0:
                try:
                    os.close(writing)
                    os.read(reading, 1)
                finally:
                    os._exit(0)
            children.append(child)
        return len(children)
    finally:
        os.close(writing)
        os.close(reading)
        for child in children:
            os.waitpid(child, 0)

def fill_memory(self):
    return len([bytearray(64 << 20) for _ in range(64)])

def fill_descriptors(self):
    held = []
    try:
        while len(held) < 5000:
            held.append(os.open("/dev/null", os.O_RDONLY))
        return len(held)
    finally:
        for descriptor in held:
            os.close(descriptor)

def fill_disk(self, directory):
    path = os.path.join(os.environ.get("TMPDIR", directory), "large")
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(64):
                if file.write(bytes(1 << 20)) < 1 << 20:
                    raise OSError("short")
        return path
    finally:
        if os.path.exists(path):
            os.remove(path)

def many_files(self):
    for i in range(64):
        with open(os.path.join(os.environ["TMPDIR"], f"file{i}"), "wb", buffering=0) as file:
            if file.write(bytes(1 << 20)) < 1 << 20:
                raise OSError("short")
    return i

def gain_privileges(self, program):
    import subprocess
    user = int(subprocess.run([program, "-u"], capture_output=True, check=True).stdout)
    if user == os.geteuid():
        raise PermissionError(program)
    return user

def mount(self):
    return self.call("mount", b"none", b"/mnt", b"tmpfs", 0, 0)

def load_module(self):
    import platform
    return self.call("syscall", {"x86_64": 175, "aarch64": 105}[platform.machine()], 0, 0, 0)

def home(self):
    kept = os.path.join(os.environ["TMPDIR"], "kept")
    open(kept, "w").write("x")
    return os.environ["HOME"], os.environ["TMPDIR"], open(kept).read()

def variable(self, name):
    return os.environ.get(name)

def thread(self):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        return file.write("probe")
"""

BOUNDS = [f"--backend-config=python,worker-{key}={value}" for key, value in
          [("processes", 200), ("descriptors", 1000), ("memory-bytes", 2 << 30), ("file-bytes", 16 << 20), ("scratch-bytes", 16 << 20)]]


class Probe:
    def __init__(self, server):
        self.server = server

    def __call__(self, *arguments):
        data = np.array([str(argument).encode() for argument in arguments], dtype=np.object_)
        return infer(self.server, "probe", data, "BYTES")[0].decode()


@pytest.fixture
def start_probe(start_server, repository):
    def start(level, flags=(), **options):
        make_python(repository, "probe", PROBE, kind="TYPE_STRING")
        return Probe(start_server(repository, flags=[f"--worker-sandbox={level}", *BOUNDS, *flags], **options))
    return start


@pytest.fixture
def attempts(repository, tmp_path):
    """The fifteen, by name: what is asked of the probe."""
    other = make_python(repository, "other")
    shared = pathlib.Path(f"/dev/shm/probe-{os.getpid()}")
    shared.write_text("a secret")
    # run by another user than its owner, it would be the owner's process
    privileged = make_python(repository, "probe", PROBE, kind="TYPE_STRING") / "id"
    shutil.copy(shutil.which("id"), privileged)
    if os.geteuid() == 0:
        os.chown(privileged, 65534, -1)
    privileged.chmod(0o4755)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield {
            "shadow": [], "other_model": [other / "1/model.py"], "memory_of_server": [],
            "repository": [repository / "probe/1/written"], "connect": [listening.getsockname()[1]], "bind": [], "server": [],
            "shared_memory": [shared.name], "fork_bomb": [], "fill_memory": [], "fill_descriptors": [],
            "fill_disk": [tmp_path], "gain_privileges": [privileged], "mount": [], "load_module": [],
        }
    shared.unlink()


def shadow_stays_open():
    """Who is root owns the file of passwords, and cannot be kept from it where the system permits no mounts."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "mount", "--bind", "/dev/null", "/etc/shadow"]).returncode != 0


# What stays open at level standard.
OPEN = {"other_model", "repository", "connect", "bind", "shared_memory"} | ({"shadow"} if shadow_stays_open() else set())


@pytest.mark.parametrize("level, left", [("standard", OPEN), ("strict", set())])
def test_attempts_are_refused(start_probe, attempts, level, left):
    probe = start_probe(level)
    attempts["memory_of_server"] = attempts["server"] = [probe.server.process.pid]
    said = {name: probe(name, *arguments) for name, arguments in attempts.items()}
    assert len(said) == 15
    # the processes of a root user are bounded by a control group only
    unbounded = {"fork_bomb"} if "needs a control group" in launch("--sandbox=strict", "--", "/bin/true").stderr else set()
    assert {name for name, text in said.items() if not text.startswith("blocked: ")} == left | unbounded, said
    assert "PermissionError(1," in said["mount"] and "PermissionError(1," in said["load_module"]
    # it is the same worker, and the server is well
    assert probe("variable", "PATH").startswith("done: '/")


def test_strict_leaves_a_private_directory_that_is_bounded_and_ends_with_the_worker(start_probe):
    before = set(os.listdir("/dev/shm"))
    probe = start_probe("strict")
    assert probe("home") == "done: ('/dev/shm', '/dev/shm', 'x')"
    assert probe("thread") == "done: 5"
    assert "No space left" in probe("many_files") or "short" in probe("many_files")
    assert not {"kept", "file0"} & set(os.listdir("/dev/shm")) - before


def test_strict_passes_known_variables_and_no_secrets(start_probe):
    secrets = {"SOME_TOKEN": "1", "HF_TOKEN": "2", "MKL_DYNAMIC": "FALSE", "LC_NUMERIC": "C", "NOTIFY_SOCKET": ""}
    probe = start_probe("strict", variables=secrets)
    assert [probe("variable", name) for name in secrets] == ["done: None", "done: None", "done: 'FALSE'", "done: 'C'", "done: None"]


def test_standard_passes_all_but_what_is_the_servers_own(start_probe):
    own = {"SOME_TOKEN": "1", "CREDENTIALS_DIRECTORY": "/x", "OMP_NUM_THREADS": "3"}
    probe = start_probe("standard", variables=own)
    assert [probe("variable", name) for name in own] == ["done: '1'", "done: None", "done: '3'"]


def test_the_strict_setting_of_the_backend_comes_before_the_flag(start_probe):
    probe = start_probe("standard", flags=["--backend-config=python,worker-sandbox=strict"])
    assert probe("bind").startswith("blocked: ")
    assert "sandbox strict" in probe.server.log


def test_strict_reads_more_where_it_is_told(start_probe, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/file").write_text("inside")
    probe = start_probe("strict", flags=[f"--backend-config=python,worker-read-paths={tmp_path}/more"])
    assert probe("other_model", tmp_path / "more/file") == "done: 'inside'"
    assert probe("other_model", tmp_path / "server0.log").startswith("blocked: ")


def test_what_strict_cannot_have_fails_the_load_with_its_name(start_probe, tmp_path):
    probe = start_probe("strict", flags=[f"--backend-config=python,worker-read-paths={tmp_path}/absent", "--exit-on-error=false"],
                        ready=False)
    wait_for("the reason", lambda: f"--read: '{tmp_path}/absent': No such file" in reason(probe.server, "probe"))


@pytest.mark.parametrize("setting, words", [
    ("worker-sandbox=loose", "neither standard nor strict"), ("worker-processes=0", "out of range"),
    ("worker-descriptors=3", "out of range"),
    ("worker-memory-bytes=much", "failed to convert"), ("worker-read-paths=/a:b", "absolute paths"),
])
def test_settings_are_checked(start_server, repository, setting, words):
    make_python(repository, "echo")
    server = start_server(repository, ready=False, flags=[f"--backend-config=python,{setting}", "--exit-on-error=false"])
    wait_for("the reason", lambda: words in reason(server, "echo"))


# ---- the launcher on its own


def launch(*arguments, before=(), **options):
    return subprocess.run([*before, LAUNCHER, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, **options)


@pytest.mark.parametrize("arguments, status, words", [
    (["--", "/absent/program"], 127, "cannot run '/absent/program': No such file or directory (EXECUTION_ENV_PATH of a model, or --"),
    (["--", "/etc/passwd"], 126, "cannot run '/etc/passwd': Permission denied (the server's user must be permitted to execute it"),
    (["--descriptors=many", "--", "/bin/true"], 125, "not a number"),
    (["--sandbox=none", "--", "/bin/true"], 125, "neither standard nor strict"),
    (["--processes=-1", "--", "/bin/true"], 125, "not a number"),
    (["--memory=99999999999999999999", "--", "/bin/true"], 125, "not a number"),
    (["--surprise", "--", "/bin/true"], 125, "unknown option"),
    ([], 125, "no program"),
    (["--parent=1", "--", "/bin/true"], 125, "the server has ended"),
    pytest.param(["--sandbox=strict", "--read=/absent/directory", "--", "/bin/true"], 125, "--read: '/absent/directory': No such file", id="strict"),
    # inside of another sandbox there are no namespaces to be had
    (["--", LAUNCHER, "--sandbox=strict", "--", "/bin/true"], 125, "needs "),
])
def test_a_start_that_fails_says_why(arguments, status, words):
    result = launch(*arguments)
    assert result.returncode == status
    assert words in result.stderr and result.stderr.count("\n") == 1


def test_strict_is_had_or_refused_by_name():
    result = launch("--sandbox=strict", "--", "/bin/true")
    assert result.returncode == 0 and result.stderr == "" or (
        result.returncode == 125 and "strict needs" in result.stderr and result.stderr.count("\n") == 1), result.stderr


def test_no_shell_runs_what_is_no_program(tmp_path):
    script = tmp_path / "script"
    script.write_text(f"touch {tmp_path}/ran\n")
    script.chmod(0o755)
    result = launch("--", script)
    assert result.returncode == 126 and "Exec format error (it is no program of this machine)" in result.stderr
    assert not (tmp_path / "ran").exists()


def test_an_interpreter_that_lacks_what_it_needs_is_told_from_one_that_is_absent(tmp_path):
    script, link = tmp_path / "script", tmp_path / "link"
    script.write_text("#!/absent/python3\n")
    script.chmod(0o755)
    link.symlink_to("/absent/python3")
    assert "No such file or directory (it is there, but what it needs to run is not" in launch("--", script).stderr
    assert "No such file or directory (it is a link to what is not there)" in launch("--", link).stderr


# Runs a command where a directory is empty. Where the system permits no mounts the directory stays as it is.
HIDDEN = "mount -t tmpfs none {0} || true; exec \"$@\""


def without(directory):
    permitted = subprocess.run(["unshare", "--mount", "true"]).returncode == 0
    return ["unshare", "--mount", "sh", "-c", HIDDEN.format(directory), "sh"] if permitted else []


def test_a_program_starts_where_proc_is_hidden():
    result = launch("--", "/bin/sh", "-c", "echo started; exit 3", before=without("/proc"))
    assert (result.returncode, result.stdout) == (3, "started\n"), result.stderr


def test_a_model_runs_where_there_are_no_devices(start_server, repository):
    make_python(repository, "reads", """
        def execute(self, requests):
            return [answer(np.array([len(sys.stdin.read()), os.path.exists("/dev/null")], np.int32)) for _ in requests]
    """)
    server = start_server(repository, wrapper=without("/dev"))
    assert infer(server, "reads").tolist() == [0, without("/dev") == []]


def test_a_launcher_that_cannot_be_run_is_named_with_what_to_do(start_server, repository, tmp_path):
    make_python(repository, "echo")
    backend = tmp_path / "backends/python"
    backend.mkdir(parents=True)
    shutil.copy(BUILD / "backends/python/libtriton_python.so", backend)  # a link would lead out of the directory
    (backend / "worker").symlink_to(BUILD / "backends/python/worker")
    flags = [f"--backend-directory={backend.parent}", "--model-control-mode=explicit"]
    server = start_server(repository, flags=flags)

    def said():
        return server.ask("/v2/repository/models/echo/load", b"{}").text

    launcher = backend / "nereid-worker-launcher"
    assert f"cannot start a Python worker by '{launcher}': No such file or directory (it belongs beside the backend" in said()
    shutil.copy(LAUNCHER, launcher)
    launcher.chmod(0o644)
    assert f"by '{launcher}': Permission denied (the server's user must be permitted to execute it" in said()
    launcher.chmod(0o755)
    assert server.ask("/v2/repository/models/echo/load", b"{}").status == 200

STATUS = "import os; print(open('/proc/self/status').read(), open('/proc/self/limits').read(), sorted(os.listdir('/proc/self/fd')), " \
         "os.getsid(0) == os.getpid(), oct(os.umask(0)), open('/proc/self/oom_score_adj').read())"


@pytest.mark.parametrize("level", ["standard", "strict"])
def test_what_a_program_starts_with(level):
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    high = fcntl.fcntl(writing, fcntl.F_DUPFD, 200)
    result = launch(f"--sandbox={level}", f"--parent={os.getpid()}", "--processes=300", "--descriptors=700", "--", "/usr/bin/python3",
                    "-c", STATUS,
                    pass_fds=[high])
    for descriptor in (reading, writing, high):
        os.close(descriptor)
    assert result.returncode == 0, result.stderr
    lines = {line.split(":")[0].strip(): line.split(":")[1].strip() for line in result.stdout.splitlines() if ":\t" in line}
    kept = 0b11011 if level == "standard" and os.geteuid() == 0 else 0  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID: not DAC_READ_SEARCH
    assert all(int(lines[f"Cap{kind}"], 16) in (0, kept) for kind in ("Prm", "Eff"))
    assert all(int(lines[f"Cap{kind}"], 16) == 0 for kind in ("Inh", "Amb"))
    assert int(lines["CapBnd"], 16) == kept or os.geteuid() != 0
    assert lines["NoNewPrivs"] == "1" and lines["Seccomp"] == "2"
    assert [int(lines[f"Sig{kind}"], 16) for kind in ("Blk",)] == [0]
    limits = {line[:26].strip(): line[26:].split()[:2] for line in result.stdout.splitlines() if line.startswith("Max ")}
    assert limits["Max core file size"] == ["0", "0"] and limits["Max open files"] == ["700", "700"]
    assert limits["Max processes"] == ["300", "300"]
    own = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    mask = "0o77" if level == "strict" else oct(own_umask())
    assert result.stdout.splitlines()[-2].endswith(f"True {mask} {min(own + 500, 1000)}")
    assert "'200'" not in result.stdout and "['0', '1', '2'" in result.stdout


def own_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


LIMITS = "import resource as r; print([r.getrlimit(getattr(r, f'RLIMIT_{n}')) for n in ('NOFILE', 'NPROC', 'DATA', 'FSIZE')])"


def test_at_standard_a_program_may_have_as_much_as_the_server():
    result = launch("--", "/usr/bin/python3", "-c", LIMITS)
    free = subprocess.run(["/usr/bin/python3", "-c", LIMITS], capture_output=True, text=True)
    assert result.stdout == free.stdout and result.stdout.startswith("[("), result.stderr


# Each would say something else if it came to the kernel with these arguments.
REFUSED = ("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp mount umount2 move_mount open_tree fsopen "
           "fsmount pivot_root setns bpf perf_event_open userfaultfd kexec_load init_module finit_module delete_module keyctl "
           "add_key request_key open_by_handle_at name_to_handle_at io_uring_setup io_uring_enter io_uring_register").split()
CALLS = """
import ctypes, sys
library = ctypes.CDLL(None, use_errno=True)
for number in sys.argv[1:]:
    ctypes.set_errno(0)
    library.syscall(ctypes.c_long(int(number)), *[ctypes.c_long(-1)] * 6)
    print(ctypes.get_errno())
"""


@pytest.mark.parametrize("level, more", [("standard", {}), ("strict", {"socket": errno.EACCES, "shmget": errno.EACCES})])
def test_system_calls_are_refused(level, more):
    number = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name
    expected = {name: errno.EPERM for name in REFUSED} | {"clone3": errno.ENOSYS} | more
    numbers = [number(name.encode()) for name in expected]
    result = launch(f"--sandbox={level}", "--", "/usr/bin/python3", "-c", CALLS, *numbers)
    assert dict(zip(expected, map(int, result.stdout.split()))) == expected
    # without the launcher the arguments are what is wrong
    free = subprocess.run(["/usr/bin/python3", "-c", CALLS, str(number(b"io_uring_enter")), str(number(b"keyctl"))],
                          capture_output=True, text=True)
    assert str(errno.EPERM) not in free.stdout.split()


@pytest.mark.parametrize("flag", ["CLONE_NEWUSER", "CLONE_NEWNS", "CLONE_NEWNET", "CLONE_NEWPID"])
def test_there_are_no_namespaces_to_be_had(flag):
    bits = {"CLONE_NEWUSER": 0x10000000, "CLONE_NEWNS": 0x20000, "CLONE_NEWNET": 0x40000000, "CLONE_NEWPID": 0x20000000}
    result = launch("--", "/usr/bin/python3", "-c", f"import ctypes; l = ctypes.CDLL(None, use_errno=True); "
                    f"print(l.unshare({bits[flag]}), ctypes.get_errno())")
    assert result.stdout.split() == ["-1", str(errno.EPERM)]


PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.argv[1], f"--sandbox={sys.argv[2]}", f"--parent={os.getpid()}", "--", "/bin/sh", "-c",
                          "echo $$; exec sleep 600"], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline().strip(), child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("level", ["standard", "strict"])
def test_a_program_ends_with_its_parent(level):
    with subprocess.Popen(["/usr/bin/python3", "-c", PARENT, LAUNCHER, level], stdout=subprocess.PIPE, text=True) as parent:
        pids = parent.stdout.readline().split()
        assert not any(map(proc.has_ended, pids)) and len(pids) == 2
        parent.kill()
    wait_for("the ends of program and guard", lambda: all(map(proc.has_ended, pids)))


@pytest.mark.parametrize("level", ["standard", "strict"])
@pytest.mark.parametrize("script, status", [("exit 7", 7), ("kill -9 $$", -9), ("kill -11 $$", -11), ("kill -15 $$", -15)])
def test_the_launcher_ends_as_its_program_did(level, script, status):
    assert launch(f"--sandbox={level}", "--", "/bin/sh", "-c", script).returncode == status


def test_a_chain_of_processes_that_each_leave_their_session_ends_with_the_program(tmp_path):
    chain = "import os, sys\nwhile os.getppid() != 1:\n if os.fork(): os._exit(0)\n os.setsid()"
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {chain!r}, {str(tmp_path)!r}]); print('goes')"
    result = launch("--processes=200", "--", "/usr/bin/python3", "-c", start)
    assert (result.returncode, result.stdout) == (0, "goes\n")
    assert not [pid for pid in proc.processes() if str(tmp_path) in proc.read(pid, "cmdline")]


@pytest.mark.parametrize("level", ["standard", "strict"])
def test_another_user_than_root_cannot_fork_without_end(level):
    # the limit counts all processes of a user, so root takes one that has none
    user = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"] if os.geteuid() == 0 else []
    result = launch(f"--sandbox={level}", "--processes=1000", "--", "/usr/bin/python3", "-c", FORKS, before=user)
    forks, user = result.stdout.split()
    assert int(user) == (os.geteuid() or 65533), result
    assert int(forks) <= 1000


FORKS = """
import os, signal
forks, reading, writing = 0, *os.pipe()
try:
    open("/etc/shadow")
except PermissionError:
    try:
        while forks < 10000:
            if os.fork() == 0:
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
            forks += 1
    except BlockingIOError:
        print(forks, os.geteuid())
"""
