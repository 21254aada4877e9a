// Model repositories: directories of models, which are directories of versions. Looks, never
// writes. Called on threads that load or list models; keeps no state.
#ifndef NEREID_REPOSITORY_REPOSITORY_H
#define NEREID_REPOSITORY_REPOSITORY_H

#include "base/error.h"
#include "base/file_stamp.h"
#include "base/string_list.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A model directory that was found.
typedef struct repository_model {
  char *name;       // owned
  char *repository; // owned: path of the repository as the operator gave it
  bool duplicate;   // another repository has a model of this name: none of them is served
  char *fault;      // owned: why it cannot be looked into, a link that is not followed; or NULL
} repository_model;

typedef struct repository_listing {
  repository_model *items; // by name, names without repetitions
  size_t count;
} repository_listing;

// The repositories of a server, and which links in them are followed.
typedef struct repository_set {
  const string_list *paths;
  const file_policy *links;
} repository_set;

// Every directory of every repository, hidden ones too, and every link that cannot be followed but
// hidden ones. The caller releases `listing` with repository_listing_fini, also after an error.
// INTERNAL/NOT_FOUND when a repository cannot be read, UNAVAILABLE for want of memory or
// descriptors; what could be read is listed all the same.
error *repository_scan(const repository_set *repositories, repository_listing *listing);
void repository_listing_fini(repository_listing *listing);

// Looks for the directory `name` only. *found is the caller's, for repository_model_fini, also
// after an error. NOT_FOUND, in Triton's words and with what each repository says, when it is in
// none.
error *repository_find(const repository_set *repositories, const char *name,
                       repository_model *found);
void repository_model_fini(repository_model *model);

// Whether somebody meant the directory that was found to be a model, in any of the repositories: it
// has a config.pbtxt, a version, or a file model.<something>. True when it cannot be looked into,
// for its load says the reason; but false for lost+found and hidden ones then.
error *repository_is_model(const repository_set *repositories, const repository_model *found,
                           bool *is_model);

// One version of a model.
typedef struct repository_version {
  int64_t version;
  file_stamp stamp; // of its directory
} repository_version;

// A model directory, opened.
typedef struct repository_dir {
  file_root root;
  char *path;                   // owned: <repository>/<name>
  file_stamp stamp;             // of the directory and all below
  error *refused;               // owned: why a link in it is not followed, the first one; or NULL
  repository_version *versions; // ascending, owned
  size_t version_count;
} repository_dir;

// Opens <repository>/<name> and lists its versions: directories whose name is a decimal number
// without leading zeroes. A link of such a name that cannot be followed is an error. The caller
// releases `directory` with repository_dir_fini, also after an error.
error *repository_open(const char *repository, const char *name, const file_policy *links,
                       repository_dir *dir);
void repository_dir_fini(repository_dir *dir);

// Reads the model's configuration: configs/<config_name>.pbtxt when config_name is not "" and that
// is there, else config.pbtxt; an empty one when there is no file and `may_be_absent`. On success
// *config is the caller's.
error *repository_read_config(const repository_dir *dir, const char *config_name,
                              bool may_be_absent, Inference__ModelConfig **config);

// INVALID_ARG, in Triton's words, unless `name` can be the name of a model: 1 to 255 bytes of UTF-8
// without '/' and control characters, not blank, not "." or "..".
error *repository_check_name(const char *name);

#endif
