# SPDX-License-Identifier: Apache-2.0
"""Which end-to-end tests a run chooses, by the marks that stand beside the tests (pytest.ini says what each means) and by what a test takes."""
import re

# In a test's parameters.
OTHER_SIDE = re.compile(r"\btriton\b|two years old|\breal\b")  # NVIDIA's server, an old library, a real collector
LARGE = re.compile(r"\b(tensorflow|pytorch|torch)\b")  # the frameworks that only --all installs


def parameters(item):
    return item.name.partition("[")[2]


def has(item, mark):
    return item.get_closest_marker(mark) is not None


def is_of_triton(item):
    return item.path.stem.endswith("_triton") or OTHER_SIDE.search(parameters(item)) is not None


def is_quick(item):
    return not has(item, "slow") and not is_of_triton(item) and LARGE.search(parameters(item)) is None


def is_of_release(item):
    """It asks the release build only, whatever NEREID_BUILD says: memory and time mean nothing under a sanitizer, and wheels and images have no sanitizer."""
    return not {"start_release", "release_target", "wheels", "images"}.isdisjoint(item.fixturenames) and "nereid" not in item.fixturenames


def is_ours(item):
    return not is_of_triton(item) and not has(item, "once") and not is_of_release(item)


def is_chosen(item, options):
    """Whether the options that conftest.py adds choose it."""
    return ((options.part is None or has(item, "alone") == (options.part == "alone")) and (is_quick(item) or not options.quick)
            and (is_ours(item) or not options.ours) and (has(item, "gpu_host") or not options.gpu_host))
