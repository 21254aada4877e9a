// SPDX-License-Identifier: Apache-2.0
// The shared library of a plug-in: a backend or a repository agent. Opened and closed under its
// owner's lock.
#ifndef NEREID_BACKEND_LIBRARY_H
#define NEREID_BACKEND_LIBRARY_H

#include "base/error.h"

// NOT_FOUND "unable to load shared library: …", also for a truncated file.
error *library_open(const char *path, void **handle);
void library_close(void *handle); // NULL: nothing is open

// Stores the address of `symbol`, or NULL, in *function, which is a pointer to a function.
void library_find(void *handle, const char *symbol, void *function);

#endif
