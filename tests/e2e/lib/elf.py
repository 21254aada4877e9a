# SPDX-License-Identifier: Apache-2.0
"""For which machine a program or a library is (elf(5): e_machine)."""

HEAD_BYTES = 20  # up to e_machine, and with it
MACHINES = {"x86_64": 62, "aarch64": 183}


def machine_of(head):
    """The number of the machine in a file's first HEAD_BYTES; None: it is no ELF file."""
    return int.from_bytes(head[18:20], "little") if head.startswith(b"\x7fELF") else None
