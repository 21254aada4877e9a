// Hints about memory pages.
#ifndef NEREID_BASE_PAGES_H
#define NEREID_BASE_PAGES_H

#include <stddef.h>

// Asks the kernel to back `size` fresh bytes with large pages where they are many: touching them
// for the first time then costs one fault for 512. A hint; any thread.
void pages_prefer_large(void *memory, size_t size);

#endif
