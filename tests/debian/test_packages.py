# SPDX-License-Identifier: Apache-2.0
"""Debian's packages: what is in them, and that two builds are equal."""
import json
import re
import subprocess

import pytest
from roots import BUILD_SECONDS, RELEASE, SOURCE

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

EMBEDS = """
#include <stdio.h>
#include <triton/core/tritonserver.h>
int main(void) { unsigned major, minor; if (TRITONSERVER_ApiVersion(&major, &minor) != NULL) return 1; printf("%u.%u\\n", major, minor); return 0; }
"""


def field(package, name):
    return subprocess.run(["dpkg-deb", "-f", package, name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def files_of(package):
    listed = subprocess.run(["dpkg-deb", "-c", package], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[5].removeprefix(".") for line in listed.splitlines() if not line.startswith("d")}


def test_lintian_finds_neither_errors_nor_warnings(made, lintian):
    told = lintian.result()
    assert not re.search(r"^[EW]: ", told, re.M), told


def test_each_file_is_in_one_package_and_the_library_where_nobody_else_looks_for_one(packages):
    assert packages.keys() == {"nereid", "nereid-backend-python", "nereid-dev", "nereid-doc"}
    files = {name: files_of(package) for name, package in packages.items()}
    assert sum(map(len, files.values())) == len(set().union(*files.values()))
    libraries = {path for path in files["nereid"] if path.endswith(".so")}
    assert all(re.match(r"/usr/lib/[\w-]+-linux-gnu/nereid/", path) for path in libraries)
    assert "libtritonserver.so" in {path.rpartition("/")[2] for path in libraries}
    assert all("/nereid/backends/python/" in path or path.startswith("/usr/share/doc/") for path in files["nereid-backend-python"])
    assert {"/usr/bin/nereid", "/usr/bin/tritonserver", "/etc/nereid/nereid.yaml", "/usr/share/man/man1/nereid-check.1.gz", "/usr/share/man/man1/tritonserver.1.gz",
            "/usr/share/bash-completion/completions/tritonserver"} <= files["nereid"]
    assert {path.rpartition("/")[2] for path in files["nereid"] if "/systemd/system/" in path} == {"nereid.service", "nereid.socket", "nereid-grpc.socket", "nereid-metrics.socket"}
    assert subprocess.run(["dpkg-deb", "--ctrl-tarfile", packages["nereid"]], check=True, stdout=subprocess.PIPE).stdout.count(b"/etc/nereid/nereid.yaml\n") == 1


def test_two_builds_are_equal(made, made_again):
    again = made_again.result()
    compared = [name for name in made if name.endswith((".deb", ".dsc", ".tar.xz", ".cdx.json"))]
    assert len(compared) >= 10 and made.keys() == again.keys()
    assert [name for name in compared if made[name].read_bytes() != again[name].read_bytes()] == []


def test_the_bill_of_materials_names_the_packages_whose_libraries_are_linked(builder, made, packages):
    assert {name.partition("_")[0] for name in made if name.endswith(".cdx.json")} == {"nereid", "nereid-backend-python"}
    for name in ("nereid", "nereid-backend-python"):
        bill = json.loads(packages[name].with_suffix(".cdx.json").read_text())
        assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
        own, components = bill["metadata"]["component"], {component["name"]: component for component in bill["components"]}
        assert own["version"] == field(packages[name], "Version") and own["hashes"][0]["alg"] == "SHA-256"
        linked = {word.split()[0] for word in field(packages[name], "Depends").split(", ")} - {"nereid", "python3", "python3-numpy"}
        assert components.keys() == linked == set(bill["dependencies"][0]["dependsOn"])
        installed = builder.run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *components)
        assert dict(line.split() for line in installed.splitlines()) == {part: component["version"] for part, component in components.items()}
        for part, component in components.items():
            assert component["purl"].startswith(f"pkg:deb/debian/{part}@") and re.fullmatch(r"[A-Z]\w+(-[\w.]+)*( (OR|WITH) [A-Z]\w+(-[\w.]+)*)*", component["licenses"][0]["expression"])


def test_a_program_that_embeds_the_server_finds_its_library(builder, packages):
    inside = [f"{SOURCE}/build/package/{packages[name].name}" for name in ("nereid", "nereid-dev")]
    builder.install(*inside)
    try:
        compiled = "cc -o /tmp/embeds /tmp/embeds.c $(pkg-config --cflags --libs nereid)"
        builder.shell(f'printf %s "$program" >/tmp/embeds.c; {compiled}', program=EMBEDS)
        assert re.fullmatch(r"1\.\d+\n", builder.run("/tmp/embeds"))
        assert re.search(r"libtritonserver\.so => /usr/lib/[\w-]+/nereid/libtritonserver\.so ", builder.run("ldd", "/tmp/embeds"))
        assert "libtritonserver" not in builder.run("ldconfig", "-p")
    finally:
        builder.run("dpkg", "--purge", "nereid-dev", "nereid")


def test_the_source_has_a_test_of_the_installed_packages(builder, made):
    """As Debian runs it: autopkgtest installs the packages and what the test depends on, here in the root itself."""
    changes = next(name for name in made if name.endswith(".changes"))
    try:
        told = builder.run("autopkgtest", f"{SOURCE}/build/package/{changes}", "--", "null")
        assert re.search(r"^serve +PASS", told, re.M), told
    finally:
        builder.shell("dpkg --purge $(dpkg-query -W -f '${Package}\n' 'nereid*' autopkgtest-satdep 2>/dev/null)")


def test_the_version_is_that_of_the_release(packages):
    number = {"bookworm": 12, "trixie": 13}[RELEASE]
    assert {field(package, "Version").partition("-")[2] for package in packages.values()} == {f"1~debian{number}"}
