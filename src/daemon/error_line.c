// SPDX-License-Identifier: Apache-2.0
// No state.
#include "daemon/error_line.h"

#include "base/table.h"

#include <stdio.h>

static void print(const char *what, const char *code, const char *message)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (what != NULL)
    buffer_append_format(&text, "%s: %s - ", what, code);
  table_append_visible_lines(&text, slice_of(message));
  buffer_append_char(&text, '\0');
  fprintf(stderr, "error: %s\n", text.failed ? "out of memory" : text.data);
}

void error_line_print(const error *e)
{
  print(NULL, NULL, error_message(e));
}

void error_line_print_end(const char *what, const error *e)
{
  print(what, error_code_text(error_get_code(e)), error_message(e));
}
