// SPDX-License-Identifier: Apache-2.0
// Opens treelite with dlopen. Load threads.
#include "treelite.h"

#include "backend_error.h"
#include "backend_log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what it says ----

// treelite's last log text on this thread since treelite_listen_begin.
static _Thread_local char *heard;
static _Thread_local bool listens;

// Skips the place in treelite's source: "[13:05:24] /a/file.cc:64: text".
static const char *skip_place(const char *text)
{
  const char *place = text[0] == '[' ? strstr(text, "] ") : NULL;
  const char *colon = place != NULL ? strchr(place, ':') : NULL; // after the file's name
  const char *end = colon != NULL ? strstr(colon, ": ") : NULL;
  return end != NULL && strcspn(text, "\n") > (size_t)(end - text) ? end + 2 : text;
}

static void hear(const char *message)
{
  const char *text = skip_place(message);
  const size_t length = strcspn(text, "\n");
  if (!listens) {
    BACKEND_LOG_WARN("treelite: %.*s", (int)length, text);
    return;
  }
  free(heard);
  heard = strndup(text, length);
}

void treelite_listen_begin(const treelite *t)
{
  t->RegisterLogCallback(hear); // callbacks are per thread
  t->RegisterWarningCallback(hear);
  listens = true;
}

char *treelite_listen_end(void)
{
  char *text = heard;
  heard = NULL;
  listens = false;
  return text;
}

char *treelite_reason(const treelite *t, const char *last)
{
  const char *text = skip_place(t->GetLastError());
  const size_t length = strcspn(text, "\n");
  const bool is_bare = length < 2 || memcmp(text + length - 2, ": ", 2) == 0; // names a check
  char *both = NULL;
  if (last == NULL)
    return strndup(text, length);
  int printed =
      asprintf(&both, "%.*s%s%s", is_bare ? 0 : (int)length, text, is_bare ? "" : " ", last);
  return printed < 0 ? NULL : both;
}

// ---- the library ----

static TRITONSERVER_Error *find_functions(treelite *t, void *library, const char *path)
{
  const framework_function functions[] = {
#define TREELITE_ROW(function, arguments) {.name = "Treelite" #function, .member = &t->function},
      TREELITE_FUNCTIONS(TREELITE_ROW)
#undef TREELITE_ROW
          {.name = "TreeliteGetLastError", .member = &t->GetLastError},
  };
  return framework_find_functions(library, path, "treelite 4.3 or newer", functions,
                                  sizeof(functions) / sizeof(functions[0]));
}

// Builds a model of one leaf.
static bool build(const treelite *t, treelite_builder **builder, treelite_model **model)
{
  static const char config[] =
      "{\"threshold_type\":\"float32\",\"leaf_output_type\":\"float32\",\"metadata\":"
      "{\"num_feature\":1,\"task_type\":\"kRegressor\",\"average_tree_output\":false,"
      "\"num_target\":1,\"num_class\":[1],\"leaf_vector_shape\":[1,1]},\"tree_annotation\":"
      "{\"num_tree\":1,\"target_id\":[0],\"class_id\":[0]},\"postprocessor\":{\"name\":"
      "\"identity\",\"config_json\":\"{}\"},\"base_scores\":[0.0]}";
  return t->GetModelBuilder(config, builder) == 0 && t->ModelBuilderStartTree(*builder) == 0 &&
         t->ModelBuilderStartNode(*builder, 0) == 0 &&
         t->ModelBuilderLeafScalar(*builder, 0) == 0 && t->ModelBuilderEndNode(*builder) == 0 &&
         t->ModelBuilderEndTree(*builder) == 0 && t->ModelBuilderCommitModel(*builder, model) == 0;
}

// The library does not tell its version, but each model that it writes begins with it.
static void read_version(treelite *t)
{
  treelite_builder *builder = NULL;
  treelite_model *model = NULL;
  const char *bytes = NULL;
  size_t size = 0;
  int32_t version[3] = {0};
  treelite_listen_begin(t);
  if (build(t, &builder, &model) && t->SerializeModelToBytes(model, &bytes, &size) == 0 &&
      size > sizeof(version))
    memcpy(version, bytes, sizeof(version));
  free(treelite_listen_end());
  if (model != NULL)
    t->FreeModel(model);
  if (builder != NULL)
    t->DeleteModelBuilder(builder);
  snprintf(t->version, sizeof(t->version), "%d.%d.%d", version[0], version[1], version[2]);
}

TRITONSERVER_Error *treelite_open(framework_library *library)
{
  treelite *t = calloc(1, sizeof(*t));
  library->state = t;
  if (t == NULL)
    return backend_error_no_memory("treelite");
  void *opened = NULL;
  BACKEND_RETURN_IF_ERROR(framework_open_file(library->path, &opened));
  TRITONSERVER_Error *error = find_functions(t, opened, library->path);
  dlclose(opened); // the library stays loaded
  if (error != NULL)
    return error;
  read_version(t);
  library->version = t->version;
  return NULL;
}

void treelite_close(framework_library *library)
{
  free(library->state);
}
