// What libtritonserver.so offers beyond Triton's C ABI. A program that uses none of it runs on
// either server.
#ifndef NEREID_NEREID_H
#define NEREID_NEREID_H

// A flag of TRITONSERVER_InferenceRequestSetFlags: the request may be executed, answered and
// released on the calling thread, before TRITONSERVER_ServerInferAsync returns. The server does so
// when an instance is idle, the request would be a batch of its own at once, and the model has been
// answering within microseconds: then a hand-over to the instance's thread and back costs more than
// the model. The caller must hold no lock that its callbacks take. Backends do not see the flag.
#define NEREID_REQUEST_FLAG_RUN_HERE 0x40000000u

#endif
