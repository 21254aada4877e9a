// Trace contexts as text: see trace_context.h.
#include "frontend/trace/trace_context.h"

#include <string.h>
#include <sys/random.h>

#define VERSION_BYTES     2
#define TRACE_BYTES       32
#define SPAN_BYTES        16
#define FLAGS_BYTES       2
#define TRACEPARENT_BYTES (VERSION_BYTES + 1 + TRACE_BYTES + 1 + SPAN_BYTES + 1 + FLAGS_BYTES)

// Lower case only, as the standard has it.
static int hex_digit(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads `count` bytes off the front. False: other characters.
static bool take_bytes(slice *text, size_t count, uint8_t *bytes)
{
  for (size_t i = 0; i < count; i++) {
    int high = hex_digit(text->data[2 * i]), low = hex_digit(text->data[2 * i + 1]);
    if (high < 0 || low < 0)
      return false;
    bytes[i] = (uint8_t)(high * 16 + low);
  }
  *text = (slice){text->data + 2 * count, text->size - 2 * count};
  return true;
}

static bool take_dash(slice *text)
{
  bool is_dash = text->data[0] == '-';
  *text = (slice){text->data + 1, text->size - 1};
  return is_dash;
}

static bool any_set(const uint8_t *bytes, size_t count)
{
  uint8_t all = 0;
  for (size_t i = 0; i < count; i++)
    all |= bytes[i];
  return all != 0;
}

bool trace_context_read(slice text, trace_context_ids *ids)
{
  uint8_t version, flags;
  trace_context_ids found;
  if (text.size < TRACEPARENT_BYTES)
    return false;
  bool whole = text.size == TRACEPARENT_BYTES;
  bool valid = take_bytes(&text, 1, &version) && take_dash(&text) &&
               take_bytes(&text, sizeof(found.trace), found.trace) && take_dash(&text) &&
               take_bytes(&text, sizeof(found.parent), found.parent.bytes) && take_dash(&text) &&
               take_bytes(&text, 1, &flags) && version != 0xff &&
               (whole || (version != 0 && text.data[0] == '-')) &&
               any_set(found.trace, sizeof(found.trace)) &&
               any_set(found.parent.bytes, sizeof(found.parent.bytes));
  if (valid)
    *ids = found;
  return valid;
}

// Not secrets: without the system's random numbers at the very start of a machine any will do.
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
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < count; i++) {
    buffer_append_char(out, digits[bytes[i] >> 4]);
    buffer_append_char(out, digits[bytes[i] & 15]);
  }
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
