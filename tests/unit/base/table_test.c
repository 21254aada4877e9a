// SPDX-License-Identifier: Apache-2.0
// Tables for people: widths, wrapped cells, UTF-8.
#include "base/table.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The table of one row below "Model", "Version", "Status". For free().
static char *drawn(size_t width, const char *model, const char *version, const char *status)
{
  table t;
  buffer out = BUFFER_EMPTY;
  table_init(&t, 3, (const char *const[]){"Model", "Version", "Status"});
  table_add(&t, (const char *const[]){model, version, status});
  table_print(&t, width, &out);
  table_fini(&t);
  return buffer_take_text(&out);
}

// Columns of a terminal.
static size_t width_of(const char *line, size_t size)
{
  size_t width = 0;
  for (size_t at = 0, step; at < size; at += step) {
    step = text_utf8_length(line + at, size - at);
    assert_true(step > 0);
    width += table_character_width(line + at, step);
  }
  return width;
}

// All lines are equally wide, and at most `most`.
static void assert_width(const char *text, size_t most)
{
  size_t first = width_of(text, strcspn(text, "\n"));
  assert_true(first <= most);
  for (; *text != '\0'; text += strcspn(text, "\n") + 1)
    assert_int_equal(width_of(text, strcspn(text, "\n")), first);
}

// The cells of a column, one after the other, without blanks.
static char *column_of(const char *text, size_t column)
{
  buffer out = BUFFER_EMPTY;
  for (; *text != '\0'; text += strcspn(text, "\n") + 1) {
    const char *cell = text;
    if (*text != '|')
      continue;
    for (size_t i = 0; i < column; i++)
      cell = strchr(cell + 1, '|');
    for (cell++; *cell != '|'; cell++)
      if (*cell != ' ')
        buffer_append_char(&out, *cell);
  }
  return buffer_take_text(&out);
}

static void what_fits_is_drawn_as_triton_draws_it(void **state)
{
  (void)state;
  const char *expected = "+--------+---------+--------+\n"
                         "| Model  | Version | Status |\n"
                         "+--------+---------+--------+\n"
                         "| simple | 1       | READY  |\n"
                         "+--------+---------+--------+\n";
  for (size_t width = 29; width < 200; width += 57) {
    char *text = drawn(width, "simple", "1", "READY");
    assert_string_equal(text, expected);
    free(text);
  }
  char *text = drawn(0, "simple", "1", "READY");
  assert_string_equal(text, expected);
  free(text);
}

static void a_long_cell_goes_on_in_the_next_line_at_a_blank(void **state)
{
  (void)state;
  char *text = drawn(50, "bad", "1", "UNAVAILABLE: Internal: numpy is needed by Python models");
  assert_string_equal(text, "+-------+---------+------------------------------+\n"
                            "| Model | Version | Status                       |\n"
                            "+-------+---------+------------------------------+\n"
                            "| bad   | 1       | UNAVAILABLE: Internal: numpy |\n"
                            "|       |         | is needed by Python models   |\n"
                            "+-------+---------+------------------------------+\n");
  free(text);
}

static void nothing_is_cut_and_no_line_is_wider(void **state)
{
  (void)state;
  char word[701];
  memset(word, 'x', 700);
  word[700] = '\0';
  static const char *const statuses[] = {
      "", " ", "a b c", "/srv/models/with/a/path/that/has/no/blank/in/it/and/goes/on/for/long",
      "{\"cmdline\":{\"a\":\"b\",\"c\":\"dddddddddddddddddddddddddddddddddddddddddddddd\"}}"};
  for (size_t width = 40; width <= 200; width += 5) {
    for (size_t i = 0; i <= sizeof(statuses) / sizeof(statuses[0]); i++) {
      const char *status = i < 5 ? statuses[i] : word;
      char *text = drawn(width, "a model", "17", status);
      assert_width(text, width);
      char *got = column_of(text, 2);
      char plain[800] = "Status";
      size_t size = strlen(plain);
      for (const char *c = status; *c != '\0'; c++)
        if (*c != ' ')
          plain[size++] = *c;
      plain[size] = '\0';
      assert_string_equal(got, plain);
      free(got);
      free(text);
    }
  }
}

static void the_widest_column_is_narrowed_first(void **state)
{
  (void)state;
  char *text =
      drawn(60, "a_model_of_some_length", "1", "READY, and then some more words that are many");
  assert_non_null(strstr(text, "| a_model_of_some_length | 1       | READY, and"));
  free(text);
}

static void columns_that_cannot_be_narrowed_are_wider(void **state)
{
  (void)state;
  char *text = drawn(5, "a_model_of_some_length", "1", "READY");
  assert_width(text, 1 + 3 * 3 + 8 + 7 + 6);
  char *got = column_of(text, 0);
  assert_string_equal(got, "Modela_model_of_some_length");
  free(got);
  free(text);
}

static void characters_are_not_bytes(void **state)
{
  (void)state;
  char *text = drawn(40, "größe", "1", "日本語のモデルはとても長い名前を持っています");
  assert_width(text, 40);
  char *got = column_of(text, 2);
  assert_string_equal(got, "Status日本語のモデルはとても長い名前を持っています");
  free(got);
  free(text);
  assert_int_equal(table_character_width("a", 1), 1);
  assert_int_equal(table_character_width("é", 2), 1);
  assert_int_equal(table_character_width("\xcc\x81", 2), 0); // combining
  assert_int_equal(table_character_width("語", 3), 2);
  assert_int_equal(table_character_width("😀", 4), 2);
}

static void what_steers_a_terminal_is_a_blank_and_what_is_no_utf8_a_question_mark(void **state)
{
  (void)state;
  char *text = drawn(80, "a\x1b[2Jb\nc\x7f",
                     "\xc2\x9b"
                     "x\xe2\x80\xae",
                     "\xff\xc3");
  assert_non_null(strstr(text, "| a [2Jb c  |"));
  assert_non_null(strstr(text, "|  x      |"));
  assert_non_null(strstr(text, "| ??     |"));
  free(text);
}

static void lines_stay_lines(void **state)
{
  (void)state;
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  table_append_visible_lines(&out, slice_of("a\x1b[2Jb\n\n  c\r\n"));
  assert_true(slice_equal_text(buffer_view(&out), "a [2Jb\n\n  c \n"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_fits_is_drawn_as_triton_draws_it),
      cmocka_unit_test(a_long_cell_goes_on_in_the_next_line_at_a_blank),
      cmocka_unit_test(nothing_is_cut_and_no_line_is_wider),
      cmocka_unit_test(the_widest_column_is_narrowed_first),
      cmocka_unit_test(columns_that_cannot_be_narrowed_are_wider),
      cmocka_unit_test(characters_are_not_bytes),
      cmocka_unit_test(what_steers_a_terminal_is_a_blank_and_what_is_no_utf8_a_question_mark),
      cmocka_unit_test(lines_stay_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
