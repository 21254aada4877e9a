// SPDX-License-Identifier: Apache-2.0
// Excerpts of sources, and configurations printed as text.
#include "base/text.h"
#include "check/excerpt.h"
#include "config/text_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- excerpts ----

static void assert_excerpt(const char *text, source_place place, const char *line,
                           const char *carets)
{
  AUTO_BUFFER buffer shown = BUFFER_EMPTY;
  AUTO_BUFFER buffer below = BUFFER_EMPTY;
  excerpt_source source = {.text = slice_of(text)};
  excerpt_print(&source, place, &shown, &below);
  buffer_append_char(&shown, '\0');
  buffer_append_char(&below, '\0');
  assert_string_equal(shown.data, line);
  assert_string_equal(below.data, carets);
}

#define PLACE(line, column, length) ((source_place){line, column, length})

static void carets_stand_below_what_is_meant(void **state)
{
  (void)state;
  assert_excerpt("a: 1\nbcd: 2\r\n", PLACE(1, 1, 1), "a: 1", "^");
  assert_excerpt("a: 1\nbcd: 2\r\n", PLACE(2, 1, 3), "bcd: 2", "^~~");
  assert_excerpt("a: 1\nbcd: 2\r\n", PLACE(2, 6, 1), "bcd: 2", "     ^");
}

static void tabs_are_as_wide_as_the_reader_counts_them(void **state)
{
  (void)state;
  assert_excerpt("\tab\tc", PLACE(1, 9, 2), "        ab      c", "        ^~");
  assert_excerpt("\tab\tc", PLACE(1, 17, 1), "        ab      c", "                ^");
}

static void wide_characters_move_the_carets(void **state)
{
  (void)state;
  assert_excerpt("é: x", PLACE(1, 5, 1), "é: x", "   ^");          // é has two bytes
  assert_excerpt("日本: x", PLACE(1, 9, 1), "日本: x", "      ^"); // three each, and two columns
  assert_excerpt("日本: x", PLACE(1, 4, 3), "日本: x", "  ^~");
}

static void what_a_terminal_obeys_is_not_shown(void **state)
{
  (void)state;
  assert_excerpt("\033[31m \xc2\x9b \xff \xe2\x80\xae x", PLACE(1, 16, 1), " [31m   ?   x",
                 "            ^");
}

static void what_ends_early_has_a_caret_behind_it(void **state)
{
  (void)state;
  assert_excerpt("input {", PLACE(1, 8, 1), "input {", "       ^");
  assert_excerpt("input {\nb", PLACE(1, 50, 9), "input {", "       ^");
  assert_excerpt("input {\n", PLACE(2, 1, 1), "", "^");
  assert_excerpt("input {", PLACE(2, 1, 1), "", "");
  assert_excerpt("", PLACE(1, 1, 1), "", "");
  assert_excerpt("input {", PLACE(0, 0, 0), "", "");
  assert_excerpt("name: \"abc\nx", PLACE(1, 7, 400), "name: \"abc", "      ^~~~");
}

static void of_a_long_line_a_part_is_shown(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  AUTO_BUFFER buffer carets = BUFFER_EMPTY;
  for (size_t i = 0; i < 100000; i++)
    buffer_append_text(&text, "é ");
  excerpt_source source = {.text = buffer_view(&text)};
  excerpt_print(&source, PLACE(1, 150001, 2), &line, &carets);
  assert_true(line.size < 200 && carets.size < 101);
  assert_memory_equal(line.data, "…", strlen("…"));
  assert_memory_equal(line.data + line.size - strlen("…"), "…", strlen("…"));
  assert_int_equal(carets.data[carets.size - 1], '^');
  for (size_t i = 0, size; i < line.size; i += size)
    assert_true((size = text_utf8_length(line.data + i, line.size - i)) > 0);
}

static void excerpts_may_be_asked_for_in_any_order(void **state)
{
  (void)state;
  static const struct {
    unsigned line, column;
    const char *shown, *carets;
  } asked[] = {{3, 2, "cd", " ^"},
               {1, 1, "ab", "^"},
               {1, 2, "ab", " ^"},
               {1, 1, "ab", "^"},
               {3, 1, "cd", "^"}};
  excerpt_source source = {.text = slice_of("ab\n\ncd")};
  for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
    AUTO_BUFFER buffer line = BUFFER_EMPTY;
    AUTO_BUFFER buffer carets = BUFFER_EMPTY;
    excerpt_print(&source, PLACE(asked[i].line, asked[i].column, 1), &line, &carets);
    assert_true(slice_equal_text(buffer_view(&line), asked[i].shown));
    assert_true(slice_equal_text(buffer_view(&carets), asked[i].carets));
  }
}

// ---- text ----

static void add_line(void *context, const config_line *line)
{
  buffer *out = context;
  buffer_append_slice(out, line->text);
  if (line->path[0] != '\0')
    buffer_append_format(out, " # %s", line->path);
  buffer_append_char(out, '\n');
}

static Inference__ModelConfig *read_text(const char *text)
{
  Inference__ModelConfig *config = NULL;
  error *e = config_read_text(slice_of(text), "config.pbtxt", &config);
  if (e != NULL)
    fail_msg("%s", error_message(e));
  return config;
}

static const char full[] =
    "name: \"a\\\"b\\\\\\n\\001é\"\nmax_batch_size: 4\n"
    "input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 3 ] reshape { shape: [ ] } }\n"
    "dynamic_batching { priority_levels: 2 priority_queue_policy { key: 2 value { "
    "max_queue_size: 7 } } }\n"
    "instance_group { count: 2 kind: KIND_CPU gpus: [ 1, 2 ] }\n"
    "parameters { key: \"k\" value { string_value: \"v\" } }\n"
    "metric_tags { key: \"t\" value: \"1\" } metric_tags { key: \"\" value: \"\" }\n"
    "optimization { priority: PRIORITY_MAX input_pinned_memory { enable: true } }\n";

static void what_is_printed_reads_back_the_same(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config = read_text(full);
  assert_true(config_visit_lines(config, add_line, &text));
  buffer_append_char(&text, '\0');
  AUTO_CONFIG Inference__ModelConfig *again = read_text(text.data);
  assert_true(config_equal_but_policy(config, again));
}

static void lines_have_the_paths_of_the_source_map(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config = read_text(full);
  AUTO_CONFIG Inference__ModelConfig *mapped = NULL;
  AUTO_SOURCE_MAP source_map map = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  assert_null(config_read_text_all(slice_of(full), &map, &found, &mapped));
  assert_true(config_visit_lines(config, add_line, &text));
  buffer_append_char(&text, '\0');
  size_t values = 0;
  for (char *line = text.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    const char *path = strstr(line, " # ");
    if (path == NULL)
      continue;
    values++;
    if (source_map_find_exact(&map, path + 3).line == 0)
      fail_msg("no place of %s", line);
  }
  assert_int_equal(values, 19);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(carets_stand_below_what_is_meant),
      cmocka_unit_test(tabs_are_as_wide_as_the_reader_counts_them),
      cmocka_unit_test(wide_characters_move_the_carets),
      cmocka_unit_test(what_a_terminal_obeys_is_not_shown),
      cmocka_unit_test(what_ends_early_has_a_caret_behind_it),
      cmocka_unit_test(of_a_long_line_a_part_is_shown),
      cmocka_unit_test(excerpts_may_be_asked_for_in_any_order),
      cmocka_unit_test(what_is_printed_reads_back_the_same),
      cmocka_unit_test(lines_have_the_paths_of_the_source_map),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
