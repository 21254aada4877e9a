// SPDX-License-Identifier: Apache-2.0
// The log's lines, whatever is in them and wherever they go.
#include "base/log.h"

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/nereid-log-test-XXXXXX";
static char content[1 << 16];

// What was written since the last time, and nothing else after.
static const char *take_written(void)
{
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t size = fread(content, 1, sizeof(content) - 1, file);
  fclose(file);
  content[size] = '\0';
  assert_int_equal(truncate(path, 0), 0);
  return content;
}

static size_t count_lines(const char *text)
{
  size_t count = 0;
  for (; *text != '\0'; text++)
    count += *text == '\n';
  return count;
}

static const log_subject everything = {
    .request_id = "a\"b\n", .model = "m", .version = 3, .instance = "m_0_1"};

static void text_formats_name_the_request_in_front(void **state)
{
  (void)state;
  log_set_format(LOG_FORMAT_DEFAULT);
  log_write(LOG_LEVEL_ERROR, "x.c", 7, &everything, SLICE("it broke"));
  const char *line = take_written();
  assert_int_equal(line[0], 'E');
  assert_non_null(strstr(line, " x.c:7] \"[request id: a\\\"b\\n, model 'm' version 3, instance "
                               "'m_0_1'] it broke\"\n"));
  const log_subject unknown = {.request_id = "", .model = "m"};
  log_write(LOG_LEVEL_INFO, "x.c", 7, &unknown, SLICE("t"));
  assert_non_null(strstr(take_written(), "\"[request id: <id_unknown>, model 'm'] t\"\n"));
  const log_subject no_request = {.model = "m", .instance = "i"};
  log_set_format(LOG_FORMAT_ISO8601);
  log_write(LOG_LEVEL_INFO, "x.c", 7, &no_request, SLICE("t"));
  assert_non_null(strstr(take_written(), " x.c:7] \"t\"\n"));
}

static void json_lines_have_a_key_for_each_thing(void **state)
{
  (void)state;
  static const char *const keys[] = {"ts",         "level", "pid",     "source",  "message",
                                     "request_id", "model", "version", "instance"};
  log_set_format(LOG_FORMAT_JSON);
  log_write(LOG_LEVEL_WARNING, "x.c", 7, &everything, SLICE("it\nbroke"));
  json_t *line = json_loads(take_written(), 0, NULL);
  assert_non_null(line);
  assert_int_equal(json_object_size(line), sizeof(keys) / sizeof(keys[0]));
  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
    assert_non_null(json_object_get(line, keys[i]));
  assert_string_equal(json_string_value(json_object_get(line, "level")), "warning");
  assert_string_equal(json_string_value(json_object_get(line, "source")), "x.c:7");
  assert_string_equal(json_string_value(json_object_get(line, "message")), "it\nbroke");
  assert_string_equal(json_string_value(json_object_get(line, "request_id")), "a\"b\n");
  assert_int_equal(json_integer_value(json_object_get(line, "version")), 3);
  json_decref(line);
  log_write(LOG_LEVEL_WARNING, "x.c", 7, NULL, SLICE("t"));
  line = json_loads(take_written(), 0, NULL);
  assert_int_equal(json_object_size(line), 5);
  json_decref(line);
}

static void every_byte_anywhere_is_one_line(void **state)
{
  (void)state;
  for (int format = LOG_FORMAT_DEFAULT; format <= LOG_FORMAT_JSON; format++) {
    log_set_format((log_format)format);
    for (int byte = 0; byte < 256; byte++) {
      char text[] = {'x', (char)byte, 'y', '\0'};
      const log_subject subject = {.request_id = text, .model = text, .instance = text};
      log_write(LOG_LEVEL_INFO, text, 1, &subject, (slice){text, 3});
      const char *line = take_written();
      assert_int_equal(count_lines(line), 1);
      for (const char *c = line; c[1] != '\0'; c++)
        assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
      json_t *json =
          format == LOG_FORMAT_JSON ? json_loads(line, JSON_ALLOW_NUL, NULL) : json_null();
      assert_non_null(json);
      json_decref(json);
    }
  }
}

static void characters_that_end_a_line_for_somebody_are_escaped(void **state)
{
  (void)state;
  for (int format = LOG_FORMAT_DEFAULT; format <= LOG_FORMAT_JSON; format++) {
    log_set_format((log_format)format);
    log_write(LOG_LEVEL_INFO, "x.c", 1, NULL,
              SLICE("a\xc2\x85z\xc2\x9b\xe2\x80\xa8\xe2\x80\xa9\xc2\xa0\xc3\xa9"));
    assert_non_null(strstr(take_written(), "\"a\\u0085z\\u009b\\u2028\\u2029\xc2\xa0\xc3\xa9\""));
  }
}

