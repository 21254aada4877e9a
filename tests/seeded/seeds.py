"""All seeded bugs."""
import seeds_memory
import seeds_server
import seeds_trace
import seeds_wire

ALL = seeds_wire.ALL + seeds_server.ALL + seeds_memory.ALL + seeds_trace.ALL
