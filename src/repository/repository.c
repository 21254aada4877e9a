// Looking into model repositories. Every path is opened below its repository (base/files.h).
#include "repository/repository.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_MAX_BYTES (16u << 20)
#define NAME_MAX_BYTES   255
#define CONFIG_FILE      "config.pbtxt"

// ---- names ----

#define BLANKS " \t\n\v\f\r"

static bool is_blank(const char *name)
{
  return name[strspn(name, BLANKS)] == '\0';
}

static bool is_text(const char *name, size_t size)
{
  for (size_t i = 0; i < size;) {
    size_t length = text_utf8_length(name + i, size - i);
    if (length == 0 || (unsigned char)name[i] < ' ' || name[i] == 0x7f)
      return false;
    i += length;
  }
  return true;
}

// True for "." and "..", with blanks around them or not.
static bool is_dots(const char *name)
{
  name += strspn(name, BLANKS);
  size_t dots = strspn(name, ".");
  return (dots == 1 || dots == 2) && is_blank(name + dots);
}

error *repository_check_name(const char *name)
{
  size_t size = strlen(name);
  if (is_blank(name))
    return error_new(ERROR_INVALID_ARG,
                     "Model name cannot be empty. Please enter a valid name to deploy.");
  if (is_dots(name) || strchr(name, '/') != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "invalid model name '%s', model name must not contain path traversal "
                     "characters",
                     name);
  if (size > NAME_MAX_BYTES)
    return error_new(ERROR_INVALID_ARG, "invalid model name, it has %zu bytes, expected at most %d",
                     size, NAME_MAX_BYTES);
  if (!is_text(name, size))
    return error_new(ERROR_INVALID_ARG,
                     "invalid model name, expected UTF-8 without control characters");
  return NULL;
}

// ---- listing repositories ----

static error *look_for_model(int root, const char *name, bool *found)
{
  file_kind kind;
  RETURN_IF_ERROR(files_kind(root, name, &kind));
  *found = kind == FILE_FOLDER;
  if (!*found || name[0] != '.')
    return NULL;
  char config[NAME_MAX + sizeof("/" CONFIG_FILE)]; // .git and the like are no models
  int size = snprintf(config, sizeof(config), "%s/%s", name, CONFIG_FILE);
  *found = size > 0 && (size_t)size < sizeof(config);
  if (*found)
    RETURN_IF_ERROR(files_kind(root, config, &kind));
  *found = *found && kind == FILE_REGULAR;
  return NULL;
}

// A folder that the disk does not give is listed: it costs one model, whose load tells the reason,
// and not the whole repository.
static error *is_model_folder(int root, const char *name, bool *found)
{
  error *e = look_for_model(root, name, found);
  if (e == NULL || error_get_code(e) != ERROR_INTERNAL)
    return e;
  error_free(e);
  *found = true;
  return NULL;
}

static void free_model(repository_model *m)
{
  free(m->name);
  free(m->repository);
}

static int compare_models(const void *a, const void *b)
{
  return strcmp(((const repository_model *)a)->name, ((const repository_model *)b)->name);
}

static error *add_model(repository_listing *listing, const char *repository, const char *name)
{
  repository_model *grown =
      reallocarray(listing->items, listing->count + 1, sizeof(repository_model));
  if (grown == NULL)
    return error_no_memory();
  listing->items = grown;
  repository_model m = {.name = strdup(name), .repository = strdup(repository)};
  if (m.name == NULL || m.repository == NULL) {
    free_model(&m);
    return error_no_memory();
  }
  grown[listing->count++] = m;
  return NULL;
}

static error *scan_one(const char *repository, repository_listing *listing)
{
  AUTO_CLOSE int root = -1;
  string_list names = {0};
  error *e = files_open_root(repository, &root);
  if (e == NULL)
    e = files_list(root, ".", &names);
  if (e != NULL)
    e = error_wrap(e, "failed to read model repository '%s'", repository);
  for (size_t i = 0; e == NULL && i < names.count; i++) {
    bool found = false;
    e = is_model_folder(root, names.items[i], &found);
    if (e == NULL && found)
      e = add_model(listing, repository, names.items[i]);
  }
  string_list_fini(&names);
  return e;
}

// Leaves one row for each name.
static void merge_duplicates(repository_listing *listing)
{
  size_t kept = 0;
  for (size_t i = 0; i < listing->count; i++) {
    if (kept > 0 && strcmp(listing->items[kept - 1].name, listing->items[i].name) == 0) {
      listing->items[kept - 1].duplicate = true;
      free_model(&listing->items[i]);
    } else {
      listing->items[kept++] = listing->items[i];
    }
  }
  listing->count = kept;
}

