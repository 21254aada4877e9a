// SPDX-License-Identifier: Apache-2.0
// Trace contexts as text: see trace_context.h.
#include "frontend/trace/trace_context.h"

#include "base/text.h"

#include <string.h>
#include <sys/random.h>

static bool any_set(const uint8_t *bytes, size_t count)
{
  uint8_t all = 0;
  for (size_t i = 0; i < count; i++)
    all |= bytes[i];
  return all != 0;
}

// "00-<32 digits>-<16 digits>-01": offsets of its parts.
#define TRACE_AT          3
#define SPAN_AT           36
#define TRACEPARENT_BYTES 55

// Lower case only, as the standard says.
static bool is_lower_hex(slice text)
{
  bool hex = true;
  for (size_t i = 0; i < text.size; i++)
    hex = hex && text_hex_digit(text.data[i]) >= 0 && (text.data[i] < 'A' || text.data[i] > 'F');
  return hex;
}

// Reads 2 * count digits, which a dash must follow. False: malformed, or only zeroes.
static bool read_hex_id(const char *text, size_t count, uint8_t *bytes)
{
  bool valid = is_lower_hex((slice){text, 2 * count}) && text[2 * count] == '-';
  for (size_t i = 0; valid && i < count; i++)
    bytes[i] = (uint8_t)(text_hex_digit(text[2 * i]) * 16 + text_hex_digit(text[2 * i + 1]));
  return valid && any_set(bytes, count);
}

bool trace_context_read(slice text, trace_context_ids *ids)
{
  trace_context_ids found;
  if (text.size < TRACEPARENT_BYTES)
    return false;
  slice version = {text.data, 2}, flags = {text.data + TRACEPARENT_BYTES - 2, 2};
  // Later versions may append fields after a dash.
  bool whole = text.size == TRACEPARENT_BYTES ||
               (!slice_equal_text(version, "00") && text.data[TRACEPARENT_BYTES] == '-');
  bool valid = whole && is_lower_hex(version) && !slice_equal_text(version, "ff") &&
               text.data[2] == '-' && is_lower_hex(flags) &&
               read_hex_id(text.data + TRACE_AT, sizeof(found.trace), found.trace) &&
               read_hex_id(text.data + SPAN_AT, sizeof(found.parent), found.parent.bytes);
  if (valid)
    *ids = found;
  return valid;
}

// Ids are no secrets: if the system has no random numbers yet, right after its boot, any will do.
static void fill_random(uint8_t *bytes, size_t count)
{
  do {
    if (getrandom(bytes, count, GRND_NONBLOCK) < (ssize_t)count)
      memset(bytes, 1, count);
  } while (!any_set(bytes, count));
}

void trace_context_new(trace_context_ids *ids)
{
  *ids = (trace_context_ids){0};
  fill_random(ids->trace, sizeof(ids->trace));
}

span_id span_id_new(void)
{
  span_id id;
  fill_random(id.bytes, sizeof(id.bytes));
  return id;
}

static void append_hex(buffer *out, const uint8_t *bytes, size_t count)
{
  char *to = buffer_reserve(out, 2 * count);
  if (to == NULL)
    return;
  text_put_hex(to, bytes, count);
  out->size += 2 * count;
}

void trace_context_print(const uint8_t trace[16], span_id span, slice tracestate, buffer *out)
{
  buffer_append_text(out, "{\"traceparent\":\"00-");
  append_hex(out, trace, 16);
  buffer_append_char(out, '-');
  append_hex(out, span.bytes, sizeof(span.bytes));
  buffer_append_text(out, "-01\"");
  if (tracestate.size > 0) {
    buffer_append_text(out, ",\"tracestate\":");
    buffer_append_json_string(out, tracestate);
  }
  buffer_append_char(out, '}');
}
