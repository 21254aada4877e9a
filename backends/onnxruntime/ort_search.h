// Where ONNX Runtime may be. Called while the backend starts.
#ifndef NEREID_ORT_SEARCH_H
#define NEREID_ORT_SEARCH_H

#include <stdbool.h>

// The newest libonnxruntime.so in `folder`, a path for free(); NULL when there is none.
char *ort_search_folder(const char *folder);

// The same in the onnxruntime package of the Python environment at `environment`
// (lib/python3.x/site-packages/onnxruntime/capi); the newest Python's comes first.
char *ort_search_python(const char *environment);

#endif
