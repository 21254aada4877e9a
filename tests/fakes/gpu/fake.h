// SPDX-License-Identifier: Apache-2.0
// A driver that is played: libcuda.so.1 and libnvidia-ml.so.1 as far as nereid calls them, for
// tests on machines without a GPU. What they show stands in a JSON file (NEREID_FAKE_GPU;
// docs/testing.md). Compiled without sanitizers, and locked by C11's mutexes, which no sanitizer
// knows: so one build serves every process, the copies (memcpy, which sanitizers stand before) are
// seen by them, and ThreadSanitizer orders two accesses only where CUDA promises an order
// (fake_release, fake_acquire).
#ifndef NEREID_FAKE_GPU_H
#define NEREID_FAKE_GPU_H

#include "src/gpu/cuda.h"
#include "src/gpu/nvml.h"

#include <stdbool.h>
#include <stdint.h>
#include <threads.h>

#define FAKE_DEVICES      16 // at most
#define FAKE_EXPORT       __attribute__((visibility("default")))
#define CUDA_ERROR_BUSY   ((CUresult)800) // not permitted: a call within a host function
#define FAKE_SECOND_NS    1000000000u
#define FAKE_FIRST_HANDLE 16 // a CUdevice is not an ordinal, here visibly
#define FAKE_DESTROYED    CUDA_ERROR_CONTEXT_IS_DESTROYED

