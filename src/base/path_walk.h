// SPDX-License-Identifier: Apache-2.0
// openat2(2) for where there is none: Linux before 5.6, older seccomp profiles, gVisor, qemu-user.
// A path is walked name by name, and nothing but a single name that is no link is ever asked of the
// kernel. For base/files.c. No state; any thread.
#ifndef NEREID_BASE_PATH_WALK_H
#define NEREID_BASE_PATH_WALK_H

#include <linux/openat2.h>

// As openat2(dir, path, how, sizeof(*how)) with any of RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and
// RESOLVE_NO_MAGICLINKS in how->resolve; close-on-exec always. A descriptor, or -1 with errno:
// EXDEV for what leads out from beneath `dir`, ELOOP for links that are not to be followed.
//
// Stricter than the kernel: no link in /proc is followed, whatever it is; and never one that
// another user put into a directory where everybody may (as with fs.protected_symlinks=1). Holds
// two descriptors more for the moment. While the directories on the way are moved about, a path
// with
// ".." may be ENOENT, ENOTDIR or ELOOP.
int path_walk(int dir, const char *path, const struct open_how *how);

#endif
