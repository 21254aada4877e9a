// SPDX-License-Identifier: Apache-2.0
// Reads model repositories. Every path is opened below its repository (base/files.h), links by the
// set's policy.
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

#define NAME_MAX_BYTES 255
#define CONFIG_FILE    "config.pbtxt"

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

// True for "." and "..", also with blanks around them.
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

void repository_model_fini(repository_model *m)
{
  free(m->name);
  free(m->repository);
  free(m->folder);
  free(m->fault);
  *m = (repository_model){0};
}

// A directory of a repository, and the name under which it is found.
typedef struct finding {
  const char *repository; // path
  const char *folder;
  const char *name; // the clients' name
  bool mapped;      // a mapping gives the name
  bool namespacing;
} finding;

static char *name_of(const finding *f)
{
  char *name;
  if (!f->namespacing)
    return strdup(f->name);
  return asprintf(&name, "%s::%s", f->repository, f->name) < 0 ? NULL : name;
}

static bool init_model(repository_model *m, const finding *f, const error *fault)
{
  *m = (repository_model){.name = name_of(f),
                          .repository = strdup(f->repository),
                          .folder = strdup(f->folder),
                          .mapped = f->mapped};
  if (m->name != NULL)
    m->bare = m->name + strlen(m->name) - strlen(f->name);
  if (fault != NULL)
    m->fault = strdup(error_message(fault));
  return m->name != NULL && m->repository != NULL && m->folder != NULL &&
         (fault == NULL || m->fault != NULL);
}

// A link that cannot be followed may be a model's, unless it is hidden. It does not fail the whole
// repository, nor does a directory that cannot be read: its load reports the reason.
static error *look_at_entry(const file_root *root, const char *name, bool *found, error **fault)
{
  file_kind kind;
  error *e = files_kind(root, name, &kind);
  *fault = NULL;
  *found = e == NULL && kind == FILE_FOLDER;
  if (e != NULL && error_get_code(e) == ERROR_INTERNAL) {
    *found = true;
    *fault = e;
    return NULL;
  }
  if (e == NULL && kind == FILE_ABSENT && name[0] != '.')
    *found = (*fault = files_check_link(root, name)) != NULL;
  return e;
}

static int compare_models(const void *a, const void *b)
{
  return strcmp(((const repository_model *)a)->name, ((const repository_model *)b)->name);
}

static error *add_model(repository_listing *listing, const finding *f, const error *fault)
{
  repository_model *grown = reallocarray(listing->items, listing->count + 1, sizeof(*grown));
  if (grown == NULL)
    return error_no_memory();
  listing->items = grown;
  if (init_model(&grown[listing->count], f, fault)) {
    listing->count++;
    return NULL;
  }
  repository_model_fini(&grown[listing->count]);
  return error_no_memory();
}

// One look at the repositories.
typedef struct look {
  const repository_list *list;
  const file_policy *links;
  bool namespacing;
  repository_listing *listing;
} look;

// A directory is named as itself, unless a mapping gives it other names or gives its name to
// another directory.
static error *add_named(const look *l, const repository_place *place, const char *folder,
                        const error *fault)
{
  const repository_place *other;
  finding f = {place->path, folder, folder, repository_place_maps(place, folder), l->namespacing};
  if (!f.mapped)
    return repository_list_mapping(l->list, folder, &other) != NULL
               ? NULL
               : add_model(l->listing, &f, fault);
  for (size_t i = 0; i < place->mapping_count; i++) {
    f.name = place->mappings[i].model;
    if (strcmp(place->mappings[i].folder, folder) == 0)
      RETURN_IF_ERROR(add_model(l->listing, &f, fault));
  }
  return NULL;
}

static error *scan_entries(const look *l, const repository_place *place, const file_root *root,
                           const string_list *names)
{
  for (size_t i = 0; i < names->count; i++) {
    bool found;
    AUTO_ERROR error *fault = NULL;
    RETURN_IF_ERROR(look_at_entry(root, names->items[i], &found, &fault));
    if (found)
      RETURN_IF_ERROR(add_named(l, place, names->items[i], fault));
  }
  return NULL;
}

