// SPDX-License-Identifier: Apache-2.0
// Makes allocations and system calls of a running nereid fail, one at a time:
// tests/e2e/lib/faults.py preloads this library and steers it through a file that both have mapped
// (NEREID_FAULT_CONTROL; fault_control below is its layout). By hand it works without the file:
// NEREID_FAULT_SET=memory NEREID_FAULT_AT=17 NEREID_FAULT_COUNT=1 LD_PRELOAD=… nereid …
//
// It stands before the sanitizers' runtimes and calls on into them, so that an ASan or TSan build
// sees every allocation that does not fail: leaks and overruns after a failure are found where they
// are made. This is why it is a preloaded library and no --wrap build, which would see neither what
// libraries allocate nor the binary that is shipped. ASan wants to be first in line and is told to
// do without (__asan_default_options). malloc and its kin are called by names that need no dlsym,
// which may allocate itself.
//
// A call counts when its set is armed, its caller is in scope and, if one is given, its stack is
// the wanted one. Counted calls number `at` to `at` + `count` - 1 fail. Runs on every thread of the
// process; all state is in the control block.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT      __attribute__((visibility("default")))
#define CALLER      __builtin_return_address(0)
#define STACK_MAX   24
#define STACKS_MAX  (1u << 16)
#define WATCHED_MAX 4096

// ---- what is armed ----

enum {
  SET_MEMORY = 1 << 0,
  SET_ACCEPT = 1 << 1,
  SET_EPOLL = 1 << 2,
  SET_WAIT = 1 << 3,
  SET_DESCRIPTORS = 1 << 4,
  SET_READ = 1 << 5,
  SET_WRITE = 1 << 6,
  SET_FILES = 1 << 7,
  SET_MAP = 1 << 8,
  SET_THREADS = 1 << 9,
  SET_NET = 1 << 10,
  SET_CALLS = 0x7fe, // all but memory
};

static const struct {
  const char *name;
  uint32_t set;
} set_names[] = {
    {"memory", SET_MEMORY}, {"accept", SET_ACCEPT},   {"epoll", SET_EPOLL},
    {"wait", SET_WAIT},     {"read", SET_READ},       {"descriptors", SET_DESCRIPTORS},
    {"write", SET_WRITE},   {"files", SET_FILES},     {"map", SET_MAP},
    {"net", SET_NET},       {"threads", SET_THREADS}, {"calls", SET_CALLS},
};

enum {
  SCOPE_OWN,       // calls made by nereid, libtritonserver.so and backends
  SCOPE_LIBRARIES, // and by the C libraries that they use, but for the loader
  SCOPE_ALL,
};

#define ERROR_SHORT -1 // instead of an error: one byte is read or written
#define ERROR_PAUSE -2 // the call is made, and its thread stays there until it is released

typedef struct fault_control {
  // written by the test; `armed` last
  _Atomic uint32_t armed; // sets, 0: nothing is counted
  uint32_t scope;
  int32_t error_number;      // 0: what fits the call
  _Atomic uint32_t released; // so many of those that pause go on; all do when nothing is armed
  uint64_t at;               // 1 is the first call
  uint64_t count;
  uint64_t stack; // 0: any
  // written here
  _Atomic uint64_t calls;
  _Atomic uint64_t failed;
  char report[4096]; // the stack of the first call that failed, a line "<library>+0x<offset>" per
                     // frame
  uint64_t stacks[STACKS_MAX]; // of each call, in order
} fault_control;

static fault_control *control;

EXPORT const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
  return "verify_asan_link_order=0";
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

