# SPDX-License-Identifier: Apache-2.0
"""Debian's packages for an image: apt downloads them and all that they depend on, and they are unpacked into one directory, the pool. No root is needed, and
nothing is installed. scripts/make_image.py calls it, and chooses files of the pool."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

from built import output

MERGED = re.compile(r"^(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")  # directories that are links to those in /usr
Package = collections.namedtuple("Package", "package version architecture control")  # `control`: the record that dpkg has of it


def library_directory():
    """Where Debian has libraries of this machine's kind, from the root."""
    return f"usr/lib/{output('gcc', '-print-multiarch').strip()}"


def apt_options(directory):
    """apt with a state of its own: the machine's sources and keys, but what the machine has installed does not count."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "status").touch()
    settings = {"Dir::State": directory / "state", "Dir::State::status": directory / "status", "Dir::Cache": directory / "cache", "Dir::Log": directory,
                "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "APT::Sandbox::User": "", "APT::Install-Recommends": "false",
                "Acquire::Languages": "none", "APT::Keep-Downloaded-Packages": "true"}
    return [f"-o{name}={value}" for name, value in settings.items()]


def fetch(names, directory):
    """The .deb files of these packages and of what they depend on, in `directory`, which a later call uses again."""
    apt = ["apt-get", "-qq", *apt_options(directory)]
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    planned = output("apt-get", *apt_options(directory), "install", "--simulate", *sorted(names))
    subprocess.run([*apt, "install", "--download-only", "--yes", *sorted(names)], check=True, stdout=subprocess.DEVNULL)
    files = [f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"
             for name, version, architecture in re.findall(r"^Inst (\S+) \((\S+) .*\[(\w+)\]\)", planned, re.M)]
    return [directory / "cache/archives" / name for name in sorted(files)]


def about(deb):
    return Package(*output("dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", deb).split(), output("dpkg-deb", "--field", deb))


def name_in_pool(name):
    """As in the image, where /lib and its like are links."""
    return MERGED.sub(r"usr/\1", os.path.normpath(name).lstrip("/"))


def unpack(deb, pool):
    """Gives the names of the files. Owners and times are left out: the image has its own."""
    names = []
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as process, tarfile.open(fileobj=process.stdout, mode="r|") as archive:
        for member in archive:
            name = name_in_pool(member.name)
            target = pool / name
            if member.isdir() or MERGED.fullmatch(os.path.normpath(member.name)) or target.is_symlink() or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            names.append(name)
            if member.issym():
                target.symlink_to(member.linkname)
            elif member.islnk():
                shutil.copy(pool / name_in_pool(member.linkname), target)
            elif member.isfile():
                with target.open("wb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return names


def make_pool(names, cache, pool):
    """The owner of each file in `pool`, by the file's name."""
    owners = {}
    for deb in fetch(names, cache):
        owners.update(dict.fromkeys(unpack(deb, pool), about(deb)))
    return owners


def installed_owner(path):
    """The name of the installed package that has this file of the machine."""
    told = output("dpkg-query", "-S", f"*/{pathlib.Path(path).resolve().name}")
    for line in told.splitlines():
        package, _, found = line.partition(": ")
        if pathlib.Path(found).resolve() == pathlib.Path(path).resolve():
            return package.split(":")[0]
    raise SystemExit(f"make_image: no installed package has {path}")
