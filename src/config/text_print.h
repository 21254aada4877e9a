// SPDX-License-Identifier: Apache-2.0
// A configuration as protobuf's text format, a line at a time. What it prints reads back to the
// same configuration (config_read_text). Any thread.
#ifndef NEREID_CONFIG_TEXT_PRINT_H
#define NEREID_CONFIG_TEXT_PRINT_H

#include "config/config.h"

// One line, without its end. A line of a value has its path as a source_map does, of a list of
// scalars that of the first; others have "".
typedef struct config_line {
  slice text; // with blanks before it
  slice value;
  const char *path;
} config_line;

typedef void config_line_visitor(void *context, const config_line *line);

// Visits every line. False when memory is short: lines may be missing then.
bool config_visit_lines(const Inference__ModelConfig *config, config_line_visitor *visit,
                        void *context);

#endif
