# SPDX-License-Identifier: Apache-2.0
"""scripts/package looks at its words before it installs or builds anything."""
import subprocess

import pytest
from conftest import ROOT

MISTAKES = {
    "an option": (["--imgae"], "unknown option '--imgae', expected --deb or --image as the first word"),
    "an option in the second place": (["build/package", "--deb"], "unknown option '--deb', expected --deb or --image as the first word"),
    "a variant": (["--image", "slim", "onxx"], "unknown variant 'onxx', expected slim, onnx, python or onnx+python"),
    "a wheel's architecture": (["build/package", "aarch64"], "unknown architecture 'aarch64' for a wheel, expected arm64 or this machine's"),
    "Debian's architecture": (["--deb", "build/package", "aarch64"], "unknown architecture 'aarch64', expected Debian's word, such as amd64 or arm64"),
    "a third word": (["build/package", "arm64", "more"], "unexpected 'more', expected at most a directory and an architecture"),
}


def package(directory, *words):
    """Without the programs that install and build: a word that passes fails there."""
    script = directory / "scripts/package"
    script.parent.mkdir()
    script.write_bytes((ROOT / "scripts/package").read_bytes())
    return subprocess.run(["bash", script, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words, text", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_before_anything_else_happens(tmp_path, words, text):
    told = package(tmp_path, *words)
    assert told.returncode == 2 and told.stderr.startswith(f"scripts/package: {text}") and told.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["out", "arm64"], ["--deb"], ["--deb", "out", "arm64"], ["--deb", "out", "armhf"], ["--image"], ["--image", "slim", "onnx+python"]])
def test_what_the_pages_name_passes(tmp_path, words):
    told = package(tmp_path, *words)
    assert told.returncode == 127 and "scripts/setup" in told.stderr


def test_help_lists_the_ways(tmp_path):
    told = package(tmp_path, "--help")
    assert told.returncode == 0 and all(each in told.stdout for each in ("scripts/package [directory", "--deb", "--image"))
