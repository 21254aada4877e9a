# SPDX-License-Identifier: Apache-2.0
"""The worker's program. The Python backend runs `python3 <this directory>`, with a socket to the host as descriptor 3."""

if __name__ == "__main__":
    from nereid_worker.main import main

    main()
