# SPDX-License-Identifier: Apache-2.0
"""python -m nereid."""
from nereid import main

main()
