// SPDX-License-Identifier: Apache-2.0
// Prints a configuration in protobuf's text format, line by line. config_read_text reads it back to
// the same configuration. Any thread.
#ifndef NEREID_CONFIG_TEXT_PRINT_H
#define NEREID_CONFIG_TEXT_PRINT_H

#include "config/config.h"

// One line, without its end. The path of a value's line is as in a source_map; for a list of
// scalars it is the path of the first; for other lines "".
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