// Each row of the tables with its type; that each is there is seen by the linker (device.c,
// nvml.c).
#define PROTOTYPE(name, arguments) FAKE_EXPORT CUresult name arguments;
CUDA_FUNCTIONS(PROTOTYPE, PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(name, arguments) FAKE_EXPORT nvmlReturn_t name arguments;
NVML_FUNCTIONS(PROTOTYPE, PROTOTYPE)
#undef PROTOTYPE

// ---- what the file says (config.c) ----

typedef struct fake_device {
  char name[96];
  char uuid[48],
      parent_uuid[48]; // "GPU-…", of a MIG slice "MIG-…" and the GPU's that it is part of
  char pci[32];
  int major, minor, numa;
  uint64_t memory;
  bool integrated, vmm, fds, ipc;
  uint32_t peers; // a bit for each that it reaches
  // of NVML
  unsigned utilization, power_mw, power_limit_mw;
  uint64_t energy_mj, memory_used; // beside what processes have taken
  unsigned xids[16], xid_count;
} fake_device;

typedef struct fake_fault {
  char function[64], key[512]; // a pattern; the whole entry
  int code, device;            // -1: any
  unsigned long at, times;     // the call from which on, how often (0: always)
  unsigned long calls;         // so far, of this process
  uint64_t after_bytes;        // only once as much was copied
  bool later;                  // when the stream gets there, not by the call
  bool hang;                   // until the file changes
  bool spares;                 // the context lives, whatever the code
} fake_fault;

typedef struct fake_config {
  struct fake_config *before; // those that were read once stay: somebody may look at them
  int driver_version;
  char nvml_version[32];
  unsigned seed, delay_us;
  uint64_t fill_bytes;
  int exporter_gone; // what a copy of memory says whose process has gone
  int count;
  fake_device devices[FAKE_DEVICES]; // all that the machine has
  int fault_count;
  fake_fault faults[32];
} fake_config;

const char *fake_path(void);        // of the file; NULL: the usual
fake_config *fake_config_now(void); // reads the file again where it has changed
// The code of the fault that is due for this call, below 0 where the context is to live; 0: none.
// Hangs where it says so.
int fake_fault_due(const char *function, int device, bool later);

// ---- counters (counters.c), in a file that all processes share ----

#define FAKE_COUNTERS(X)                                                                           \
  X(bytes_to_device)                                                                               \
  X(bytes_to_host)                                                                                 \
  X(bytes_on_device)                                                                               \
  X(bytes_between_devices)                                                                         \
  X(bytes_on_host)                                                                                 \
  X(copies_to_device)                                                                              \
  X(copies_to_host)                                                                                \
  X(copies_on_device)                                                                              \
  X(copies_between_devices)                                                                        \
  X(copies_on_host)                                                                                \
  X(pageable_copies) /* of or to host memory that the driver has not pinned */                     \
  X(foreign_copies)  /* on a stream whose device has neither end */                                \
  X(syncs)           /* calls that waited for a device */                                          \
  X(hangs)           /* calls and enqueued work that a fault held */                               \
  X(allocations)     /* of device or pinned memory, by the driver */                               \
  X(host_bytes)      /* pinned now */                                                              \
  X(ipc_opened)      /* mappings of others' memory now */                                          \
  X(streams)         /* now */                                                                     \
  X(events)          /* now */

enum {
#define COUNTER(name) FAKE_##name,
  FAKE_COUNTERS(COUNTER)
#undef COUNTER
  FAKE_COUNTER_COUNT
};

enum {
#define CALL(name, arguments) FAKE_CALL_##name,
  CUDA_FUNCTIONS(CALL, CALL)
  NVML_FUNCTIONS(CALL, CALL)
#undef CALL
      FAKE_CALL_COUNT
};

typedef struct fake_process {
  _Atomic uint64_t pid;
  _Atomic uint64_t used[FAKE_DEVICES],
      contexts[FAKE_DEVICES]; // bytes; holds of the primary context
  _Atomic uint64_t counters[FAKE_COUNTER_COUNT];
  _Atomic uint64_t calls[FAKE_CALL_COUNT];
} fake_process;

fake_process *fake_counters(void);
uint64_t fake_used_by_all(int device); // bytes of live processes

#define fake_count(name, n) ((void)(fake_counters()->counters[FAKE_##name] += (uint64_t)(n)))

// ---- devices and contexts (device.c); ordinals of the process, after CUDA_VISIBLE_DEVICES ----

struct CUctx_st {
  int ordinal;      // of this process
  int index;        // in the file
  unsigned held;    // the primary context's count
  CUresult dead;    // the sticky error; 0: alive
  uint32_t enabled; // ordinals whose memory it may reach
};

extern mtx_t fake_lock; // guards everything of the driver
extern __thread bool fake_in_host_function;

int fake_visible_count(void);
CUcontext fake_context_of(int ordinal);
const fake_device *fake_device_of(int ordinal);
CUcontext fake_current(void);         // NULL: none
int fake_ordinal_of_index(int index); // -1: not visible

// Every function begins with one of these: counts the call, plays the faults. `need` a context.
CUresult fake_enter(int call, const char *name, bool initialised, bool context);
#define ENTER(name, initialised, context)                                                          \
  do {                                                                                             \
    CUresult entered = fake_enter(FAKE_CALL_##name, #name, initialised, context);                  \
    if (entered != CUDA_SUCCESS)                                                                   \
      return entered;                                                                              \
  } while (0)

bool fake_is_sticky(CUresult code);
// Marks the device when the error is sticky; gives the code back.
CUresult fake_fail(CUcontext context, CUresult code);

// ---- memory (memory.c) ----

typedef enum fake_kind {
  FAKE_ALLOCATED, // cuMemAlloc
  FAKE_IMPORTED,  // cuIpcOpenMemHandle
  FAKE_RESERVED,  // cuMemAddressReserve: has pieces
  FAKE_MAPPED,    // cuMemMap, within a reserved one
} fake_kind;

typedef struct fake_range {
  struct fake_range *next; // by address; mapped ones are in a list of their own
  fake_kind kind;
  int ordinal; // device of the memory
  CUdeviceptr base;
  size_t bytes;
  int fd;
  uint64_t generation;
  unsigned opened; // of an imported one
  int exporter;    // process, and its descriptor
  int exporter_fd;
  bool accessible;          // of a mapped one: cuMemSetAccess
  struct fake_piece *piece; // of a mapped one
} fake_range;

bool fake_is_device_address(CUdeviceptr address);
// The range that holds [address, address + bytes): 0, else the code; 700 for what is no memory.
CUresult fake_find(CUdeviceptr address, size_t bytes, fake_range **range);
void *fake_shadow(CUdeviceptr address);                // where the data are
bool fake_is_pinned(const void *memory, size_t bytes); // by cuMemHostAlloc or cuMemHostRegister
bool fake_exporter_is_gone(const fake_range *range);   // of an imported range
void fake_free_all(CUcontext context);                 // its primary context goes

// Of memory.c, for vmm.c.
CUdeviceptr fake_reserve(size_t bytes, size_t alignment); // addresses; 0: none left
fake_range *fake_range_new(fake_kind kind, int ordinal, CUdeviceptr base, size_t bytes, int fd);
void fake_range_remove(fake_range *range); // its addresses have no memory any more
fake_range *fake_range_at(CUdeviceptr address);
int fake_memory_new(size_t bytes, uint64_t *generation); // a memfd; -1
void fake_fill_new(int fd, size_t bytes);
bool fake_map(CUdeviceptr base, size_t bytes, int fd, size_t offset);
void fake_unmap(CUdeviceptr base, size_t bytes);
bool fake_take_bytes(int ordinal, size_t bytes); // false: out of memory
void fake_give_bytes(int ordinal, size_t bytes);

// ---- streams (stream.c) ----

typedef enum fake_work_kind {
  FAKE_COPY,
  FAKE_FILL,
  FAKE_HOST,   // a function
  FAKE_RECORD, // an event
  FAKE_WAIT,   // for another stream
} fake_work_kind;

typedef struct fake_work {
  struct fake_work *next;
  fake_work_kind kind;
  const char *name; // of the function that was called
  CUdeviceptr to, from;
  size_t bytes;
  unsigned char value;
  void *staged; // what a pageable source had
  CUhostFn *function;
  void *context;
  CUevent event;
  struct {
    CUstream stream;
    uint64_t sequence;
  } after;           // what FAKE_WAIT waits for
  uint64_t sequence; // in its stream
  uint64_t ticket;   // in the process
} fake_work;

struct CUstream_st {
  CUstream next; // all that there ever were; one that was destroyed is used again
  int ordinal;
  bool alive, legacy, blocking;
  uint64_t enqueued, completed; // sequences
  fake_work *first, *last;      // `first` is there until it is done
  cnd_t arrived;
  unsigned random;
  char sync; // an address for the sanitizer
};

struct CUevent_st {
  CUevent next;
  bool alive;
  unsigned flags;
  int ordinal;
  CUstream stream; // of the last record; NULL: never
  uint64_t sequence;
  char sync;
};

CUresult fake_stream_of(CUstream handle, CUstream *stream); // the legacy stream for NULL
fake_work *fake_work_new(fake_work_kind kind, const char *name);
// Appends; with `wait` returns when it is done. What the device says.
CUresult fake_enqueue(CUstream stream, fake_work *work, bool wait);
CUresult fake_wait_for_device(int ordinal); // all that is enqueued there now; -1: anywhere
void fake_close_streams(int ordinal);

// ---- for ThreadSanitizer, where there is one ----

void __tsan_acquire(void *address) __attribute__((weak));
void __tsan_release(void *address) __attribute__((weak));

static inline void fake_acquire(void *address)
{
  if (__tsan_acquire != NULL)
    __tsan_acquire(address);
}

static inline void fake_release(void *address)
{
  if (__tsan_release != NULL)
    __tsan_release(address);
}

#endif