static error *scan_one(const look *l, const repository_place *place)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  string_list names = {0};
  error *e = files_open_root(place->path, l->links, &root);
  if (e == NULL)
    e = files_list(&root, ".", &names);
  if (e != NULL)
    e = error_wrap(e, "failed to read model repository '%s'", place->path);
  else
    e = scan_entries(l, place, &root, &names);
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
      repository_model_fini(&listing->items[i]);
    } else {
      listing->items[kept++] = listing->items[i];
    }
  }
  listing->count = kept;
}

error *repository_scan(repository_set *repositories, repository_listing *listing)
{
  error *first = NULL;
  *listing = (repository_listing){0};
  AUTO_REPOSITORIES repository_list *list = repository_set_take(repositories);
  const look l = {list, repositories->links, repositories->namespacing, listing};
  const repository_place *place;
  for (size_t i = 0; (place = repository_list_at(list, i)) != NULL; i++) {
    error *e = scan_one(&l, place);
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
    repository_model_fini(&listing->items[i]);
  free(listing->items);
  *listing = (repository_listing){0};
}

// ---- one model ----

// *why is the reason for which this repository does not have it, or NULL.
static error *find_in(const look *l, const finding *f, error **why)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  repository_listing *found = l->listing;
  error *e = files_open_root(f->repository, l->links, &root);
  if (e != NULL)
    return error_wrap(e, "failed to read model repository '%s'", f->repository);
  *why = files_open_dir(&root, f->folder, &dir);
  if (*why != NULL && error_get_code(*why) == ERROR_UNAVAILABLE) {
    e = *why;
    *why = NULL;
    return e;
  }
  if (*why != NULL && error_get_code(*why) != ERROR_INTERNAL)
    return NULL;
  if (found->count == 0 || l->namespacing)
    return add_model(found, f, *why);
  found->items[0].duplicate = true;
  return NULL;
}

// The path's last name: clients see the reason and must not learn the machine's directories.
static slice short_name(const char *path)
{
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/')
    end--;
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  return (slice){path + begin, end - begin};
}

// As find_in, but appends *why to `reasons`.
static error *find_and_tell(const look *l, const finding *f, buffer *reasons)
{
  AUTO_ERROR error *why = NULL;
  RETURN_IF_ERROR(find_in(l, f, &why));
  slice shown = short_name(f->repository);
  if (why != NULL)
    buffer_append_format(reasons, "%sin '%.*s': %s", reasons->size > 0 ? "; " : "", (int)shown.size,
                         shown.data, error_message(why));
  return NULL;
}

static error *find_all(const look *l, const char *name, buffer *reasons)
{
  const repository_place *place;
  const repository_mapping *mapping = repository_list_mapping(l->list, name, &place);
  if (mapping != NULL)
    return find_and_tell(l, &(finding){place->path, mapping->folder, name, true, l->namespacing},
                         reasons);
  for (size_t i = 0; (place = repository_list_at(l->list, i)) != NULL; i++)
    if (!repository_place_maps(place, name))
      RETURN_IF_ERROR(
          find_and_tell(l, &(finding){place->path, name, name, false, l->namespacing}, reasons));
  return NULL;
}

error *repository_find(repository_set *repositories, const char *name, repository_listing *found)
{
  AUTO_BUFFER buffer reasons = BUFFER_EMPTY;
  *found = (repository_listing){0};
  AUTO_REPOSITORIES repository_list *list = repository_set_take(repositories);
  const look l = {list, repositories->links, repositories->namespacing, found};
  RETURN_IF_ERROR(find_all(&l, name, &reasons));
  if (found->count > 0)
    return NULL;
  return error_new(ERROR_NOT_FOUND, "model not found in any model repository: %.*s",
                   (int)reasons.size, reasons.data != NULL ? reasons.data : "");
}

