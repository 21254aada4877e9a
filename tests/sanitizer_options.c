// SPDX-License-Identifier: Apache-2.0
// The sanitizers' defaults in every program of a build with sanitizers. ASAN_OPTIONS and
// TSAN_OPTIONS come after them.

// A library that is opened has a block of variables for each thread, which the sanitizers look for.
// GCC 12's take a block at 16 bytes behind the begin of a page for one of an old glibc, and read
// its address and its size from whatever lies before it. ThreadSanitizer then clears that memory,
// or ends the process ("failed to allocate"); LeakSanitizer reads it ("has encountered a fatal
// error"). They need not look: the blocks come from malloc(), which they see in any case.
#define OPTIONS "intercept_tls_get_addr=0"

__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

// Another library may be preloaded before ASan's (tests/fakes/late.c). Undefined behaviour is an
// illegal instruction on x86-64, a breakpoint on aarch64 (NereidHardening.cmake).
const char *__asan_default_options(void)
{
  return OPTIONS ":verify_asan_link_order=0:handle_sigill=1:handle_sigtrap=1";
}

const char *__tsan_default_options(void)
{
  return OPTIONS;
}
