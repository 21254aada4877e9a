// SPDX-License-Identifier: Apache-2.0
// Quotes words for a shell, in command lines that people copy. Any thread; no state.
#ifndef NEREID_DAEMON_SHELL_WORDS_H
#define NEREID_DAEMON_SHELL_WORDS_H

#include "base/buffer.h"

// In single quotes.
void shell_append_quoted(buffer *out, slice text);

// Unquoted where no quotes are needed. Characters that a terminal must not receive become escapes
// in bash's $'\x1b'.
void shell_append_word(buffer *out, const char *word);

#endif
