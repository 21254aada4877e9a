// SPDX-License-Identifier: Apache-2.0
// Landlock: limits the files that a worker may reach, and the processes that it may signal or
// inspect. The C library has no functions for these system calls, and headers older than the kernel
// lack the newer names, so they are defined here.
#include "launcher.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct ruleset_attributes {
  uint64_t files, network, scoped;
} ruleset_attributes;

typedef struct __attribute__((packed)) rule_attributes {
  uint64_t allowed;
  int32_t parent;
} rule_attributes;

#define ASK_VERSION       1
#define RULE_PATH_BENEATH 1

// ---- rights

#define RIGHT(bit) (UINT64_C(1) << (bit))

static const uint64_t EXECUTE = RIGHT(0), WRITE_FILE = RIGHT(1), READ_FILE = RIGHT(2),
                      READ_DIR = RIGHT(3), MAKE_CHARACTER = RIGHT(6), MAKE_BLOCK = RIGHT(11),
                      REFER = RIGHT(13), TRUNCATE = RIGHT(14), DEVICE_IOCTL = RIGHT(15);
static const uint64_t ALL_OF_VERSION_3 = RIGHT(15) - 1, BIND_AND_CONNECT = 3,
                      ABSTRACT_SOCKETS = RIGHT(0), SIGNALS = RIGHT(1);

#define WITH_REFER        2 // versions of the interface
#define WITH_TRUNCATE     3
#define WITH_NETWORK      4
#define WITH_DEVICE_IOCTL 5
#define WITH_SCOPES       6

// Directories that programs and libraries expect on any machine. Missing ones are skipped.
static const char *const SYSTEM_DIRS[] = {"/usr",
                                          "/bin",
                                          "/sbin",
                                          "/lib",
                                          "/lib32",
                                          "/lib64",
                                          "/libx32",
                                          "/etc/alternatives",
                                          "/etc/fonts",
                                          "/etc/ssl/certs",
                                          "/etc/ld.so.conf.d",
                                          "/sys/devices/system/cpu",
                                          "/sys/devices/system/node"};
static const char *const SYSTEM_FILES[] = {"/etc/ld.so.cache",
                                           "/etc/ld.so.conf",
                                           "/etc/ld.so.preload",
                                           "/etc/localtime",
                                           "/etc/timezone",
                                           "/etc/locale.alias",
                                           "/etc/os-release",
                                           "/etc/mime.types",
                                           "/proc/cpuinfo",
                                           "/proc/meminfo",
                                           "/proc/stat",
                                           "/proc/filesystems",
                                           "/proc/sys/vm/overcommit_memory",
                                           "/dev/random",
                                           "/dev/urandom",
                                           "/dev/zero",
                                           "/dev/full"};

static int interface_version(void)
{
  return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
}

static int new_ruleset(const ruleset_attributes *wanted, int version)
{
  size_t size = version >= WITH_SCOPES    ? sizeof(*wanted)
                : version >= WITH_NETWORK ? 2 * sizeof(uint64_t)
                                          : sizeof(uint64_t);
  int ruleset = (int)syscall(SYS_landlock_create_ruleset, wanted, size, 0);
  if (ruleset < 0)
    launcher_fail(errno, "cannot make rules of files (Landlock)");
  return ruleset;
}

// For a file, rights of directories are left out. False: the path does not exist.
static bool allow(int ruleset, const char *path, uint64_t rights, uint64_t handled)
{
  struct stat status;
  int file = open(path, O_PATH | O_CLOEXEC);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR))
    return false;
  if (file < 0 || fstat(file, &status) != 0)
    launcher_fail(errno, "cannot open '%s'", path);
  if (!S_ISDIR(status.st_mode))
    rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_IOCTL;
  rule_attributes rule = {.allowed = rights & handled, .parent = file};
  if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) != 0)
    launcher_fail(errno, "cannot allow '%s' (Landlock)", path);
  close(file);
  return true;
}

static void enforce(int ruleset)
{
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
    launcher_fail(errno, "cannot enforce rules of files (Landlock)");
  close(ruleset);
}

// ---- standard

// No rules for files. But a process under Landlock can neither trace nor read the memory of a
// process that is not under it, whoever owns that. Kernels without Landlock have the other means.
static void restrict_standard(int version)
{
  if (version < WITH_REFER)
    return;
  ruleset_attributes wanted = {0};
  if (version >= WITH_SCOPES)
    wanted.scoped = SIGNALS;
  else // renaming between directories is refused unless a rule allows it
    wanted.files = MAKE_BLOCK | REFER;
  int ruleset = new_ruleset(&wanted, version);
  if (wanted.files != 0 && !allow(ruleset, "/", wanted.files, wanted.files))
    launcher_fail(0, "cannot open '/'");
  enforce(ruleset);
}

// ---- strict

static void allow_system(int ruleset, uint64_t handled)
{
  const uint64_t reading = EXECUTE | READ_FILE | READ_DIR;
  char own[32];
  for (size_t i = 0; i < sizeof(SYSTEM_DIRS) / sizeof(SYSTEM_DIRS[0]); i++)
    allow(ruleset, SYSTEM_DIRS[i], reading, handled);
  for (size_t i = 0; i < sizeof(SYSTEM_FILES) / sizeof(SYSTEM_FILES[0]); i++)
    allow(ruleset, SYSTEM_FILES[i], READ_FILE, handled);
  // its own number never changes; thread names are written here
  snprintf(own, sizeof(own), "/proc/%d", (int)getpid());
  if (!allow(ruleset, own, READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE, handled))
    launcher_fail(0, "sandbox strict needs /proc");
  allow(ruleset, "/dev/null", READ_FILE | WRITE_FILE | TRUNCATE, handled);
}

static void restrict_strict(const launcher_options *options, int version)
{
  if (version < WITH_TRUNCATE)
    launcher_fail(version < 0 ? errno : 0,
                  "sandbox strict needs Landlock of version 3 (Linux 6.2); this kernel has %d",
                  version < 0 ? 0 : version);
  ruleset_attributes wanted = {.files = ALL_OF_VERSION_3};
  if (version >= WITH_DEVICE_IOCTL)
    wanted.files |= DEVICE_IOCTL;
  if (version >= WITH_NETWORK)
    wanted.network = BIND_AND_CONNECT;
  if (version >= WITH_SCOPES)
    wanted.scoped = SIGNALS | ABSTRACT_SOCKETS;
  int ruleset = new_ruleset(&wanted, version);
  allow_system(ruleset, wanted.files);
  for (size_t i = 0; i < options->read.count; i++)
    if (!allow(ruleset, options->read.items[i], EXECUTE | READ_FILE | READ_DIR, wanted.files))
      launcher_fail(ENOENT, "--read: '%s'", options->read.items[i]);
  for (size_t i = 0; i < options->devices.count; i++)
    if (!allow(ruleset, options->devices.items[i], READ_FILE | READ_DIR | WRITE_FILE | DEVICE_IOCTL,
               wanted.files))
      launcher_fail(ENOENT, "--device: '%s'", options->devices.items[i]);
  if (!allow(ruleset, LAUNCHER_SCRATCH, wanted.files & ~(EXECUTE | MAKE_BLOCK | MAKE_CHARACTER),
             wanted.files))
    launcher_fail(ENOENT, "sandbox strict needs %s", LAUNCHER_SCRATCH);
  enforce(ruleset);
}

void launcher_restrict_files(const launcher_options *options)
{
  int version = interface_version();
  if (options->strict)
    restrict_strict(options, version);
  else
    restrict_standard(version);
}
