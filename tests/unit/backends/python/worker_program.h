// SPDX-License-Identifier: Apache-2.0
// What a WORK_EXECUTE of a test says, as its value, to worker_program.c.
#ifndef NEREID_WORKER_PROGRAM_H
#define NEREID_WORKER_PROGRAM_H

enum {
  PLAYED_ANSWER,
  PLAYED_EXIT, // with status 3
  PLAYED_KILL, // of itself, by SIGKILL
  PLAYED_HANG, // it is not answered
  PLAYED_CALL  // makes a call first: CALL_RELEASE of 77
};

#endif
