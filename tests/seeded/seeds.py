"""All seeded bugs."""
import seeds_server
import seeds_wire

ALL = seeds_wire.ALL + seeds_server.ALL