error *repository_scan(const string_list *repositories, repository_listing *listing)
{
  error *first = NULL;
  *listing = (repository_listing){0};
  for (size_t i = 0; i < repositories->count; i++) {
    error *e = scan_one(repositories->items[i], listing);
    if (first == NULL)
      first = e;
    else
      error_free(e);
  }
  if (listing->count > 0)
    qsort(listing->items, listing->count, sizeof(repository_model), compare_models);
  merge_duplicates(listing);
  return first;
}

void repository_listing_fini(repository_listing *listing)
{
  for (size_t i = 0; i < listing->count; i++)
    free_model(&listing->items[i]);
  free(listing->items);
  *listing = (repository_listing){0};
}

// ---- one model ----

// Tells versions from other folders in a model's folder; says what it ignores and why.
static bool version_of_name(const char *folder, const char *name, int64_t *version)
{
  if (strspn(name, "0123456789") != strlen(name)) {
    log_verbose(1, "ignore folder '%s' of '%s': its name is no version number", name, folder);
    return false;
  }
  if (name[0] == '0' && name[1] != '\0') {
    log_warning("ignore version directory '%s' of '%s' which contains leading zeros in its "
                "directory name",
                name, folder);
    return false;
  }
  if (!text_to_int64(slice_of(name), version)) {
    log_warning("ignore version directory '%s' of '%s': the number is larger than %lld", name,
                folder, LLONG_MAX);
    return false;
  }
  return true;
}

static int compare_versions(const void *a, const void *b)
{
  int64_t left = ((const repository_version *)a)->version;
  int64_t right = ((const repository_version *)b)->version;
  return (left > right) - (left < right);
}

static error *add_entry(repository_folder *folder, const char *name)
{
  file_kind kind;
  repository_version *next = &folder->versions[folder->version_count];
  RETURN_IF_ERROR(files_newest_change(folder->descriptor, name, &kind, &next->change));
  folder->change = next->change > folder->change ? next->change : folder->change;
  if (kind == FILE_FOLDER && version_of_name(folder->path, name, &next->version))
    folder->version_count++;
  return NULL;
}

static error *list_versions(repository_folder *folder)
{
  string_list names = {0};
  error *e = files_list(folder->descriptor, ".", &names);
  if (e == NULL && (folder->versions = calloc(names.count + 1, sizeof(repository_version))) == NULL)
    e = error_no_memory();
  for (size_t i = 0; e == NULL && i < names.count; i++)
    e = add_entry(folder, names.items[i]);
  string_list_fini(&names);
  if (e == NULL)
    qsort(folder->versions, folder->version_count, sizeof(repository_version), compare_versions);
  return e;
}

error *repository_open(const char *repository, const char *name, repository_folder *folder)
{
  file_kind kind;
  *folder = (repository_folder){.descriptor = -1};
  size_t size = strlen(repository) + strlen(name) + 2;
  folder->path = malloc(size);
  if (folder->path == NULL)
    return error_no_memory();
  snprintf(folder->path, size, "%s/%s", repository, name);
  AUTO_CLOSE int root = -1;
  RETURN_IF_ERROR(files_open_root(repository, &root));
  RETURN_IF_ERROR(files_open(root, name, FILE_FOLDER, &folder->descriptor));
  RETURN_IF_ERROR(files_look(folder->descriptor, ".", &kind, &folder->change));
  return list_versions(folder);
}

void repository_folder_fini(repository_folder *folder)
{
  if (folder->descriptor >= 0)
    close(folder->descriptor);
  free(folder->path);
  free(folder->versions);
  *folder = (repository_folder){.descriptor = -1};
}

error *repository_read_config(const repository_folder *folder, const char *config_name,
                              bool may_be_absent, Inference__ModelConfig **config)
{
  char file[PATH_MAX];
  file_kind kind = FILE_ABSENT;
  int size = snprintf(file, sizeof(file), "configs/%s.pbtxt", config_name);
  if (config_name[0] != '\0' && size > 0 && (size_t)size < sizeof(file))
    RETURN_IF_ERROR(files_kind(folder->descriptor, file, &kind));
  if (kind == FILE_ABSENT)
    snprintf(file, sizeof(file), "%s", CONFIG_FILE);
  if (may_be_absent && !files_exists(folder->descriptor, file)) {
    *config = config_new();
    return *config == NULL ? error_no_memory() : NULL;
  }
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  RETURN_IF_ERROR(files_read(folder->descriptor, file, CONFIG_MAX_BYTES, &text));
  error *e = config_read_text(buffer_view(&text), file, config);
  if (e == NULL)
    return NULL;
  return error_wrap(e, "failed to read text proto from %s/%s", folder->path, file);
}
