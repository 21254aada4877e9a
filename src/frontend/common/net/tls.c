// SPDX-License-Identifier: Apache-2.0
// Reads and checks certificates and keys with GnuTLS, so that a wrong file fails the start instead
// of each handshake.
#include "frontend/common/net/tls.h"

#include "base/buffer.h"
#include "base/files.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
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

static error *check_pair(const flag_file *key_file, const tls_flags *flags,
                         const tls_identity *identity)
{
  const gnutls_datum_t certificate = datum(identity->certificate);
  const gnutls_datum_t key = datum(identity->key);
  gnutls_certificate_credentials_t credentials;
  if (gnutls_certificate_allocate_credentials(&credentials) < 0)
    return error_no_memory();
  int status =
      gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
  gnutls_certificate_free_credentials(credentials);
  if (status == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
    return error_new(ERROR_INVALID_ARG,
                     "--%s-server-key: '%s' is not the key of the certificate '%s'",
                     key_file->protocol, flags->key_file, flags->certificate_file);
  return status >= 0 ? NULL : bad_file(key_file, gnutls_strerror(status));
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
  RETURN_IF_ERROR(check_pair(&key, flags, identity));
  if (!flags->mutual)
    return NULL;
  RETURN_IF_ERROR(read_file(&root, &identity->root));
  return check_certificates(&root, identity->root);
}

void tls_identity_fini(tls_identity *identity)
{
  if (identity->key != NULL)
    explicit_bzero(identity->key, strlen(identity->key));
  free(identity->certificate);
  free(identity->key);
  free(identity->root);
  memset(identity, 0, sizeof(*identity));
}
