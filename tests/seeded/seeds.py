# SPDX-License-Identifier: Apache-2.0
"""All seeded bugs."""
import seeds_gpu
import seeds_memory
import seeds_sequences
import seeds_server
import seeds_trace
import seeds_wire

ALL = seeds_wire.ALL + seeds_server.ALL + seeds_memory.ALL + seeds_trace.ALL + seeds_sequences.ALL + seeds_gpu.ALL
