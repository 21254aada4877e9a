// The environment variables of worker processes: the server's, without those that are between it
// and the service manager, and with the number of threads for numeric libraries.
#ifndef NEREID_PYTHON_WORKER_ENVIRONMENT_H
#define NEREID_PYTHON_WORKER_ENVIRONMENT_H

#include <stdint.h>

// `threads` (at least 1 is taken) is for libraries whose variable the user has not set. NULL: no
// memory.
char **worker_environment_new(int64_t threads);
void worker_environment_free(char **environment); // NULL does nothing

#endif
