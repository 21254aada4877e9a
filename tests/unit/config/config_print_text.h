// SPDX-License-Identifier: Apache-2.0
// A whole configuration as text, with config_visit_lines. For tests and fuzz targets.
#ifndef NEREID_TESTS_CONFIG_PRINT_TEXT_H
#define NEREID_TESTS_CONFIG_PRINT_TEXT_H

#include "config/text_print.h"

static void add_line(void *text, const config_line *line)
{
  buffer_append_slice(text, line->text);
  buffer_append_char(text, '\n');
}

static error *config_print_text(const Inference__ModelConfig *config, buffer *out)
{
  return config_visit_lines(config, add_line, out) && !out->failed ? NULL : error_no_memory();
}

#endif
