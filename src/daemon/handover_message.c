// SPDX-License-Identifier: Apache-2.0
// Prints and reads the messages. Main thread.
#include "daemon/handover_message.h"

#include <string.h>
#include <unistd.h>

error *handover_message_read(slice text, json_t **message)
{
  json_error_t why;
  json_t *object = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &why);
  if (!json_is_object(object)) {
    json_decref(object);
    return error_new(ERROR_INVALID_ARG, "the other server says what is no JSON object: %s",
                     object == NULL ? why.text : "another value");
  }
  *message = object;
  return NULL;
}

error *handover_message_expect(const json_t *message, const char *kind)
{
  const char *refusal = json_string_value(json_object_get(message, "refused"));
  if (refusal != NULL)
    return error_new(ERROR_UNAVAILABLE, "%s", refusal);
  if (json_object_get(message, kind) == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "the other server's message has no '%s': expected protocol "
                     "%d",
                     kind, HANDOVER_PROTOCOL);
  return NULL;
}

json_t *handover_print_sockets(const handover_sockets *sockets)
{
  json_t *list = json_array();
  for (size_t i = 0; i < sockets->count && list != NULL; i++) {
    const handover_socket *s = &sockets->of[i];
    json_t *one = json_pack("{s:s,s:b,s:I,s:I}", "name", s->name, "by_manager", s->by_manager,
                            "device", (json_int_t)s->device, "file", (json_int_t)s->file);
    if (json_array_append_new(list, one) != 0) {
      json_decref(list);
      list = NULL;
    }
  }
  return list == NULL ? NULL : json_pack("{s:o}", "sockets", list);
}

static error *read_socket(const json_t *one, handover_sockets *sockets, int fd)
{
  handover_socket *s = &sockets->of[sockets->count];
  const char *name = json_string_value(json_object_get(one, "name"));
  const json_t *device = json_object_get(one, "device"), *file = json_object_get(one, "file");
  const json_t *by_manager = json_object_get(one, "by_manager");
  if (name == NULL || strlen(name) >= sizeof(s->name) || handover_find(sockets, name) != NULL ||
      !json_is_integer(device) || !json_is_integer(file) || !json_is_boolean(by_manager))
    return error_new(ERROR_INVALID_ARG, "the other server's socket %zu is malformed",
                     sockets->count);
  *s = (handover_socket){.by_manager = json_is_true(by_manager),
                         .device = (uint64_t)json_integer_value(device),
                         .file = (uint64_t)json_integer_value(file),
                         .fd = fd};
  memcpy(s->name, name, strlen(name));
  sockets->count++;
  return NULL;
}

error *handover_read_sockets(const json_t *message, const int *fds, size_t fd_count,
                             handover_sockets *sockets)
{
  const json_t *list = json_object_get(message, "sockets");
  *sockets = (handover_sockets){0};
  if (!json_is_array(list) || json_array_size(list) != fd_count || fd_count > HANDOVER_SOCKETS)
    return error_new(ERROR_INVALID_ARG,
                     "the other server sends %zu descriptors for %zu sockets, expected as many, "
                     "and %d at most",
                     fd_count, json_array_size(list), HANDOVER_SOCKETS);
  for (size_t i = 0; i < fd_count; i++)
    RETURN_IF_ERROR(read_socket(json_array_get(list, i), sockets, fds[i]));
  return NULL;
}

handover_socket *handover_find(handover_sockets *sockets, const char *name)
{
  for (size_t i = 0; i < sockets->count; i++)
    if (sockets->of[i].fd >= 0 && strcmp(sockets->of[i].name, name) == 0)
      return &sockets->of[i];
  return NULL;
}

void handover_sockets_fini(handover_sockets *sockets)
{
  for (size_t i = 0; i < sockets->count; i++)
    if (sockets->of[i].fd >= 0)
      close(sockets->of[i].fd);
  *sockets = (handover_sockets){0};
}
