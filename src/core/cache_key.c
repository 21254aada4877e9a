// SPDX-License-Identifier: Apache-2.0
// Everything that goes into a hash carries its length or its number, so that two different
// sequences of calls never give the same bytes.
#include "core/cache_key.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "core/ensemble_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LAYOUT     "nereid cache 1" // change it when what is hashed changes
#define READ_BYTES (128 * 1024)
#define MOST_DEEP  32 // levels of directories

static void begin(cache_hash *hash, const uint8_t *secret)
{
  static const uint8_t nonce[8]; // nobody sees the sums
  hash->has_secret = secret != NULL;
  if (secret == NULL) {
    sha256_init(&hash->of.open);
    return;
  }
  umac128_set_key(&hash->of.secret, secret);
  umac128_set_nonce(&hash->of.secret, sizeof(nonce), nonce);
}

static void add(cache_hash *hash, const void *data, size_t size)
{
  if (size == 0)
    return;
  if (hash->has_secret)
    umac128_update(&hash->of.secret, size, data);
  else
    sha256_update(&hash->of.open, size, data);
}

// Returns the size of the digest.
static size_t end(cache_hash *hash, uint8_t digest[SHA256_DIGEST_SIZE])
{
  if (hash->has_secret) {
    umac128_digest(&hash->of.secret, UMAC128_DIGEST_SIZE, digest);
    return UMAC128_DIGEST_SIZE;
  }
  sha256_digest(&hash->of.open, SHA256_DIGEST_SIZE, digest);
  return SHA256_DIGEST_SIZE;
}

static void add_number(cache_hash *hash, uint64_t number)
{
  add(hash, &number, sizeof(number));
}

static void add_bytes(cache_hash *hash, const void *data, size_t size)
{
  add_number(hash, size);
  add(hash, data, size);
}

static void add_text(cache_hash *hash, const char *text)
{
  add_bytes(hash, text, strlen(text));
}

// ---- stamps ----

typedef struct stamp_walk {
  cache_hash *hash;
  const char *own_version; // directories of other versions are left out
  char *chunk;             // READ_BYTES
} stamp_walk;

static bool is_number(const char *name)
{
  return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

static bool is_left_out(const stamp_walk *walk, const char *name, file_kind kind, unsigned depth)
{
  if (kind != FILE_REGULAR && kind != FILE_FOLDER)
    return true;
  if (name[0] == '.' || strcmp(name, "__pycache__") == 0)
    return true;
  return depth == 0 && kind == FILE_FOLDER && is_number(name) &&
         strcmp(name, walk->own_version) != 0;
}

static error *add_file(const stamp_walk *walk, const file_root *dir, const char *name)
{
  AUTO_CLOSE int file = -1;
  uint64_t bytes = 0;
  size_t got;
  RETURN_IF_ERROR(files_open(dir, name, FILE_REGULAR, &file));
  do {
    got = READ_BYTES;
    if (!files_fill(file, walk->chunk, &got))
      return error_new(ERROR_INTERNAL, "'%s' cannot be read: %s", name, strerror(errno));
    add(walk->hash, walk->chunk, got);
    bytes += got;
  } while (got == READ_BYTES);
  add_number(walk->hash, bytes);
  return NULL;
}

static error *add_dir(const stamp_walk *walk, const file_root *dir, unsigned depth);

static error *add_entry(const stamp_walk *walk, const file_root *dir, const char *name,
                        unsigned depth)
{
  file_kind kind;
  RETURN_IF_ERROR(files_kind(dir, name, &kind));
  if (is_left_out(walk, name, kind, depth))
    return NULL;
  add_text(walk->hash, name);
  add_number(walk->hash, (uint64_t)kind);
  if (kind == FILE_REGULAR)
    return add_file(walk, dir, name);
  AUTO_ROOT file_root inner = FILE_ROOT_CLOSED;
  if (depth == MOST_DEEP)
    return error_new(ERROR_INTERNAL, "'%s' lies deeper than %d directories", name, MOST_DEEP);
  RETURN_IF_ERROR(files_open_dir(dir, name, &inner));
  return add_dir(walk, &inner, depth + 1);
}

static error *add_dir(const stamp_walk *walk, const file_root *dir, unsigned depth)
{
  string_list names = {0};
  error *e = files_list(dir, ".", &names);
  for (size_t i = 0; e == NULL && i < names.count; i++)
    e = add_entry(walk, dir, names.items[i], depth);
  string_list_fini(&names);
  add_text(walk->hash, ""); // no name: the end
  return e;
}

static error *add_files(const model *m, cache_hash *hash)
{
  char version[24];
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  char *chunk AUTO_FREE = malloc(READ_BYTES);
  if (chunk == NULL)
    return error_no_memory();
  snprintf(version, sizeof(version), "%" PRId64, m->target.version);
  RETURN_IF_ERROR(model_open_dir(m, &dir));
  return add_dir(&(stamp_walk){hash, version, chunk}, &dir, 0);
}

static error *add_config(const Inference__ModelConfig *config, cache_hash *hash)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  RETURN_IF_ERROR(config_print_json(config, &json));
  if (json.failed)
    return error_no_memory();
  add_bytes(hash, json.data, json.size);
  return NULL;
}