error *repository_find_one(repository_set *repositories, const char *name, repository_model *found)
{
  repository_listing listing;
  *found = (repository_model){0};
  error *e = repository_find(repositories, name, &listing);
  if (e == NULL) {
    *found = listing.items[0];
    listing.items[0] = (repository_model){0};
  }
  repository_listing_fini(&listing);
  return e;
}

static bool looks_like_version(const char *name)
{
  return name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
}

static error *has_parts(const file_root *dir, bool *is_model)
{
  string_list names = {0};
  error *e = files_list(dir, ".", &names);
  for (size_t i = 0; i < names.count && !*is_model; i++) {
    const char *name = names.items[i];
    *is_model = strcmp(name, CONFIG_FILE) == 0 || strncmp(name, "model.", 6) == 0 ||
                looks_like_version(name);
  }
  string_list_fini(&names);
  return e;
}

// Directories of the file system itself, which often only root can read.
static bool is_of_system(const char *name)
{
  return name[0] == '.' || strcmp(name, "lost+found") == 0;
}

static error *is_model_in(const char *repository, const char *name, const file_policy *links,
                          bool *is_model)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  RETURN_IF_ERROR(files_open_root(repository, links, &root));
  AUTO_ERROR error *e = files_open_dir(&root, name, &dir);
  if (e == NULL)
    return has_parts(&dir, is_model);
  *is_model = error_get_code(e) != ERROR_NOT_FOUND && error_get_code(e) != ERROR_INVALID_ARG &&
              !is_of_system(name);
  return NULL;
}

error *repository_is_model(repository_set *repositories, const repository_model *found,
                           bool *is_model)
{
  *is_model = found->fault != NULL;
  AUTO_REPOSITORIES repository_list *list = repository_set_take(repositories);
  const repository_place *place;
  for (size_t i = 0; !*is_model && (place = repository_list_at(list, i)) != NULL; i++)
    RETURN_IF_ERROR(is_model_in(place->path, found->folder, repositories->links, is_model));
  return NULL;
}