// Arms what the environment says, for use by hand.
static void arm_from_environment(const char *sets)
{
  uint32_t armed = 0;
  const char *scope = getenv("NEREID_FAULT_SCOPE");
  for (size_t i = 0; i < sizeof(set_names) / sizeof(set_names[0]); i++)
    if (strstr(sets, set_names[i].name) != NULL)
      armed |= set_names[i].set;
  control->scope = scope == NULL || strcmp(scope, "own") == 0 ? SCOPE_OWN
                   : strcmp(scope, "all") == 0                ? SCOPE_ALL
                                                              : SCOPE_LIBRARIES;
  control->at = number_from_environment("NEREID_FAULT_AT", 0);
  control->count = number_from_environment("NEREID_FAULT_COUNT", 1);
  control->error_number = (int32_t)number_from_environment("NEREID_FAULT_ERROR", 0);
  control->armed = armed;
}

// Who is spared, and why: EXCLUDED in tests/e2e/lib/faults.py. Each a list of names with a space
// after each; libraries by how their names begin.
static const char *spared_functions = "";
static const char *spared_libraries = "";

__attribute__((constructor)) static void find_control(void)
{
  const char *path = getenv("NEREID_FAULT_CONTROL");
  const char *sets = getenv("NEREID_FAULT_SET");
  const char *functions = getenv("NEREID_FAULT_SPARED_FUNCTIONS");
  const char *libraries = getenv("NEREID_FAULT_SPARED_LIBRARIES");
  spared_functions = functions != NULL ? functions : "";
  spared_libraries = libraries != NULL ? libraries : "";
  int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (path == NULL && sets == NULL)
    return;
  int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void *memory = mmap(NULL, sizeof(fault_control), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED || (path != NULL && fd < 0)) {
    fprintf(stderr, "fault injector: cannot map '%s': %s\n", path, strerror(errno));
    _exit(127);
  }
  if (fd >= 0)
    close(fd);
  control = memory;
  if (sets != NULL)
    arm_from_environment(sets);
}

// ---- who calls ----

typedef struct stack_walk {
  uintptr_t frames[STACK_MAX];
  size_t count;
} stack_walk;

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *pointer)
{
  stack_walk *walk = pointer;
  uintptr_t frame = _Unwind_GetIP(context);
  if (frame == 0 || walk->count == STACK_MAX)
    return _URC_END_OF_STACK;
  walk->frames[walk->count++] = frame;
  return _URC_NO_REASON;
}

// The file name of the library that `address` is in ("" for the executable), and where in it.
static const char *library_of(uintptr_t address, uintptr_t *offset)
{
  struct dl_find_object found;
  *offset = address;
  if (_dl_find_object((void *)address, &found) != 0)
    return "?";
  *offset = address - found.dlfo_link_map->l_addr;
  const char *slash = strrchr(found.dlfo_link_map->l_name, '/');
  return slash != NULL ? slash + 1 : found.dlfo_link_map->l_name;
}

static bool begins_with_one_of(const char *name, const char *const *beginnings)
{
  for (; *beginnings != NULL; beginnings++)
    if (strncmp(name, *beginnings, strlen(*beginnings)) == 0)
      return true;
  return false;
}

static bool begins_with_listed(const char *name, const char *list)
{
  for (const char *end; (end = strchr(list, ' ')) != NULL; list = end + 1)
    if (strncmp(name, list, (size_t)(end - list)) == 0)
      return true;
  return false;
}

// Whether the frame is in a listed function that a library exports.
static bool is_in_spared_function(uintptr_t frame)
{
  Dl_info found;
  void *function = _Unwind_FindEnclosingFunction((void *)(frame - 1));
  if (spared_functions[0] == '\0' || function == NULL || dladdr(function, &found) == 0 ||
      found.dli_sname == NULL || found.dli_saddr != function)
    return false;
  return begins_with_listed(found.dli_sname, spared_functions);
}

static bool is_own(const char *library)
{
  static const char *const ours[] = {"libtritonserver", "libtriton_identity", "libtriton_onnx",
                                     NULL};
  return library[0] == '\0' || begins_with_one_of(library, ours);
}

