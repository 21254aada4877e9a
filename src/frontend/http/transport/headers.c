// SPDX-License-Identifier: Apache-2.0
// Reads request header fields. Loop threads, once for each request.
#include "frontend/http/transport/headers.h"

#include "base/text.h"

#include <strings.h>

static bool equals(slice text, const char *name)
{
  size_t size = strlen(name);
  return text.size == size && strncasecmp(text.data, name, size) == 0;
}

header_number headers_number(slice text)
{
  header_number number = {.state = NUMBER_MALFORMED, .text = text};
  size_t digits = text.size > 0 && text.data[0] == '-' ? 1 : 0;
  if (digits == text.size)
    return number;
  for (size_t i = digits; i < text.size; i++)
    if (text.data[i] < '0' || text.data[i] > '9')
      return number;
  bool in_range = text_to_int64(text, &number.value);
  number.state = in_range ? NUMBER_VALID : NUMBER_OUT_OF_RANGE;
  return number;
}

static content_coding coding_of(slice name)
{
  if (name.size == 0 || equals(name, "identity"))
    return CODING_IDENTITY;
  if (equals(name, "gzip"))
    return CODING_GZIP;
  if (equals(name, "deflate"))
    return CODING_DEFLATE;
  return CODING_UNKNOWN;
}

// The weight in an element's parameters: 1 without "q", negative when malformed.
static double weight_of(slice parameters)
{
  double weight = 1;
  while (parameters.size > 0) {
    slice parameter = slice_trim(slice_take_until(&parameters, ';'));
    slice name = slice_trim(slice_take_until(&parameter, '='));
    slice value = slice_trim(parameter);
    if (!equals(name, "q"))
      continue;
    if (!text_to_double(value, &weight) || !(weight >= 0 && weight <= 1))
      return -1;
  }
  return weight;
}

content_coding headers_accepted_coding(slice accept_encoding)
{
  content_coding best = CODING_IDENTITY;
  double best_weight = 0;
  while (accept_encoding.size > 0) {
    slice element = slice_take_until(&accept_encoding, ',');
    slice name = slice_trim(slice_take_until(&element, ';'));
    content_coding coding = coding_of(name);
    double weight = weight_of(element);
    if (name.size == 0 || coding == CODING_UNKNOWN || weight <= best_weight)
      continue;
    best = coding;
    best_weight = weight;
  }
  return best;
}

void headers_add(request_headers *headers, slice name, slice value)
{
  headers->count++;
  value = slice_trim(value);
  switch (name.size) { // by length, because most fields are none of these
  case 4:
    if (equals(name, "Host") && ++headers->hosts > 1)
      headers->fault = "the request has more than one Host";
    break;
  case 6:
    if (equals(name, "Expect"))
      headers->expects_continue = equals(value, "100-continue");
    break;
  case 10:
    if (equals(name, "tracestate"))
      headers->parent.tracestate = value;
    break;
  case 11:
    if (equals(name, "traceparent"))
      headers->parent.traceparent = value;
    break;
  case 14:
    if (equals(name, "Content-Length"))
      headers->content_length = headers_number(value);
    break;
  case 15:
    if (equals(name, "Accept-Encoding"))
      headers->accepts = headers_accepted_coding(value);
    break;
  case 16:
    if (equals(name, "Content-Encoding"))
      headers->coding = headers->coding == CODING_IDENTITY ? coding_of(value) : CODING_UNKNOWN;
    break;
  case 17:
    if (equals(name, "Transfer-Encoding"))
      headers->chunked = true;
    break;
  case 31:
    if (!equals(name, "Inference-Header-Content-Length"))
      break;
    if (headers->inference_header_length.state != NUMBER_ABSENT)
      headers->fault = "the request has more than one Inference-Header-Content-Length";
    headers->inference_header_length = headers_number(value);
    break;
  default:
    break;
  }
}
