// A folder that others have filled, or will: every path is taken beneath it by the kernel
// (openat2), and no link on the way is followed. Functions that give a bool set errno.
#ifndef NEREID_PYTHON_FOLDER_H
#define NEREID_PYTHON_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

enum {
  FOLDER_MOST_DEEP = 64
};

// Opens `path`, whose folders are made where they are not there. A descriptor, or -1.
int folder_open(int folder, const char *path, int flags, mode_t mode);

// Makes the folder `path` and those above it; one that is there is right.
bool folder_make(int folder, const char *path);

bool folder_link_to(int folder, const char *path, const char *target);  // symbolic
bool folder_share_file(int folder, const char *from, const char *path); // a second name
void folder_remove_file(int folder, const char *path); // a file or a link, if it is there

// Whether the links on the way to `path` stay beneath the folder. One that leads to nothing does.
bool folder_resolves(int folder, const char *path);

// Removes `name` in `parent` with all that is in it. False when something is left.
bool folder_remove(int parent, const char *name);

#endif
