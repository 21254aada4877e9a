// SPDX-License-Identifier: Apache-2.0
// The used part of treelite's C interface, declared here so that building needs no header of it.
// The functions exist since 4.3. treelite.c opens the library and turns failures into errors; all
// models and threads use it.
#ifndef NEREID_TREELITE_H
#define NEREID_TREELITE_H

#include "framework.h"

typedef void treelite_model;
typedef void treelite_builder;
typedef void treelite_gtil; // settings of predictions: threads, kind of output

// A field of a model: `count` values of `item_size` bytes each, owned by the model.
typedef struct treelite_field {
  void *data;
  char *format; // "=l", as in Python's struct
  size_t item_size;
  size_t count;
} treelite_field;

// Name, arguments. Each returns an int, 0 for success.
#define TREELITE_FUNCTIONS(F)                                                                      \
  F(LoadXGBoostModelLegacyBinary, (const char *path, const char *config, treelite_model **))       \
  F(LoadXGBoostModelJSON, (const char *path, const char *config, treelite_model **))               \
  F(LoadXGBoostModelUBJSON, (const char *path, const char *config, treelite_model **))             \
  F(LoadLightGBMModel, (const char *path, const char *config, treelite_model **))                  \
  F(DeserializeModelFromFile, (const char *path, treelite_model **))                               \
  F(SerializeModelToBytes, (treelite_model *, const char **bytes, size_t *size))                   \
  F(FreeModel, (treelite_model *))                                                                 \
  F(QueryNumTree, (treelite_model *, size_t *))                                                    \
  F(QueryNumFeature, (treelite_model *, int *))                                                    \
  F(GetHeaderField, (treelite_model *, const char *name, treelite_field *))                        \
  F(SetHeaderField, (treelite_model *, const char *name, treelite_field))                          \
  F(GetTreeField, (treelite_model *, uint64_t tree, const char *name, treelite_field *))           \
  F(GTILParseConfig, (const char *config, treelite_gtil **))                                       \
  F(GTILDeleteConfig, (treelite_gtil *))                                                           \
  F(GTILPredict, (treelite_model *, const void *input, const char *type, uint64_t rows,            \
                  void *output, treelite_gtil *))                                                  \
  F(RegisterLogCallback, (void (*)(const char *)))                                                 \
  F(RegisterWarningCallback, (void (*)(const char *)))                                             \
  F(GetModelBuilder, (const char *config, treelite_builder **))                                    \
  F(ModelBuilderStartTree, (treelite_builder *))                                                   \
  F(ModelBuilderStartNode, (treelite_builder *, int key))                                          \
  F(ModelBuilderLeafScalar, (treelite_builder *, double value))                                    \
  F(ModelBuilderEndNode, (treelite_builder *))                                                     \
  F(ModelBuilderEndTree, (treelite_builder *))                                                     \
  F(ModelBuilderCommitModel, (treelite_builder *, treelite_model **))                              \
  F(DeleteModelBuilder, (treelite_builder *))

typedef struct treelite {
#define TREELITE_MEMBER(name, arguments) int(*name) arguments;
  TREELITE_FUNCTIONS(TREELITE_MEMBER)
#undef TREELITE_MEMBER
  const char *(*GetLastError)(void);
  char version[32]; // "4.8.1"
} treelite;

TRITONSERVER_Error *treelite_open(framework_library *library);
void treelite_close(framework_library *library);

static inline const treelite *treelite_of(const framework_model *model)
{
  return model->library->state;
}

// The text of the thread's last failed call, on one line without the place in treelite's source,
// for free(). `last`, which may be NULL, is treelite's last log text, which often has the reason.
// NULL when memory is short.
char *treelite_reason(const treelite *t, const char *last);

// Between the two calls treelite's log texts of this thread are kept instead of logged. Returns the
// last text, for free(); NULL without any.
void treelite_listen_begin(const treelite *t);
char *treelite_listen_end(void);

#endif
