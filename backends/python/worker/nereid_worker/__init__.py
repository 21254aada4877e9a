# SPDX-License-Identifier: Apache-2.0
"""The worker of nereid's Python backend: one process that runs one instance of a model.

`main` is the process's loop. The other modules implement `triton_python_backend_utils` for models. `_nereid`, beside
this package, is the native part.
"""
