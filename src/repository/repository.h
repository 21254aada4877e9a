// SPDX-License-Identifier: Apache-2.0
// Model repositories: directories of models, which are directories of versions. Read only. Called
// on threads that load or list models; keeps no state.
#ifndef NEREID_REPOSITORY_REPOSITORY_H
#define NEREID_REPOSITORY_REPOSITORY_H

#include "base/error.h"
#include "base/file_stamp.h"
#include "base/string_list.h"
#include "config/config.h"
#include "repository/repository_set.h" // IWYU pragma: export

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A model directory found in a repository.
typedef struct repository_model {
  char *name;       // owned: the server's name for it; with namespacing <repository>::<name>
  const char *bare; // the end of `name`: the clients' name
  char *repository; // owned: path of the repository as the operator gave it
  char *folder;     // owned: its directory below that
  bool mapped;      // a mapping gives the name, not the directory or the configuration
  bool duplicate;   // several repositories have a model of this name: none of them is served
  char *fault;      // owned: why it cannot be read (a link that is not followed), or NULL
} repository_model;

typedef struct repository_listing {
  repository_model *items; // sorted by name, each name once
  size_t count;
} repository_listing;

// Lists every directory of every repository, hidden ones too, and links that cannot be followed,
// except hidden ones. The caller releases `listing` with repository_listing_fini, also after an
// error. INTERNAL/NOT_FOUND when a repository cannot be read, UNAVAILABLE when memory or
// descriptors are short; the readable repositories are listed nevertheless.
error *repository_scan(repository_set *repositories, repository_listing *listing);
void repository_listing_fini(repository_listing *listing);

// Finds the models that clients call `name`: one, or with namespacing one in each repository. The
// caller releases `found` with repository_listing_fini, also after an error. NOT_FOUND, in Triton's
// words and with each repository's reason, when no repository has it.
error *repository_find(repository_set *repositories, const char *name, repository_listing *found);
// The same without namespacing: the caller releases *found with repository_model_fini, also after
// an error.
error *repository_find_one(repository_set *repositories, const char *name, repository_model *found);
void repository_model_fini(repository_model *model);

// Whether the directory looks like a model in any of the repositories: it has a config.pbtxt, a
// version, or a file model.<something>. An unreadable directory counts as a model, so that its load
// reports the reason, unless it is hidden or lost+found.
error *repository_is_model(repository_set *repositories, const repository_model *found,
                           bool *is_model);

// One version of a model.
typedef struct repository_version {
  int64_t version;
  file_stamp stamp; // of its directory and of the files beside the versions
} repository_version;

// A model directory, opened.
typedef struct repository_dir {
  file_root root;
  char *path;                   // owned: <repository>/<folder>
  file_stamp stamp;             // of the directory and all below
  error *refused;               // owned: why the first refused link is not followed, or NULL
  repository_version *versions; // ascending, owned
  size_t version_count;
} repository_dir;

// Opens <repository>/<folder>, or the repository itself for ".", and lists its versions:
// directories whose name is a decimal number without leading zeroes. A link of such a name that
// cannot be followed is an error. The caller releases *dir with repository_dir_fini, also after an
// error.
error *repository_open(const char *repository, const char *folder, const file_policy *links,
                       repository_dir *dir);
void repository_dir_fini(repository_dir *dir);

// Only the stamp that repository_open would give; logs nothing.
error *repository_stamp(const char *repository, const char *folder, const file_policy *links,
                        file_stamp *stamp);

// The name of the model's configuration file: configs/<config_name>.pbtxt if config_name is not ""
// and the file exists, else config.pbtxt, which may be absent. `file` has room for PATH_MAX bytes.
error *repository_config_file(const repository_dir *dir, const char *config_name, char *file);

// Largest configuration file that is read.
#define REPOSITORY_CONFIG_BYTES (16u << 20)

// Reads that file. With `may_be_absent` a missing file gives an empty configuration. On success
// *config is the caller's.
error *repository_read_config(const repository_dir *dir, const char *config_name,
                              bool may_be_absent, source_map *places,
                              Inference__ModelConfig **config);

// INVALID_ARG, in Triton's words, unless `name` can be the name of a model: 1 to 255 bytes of UTF-8
// without '/' and control characters, not blank, not "." or "..".
error *repository_check_name(const char *name);

#endif
