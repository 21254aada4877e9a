// The Python backend's word for machine_cpus.
#ifndef NEREID_BACKEND_CPU_H
#define NEREID_BACKEND_CPU_H

#include "base/machine.h"

#define backend_cpu_count() ((int)machine_cpus())

#endif
