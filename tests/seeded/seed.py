# SPDX-License-Identifier: Apache-2.0
"""What a seeded bug is, and the tests that can catch one."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Catcher:
    """A test, and the build that it is run with."""

    kind: str  # "unit": a name of ctest; "e2e": a file in a room of tests/e2e
    name: str
    chosen: str = ""  # e2e: what pytest's -k gets
    preset: str = "asan"

    def __str__(self):
        chosen = f" -k '{self.chosen}'" if self.chosen else ""
        return f"{self.name}{chosen} ({self.preset})"


def unit(name, preset="asan"):
    return Catcher("unit", name, preset=preset)


def e2e(file, chosen, preset="asan"):
    return Catcher("e2e", file, chosen, preset)


@dataclasses.dataclass(frozen=True)
class Seed:
    name: str
    what: str  # class of the bug, and the CVE or the row of the scorecard that it stands for
    file: str
    before: str  # stands in the file once
    after: str
    caught_by: Catcher
