"""All seeded bugs."""
import seeds_memory
import seeds_server
import seeds_wire

ALL = seeds_wire.ALL + seeds_server.ALL + seeds_memory.ALL
