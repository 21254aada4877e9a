// SPDX-License-Identifier: Apache-2.0
// Reads the flags of restricted categories, compares keys, and holds the rules that all front ends
// share.
#include "frontend/common/policy/access_policy.h"

#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX_BYTES 4096 // a longer value does not fit into a request's head

static const char *const category_names[CATEGORY_COUNT] = {
    [CATEGORY_HEALTH] = "health",
    [CATEGORY_METADATA] = "metadata",
    [CATEGORY_INFERENCE] = "inference",
    [CATEGORY_SHARED_MEMORY] = "shared-memory",
    [CATEGORY_MODEL_CONFIG] = "model-config",
    [CATEGORY_MODEL_REPOSITORY] = "model-repository",
    [CATEGORY_STATISTICS] = "statistics",
    [CATEGORY_TRACE] = "trace",
    [CATEGORY_LOGGING] = "logging",
};

const char *route_category_name(route_category category)
{
  return category_names[category];
}

bool route_category_is_admin(route_category category)
{
  return category == CATEGORY_MODEL_REPOSITORY || category == CATEGORY_SHARED_MEMORY ||
         category == CATEGORY_TRACE || category == CATEGORY_LOGGING;
}

// ---- flags ----

static bool is_printable(slice text)
{
  for (size_t i = 0; i < text.size; i++)
    if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
      return false;
  return true;
}

// RFC 9110, 5.6.2: a request cannot have other names.
static bool is_field_name(slice name)
{
  for (size_t i = 0; i < name.size; i++)
    if ((unsigned char)name.data[i] > '~' || name.data[i] <= ' ' ||
        strchr("\"(),/:;<=>?@[\\]{}", name.data[i]) != NULL)
      return false;
  return name.size > 0;
}

static bool is_line_end(char c)
{
  return c == '\r' || c == '\n';
}

static error *read_value(const char *path, buffer *value)
{
  RETURN_IF_ERROR(files_read_path(path, VALUE_MAX_BYTES, value));
  while (value->size > 0 && is_line_end(value->data[value->size - 1]))
    value->size--;
  return NULL;
}

// A service manager puts credentials there: systemd.exec(5), Credentials.
static error *read_credential(const char *name, buffer *value)
{
  const char *directory = getenv("CREDENTIALS_DIRECTORY");
  AUTO_BUFFER buffer path = BUFFER_EMPTY;
  if (directory == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "there is no credential '%s': CREDENTIALS_DIRECTORY is not set (expected: "
                     "LoadCredential=%s:<path> in the unit)",
                     name, name);
  if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
    return error_new(ERROR_INVALID_ARG, "'%s' is no name of a credential", name);
  buffer_append_format(&path, "%s/%s", directory, name);
  AUTO_FREE char *text = buffer_take_text(&path);
  if (text == NULL)
    return error_no_memory();
  error *e = read_value(text, value);
  return e == NULL ? NULL : error_wrap(e, "credential '%s'", name);
}

bool restriction_is_reference(const char *value)
{
  return text_starts_with(value, RESTRICTION_FILE) || text_starts_with(value, "cred:") ||
         text_starts_with(value, "env:");
}

// Appends the value itself, or what "file:", "cred:" or "env:" refers to.
static error *resolve_value(const char *text, buffer *value)
{
  if (text_starts_with(text, RESTRICTION_FILE)) {
    RETURN_IF_ERROR(read_value(text + sizeof(RESTRICTION_FILE) - 1, value));
  } else if (text_starts_with(text, "cred:")) {
    RETURN_IF_ERROR(read_credential(text + 5, value));
  } else if (text_starts_with(text, "env:")) {
    const char *variable = getenv(text + 4);
    if (variable == NULL)
      return error_new(ERROR_INVALID_ARG, "there is no variable '%s'", text + 4);
    buffer_append_text(value, variable);
  } else {
    buffer_append_text(value, text);
  }
  slice v = buffer_view(value);
  if (value->failed)
    return error_no_memory();
  if (v.size == 0 || v.size > VALUE_MAX_BYTES || !is_printable(v) || v.data[0] == ' ' ||
      v.data[v.size - 1] == ' ')
    return error_new(ERROR_INVALID_ARG,
                     "the value%s%s must be 1 to %d bytes of one line, without blanks around them",
                     restriction_is_reference(text) ? " of " : "",
                     restriction_is_reference(text) ? text : "", VALUE_MAX_BYTES);
  return NULL;
}

static route_category category_of(slice name)
{
  route_category category = 0;
  while (category < CATEGORY_COUNT && !slice_equal_text(name, category_names[category]))
    category++;
  return category;
}

static error *unknown_category(const char *kind, slice name)
{
  AUTO_BUFFER buffer all = BUFFER_EMPTY;
  for (route_category category = 0; category < CATEGORY_COUNT; category++)
    buffer_append_format(&all, "%s%s", category > 0 ? ", " : "", category_names[category]);
  return error_new(ERROR_INVALID_ARG, "unknown restricted %s '%.*s', expected one of %.*s", kind,
                   (int)name.size, name.data, (int)all.size, all.data);
}

