// SPDX-License-Identifier: Apache-2.0
// The start's look at how libmicrohttpd keeps the heads of requests: the one that is installed
// passes, one that keeps them in another way is named.
#include "frontend/http/transport/head_probe.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef int values_call(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                        MHD_KeyValueIteratorN take, void *context);

static bool moves_fields; // as a library does that copies each name and value out of its buffer

typedef struct moved {
  MHD_KeyValueIteratorN take;
  void *context;
  char memory[4096];
  size_t used;
} moved;

static char *copy(moved *m, const char *text, size_t size)
{
  char *to = m->memory + m->used;
  assert_true(m->used + size + 2 <= sizeof(m->memory));
  memcpy(to, text, size);
  to[size] = '\0';
  to[size + 1] = 'x';
  m->used += size + 2;
  return to;
}

static enum MHD_Result move(void *moved_pointer, enum MHD_ValueKind kind, const char *name,
                            size_t name_size, const char *value, size_t value_size)
{
  moved *m = moved_pointer;
  char *copied_name = copy(m, name, name_size);
  char *copied_value = copy(m, value, value_size);
  return m->take(m->context, kind, copied_name, name_size, copied_value, value_size);
}

// In the place of libmicrohttpd's.
int MHD_get_connection_values_n(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                                MHD_KeyValueIteratorN take, void *context)
{
  values_call *next = (values_call *)dlsym(RTLD_NEXT, "MHD_get_connection_values_n");
  moved m = {.take = take, .context = context};
  return moves_fields ? next(mhd, kind, move, &m) : next(mhd, kind, take, context);
}

static void the_installed_library_is_known(void **state)
{
  (void)state;
  error *e = head_probe();
  assert_null(e);
}

static void another_way_of_keeping_heads_is_an_error(void **state)
{
  (void)state;
  moves_fields = true;
  error *e = head_probe();
  moves_fields = false;
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_UNAVAILABLE);
  assert_non_null(strstr(error_message(e), MHD_get_version()));
  assert_non_null(strstr(error_message(e), "blanks around values"));
  error_free(e);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_installed_library_is_known),
      cmocka_unit_test(another_way_of_keeping_heads_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
