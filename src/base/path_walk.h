// SPDX-License-Identifier: Apache-2.0
// A substitute for openat2(2) where the kernel has none: Linux before 5.6, older seccomp profiles,
// gVisor, qemu-user. Walks a path name by name and never asks the kernel to resolve a link or a
// longer path. For base/files.c. No state; any thread.
#ifndef NEREID_BASE_PATH_WALK_H
#define NEREID_BASE_PATH_WALK_H

#include <linux/openat2.h>

// As openat2(dir, path, how, sizeof(*how)) with any of RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and
// RESOLVE_NO_MAGICLINKS in how->resolve; close-on-exec always. A descriptor, or -1 with errno:
// EXDEV for a path that leads out of `dir`, ELOOP for a link that may not be followed.
//
// Stricter than the kernel: it follows no link in /proc, and no link that another user put into a
// world-writable sticky directory (as with fs.protected_symlinks=1). Holds two more descriptors
// while it runs. If directories on the way are moved meanwhile, a path with ".." may fail with
// ENOENT, ENOTDIR or ELOOP.
int path_walk(int dir, const char *path, const struct open_how *how);

#endif
