# SPDX-License-Identifier: Apache-2.0
"""Run by the Python backend as `python3 <this directory>`, with a socket to it as descriptor 3."""

if __name__ == "__main__":
    from nereid_worker.main import main

    main()
