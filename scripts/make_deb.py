# SPDX-License-Identifier: Apache-2.0
"""Makes Debian's packages of the files that git knows here: make_deb.py DIRECTORY [ARCHITECTURE] writes the source and its packages, with bills of materials
(deb_sbom.py), into DIRECTORY, and prints the paths of the packages. deploy/debian becomes the source's debian/. What is missing to build is installed.

Two runs make the same packages: all times are the time of the last commit, or SOURCE_DATE_EPOCH, and no file names the directory where it was made.
"""
import email.utils
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import deb_sbom
from built import ROOT, output, source_time
from wheel_sbom import distribution

PACKAGING = "deploy/debian"


def version():
    return re.search(r"^project\(nereid VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def revision():
    """One for each release, and that of a newer release is the higher one: who upgrades the system gets that release's package."""
    return f"1~{''.join(distribution())}"


def copy(name, tree, seconds):
    source, target = ROOT / name, tree / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target, follow_symlinks=False)
    if not source.is_symlink():
        target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    os.utime(target, (seconds, seconds), follow_symlinks=False)


def export(tree, seconds):
    """The files that are there, in the state that they have, without what git does not know."""
    names = output("git", "-C", str(ROOT), "ls-files", "-z").split("\0")
    for name in filter(lambda name: os.path.lexists(ROOT / name) and not name.startswith(PACKAGING), filter(None, names)):
        copy(name, tree, seconds)


def pack(tree, seconds):
    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = seconds
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
        return info

    name = f"nereid_{version()}.orig.tar.xz"
    with tarfile.open(tree.parent / name, "w:xz", format=tarfile.GNU_FORMAT) as archive:  # files in the order of their names
        archive.add(tree, tree.name, filter=plain)


def add_packaging(tree, seconds):
    shutil.copytree(ROOT / PACKAGING, tree / "debian")
    for path in (tree / "debian").rglob("*"):
        os.utime(path, (seconds, seconds))
    maintainer = re.search(r"^Maintainer: (.*)", (tree / "debian/control").read_text(), re.M)[1]
    (tree / "debian/changelog").write_text(f"nereid ({version()}-{revision()}) unstable; urgency=medium\n\n  * Version {version()}.\n\n"
                                           f" -- {maintainer}  {email.utils.formatdate(seconds)}\n")


def as_root(*command):
    subprocess.run([*([] if os.geteuid() == 0 else ["sudo"]), "env", "DEBIAN_FRONTEND=noninteractive", *command], check=True, stdout=sys.stderr)


def profiles(architecture):
    """As dpkg-buildpackage, dpkg-checkbuilddeps and apt-get all read them: the first wants a profile and its letter in one word."""
    return [f"-a{architecture}", "-Pcross,nocheck"] if architecture else []


def is_installed(package):
    return subprocess.run(["dpkg-query", "-W", package], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def install_dependencies(tree, architecture):
    compiler = f"crossbuild-essential-{architecture}" if architecture else "build-essential"
    here = subprocess.run(["dpkg-checkbuilddeps", *profiles(architecture), tree / "debian/control"], stderr=subprocess.PIPE, text=True)
    if here.returncode == 0 and is_installed(compiler):
        return
    print(here.stderr.strip(), file=sys.stderr)
    if architecture:
        as_root("dpkg", "--add-architecture", architecture)
    install = ["apt-get", "-y", "-q", "--no-install-recommends"]
    as_root("apt-get", "update", "-q")
    as_root(*install, "install", compiler)  # neither apt nor the check above asks for one
    as_root(*install, "build-dep", *profiles(architecture), str(tree))


def build(tree, architecture):
    kind = [*profiles(architecture), "-B"] if architecture else []
    options = f"parallel={len(os.sched_getaffinity(0))} {'nocheck ' if architecture else ''}{os.environ.get('DEB_BUILD_OPTIONS', '')}"
    subprocess.run(["dpkg-buildpackage", "-us", "-uc", *kind], cwd=tree, check=True, stdout=sys.stderr, env=os.environ | {"DEB_BUILD_OPTIONS": options.strip()})


def main(directory, architecture=None):
    os.umask(0o022)
    if architecture == output("dpkg", "--print-architecture").strip():
        architecture = None
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or source_time())
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch).resolve() / f"nereid-{version()}"
        export(tree, seconds)
        pack(tree, seconds)
        add_packaging(tree, seconds)
        install_dependencies(tree, architecture)
        build(tree, architecture)
        made = sorted(path for path in tree.parent.iterdir() if path.is_file())
        for path in made:
            shutil.copy(path, directory)
    packages = [directory / path.name for path in made if path.suffix == ".deb" and "-dbgsym_" not in path.name]
    deb_sbom.write(packages, seconds)
    print(*packages, sep="\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: make_deb.py DIRECTORY [ARCHITECTURE]")
    main(*sys.argv[1:])
