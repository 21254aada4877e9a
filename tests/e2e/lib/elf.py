# SPDX-License-Identifier: Apache-2.0
"""For which machine a program or a library is (elf(5): e_machine)."""

MACHINES = {"x86_64": 62, "aarch64": 183}


def machine_of(content):
    """The number of the machine; None: this is no ELF file."""
    return int.from_bytes(content[18:20], "little") if content.startswith(b"\x7fELF") else None
