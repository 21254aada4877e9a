// SPDX-License-Identifier: Apache-2.0
// The backend "held" keeps its requests until the program that loaded it says how one is answered.
// That program opens the same file and finds HELD_ANSWER in it.
#ifndef NEREID_TESTS_HELD_H
#define NEREID_TESTS_HELD_H

#include <stdbool.h>

#define HELD_ANSWER "held_answer"

enum {
  HELD_RESPONSES = 3,    // so many of them
  HELD_FAILS = 4,        // the last of them is an error
  HELD_RELEASES = 8,     // the request is released before them
  HELD_FINAL_ALONE = 16, // the end is a flag behind them
  HELD_NEWEST = 32,      // the request that came last; else first
  HELD_LARGE = 64,       // each response has 1 MiB
  HELD_STAYS = 128,      // that was not all: the request is kept
};

// Answers one request; false: none is held. Any thread.
typedef bool held_answer_function(unsigned how);

#endif
