// SPDX-License-Identifier: Apache-2.0
// Makes, opens and removes files beneath a directory that others may fill. Every path is resolved
// beneath it (files_open_at), and no link on the way is followed. Functions that return a bool set
// errno. Any thread.
#ifndef NEREID_BASE_DIR_H
#define NEREID_BASE_DIR_H

#include <stdbool.h>
#include <sys/types.h>

#define MAX_DIR_DEPTH 64

// Opens `path` and makes missing directories on the way. A descriptor, or -1.
int dir_open(int dir, const char *path, int flags, mode_t mode);

// Makes the directory `path` and those above it, unless they exist.
bool dir_make(int dir, const char *path);

bool dir_link_to(int dir, const char *path, const char *target);  // symbolic
bool dir_share_file(int dir, const char *from, const char *path); // a second name
void dir_remove_file(int dir, const char *path); // a file or a link, if it is there

// Whether the links on the way to `path` stay beneath the directory; a dangling link does.
bool dir_resolves(int dir, const char *path);

// Removes `name` in `parent` with its content. False when something is left.
bool dir_remove(int parent, const char *name);
bool dir_remove_path(const char *path); // has a directory before its last part

// The place for temporary directories: TMPDIR if it is absolute, else /tmp.
const char *dir_temporary(void);
// Makes a directory there that only this user can enter. Returns its path, for free(), or NULL with
// errno.
char *dir_make_temporary(const char *prefix);

#endif
