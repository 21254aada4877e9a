// SPDX-License-Identifier: Apache-2.0
// Packages of compiled models (.pt2): the archive, what it says it is for, the shared object's
// header and the names of its tensors.
#include "fuzz.h"

#include "torch_names.h"
#include "torch_open.h"
#include "torch_package.h"

#include "base/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_names(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1);
  if (text == NULL)
    return;
  memcpy(text, data, size);
  text[size] = '\0';
  json_decref(torch_input_names(text));
  json_decref(torch_output_names(text));
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  torch_package package = TORCH_PACKAGE_EMPTY;
  bool checks = false;
  int file = torch_memory_file("package");
  if (file < 0 || !files_write(file, data, size))
    abort();
  TRITONSERVER_Error *error = torch_package_read(file, "1/model.pt2", &package);
  if (error == NULL)
    error = torch_package_check(&package, &torch_own_machine, "1/model.pt2");
  if (error == NULL)
    error = torch_package_prepare(&package, "1/model.pt2", size % 2 == 0, &checks);
  TRITONSERVER_ErrorDelete(error);
  torch_package_fini(&package);
  close(file);
  read_names(data, size);
  return 0;
}
