// SPDX-License-Identifier: Apache-2.0
// See error_line.h. No state.
#include "daemon/error_line.h"

#include "base/table.h"

#include <stdio.h>

void error_line_print(const error *e)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  table_append_visible_lines(&text, slice_of(error_message(e)));
  buffer_append_char(&text, '\0');
  fprintf(stderr, "error: %s\n", text.failed ? "out of memory" : text.data);
}
