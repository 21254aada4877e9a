// SPDX-License-Identifier: Apache-2.0
// nereid serve: links model files into a private repository (private_repository.h), and serves
// directories that are repositories as they are. Main thread, before the server exists.
#ifndef NEREID_DAEMON_SERVE_COMMAND_H
#define NEREID_DAEMON_SERVE_COMMAND_H

#include "daemon/options.h"

#define SERVE_HELP                                                                                 \
  "Serves model files as they are: no repository, no configuration. When they are ready, the\n"    \
  "command line that calls each is printed.\n"                                                     \
  "\n"                                                                                             \
  "A <file> is model.onnx, .py, .pt, .pt2, .xml (with its .bin), .tflite, a SavedModel, a\n"       \
  "directory of those, a model's directory (config.pbtxt and versions), or a whole repository.\n"  \
  "A model is called as its file: resnet50.onnx is resnet50; one that is called model.onnx as "    \
  "the\n"                                                                                          \
  "directory that it is in. <name>=<file> says otherwise.\n"

error *serve_prepare(daemon_options *options);

#endif