// Tells versions from other directories in a model's directory; logs ignored ones with the reason.
static bool version_of_name(const char *dir, const char *name, int64_t *version)
{
  if (!looks_like_version(name)) {
    log_verbose(1, "ignore directory '%s' of '%s': its name is no version number", name, dir);
    return false;
  }
  if (name[0] == '0' && name[1] != '\0') {
    log_warning("ignore version directory '%s' of '%s' which contains leading zeros in its "
                "directory name",
                name, dir);
    return false;
  }
  if (!text_to_int64(slice_of(name), version)) {
    log_warning("ignore version directory '%s' of '%s': the number is larger than %lld", name, dir,
                LLONG_MAX);
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

// Files beside the versions (labels, environments) belong to each version. Not so editors'
// leftovers, nor the configuration, as its fields are compared.
static bool is_of_versions(const char *name)
{
  return name[0] != '.' && strncmp(name, CONFIG_FILE, strlen(CONFIG_FILE)) != 0 &&
         strcmp(name, "configs") != 0;
}

static error *add_entry(repository_dir *dir, const char *name, file_stamp *beside)
{
  file_kind kind;
  repository_version *next = &dir->versions[dir->version_count];
  RETURN_IF_ERROR(file_stamp_take(&dir->root, name, dir->path, &kind, &next->stamp, &dir->refused));
  file_stamp_add(&dir->stamp, next->stamp);
  if (kind == FILE_ABSENT && looks_like_version(name))
    RETURN_IF_ERROR(files_check_link(&dir->root, name));
  if (kind == FILE_FOLDER && version_of_name(dir->path, name, &next->version))
    dir->version_count++;
  else if (is_of_versions(name) && !looks_like_version(name))
    file_stamp_add(beside, next->stamp);
  return NULL;
}

static error *list_versions(repository_dir *dir)
{
  string_list names = {0};
  file_stamp beside = {0};
  error *e = files_list(&dir->root, ".", &names);
  if (e == NULL && (dir->versions = calloc(names.count + 1, sizeof(*dir->versions))) == NULL)
    e = error_no_memory();
  for (size_t i = 0; e == NULL && i < names.count; i++)
    e = add_entry(dir, names.items[i], &beside);
  string_list_fini(&names);
  for (size_t i = 0; i < dir->version_count; i++)
    file_stamp_add(&dir->versions[i].stamp, beside);
  if (e == NULL)
    qsort(dir->versions, dir->version_count, sizeof(repository_version), compare_versions);
  return e;
}

// Opens a model's directory; the stamp covers only the directory itself.
static error *open_model(const char *repository, const char *folder, const file_policy *links,
                         file_root *dir, file_stamp *stamp)
{
  file_entry itself, link;
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  RETURN_IF_ERROR(files_open_root(repository, links, &root));
  RETURN_IF_ERROR(files_open_dir(&root, folder, dir));
  RETURN_IF_ERROR(files_look(&root, folder, &link));
  RETURN_IF_ERROR(files_look(dir, ".", &itself));
  *stamp = (file_stamp){.targets = itself.identity};
  file_stamp_add_entry(stamp, ".", &itself);
  if (link.is_link)
    file_stamp_add_entry(stamp, "", &link);
  return NULL;
}

error *repository_stamp(const char *repository, const char *folder, const file_policy *links,
                        file_stamp *stamp)
{
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  AUTO_ERROR error *refused = NULL; // a load reports it
  string_list names = {0};
  error *e = open_model(repository, folder, links, &dir, stamp);
  if (e == NULL)
    e = files_list(&dir, ".", &names);
  for (size_t i = 0; e == NULL && i < names.count; i++) {
    file_kind kind;
    file_stamp entry;
    e = file_stamp_take(&dir, names.items[i], NULL, &kind, &entry, &refused);
    file_stamp_add(stamp, entry);
  }
  string_list_fini(&names);
  return e;
}

error *repository_open(const char *repository, const char *folder, const file_policy *links,
                       repository_dir *dir)
{
  *dir = (repository_dir){.root = FILE_ROOT_CLOSED};
  bool itself = strcmp(folder, ".") == 0;
  if (asprintf(&dir->path, "%s%s%s", repository, itself ? "" : "/", itself ? "" : folder) < 0) {
    dir->path = NULL;
    return error_no_memory();
  }
  error *e = open_model(repository, folder, links, &dir->root, &dir->stamp);
  if (e == NULL)
    e = list_versions(dir);
  return e == NULL ? NULL : error_wrap(e, "'%s'", dir->path);
}

void repository_dir_fini(repository_dir *dir)
{
  file_root_close(&dir->root);
  free(dir->path);
  free(dir->versions);
  error_free(dir->refused);
  *dir = (repository_dir){.root = FILE_ROOT_CLOSED};
}

error *repository_config_file(const repository_dir *dir, const char *config_name, char *file)
{
  file_kind kind = FILE_ABSENT;
  int size = snprintf(file, PATH_MAX, "configs/%s.pbtxt", config_name);
  if (files_stays_below(config_name) && size > 0 && size < PATH_MAX)
    RETURN_IF_ERROR(files_kind(&dir->root, file, &kind));
  if (kind == FILE_ABSENT)
    snprintf(file, PATH_MAX, "%s", CONFIG_FILE);
  return NULL;
}

error *repository_read_config(const repository_dir *dir, const char *config_name,
                              bool may_be_absent, source_map *places,
                              Inference__ModelConfig **config)
{
  char file[PATH_MAX];
  RETURN_IF_ERROR(repository_config_file(dir, config_name, file));
  if (may_be_absent && !files_exists(&dir->root, file)) {
    *config = config_new();
    return *config == NULL ? error_no_memory() : NULL;
  }
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  error *e = files_read(&dir->root, file, REPOSITORY_CONFIG_BYTES, &text);
  if (e != NULL)
    return error_wrap(e, "failed to open text file for read %s/%s", dir->path, file);
  e = config_read_text_places(buffer_view(&text), file, places, config);
  places->file_name = text_copy(slice_of(file));
  if (e == NULL)
    return NULL;
  return error_wrap(e, "failed to read text proto from %s/%s", dir->path, file);
}
