// SPDX-License-Identifier: Apache-2.0
// What every program of a build with sanitizers tells them, whoever starts it; ASAN_OPTIONS and
// TSAN_OPTIONS come after.

// Without this they guess where a thread's variables of a library that was opened are. Such a block
// at 16 bytes behind the begin of a page is taken for one of an old glibc: GCC 12 then reads its
// place and its size from what lies before it. ThreadSanitizer clears what that says, or ends the
// process ("failed to allocate"); LeakSanitizer reads it ("has encountered a fatal error"). The
// blocks come from malloc(), which both see in any case.
#define OPTIONS "intercept_tls_get_addr=0"

__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
  return OPTIONS;
}

const char *__tsan_default_options(void)
{
  return OPTIONS;
}