// The stack as one number, the same in every process of the same binary. False when the caller is
// out of scope.
static bool look_at_stack(void *caller, stack_walk *walk, uint64_t *stack)
{
  uintptr_t offset;
  if (control->scope == SCOPE_OWN && !is_own(library_of((uintptr_t)caller, &offset)))
    return false;
  _Unwind_Backtrace(take_frame, walk);
  *stack = 0xcbf29ce484222325u;
  bool seen = false; // frames before the caller's are this library's
  bool decided = control->scope != SCOPE_LIBRARIES;
  for (size_t i = 0; i < walk->count; i++) {
    const char *library = library_of(walk->frames[i], &offset);
    seen = seen || walk->frames[i] == (uintptr_t)caller;
    if (!seen)
      continue;
    // For whom a library works, the nearest frame tells that is ours or foreign.
    if (!decided &&
        (begins_with_listed(library, spared_libraries) || is_in_spared_function(walk->frames[i])))
      return false;
    decided = decided || is_own(library);
    for (const char *c = library; *c != '\0'; c++)
      *stack = (*stack ^ (unsigned char)*c) * 0x100000001b3u;
    *stack = (*stack ^ offset) * 0x100000001b3u;
  }
  return true;
}

static void write_report(const stack_walk *walk, const char *function)
{
  size_t size = 0;
  int written = snprintf(control->report, sizeof(control->report), "%s, call %llu\n", function,
                         (unsigned long long)atomic_load(&control->calls));
  for (size_t i = 0; i < walk->count && written > 0; i++) {
    size += (size_t)written;
    if (size >= sizeof(control->report))
      return;
    uintptr_t offset;
    const char *library = library_of(walk->frames[i], &offset);
    written = snprintf(control->report + size, sizeof(control->report) - size, "%s+0x%llx\n",
                       library[0] != '\0' ? library : "nereid", (unsigned long long)offset - 1);
  }
}

// The unwinder prepares itself once, which must not be on a thread that TSan does not know yet.
__attribute__((constructor)) static void prepare_unwinder(void)
{
  stack_walk walk = {.count = 0};
  _Unwind_Backtrace(take_frame, &walk);
}

static __thread bool inside __attribute__((tls_model("initial-exec")));
static __thread uint64_t pausing __attribute__((tls_model("initial-exec"))); // its number, or 0

// Counts the call. When it is to fail: what errno gets, or ERROR_SHORT; else 0.
static int fault(uint32_t set, int error_number, const char *function, void *caller)
{
  if (control == NULL || (atomic_load_explicit(&control->armed, memory_order_acquire) & set) == 0 ||
      inside)
    return 0;
  stack_walk walk = {.count = 0};
  uint64_t stack;
  int result = 0;
  int kept = errno;
  inside = true;
  if (look_at_stack(caller, &walk, &stack) && (control->stack == 0 || control->stack == stack)) {
    uint64_t number = atomic_fetch_add(&control->calls, 1) + 1;
    if (number <= STACKS_MAX)
      control->stacks[number - 1] = stack;
    if (control->at != 0 && number >= control->at && number - control->at < control->count) {
      uint64_t failed = atomic_fetch_add(&control->failed, 1) + 1;
      if (failed == 1)
        write_report(&walk, function);
      result = control->error_number != 0 ? control->error_number : error_number;
      pausing = result == ERROR_PAUSE ? failed : 0;
      result = pausing != 0 ? 0 : result;
    }
  }
  inside = false;
  errno = kept;
  return result;
}

