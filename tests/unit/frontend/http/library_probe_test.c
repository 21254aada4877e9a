// SPDX-License-Identifier: Apache-2.0
// The start's look at libmicrohttpd: the one that is installed passes, one that reads requests in
// another way is named.
#include "frontend/http/transport/library_probe.h"

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

static bool loses_lengths; // as a library does that takes a field for something else

typedef struct filter {
  MHD_KeyValueIteratorN take;
  void *context;
} filter;

static enum MHD_Result pass_on(void *filter_pointer, enum MHD_ValueKind kind, const char *name,
                               size_t name_size, const char *value, size_t value_size)
{
  const filter *f = filter_pointer;
  if (strcmp(name, "Content-Length") == 0)
    return MHD_YES;
  return f->take(f->context, kind, name, name_size, value, value_size);
}

// In the place of libmicrohttpd's.
int MHD_get_connection_values_n(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                                MHD_KeyValueIteratorN take, void *context)
{
  values_call *next = (values_call *)dlsym(RTLD_NEXT, "MHD_get_connection_values_n");
  filter f = {.take = take, .context = context};
  return loses_lengths ? next(mhd, kind, pass_on, &f) : next(mhd, kind, take, context);
}

static void the_installed_library_is_known(void **state)
{
  (void)state;
  library_traits traits;
  error *e = library_probe(&traits);
  assert_null(e);
}

static void another_way_of_reading_is_an_error(void **state)
{
  (void)state;
  library_traits traits;
  loses_lengths = true;
  error *e = library_probe(&traits);
  loses_lengths = false;
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_UNAVAILABLE);
  assert_non_null(strstr(error_message(e), MHD_get_version()));
  assert_non_null(strstr(error_message(e), "a body with a length"));
  error_free(e);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_installed_library_is_known),
      cmocka_unit_test(another_way_of_reading_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
