// SPDX-License-Identifier: Apache-2.0
// A shared library that a plug-in is: a backend or a repository agent. Opened and closed under the
// lock of whoever keeps it.
#ifndef NEREID_BACKEND_LIBRARY_H
#define NEREID_BACKEND_LIBRARY_H

#include "base/error.h"

// NOT_FOUND "unable to load shared library: …", also for a file that ends too early.
error *library_open(const char *path, void **handle);
void library_close(void *handle); // NULL: nothing is open

// Stores the address of `symbol`, or NULL, in *function, which is a pointer to a function.
void library_find(void *handle, const char *symbol, void *function);

#endif
