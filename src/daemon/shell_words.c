// SPDX-License-Identifier: Apache-2.0
// Quoting.
#include "daemon/shell_words.h"

#include "base/table.h"

#include <string.h>

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+"

void shell_append_quoted(buffer *out, slice text)
{
  buffer_append_char(out, '\'');
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] == '\'')
      buffer_append_text(out, "'\\''");
    else
      buffer_append_char(out, text.data[i]);
  buffer_append_char(out, '\'');
}

static void append_escaped(buffer *out, slice text)
{
  buffer_append_text(out, "$'");
  for (size_t i = 0; i < text.size; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c < 0x20 || c >= 0x7f)
      buffer_append_format(out, "\\x%02x", c);
    else if (c == '\'' || c == '\\')
      buffer_append_format(out, "\\%c", c);
    else
      buffer_append_char(out, (char)c);
  }
  buffer_append_char(out, '\'');
}

void shell_append_word(buffer *out, const char *word)
{
  const slice text = slice_of(word);
  AUTO_BUFFER buffer visible = BUFFER_EMPTY;
  if (text.size > 0 && strspn(word, PLAIN) == text.size) {
    buffer_append_slice(out, text);
    return;
  }
  table_append_visible(&visible, text);
  out->failed = out->failed || visible.failed;
  if (slice_equal(buffer_view(&visible), text))
    shell_append_quoted(out, text);
  else
    append_escaped(out, text);
}
