# SPDX-License-Identifier: Apache-2.0
"""The worker of nereid's Python backend: one process that runs one instance of a model.

`main` is what the process does; the other modules are what `triton_python_backend_utils` offers to models, and
`_nereid`, beside this package, is its native part.
"""
