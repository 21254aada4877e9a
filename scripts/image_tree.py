# SPDX-License-Identifier: Apache-2.0
"""The files of one layer of an image, chosen from a pool of unpacked packages (image_packages.py): a file comes with the libraries that it needs, with what its
links lead to, and with the licence and the record of its package. scripts/make_image.py calls it."""
import os
import pathlib
import re
import subprocess

import wheel_sbom
from image_packages import library_directory, name_in_pool

LIBRARIES = library_directory()
LICENCES = "usr/share/common-licenses"


def is_binary(what):
    if not isinstance(what, pathlib.Path):
        return False
    with what.open("rb") as file:
        return file.read(4) == b"\x7fELF"


class Tree:
    """`entries`: name in the image -> what is there: a path of this machine, bytes, ("link", target) or ("directory", mode)."""

    def __init__(self, pool, owners, below=None):
        """`owners`: package of each file in `pool`; `below`: the tree of the layer under this one, whose files are there already."""
        self.pool, self.owners, self.below = pool, owners, below
        self.entries, self.packages = {}, set()
        self.places = {}
        for name in owners:
            self.places.setdefault(os.path.basename(name), []).append(name)

    def has(self, name):
        return name in self.entries or (self.below is not None and self.below.has(name))

    def put(self, name, what):
        if not self.has(name):
            self.entries[name] = what

    def put_files(self, files):
        """Names, and files of this machine; and the libraries that these need."""
        for name, path in files.items():
            self.put(name, path)
        for path in files.values():
            for library in wheel_sbom.needed(path) if is_binary(path) else ():
                self.add_library(library)

    def add(self, name):
        """A file of a package; of a link also what it leads to."""
        if self.has(name):
            return
        path = self.pool / name
        if name in self.owners:
            self.packages.add(self.owners[name])
        if path.is_symlink():
            target = os.readlink(path)
            self.entries[name] = ("link", target)
            self.add(name_in_pool(os.path.join("/", os.path.dirname(name), target)))
        elif path.is_file():
            self.put_files({name: path})
        else:
            raise SystemExit(f"make_image: no package has {name}")

    def add_all(self, pattern, leave=r"(?!)"):
        """What is below the directory, without names that match `leave`."""
        for name in sorted(self.owners):
            if re.match(pattern, name) and not re.search(leave, name):
                self.add(name)

    def add_library(self, soname):
        places = self.places.get(soname, [])
        if not places and not any(os.path.basename(name) == soname for name in self.all_names()):
            raise SystemExit(f"make_image: no package has the library {soname}")
        for name in places:
            self.add(name)
        if places and not any(os.path.dirname(name) in (LIBRARIES, "usr/lib", "usr/lib64") for name in places):
            self.put(f"{LIBRARIES}/{soname}", ("link", f"/{places[0]}"))  # as update-alternatives does

    def all_names(self):
        return self.entries.keys() | (self.below.all_names() if self.below is not None else set())

    def add_licences(self):
        """Of each package that has a file here: its licence, the texts to which that refers, and its record, which scanners read."""
        texts = ""
        for package in sorted(self.packages):
            directory = f"usr/share/doc/{package.package}"
            if (self.pool / directory).is_symlink():
                target = os.readlink(self.pool / directory)
                self.put(directory, ("link", target))
                directory = name_in_pool(os.path.join("/usr/share/doc", target))
            self.add(f"{directory}/copyright")
            texts += (self.pool / directory / "copyright").read_text(errors="replace")
        for name in sorted(set(re.findall(rf"/{LICENCES}/([\w.-]*\w)", texts))):
            if not name.startswith("GFDL"):  # of documentation, which no image has
                self.add(f"{LICENCES}/{name}")
        for package in sorted(self.packages):
            self.put(f"var/lib/dpkg/status.d/{package.package}", package.control.encode())

    def compile_python(self, interpreter):
        """Makes the .pyc of all modules, since no process of a container may write them. They do not look at the time of their source. With -B the compiler itself,
        which is one of these modules, leaves none that does."""
        modules = [name for name in self.entries if name.endswith(".py")]
        environment = {"PYTHONHOME": str(self.pool / "usr"), "LD_LIBRARY_PATH": str(self.pool / LIBRARIES), "PYTHONHASHSEED": "0"}
        subprocess.run([self.pool / interpreter, "-S", "-B", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", self.pool, "-p", "/", "-i", "-"],
                       input="\n".join(str(self.pool / name) for name in modules), env=environment, check=True, text=True, stdout=subprocess.PIPE)
        for name in modules:
            directory, _, base = name.rpartition("/")
            for path in (self.pool / directory / "__pycache__").glob(f"{base[:-3]}.*.pyc"):
                self.put(f"{directory}/__pycache__/{path.name}", path)
