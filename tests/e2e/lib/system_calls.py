# SPDX-License-Identifier: Apache-2.0
"""Kernels that lack system calls, and sandboxes that refuse them, for a server and all that it starts (tests/fakes/without.c)."""
from conftest import BUILD

# What came after Linux 5.2 and the server, its workers or the C library ask for. `clone3` is not among what a sandbox may refuse with
# EPERM: no program with threads starts there.
NEWER = ["openat2", "pidfd_open", "pidfd_send_signal", "close_range", "faccessat2", "futex_waitv", "epoll_pwait2", "landlock_create_ruleset"]


def without(*calls, reason="ENOSYS"):
    """What runs a server without them: its `wrapper`."""
    return [str(BUILD / "tests/fakes/without"), reason, ",".join(calls), "--"]