static error *restrict_category(restrictions *set, const char *kind, slice name, slice header,
                                slice value)
{
  route_category category = category_of(name);
  if (category == CATEGORY_COUNT)
    return unknown_category(kind, name);
  restriction *r = &set->of[category];
  if (r->header != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "restricted %s '%s' can not be specified in multiple config groups", kind,
                     category_names[category]);
  r->header = text_copy(header);
  r->value = text_copy(value);
  return r->header == NULL || r->value == NULL ? error_no_memory() : NULL;
}

error *restrictions_add(restrictions *set, const char *kind, const char *prefix, const char *text)
{
  AUTO_BUFFER buffer header = BUFFER_EMPTY;
  AUTO_BUFFER buffer value = BUFFER_EMPTY;
  const char *colon = strchr(text, ':');
  const char *equals = colon != NULL ? strchr(colon, '=') : NULL;
  slice key = {NULL, 0};
  if (equals != NULL)
    key = (slice){colon + 1, (size_t)(equals - colon - 1)};
  if (equals == NULL || !is_field_name(key)) // not quoted: the text may hold a secret
    return error_new(ERROR_INVALID_ARG,
                     "expected <%s>[,<%s>...]:<key>=<value>, with a key that can name a header",
                     kind, kind);
  RETURN_IF_ERROR(resolve_value(equals + 1, &value));
  buffer_append_text(&header, prefix);
  buffer_append_slice(&header, key);
  if (header.failed)
    return error_no_memory();
  for (const char *at = text; at <= colon;) {
    size_t size = strcspn(at, ",:");
    RETURN_IF_ERROR(
        restrict_category(set, kind, (slice){at, size}, buffer_view(&header), buffer_view(&value)));
    at += size + 1;
  }
  return NULL;
}

// Secrets do not stay in freed memory.
static void free_secret(char *secret)
{
  if (secret != NULL)
    explicit_bzero(secret, strlen(secret));
  free(secret);
}

void restrictions_fini(restrictions *set)
{
  for (restrictions *r = atomic_load(&set->renewed), *older; r != NULL; r = older) {
    older = r->older;
    restrictions_fini(r);
    free(r);
  }
  for (size_t i = 0; i < CATEGORY_COUNT; i++) {
    free(set->of[i].header);
    free_secret(set->of[i].value);
  }
  memset(set, 0, sizeof(*set));
}

static const restrictions *now_of(const restrictions *set)
{
  const restrictions *renewed = atomic_load_explicit(&set->renewed, memory_order_acquire);
  return renewed != NULL ? renewed : set;
}

route_category restrictions_difference(const restrictions *set, const restrictions *other)
{
  route_category i = 0;
  while (i < CATEGORY_COUNT && text_same(set->of[i].header, other->of[i].header))
    i++;
  return i;
}

error *restrictions_renew(restrictions *set, restrictions *fresh, bool *changed)
{
  const restrictions *now = now_of(set);
  *changed = false;
  for (size_t i = 0; i < CATEGORY_COUNT; i++)
    *changed = *changed || !text_same(now->of[i].value, fresh->of[i].value);
  if (!*changed)
    return NULL;
  restrictions *renewed = malloc(sizeof(*renewed));
  if (renewed == NULL)
    return error_no_memory();
  memcpy(renewed->of, fresh->of, sizeof(renewed->of));
  memset(fresh->of, 0, sizeof(fresh->of));
  atomic_init(&renewed->renewed, NULL);
  renewed->older = atomic_load(&set->renewed); // requests may still read it
  atomic_store_explicit(&set->renewed, renewed, memory_order_release);
  return NULL;
}

// ---- requests ----

// Compares each byte of the secret, wherever the first difference is.
static bool is_secret(const char *secret, slice claimed)
{
  size_t size = strlen(secret);
  volatile unsigned char difference = size != claimed.size;
  for (size_t i = 0; i < size; i++) {
    unsigned char other = i < claimed.size ? (unsigned char)claimed.data[i] : 0;
    difference |= (unsigned char)secret[i] ^ other;
  }
  return difference == 0;
}

bool restrictions_admit(const restrictions *set, route_category category, restricted_lookup *lookup,
                        void *request)
{
  const restriction *r = &now_of(set)->of[category];
  slice value = {"", 0};
  if (r->header == NULL)
    return true;
  size_t count = lookup(request, r->header, &value);
  return is_secret(r->value, value) && count == 1;
}

void restrictions_list_open(const restrictions *closed, const restrictions *open, buffer *names)
{
  for (route_category i = 0; i < CATEGORY_COUNT; i++)
    if (closed->of[i].header != NULL && open->of[i].header == NULL)
      buffer_append_format(names, "%s%s", names->size > 0 ? ", " : "", category_names[i]);
}

// ---- rules ----

static bool wants_key(const access_policy *policy, route_category category)
{
  return policy->restricted.of[category].header != NULL;
}

bool access_policy_is_closed(const access_policy *policy, route_category category)
{
  return policy->secure && !policy->is_admin && route_category_is_admin(category) &&
         !wants_key(policy, category);
}

bool access_policy_takes_code(const access_policy *policy)
{
  return policy->is_admin || policy->allow_model_upload ||
         wants_key(policy, CATEGORY_MODEL_REPOSITORY);
}