static void pause_if_wanted(void)
{
  int kept = errno;
  while (pausing > atomic_load(&control->released) && atomic_load(&control->armed) != 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  pausing = 0;
  errno = kept;
}

// What a call gives, once its thread may go on.
#define PAUSED(call)                                                                               \
  ({                                                                                               \
    __typeof__(call) given = call;                                                                 \
    if (pausing != 0)                                                                              \
      pause_if_wanted();                                                                           \
    given;                                                                                         \
  })

// ---- memory ----

#define WEAK __attribute__((weak))

// A sanitizer's, where there is one.
extern WEAK void *__interceptor_malloc(size_t size);
extern WEAK void *__interceptor_calloc(size_t count, size_t size);
extern WEAK void *__interceptor_realloc(void *memory, size_t size);
extern WEAK int __interceptor_posix_memalign(void **memory, size_t alignment, size_t size);
extern WEAK void *__interceptor_aligned_alloc(size_t alignment, size_t size);
// glibc's.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static bool lacks_memory(const char *function, void *caller)
{
  if (fault(SET_MEMORY, ENOMEM, function, caller) == 0)
    return false;
  errno = ENOMEM;
  return true;
}

static void *allocate(size_t size)
{
  return __interceptor_malloc != NULL ? __interceptor_malloc(size) : __libc_malloc(size);
}

static void *reallocate(void *memory, size_t size)
{
  return __interceptor_realloc != NULL ? __interceptor_realloc(memory, size)
                                       : __libc_realloc(memory, size);
}

EXPORT void *malloc(size_t size)
{
  return lacks_memory("malloc", CALLER) ? NULL : allocate(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
  if (lacks_memory("calloc", CALLER))
    return NULL;
  return __interceptor_calloc != NULL ? __interceptor_calloc(count, size)
                                      : __libc_calloc(count, size);
}

EXPORT void *realloc(void *memory, size_t size)
{
  return lacks_memory("realloc", CALLER) ? NULL : reallocate(memory, size);
}

EXPORT void *reallocarray(void *memory, size_t count, size_t size)
{
  size_t bytes;
  if (lacks_memory("reallocarray", CALLER) || __builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return reallocate(memory, bytes);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size)
{
  if (fault(SET_MEMORY, ENOMEM, "posix_memalign", CALLER) != 0)
    return ENOMEM;
  if (__interceptor_posix_memalign != NULL)
    return __interceptor_posix_memalign(memory, alignment, size);
  *memory = __libc_memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
  if (lacks_memory("aligned_alloc", CALLER))
    return NULL;
  return __interceptor_aligned_alloc != NULL ? __interceptor_aligned_alloc(alignment, size)
                                             : __libc_memalign(alignment, size);
}

// ASan's strdup does not come by malloc.
static char *copy_text(const char *text, size_t size)
{
  char *copy = allocate(size + 1);
  if (copy == NULL)
    return NULL;
  memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}

EXPORT char *strdup(const char *text)
{
  return lacks_memory("strdup", CALLER) ? NULL : copy_text(text, strlen(text));
}

EXPORT char *strndup(const char *text, size_t size)
{
  return lacks_memory("strndup", CALLER) ? NULL : copy_text(text, strnlen(text, size));
}

// What comes next in line by this name. Once found it stays.
#define NEXT(name)                                                                                 \
  ({                                                                                               \
    static __typeof__(name) *_Atomic next;                                                         \
    if (atomic_load_explicit(&next, memory_order_relaxed) == NULL)                                 \
      atomic_store(&next, (__typeof__(name) *)dlsym(RTLD_NEXT, #name));                            \
    atomic_load_explicit(&next, memory_order_relaxed);                                             \
  })

static int print_text(char **text, const char *format, va_list arguments)
{
  bool before = inside;
  inside = true; // glibc's allocation is this call's
  int size = NEXT(vasprintf)(text, format, arguments);
  inside = before;
  return size;
}

EXPORT int vasprintf(char **text, const char *format, va_list arguments)
{
  return lacks_memory("vasprintf", CALLER) ? -1 : print_text(text, format, arguments);
}

EXPORT int asprintf(char **text, const char *format, ...)
{
  if (lacks_memory("asprintf", CALLER))
    return -1;
  va_list arguments;
  va_start(arguments, format);
  int size = print_text(text, format, arguments);
  va_end(arguments);
  return size;
}

// The same in a build with _FORTIFY_SOURCE.
EXPORT int __vasprintf_chk(char **text, int flag, const char *format, va_list arguments);
int __vasprintf_chk(char **text, int flag, const char *format, va_list arguments)
{
  (void)flag;
  return lacks_memory("vasprintf", CALLER) ? -1 : print_text(text, format, arguments);
}

EXPORT int __asprintf_chk(char **text, int flag, const char *format, ...);
int __asprintf_chk(char **text, int flag, const char *format, ...)
{
  (void)flag;
  if (lacks_memory("asprintf", CALLER))
    return -1;
  va_list arguments;
  va_start(arguments, format);
  int size = print_text(text, format, arguments);
  va_end(arguments);
  return size;
}

EXPORT FILE *open_memstream(char **text, size_t *size)
{
  return lacks_memory("open_memstream", CALLER) ? NULL : NEXT(open_memstream)(text, size);
}

// ---- system calls that fail or not ----

#define FAILS(set, error_number, function)                                                         \
  ({                                                                                               \
    int fails_with = fault(set, error_number, function, CALLER);                                   \
    if (fails_with != 0)                                                                           \
      errno = fails_with == ERROR_SHORT ? (error_number) : fails_with;                             \
    fails_with != 0;                                                                               \
  })

// name, set, errno, result when it fails, type, parameters, arguments
#define PLAIN(name, set, error_number, failure, type, parameters, arguments)                       \
  EXPORT type name parameters                                                                      \
  {                                                                                                \
    if (FAILS(set, error_number, #name))                                                           \
      return failure;                                                                              \
    return PAUSED(NEXT(name) arguments);                                                           \
  }

PLAIN(accept4, SET_ACCEPT, EMFILE, -1, int,
      (int fd, struct sockaddr *address, socklen_t *size, int flags), (fd, address, size, flags))
PLAIN(epoll_create1, SET_EPOLL | SET_DESCRIPTORS, EMFILE, -1, int, (int flags), (flags))
PLAIN(epoll_wait, SET_WAIT, EINTR, -1, int,
      (int fd, struct epoll_event *events, int count, int timeout), (fd, events, count, timeout))
PLAIN(poll, SET_WAIT, EINTR, -1, int, (struct pollfd * fds, nfds_t count, int timeout),
      (fds, count, timeout))
PLAIN(eventfd, SET_DESCRIPTORS, EMFILE, -1, int, (unsigned value, int flags), (value, flags))
PLAIN(signalfd, SET_DESCRIPTORS, EMFILE, -1, int, (int fd, const sigset_t *set, int flags),
      (fd, set, flags))
PLAIN(dup, SET_DESCRIPTORS, EMFILE, -1, int, (int fd), (fd))
PLAIN(socket, SET_NET | SET_DESCRIPTORS, EMFILE, -1, int, (int domain, int type, int protocol),
      (domain, type, protocol))
PLAIN(bind, SET_NET, EADDRINUSE, -1, int, (int fd, const struct sockaddr *address, socklen_t size),
      (fd, address, size))
PLAIN(listen, SET_NET, EADDRINUSE, -1, int, (int fd, int backlog), (fd, backlog))
PLAIN(setsockopt, SET_NET, ENOBUFS, -1, int,
      (int fd, int level, int name, const void *value, socklen_t size),
      (fd, level, name, value, size))
PLAIN(getsockname, SET_NET, ENOBUFS, -1, int, (int fd, struct sockaddr *address, socklen_t *size),
      (fd, address, size))
PLAIN(getaddrinfo, SET_NET, ENOMEM, EAI_MEMORY, int,
      (const char *node, const char *service, const struct addrinfo *hints,
       struct addrinfo **result),
      (node, service, hints, result))
PLAIN(fopen, SET_FILES, EMFILE, NULL, FILE *, (const char *path, const char *mode), (path, mode))
PLAIN(opendir, SET_FILES, EMFILE, NULL, DIR *, (const char *path), (path))
PLAIN(fdopendir, SET_FILES, ENOMEM, NULL, DIR *, (int fd), (fd))
PLAIN(readdir, SET_FILES, EIO, NULL, struct dirent *, (DIR * dir), (dir))
PLAIN(getdents64, SET_FILES, EIO, -1, ssize_t, (int fd, void *entries, size_t size),
      (fd, entries, size))
PLAIN(fstatat, SET_FILES, EIO, -1, int, (int dir, const char *path, struct stat *status, int flags),
      (dir, path, status, flags))
PLAIN(fstat, SET_FILES, EIO, -1, int, (int fd, struct stat *status), (fd, status))
PLAIN(stat, SET_FILES, EIO, -1, int, (const char *path, struct stat *status), (path, status))
PLAIN(readlink, SET_FILES, EIO, -1, ssize_t, (const char *path, char *text, size_t size),
      (path, text, size))
PLAIN(realpath, SET_FILES, EIO, NULL, char *, (const char *path, char *resolved), (path, resolved))
PLAIN(mmap, SET_MAP, ENOMEM, MAP_FAILED, void *,
      (void *address, size_t size, int protection, int flags, int fd, off_t offset),
      (address, size, protection, flags, fd, offset))

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
  if (FAILS(SET_THREADS, EAGAIN, "pthread_create"))
    return errno;
  return NEXT(pthread_create)(thread, attributes, run, argument);
}

EXPORT int posix_spawn(pid_t *id, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[])
{
  if (FAILS(SET_THREADS, EAGAIN, "posix_spawn"))
    return errno;
  return NEXT(posix_spawn)(id, path, actions, attributes, arguments, environment);
}

EXPORT int open(const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return FAILS(SET_FILES, EMFILE, "open") ? -1 : NEXT(open)(path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return FAILS(SET_FILES, EMFILE, "openat") ? -1 : NEXT(openat)(dir, path, flags, mode);
}

EXPORT int fcntl(int fd, int command, ...)
{
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (copies && FAILS(SET_DESCRIPTORS, EMFILE, "fcntl"))
    return -1;
  return NEXT(fcntl)(fd, command, argument);
}

// glibc has no openat2.
EXPORT long syscall(long number, ...)
{
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (size_t i = 0; i < 6; i++)
    a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_openat2 && FAILS(SET_FILES, EMFILE, "openat2"))
    return -1;
  return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// ---- transfers: these may also be short, or would have to wait ----

// Descriptors in epoll sets. A transfer that this library cuts short leaves a socket ready without
// a new edge for those who wait edge-triggered; the kernel would give one, so it is asked for one.
static struct {
  pthread_mutex_t mutex;
  size_t count;
  struct {
    int epoll_fd, fd;
    struct epoll_event event;
  } items[WATCHED_MAX];
} watched = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note_watched(int epoll_fd, int operation, int fd, const struct epoll_event *event)
{
  pthread_mutex_lock(&watched.mutex);
  size_t i = 0;
  while (i < watched.count && (watched.items[i].epoll_fd != epoll_fd || watched.items[i].fd != fd))
    i++;
  if (operation == EPOLL_CTL_DEL && i < watched.count) {
    watched.items[i] = watched.items[--watched.count];
  } else if (operation != EPOLL_CTL_DEL && i < WATCHED_MAX) {
    watched.items[i].epoll_fd = epoll_fd;
    watched.items[i].fd = fd;
    watched.items[i].event = *event;
    watched.count = i == watched.count ? i + 1 : watched.count;
  }
  pthread_mutex_unlock(&watched.mutex);
}

static void make_edge(int fd)
{
  pthread_mutex_lock(&watched.mutex);
  for (size_t i = 0; i < watched.count; i++)
    if (watched.items[i].fd == fd)
      NEXT(epoll_ctl)(watched.items[i].epoll_fd, EPOLL_CTL_MOD, fd, &watched.items[i].event);
  pthread_mutex_unlock(&watched.mutex);
}

EXPORT int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
  if (operation != EPOLL_CTL_DEL && FAILS(SET_EPOLL, ENOSPC, "epoll_ctl"))
    return -1; // removing needs nothing
  int result = NEXT(epoll_ctl)(epoll_fd, operation, fd, event);
  if (result == 0)
    note_watched(epoll_fd, operation, fd, event);
  return result;
}

static bool is_kind(int fd, mode_t kind)
{
  struct stat status;
  return NEXT(fstat)(fd, &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

// What of `size` bytes may be transferred: all, 1, or -1 and errno. Only what can happen to the
// descriptor does: an eventfd has no short transfer, and a file does not make one wait.
static ssize_t allowed(uint32_t set, const char *function, void *caller, int fd, size_t size)
{
  if (control == NULL || (control->armed & set) == 0)
    return (ssize_t)size;
  bool is_socket = is_kind(fd, S_IFSOCK);
  int wanted = control->error_number;
  if (!is_socket && wanted != 0 && wanted != EINTR && wanted != EIO && wanted != ENOSPC &&
      !(wanted == ERROR_SHORT && is_kind(fd, S_IFREG)))
    return (ssize_t)size;
  if (!is_socket && (wanted == EIO || wanted == ENOSPC) && !is_kind(fd, S_IFREG))
    return (ssize_t)size;
  int error_number = fault(set, EINTR, function, caller);
  if (error_number == 0)
    return (ssize_t)size;
  if (is_socket && (error_number == ERROR_SHORT || error_number == EAGAIN))
    make_edge(fd);
  if (error_number == ERROR_SHORT)
    return size > 1 ? 1 : (ssize_t)size;
  errno = error_number;
  return -1;
}

#define TRANSFER(name, set, parameters, arguments)                                                 \
  EXPORT ssize_t name parameters                                                                   \
  {                                                                                                \
    ssize_t part = allowed(set, #name, CALLER, fd, size);                                          \
    if (part < 0)                                                                                  \
      return -1;                                                                                   \
    size = (size_t)part;                                                                           \
    return PAUSED(NEXT(name) arguments);                                                           \
  }

TRANSFER(read, SET_READ, (int fd, void *data, size_t size), (fd, data, size))
TRANSFER(recv, SET_READ, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
TRANSFER(pread, SET_READ, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
TRANSFER(pread64, SET_READ, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
TRANSFER(write, SET_WRITE, (int fd, const void *data, size_t size), (fd, data, size))
TRANSFER(send, SET_WRITE, (int fd, const void *data, size_t size, int flags),
         (fd, data, size, flags))
TRANSFER(sendto, SET_WRITE,
         (int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
          socklen_t to_size),
         (fd, data, size, flags, to, to_size))

// The first part that is not empty, cut short.
static struct iovec cut(const struct iovec *parts, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (parts[i].iov_len > 0)
      return (struct iovec){parts[i].iov_base, 1};
  return (struct iovec){NULL, 0};
}

static size_t bytes_of(const struct iovec *parts, size_t count)
{
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += parts[i].iov_len;
  return bytes;
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
  size_t size = bytes_of(parts, (size_t)count);
  ssize_t part = allowed(SET_WRITE, "writev", CALLER, fd, size);
  if (part < 0)
    return -1;
  if ((size_t)part == size)
    return PAUSED(NEXT(writev)(fd, parts, count));
  struct iovec one = cut(parts, (size_t)count);
  return NEXT(writev)(fd, &one, 1);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  size_t size = bytes_of(message->msg_iov, message->msg_iovlen);
  ssize_t part = allowed(SET_WRITE, "sendmsg", CALLER, fd, size);
  if (part < 0)
    return -1;
  if ((size_t)part == size)
    return PAUSED(NEXT(sendmsg)(fd, message, flags));
  struct iovec one = cut(message->msg_iov, message->msg_iovlen);
  struct msghdr shorter = *message;
  shorter.msg_iov = &one;
  shorter.msg_iovlen = 1;
  return NEXT(sendmsg)(fd, &shorter, flags);
}