// U+202E would have a terminal show the rest of the line backwards.
static void characters_that_turn_the_direction_are_escaped_and_no_others(void **state)
{
  static const unsigned turning[] = {0x61c,  0x200e, 0x200f, 0x202a, 0x202b, 0x202c,
                                     0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};
  (void)state;
  log_set_format(LOG_FORMAT_DEFAULT);
  for (unsigned code = 0x600, next = 0; code < 0x2100; code++) {
    char text[4] = "";
    char last = (char)(0x80 | (code & 0x3f)), middle = (char)(0x80 | (code >> 6 & 0x3f));
    if (code < 0x800)
      memcpy(text, (char[]){(char)(0xc0 | code >> 6), last}, 2);
    else
      memcpy(text, (char[]){(char)(0xe0 | code >> 12), middle, last}, 3);
    char escaped[16];
    snprintf(escaped, sizeof(escaped), "\"\\u%04x\"", code);
    bool turns = next < sizeof(turning) / sizeof(turning[0]) && turning[next] == code;
    next += turns;
    log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, slice_of(text));
    bool ends = code == 0x2028 || code == 0x2029;
    const char *line = take_written();
    assert_int_equal(strstr(line, escaped) != NULL, turns || ends);
    assert_int_equal(strstr(line, text) == NULL, turns || ends);
  }
}

static void a_table_is_one_line_of_json(void **state)
{
  (void)state;
  log_set_format(LOG_FORMAT_JSON);
  log_write_table(LOG_LEVEL_INFO, "x.c", 1, SLICE("+--+\n|ab|\n+--+\n"));
  const char *line = take_written();
  assert_int_equal(count_lines(line), 1);
  json_t *json = json_loads(line, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(json, "message")), "+--+\n|ab|\n+--+\n");
  json_decref(json);
}

static void a_full_disk_costs_lines_and_cuts_one(void **state)
{
  (void)state;
  struct rlimit before, full = {100, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  log_set_format(LOG_FORMAT_JSON);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  full.rlim_max = before.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
  uint64_t dropped = log_dropped_lines();
  for (int i = 0; i < 3; i++)
    log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, SLICE("a text that makes the line a long one"));
  assert_int_equal(log_dropped_lines() - dropped, 3);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, SLICE("room"));
  const char *lines = take_written();
  assert_int_equal(count_lines(lines), 2); // the one that was cut, and the new one
  json_t *json = json_loads(strchr(lines, '\n') + 1, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(json, "message")), "room");
  json_decref(json);
  assert_int_equal(log_dropped_lines() - dropped, 3);
}

static void the_same_path_again_is_a_new_file(void **state)
{
  (void)state;
  char moved[sizeof(path) + 2], now[LOG_PATH_BYTES];
  snprintf(moved, sizeof(moved), "%s.1", path);
  log_set_format(LOG_FORMAT_DEFAULT);
  log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, SLICE("old"));
  assert_int_equal(rename(path, moved), 0);
  log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, SLICE("still old"));
  assert_null(log_set_file(path));
  log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, SLICE("new"));
  assert_int_equal(count_lines(take_written()), 1);
  error *e = log_set_file("/no/such/directory/log");
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  error_free(e);
  log_get_file(now);
  assert_string_equal(now, path);
  log_write(LOG_LEVEL_INFO, "x.c", 1, NULL, SLICE("here still"));
  assert_int_equal(count_lines(take_written()), 1);
  unlink(moved);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_formats_name_the_request_in_front),
      cmocka_unit_test(json_lines_have_a_key_for_each_thing),
      cmocka_unit_test(every_byte_anywhere_is_one_line),
      cmocka_unit_test(characters_that_end_a_line_for_somebody_are_escaped),
      cmocka_unit_test(characters_that_turn_the_direction_are_escaped_and_no_others),
      cmocka_unit_test(a_table_is_one_line_of_json),
      cmocka_unit_test(a_full_disk_costs_lines_and_cuts_one),
      cmocka_unit_test(the_same_path_again_is_a_new_file),
  };
  int file = mkstemp(path);
  if (file < 0)
    return 1;
  close(file);
  error *e = log_set_file(path);
  error_free(e);
  int failed = e != NULL ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
  error_free(log_set_file(NULL));
  unlink(path);
  return failed;
}
