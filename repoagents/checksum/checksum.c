// SPDX-License-Identifier: Apache-2.0
// The repository agent `checksum`: a model loads only while its files have the digests that its
// configuration gives as parameters <algorithm>:<file> = <digest in hexadecimal digits>. The
// algorithms are MD5, as in Triton, and SHA256. Runs on the server's load threads; keeps no state.
#include "triton/core/tritonrepoagent.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGEST_BYTES 32 // the longest
#define READ_BYTES   65536

#define RETURN_IF_ERROR(expression)                                                                \
  do {                                                                                             \
    TRITONSERVER_Error *return_if_error_ = (expression);                                           \
    if (return_if_error_ != NULL)                                                                  \
      return return_if_error_;                                                                     \
  } while (0)

static const struct algorithm {
  const char *name;
  gnutls_digest_algorithm_t digest;
} algorithms[] = {{"MD5", GNUTLS_DIG_MD5}, {"SHA256", GNUTLS_DIG_SHA256}};

static TRITONSERVER_Error *fail(TRITONSERVER_Error_Code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static TRITONSERVER_Error *fail(TRITONSERVER_Error_Code code, const char *format, ...)
{
  char *text;
  va_list arguments;
  va_start(arguments, format);
  int size = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (size < 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
  TRITONSERVER_Error *e = TRITONSERVER_ErrorNew(code, text);
  free(text);
  return e;
}

// Splits "<algorithm>:<file>"; the algorithm in any case.
static TRITONSERVER_Error *parse_key(const char *key, const struct algorithm **algorithm,
                                     const char **file)
{
  const char *colon = strchr(key, ':');
  if (colon == NULL)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "failed to parse key: %s", key);
  size_t size = (size_t)(colon - key);
  *file = colon + 1;
  for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
    *algorithm = &algorithms[i];
    if (strlen(algorithms[i].name) == size && strncasecmp(algorithms[i].name, key, size) == 0)
      return NULL;
  }
  return fail(TRITONSERVER_ERROR_UNSUPPORTED, "Unsupported checksum algorithm: %.*s", (int)size,
              key);
}

static TRITONSERVER_Error *cannot_read(const char *file, int reason)
{
  return fail(TRITONSERVER_ERROR_INVALID_ARG, "failed to open text file for read %s: %s", file,
              strerror(reason));
}

// Never waits on a FIFO or device. The caller closes *descriptor.
static TRITONSERVER_Error *open_file(const char *dir, const char *file, int *descriptor)
{
  char *path;
  struct stat status;
  if (asprintf(&path, "%s/%s", dir, file) < 0)
    return cannot_read(file, ENOMEM);
  *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  int reason = errno;
  free(path);
  if (*descriptor < 0)
    return cannot_read(file, reason);
  if (fstat(*descriptor, &status) == 0 && S_ISREG(status.st_mode))
    return NULL;
  close(*descriptor);
  return fail(TRITONSERVER_ERROR_INVALID_ARG,
              "failed to open text file for read %s: expected a regular file", file);
}

// Hashes the file's content; 0 or the reason of the failure.
static int read_into(int descriptor, gnutls_hash_hd_t hash)
{
  char *part = malloc(READ_BYTES);
  ssize_t size = part == NULL ? -1 : 1;
  int reason = part == NULL ? ENOMEM : 0;
  while (size > 0) {
    size = read(descriptor, part, READ_BYTES);
    if (size < 0 && errno == EINTR)
      size = 1;
    else if (size < 0)
      reason = errno;
    else if (size > 0 && gnutls_hash(hash, part, (size_t)size) < 0)
      size = -1, reason = EIO;
  }
  free(part);
  return reason;
}

// The file's digest as hexadecimal digits.
static TRITONSERVER_Error *digest_of(const char *dir, const char *file,
                                     const struct algorithm *algorithm,
                                     char digits[2 * DIGEST_BYTES + 1])
{
  int descriptor = -1;
  uint8_t digest[DIGEST_BYTES] = {0};
  gnutls_hash_hd_t hash;
  RETURN_IF_ERROR(open_file(dir, file, &descriptor));
  int result = gnutls_hash_init(&hash, algorithm->digest);
  int reason = result < 0 ? 0 : read_into(descriptor, hash);
  if (result >= 0)
    gnutls_hash_deinit(hash, digest);
  close(descriptor);
  if (result < 0) // a machine in FIPS mode has no MD5
    return fail(TRITONSERVER_ERROR_UNAVAILABLE, "no %s hash can be made here: %s", algorithm->name,
                gnutls_strerror(result));
  if (reason != 0)
    return cannot_read(file, reason);
  for (size_t i = 0; i < gnutls_hash_get_len(algorithm->digest); i++)
    snprintf(digits + 2 * i, 3, "%02x", (unsigned)digest[i]);
  return NULL;
}

static TRITONSERVER_Error *check(const char *dir, const char *key, const char *expected)
{
  const struct algorithm *algorithm = algorithms;
  const char *file = key;
  char digits[2 * DIGEST_BYTES + 1];
  RETURN_IF_ERROR(parse_key(key, &algorithm, &file));
  RETURN_IF_ERROR(digest_of(dir, file, algorithm, digits));
  if (strcasecmp(digits, expected) == 0)
    return NULL;
  return fail(TRITONSERVER_ERROR_INVALID_ARG, "Mismatched %s hash for file %s, expect: %s, got: %s",
              algorithm->name, file, expected, digits);
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent *agent,
                                                TRITONREPOAGENT_AgentModel *model,
                                                TRITONREPOAGENT_ActionType action_type)
{
  const char *dir, *key, *value;
  TRITONREPOAGENT_ArtifactType kind;
  uint32_t count;
  if (action_type != TRITONREPOAGENT_ACTION_LOAD)
    return NULL;
  RETURN_IF_ERROR(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &kind, &dir));
  if (kind != TRITONREPOAGENT_ARTIFACT_FILESYSTEM)
    return fail(TRITONSERVER_ERROR_UNSUPPORTED, "Unsupported filesystem: %d", (int)kind);
  RETURN_IF_ERROR(TRITONREPOAGENT_ModelParameterCount(agent, model, &count));
  for (uint32_t i = 0; i < count; i++) {
    RETURN_IF_ERROR(TRITONREPOAGENT_ModelParameter(agent, model, i, &key, &value));
    RETURN_IF_ERROR(check(dir, key, value));
  }
  return NULL;
}
