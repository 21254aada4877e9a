// SPDX-License-Identifier: Apache-2.0
// Reads from a file which libraries a shared object needs (DT_NEEDED), before the loader opens it.
// The file may contain anything. Load threads.
#ifndef NEREID_ELF_NEEDS_H
#define NEREID_ELF_NEEDS_H

#include "base/string_list.h"

#include <elf.h>

// The machine of this program.
#if defined __x86_64__
#define ELF_OWN_MACHINE EM_X86_64
#elif defined __aarch64__
#define ELF_OWN_MACHINE EM_AARCH64
#else
#define ELF_OWN_MACHINE EM_NONE // unknown
#endif

// Adds the names in their order. False: the file cannot be read or is not a 64-bit shared object,
// and *why (static) says so; or memory is short, and names->failed is set.
bool elf_needs(const char *path, string_list *names, const char **why);

#endif
