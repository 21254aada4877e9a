// SPDX-License-Identifier: Apache-2.0
// Words as a shell reads them, for lines that people copy. Any thread; no state.
#ifndef NEREID_DAEMON_SHELL_WORDS_H
#define NEREID_DAEMON_SHELL_WORDS_H

#include "base/buffer.h"

// In single quotes.
void shell_append_quoted(buffer *out, slice text);

// Plain where that is the same; with what a terminal must not be shown as bash's $'\x1b'.
void shell_append_word(buffer *out, const char *word);

#endif