// Adds random bytes, or without randomness bytes that no other load of this process has.
static void add_once(cache_hash *hash)
{
  static _Atomic uint64_t loads;
  uint64_t once[4] = {0};
  if (getrandom(once, sizeof(once), GRND_NONBLOCK) != (ssize_t)sizeof(once))
    once[0] = (uint64_t)getpid();
  add(hash, once, sizeof(once));
  add_number(hash, atomic_fetch_add_explicit(&loads, 1, memory_order_relaxed));
}

void cache_stamp_make(const model *m, const uint8_t *secret, cache_stamp *stamp)
{
  cache_hash hash;
  uint8_t digest[SHA256_DIGEST_SIZE];
  begin(&hash, secret);
  add_text(&hash, LAYOUT);
  add_text(&hash, m->id);
  add_number(&hash, (uint64_t)m->target.version);
  AUTO_ERROR error *e = add_config(m->config, &hash);
  if (e == NULL && config_is_ensemble(m->config))
    add_once(&hash); // its answers depend on files of its steps
  else if (e == NULL)
    e = add_files(m, &hash);
  if (e != NULL) {
    log_warning("model '%s' (version %" PRId64
                "): answers in the cache are those of this load only, since its files cannot all "
                "be read: %s",
                m->id, m->target.version, error_message(e));
    add_once(&hash);
  }
  size_t size = end(&hash, digest);
  begin(&stamp->begun, secret);
  add(&stamp->begun, digest, size);
}

// ---- keys ----

static bool add_data(cache_hash *hash, const input_data *data)
{
  add_number(hash, data->byte_size);
  for (uint32_t i = 0; i < data->segment_count; i++) {
    if (data->segments[i].memory_type == TRITONSERVER_MEMORY_GPU)
      return false;
    add(hash, data->segments[i].base, data->segments[i].size);
  }
  return true;
}

static bool add_input(cache_hash *hash, const request_input *input)
{
  if (input->policies != NULL)
    return false;
  add_bytes(hash, input->name.data, input->name.size);
  add_number(hash, (uint64_t)input->datatype);
  add_bytes(hash, input->given_dims, input->given_dim_count * sizeof(int64_t));
  return add_data(hash, &input->data);
}

// Adds the inputs in the model's order, not the client's.
static bool add_inputs(cache_hash *hash, const request *r)
{
  const model_signature *s = &r->target->signature;
  add_number(hash, r->input_count);
  for (size_t i = 0; i < s->input_count; i++) {
    const request_input *input = NULL;
    for (uint32_t n = 0; input == NULL && n < r->input_count; n++)
      if (r->inputs[n].signature == &s->inputs[i])
        input = &r->inputs[n];
    if (input != NULL && !add_input(hash, input))
      return false;
  }
  return true;
}

static void write_key(cache_hash *hash, char key[CACHE_KEY_SIZE])
{
  uint8_t digest[SHA256_DIGEST_SIZE];
  size_t size = end(hash, digest);
  text_put_hex(key, digest, size);
  key[2 * size] = '\0';
}

bool cache_key_make(const cache_stamp *stamp, const request *r, char key[CACHE_KEY_SIZE])
{
  cache_hash hash = stamp->begun;
  if (!add_inputs(&hash, r))
    return false;
  add_number(&hash, r->parameter_count);
  for (uint32_t i = 0; i < r->parameter_count; i++) {
    add_text(&hash, r->parameters[i].name);
    add_number(&hash, (uint64_t)r->parameters[i].type);
    add_bytes(&hash, parameter_value(&r->parameters[i]), r->parameters[i].byte_size);
  }
  add_number(&hash, r->requested_output_count);
  for (uint32_t i = 0; i < r->requested_output_count; i++)
    add_bytes(&hash, r->requested_outputs[i].data, r->requested_outputs[i].size);
  add_number(&hash, r->flags);
  add_number(&hash, r->correlation_id);
  add_text(&hash, r->correlation_text == NULL ? "" : r->correlation_text);
  write_key(&hash, key);
  return true;
}
