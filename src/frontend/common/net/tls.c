// SPDX-License-Identifier: Apache-2.0
// Reads and checks certificates and keys with GnuTLS, so that a wrong file fails the start instead
// of each handshake.
#include "frontend/common/net/tls.h"

#include "base/buffer.h"
#include "base/files.h"
#include "base/text.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES (4u << 20)

typedef struct flag_file {
  const char *protocol;
  const char *flag; // behind the protocol
  const char *path;
} flag_file;

static error *bad_file(const flag_file *file, const char *reason)
{
  return error_new(ERROR_INVALID_ARG, "--%s-%s: '%s': %s", file->protocol, file->flag, file->path,
                   reason);
}

static error *read_file(const flag_file *file, char **text)
{
  AUTO_BUFFER buffer content = BUFFER_EMPTY;
  if (file->path[0] == '\0')
    return error_new(ERROR_INVALID_ARG, "--%s-use-ssl%s needs --%s-%s", file->protocol,
                     strcmp(file->flag, "root-cert") == 0 ? "-mutual" : "", file->protocol,
                     file->flag);
  error *e = files_read_path(file->path, FILE_MAX_BYTES, &content);
  if (e != NULL)
    return error_wrap(e, "--%s-%s", file->protocol, file->flag);
  if (memchr(content.data, '\0', content.size) != NULL)
    return bad_file(file, "it is not in PEM format");
  *text = buffer_take_text(&content);
  return *text == NULL ? error_no_memory() : NULL;
}

static gnutls_datum_t datum(const char *text)
{
  return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

static error *check_certificates(const flag_file *file, const char *text)
{
  const gnutls_datum_t data = datum(text);
  gnutls_x509_crt_t *list = NULL;
  unsigned count = 0;
  int status = gnutls_x509_crt_list_import2(&list, &count, &data, GNUTLS_X509_FMT_PEM, 0);
  for (unsigned i = 0; status >= 0 && i < count; i++)
    gnutls_x509_crt_deinit(list[i]);
  gnutls_free(list);
  return status >= 0 ? NULL : bad_file(file, gnutls_strerror(status));
}

static error *check_key(const flag_file *file, const char *text)
{
  const gnutls_datum_t data = datum(text);
  gnutls_x509_privkey_t key;
  if (gnutls_x509_privkey_init(&key) < 0)
    return error_no_memory();
  int status = gnutls_x509_privkey_import2(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
  gnutls_x509_privkey_deinit(key);
  return status >= 0 ? NULL : bad_file(file, gnutls_strerror(status));
}

static error *join_pair(const flag_file *key_file, const tls_flags *flags, tls_identity *identity)
{
  const gnutls_datum_t certificate = datum(identity->certificate);
  const gnutls_datum_t key = datum(identity->key);
  if (gnutls_certificate_allocate_credentials(&identity->credentials) < 0)
    return error_no_memory();
  int status = gnutls_certificate_set_x509_key_mem(identity->credentials, &certificate, &key,
                                                   GNUTLS_X509_FMT_PEM);
  if (status == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
    return error_new(ERROR_INVALID_ARG,
                     "--%s-server-key: '%s' is not the key of the certificate '%s'",
                     key_file->protocol, flags->key_file, flags->certificate_file);
  return status >= 0 ? NULL : bad_file(key_file, gnutls_strerror(status));
}

static error *trust(const flag_file *file, tls_identity *identity)
{
  const gnutls_datum_t root = datum(identity->root);
  int status =
      gnutls_certificate_set_x509_trust_mem(identity->credentials, &root, GNUTLS_X509_FMT_PEM);
  return status >= 0 ? NULL : bad_file(file, gnutls_strerror(status));
}

error *tls_identity_read(const tls_flags *flags, const char *protocol, tls_identity *identity)
{
  const flag_file certificate = {protocol, "server-cert", flags->certificate_file};
  const flag_file key = {protocol, "server-key", flags->key_file};
  const flag_file root = {protocol, "root-cert", flags->root_file};
  if (!flags->use && !flags->mutual)
    return NULL;
  RETURN_IF_ERROR(read_file(&certificate, &identity->certificate));
  RETURN_IF_ERROR(check_certificates(&certificate, identity->certificate));
  RETURN_IF_ERROR(read_file(&key, &identity->key));
  RETURN_IF_ERROR(check_key(&key, identity->key));
  RETURN_IF_ERROR(join_pair(&key, flags, identity));
  if (!flags->mutual)
    return NULL;
  RETURN_IF_ERROR(read_file(&root, &identity->root));
  RETURN_IF_ERROR(check_certificates(&root, identity->root));
  return trust(&root, identity);
}

static const tls_identity *now_of(const tls_identity *identity)
{
  const tls_identity *renewed = atomic_load_explicit(&identity->renewed, memory_order_acquire);
  return renewed != NULL ? renewed : identity;
}

gnutls_certificate_credentials_t tls_identity_credentials(const tls_identity *identity)
{
  return now_of(identity)->credentials;
}

error *tls_identity_renew(tls_identity *identity, tls_identity *fresh, bool *changed)
{
  const tls_identity *now = now_of(identity);
  *changed = !text_same(now->certificate, fresh->certificate) || !text_same(now->key, fresh->key) ||
             !text_same(now->root, fresh->root);
  if (!*changed)
    return NULL;
  tls_identity *renewed = malloc(sizeof(*renewed));
  if (renewed == NULL)
    return error_no_memory();
  *renewed = *fresh;
  memset(fresh, 0, sizeof(*fresh));
  renewed->older = atomic_load(&identity->renewed); // connections use its credentials
  atomic_store_explicit(&identity->renewed, renewed, memory_order_release);
  return NULL;
}

void tls_identity_fini(tls_identity *identity)
{
  for (tls_identity *i = atomic_load(&identity->renewed), *older; i != NULL; i = older) {
    older = i->older;
    tls_identity_fini(i);
    free(i);
  }
  if (identity->credentials != NULL)
    gnutls_certificate_free_credentials(identity->credentials);
  if (identity->key != NULL)
    explicit_bzero(identity->key, strlen(identity->key));
  free(identity->certificate);
  free(identity->key);
  free(identity->root);
  memset(identity, 0, sizeof(*identity));
}
