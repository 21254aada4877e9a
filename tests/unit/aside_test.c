// The list of executions that no thread waits for, when workers are lent, go on, and die. The
// keeper's turn, the execution's messages and the circles are played.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_error.h"
#include "codec/protocol.h"
#include "instance/aside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

// ---- what is played

struct worker_keeper {
  aside_list aside;
  circle_member member;
  worker_link *link; // NULL: no turn is to be had
  atomic_int turns;  // that were taken and have not ended
};

static int links[2];
static atomic_int references; // to links
static atomic_uint failed, freed, answered, sent_late;
static bool has_call, sends;

static worker_link *link_of(int number)
{
  return (worker_link *)&links[number];
}

aside_list *worker_keeper_aside(worker_keeper *self)
{
  return &self->aside;
}

circle_member *worker_keeper_member(worker_keeper *self)
{
  return &self->member;
}

TRITONBACKEND_ModelInstance *worker_keeper_instance(const worker_keeper *self)
{
  (void)self;
  return NULL;
}

worker_link *worker_link_ref(worker_link *self)
{
  references++;
  return self;
}

void worker_link_unref(worker_link *self)
{
  if (self != NULL)
    references--;
}

void worker_keeper_end_work(worker_keeper *self, worker_link *link)
{
  worker_link_unref(link);
  assert_true(atomic_fetch_sub(&self->turns, 1) > 0);
}

bool worker_keeper_try_begin_work(worker_keeper *self, worker_link **link)
{
  if (self->link == NULL || self->turns > 0)
    return false;
  self->turns++;
  *link = worker_link_ref(self->link);
  return true;
}

TRITONSERVER_Error *worker_keeper_why_gone(worker_keeper *self, worker_link *link)
{
  (void)self, (void)link;
  return backend_error(TRITONSERVER_ERROR_INTERNAL, "it is gone");
}

void circle_count(circle_member *self, int difference)
{
  self->depth += (unsigned)difference;
}

bool circle_has_call(TRITONBACKEND_Request *const *requests, uint32_t count)
{
  (void)requests, (void)count;
  return has_call;
}

execution *execution_split(execution *self)
{
  (void)self;
  return NULL;
}

bool execution_send(execution *self, uint32_t flags)
{
  assert_int_equal(flags, WORK_LATE);
  assert_non_null(self->link);
  sent_late++;
  return sends;
}

void execution_take_answer(execution *self, const channel_message *message)
{
  assert_int_equal(self->work_id, message->id);
  answered++;
}

void execution_fail(execution *self, TRITONSERVER_Error *error_owned)
{
  (void)self;
  TRITONSERVER_ErrorDelete(error_owned);
  failed++;
}

void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
{
  (void)index;
  TRITONSERVER_ErrorDelete(error_owned);
  self->count--;
}

void execution_free(execution *self)
{
  (void)self;
  freed++;
}

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is)
{
  (void)request;
  *is = false;
  return NULL;
}

// ---- a worker and its executions

static worker_keeper keeper;
static TRITONBACKEND_Request *requests[1];

static int set_up(void **state)
{
  (void)state;
  keeper = (worker_keeper){.link = link_of(0)};
  references = 0;
  failed = freed = answered = sent_late = 0;
  has_call = false;
  sends = true;
  aside_init(&keeper.aside);
  aside_open(&keeper.aside, link_of(0));
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  aside_fini(&keeper.aside); // asserts that nothing is left
  assert_int_equal(references, 0);
  assert_int_equal(keeper.turns, 0);
  assert_int_equal(keeper.member.depth, 0);
  return 0;
}

// One that has its turn.
static execution begun(uint64_t id)
{
  keeper.turns++;
  return (execution){.keeper = &keeper,
                     .link = worker_link_ref(link_of(0)),
                     .work_id = id,
                     .requests = requests,
                     .count = 1};
}

// The same, sent and held.
static execution sent(uint64_t id)
{
  aside_hold(&keeper.aside);
  return begun(id);
}

static void answer(uint64_t id, uint32_t flags)
{
  const channel_message message = {.kind = CALL_ANSWER, .id = id, .flags = flags};
  aside_take_answer(&keeper, &message);
}

static void *die(void *argument)
{
  (void)argument;
  TRITONSERVER_Error *error = backend_error(TRITONSERVER_ERROR_INTERNAL, "the worker ended");
  aside_fail_all(&keeper, error);
  TRITONSERVER_ErrorDelete(error);
  return NULL;
}

// As the listener does it when the worker has ended; gives its thread when it has begun to wait.
static pthread_t begin_to_die(void)
{
  pthread_t listener;
  assert_int_equal(pthread_create(&listener, NULL, die, NULL), 0);
  for (bool begun = false; !begun;) {
    pthread_mutex_lock(&keeper.aside.lock);
    begun = keeper.aside.link == NULL;
    pthread_mutex_unlock(&keeper.aside.lock);
  }
  return listener;
}

// ---- lent

static void what_is_lent_frees_the_worker_and_is_answered_later(void **state)
{
  (void)state;
  execution one = sent(1);
  assert_true(aside_put_lent(&one));
  assert_int_equal(keeper.turns, 0);
  assert_int_equal(keeper.aside.held, 0);
  assert_int_equal(keeper.member.depth, 1);
  assert_false(aside_is_empty(&keeper.aside));
  answer(7, 0); // no such execution
  assert_int_equal(answered, 0);
  answer(1, 0);
  assert_int_equal(answered, 1);
  assert_int_equal(freed, 1);
  assert_true(aside_is_empty(&keeper.aside));
}

static void a_worker_that_dies_while_it_is_lent_leaves_the_execution_to_who_waits(void **state)
{
  (void)state;
  execution one = sent(1);
  pthread_t listener = begin_to_die(); // and waits for us
  assert_false(aside_put_lent(&one));
  assert_int_equal(keeper.aside.held, 1); // still ours, once
  assert_int_equal(keeper.member.depth, 0);
  assert_int_equal(failed, 0);
  aside_let_go(&keeper.aside); // who waits has answered it
  worker_keeper_end_work(&keeper, one.link);
  pthread_join(listener, NULL);
  assert_int_equal(keeper.aside.held, 0);
  // the next worker's life is as good as the first's
  aside_open(&keeper.aside, link_of(1));
  aside_hold(&keeper.aside);
  aside_let_go(&keeper.aside);
  die(NULL);
}

static void what_is_lent_fails_with_the_worker(void **state)
{
  (void)state;
  execution one = sent(1), two = sent(2);
  assert_true(aside_put_lent(&one));
  assert_true(aside_put_lent(&two));
  assert_int_equal(keeper.member.depth, 2);
  die(NULL);
  assert_int_equal(failed, 2);
  assert_int_equal(freed, 2);
}

// The answer comes by another ring than the word that the worker is lent.
static void *put_lent(void *argument)
{
  assert_true(aside_put_lent(argument));
  return NULL;
}

static void an_answer_that_comes_first_waits_for_its_execution(void **state)
{
  (void)state;
  pthread_t instance;
  execution one = sent(1);
  assert_int_equal(pthread_create(&instance, NULL, put_lent, &one), 0);
  answer(1, 0);
  pthread_join(instance, NULL);
  assert_int_equal(answered, 1);
}

// ---- deferred

static void what_is_no_call_waits_until_the_stack_is_empty_and_is_sent_in_order(void **state)
{
  (void)state;
  execution lent = sent(1);
  assert_true(aside_put_lent(&lent));
  execution second = begun(2), third = begun(3);
  assert_true(aside_defer(&second));
  assert_true(aside_defer(&third));
  assert_int_equal(keeper.turns, 0);
  aside_go_on(&keeper);
  assert_int_equal(sent_late, 0); // the worker is lent
  answer(1, 0);
  assert_int_equal(sent_late, 1);
  assert_int_equal(keeper.turns, 1);
  answer(3, 0); // not sent yet
  assert_int_equal(answered, 1);
  answer(2, 0);
  assert_int_equal(sent_late, 2);
  answer(3, 0);
  assert_int_equal(answered, 3);
}

static void a_call_enters_a_worker_that_is_lent(void **state)
{
  (void)state;
  execution lent = sent(1), call = begun(2);
  assert_true(aside_put_lent(&lent));
  has_call = true;
  assert_false(aside_defer(&call));
  worker_keeper_end_work(&keeper, call.link);
  answer(1, 0);
}

static void nothing_is_deferred_while_no_worker_is_lent(void **state)
{
  (void)state;
  execution one = begun(1);
  assert_false(aside_defer(&one));
  worker_keeper_end_work(&keeper, one.link);
}

static void what_was_sent_late_may_be_lent_too(void **state)
{
  (void)state;
  execution first = sent(1);
  assert_true(aside_put_lent(&first));
  execution second = begun(2);
  assert_true(aside_defer(&second));
  answer(1, 0);
  assert_int_equal(keeper.turns, 1);
  answer(2, ANSWER_LENT);
  assert_int_equal(keeper.turns, 0);
  assert_int_equal(keeper.member.depth, 1);
  answer(2, ANSWER_LENT); // said twice by a worker that is not believed
  assert_int_equal(keeper.member.depth, 1);
  answer(2, 0);
  assert_int_equal(answered, 2);
}

static void what_cannot_be_sent_late_ends_and_the_next_goes_on(void **state)
{
  (void)state;
  execution first = sent(1);
  assert_true(aside_put_lent(&first));
  execution second = begun(2);
  assert_true(aside_defer(&second));
  sends = false;
  answer(1, 0);
  assert_int_equal(sent_late, 1);
  assert_int_equal(freed, 2);
  assert_true(aside_is_empty(&keeper.aside));
}

static void what_is_deferred_fails_with_the_worker(void **state)
{
  (void)state;
  execution first = sent(1);
  assert_true(aside_put_lent(&first));
  execution second = begun(2);
  assert_true(aside_defer(&second));
  die(NULL);
  assert_int_equal(failed, 2);
  execution third = begun(3);
  assert_false(aside_defer(&third)); // sending will tell
  worker_keeper_end_work(&keeper, third.link);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(what_is_lent_frees_the_worker_and_is_answered_later),
      TEST(a_worker_that_dies_while_it_is_lent_leaves_the_execution_to_who_waits),
      TEST(what_is_lent_fails_with_the_worker),
      TEST(an_answer_that_comes_first_waits_for_its_execution),
      TEST(what_is_no_call_waits_until_the_stack_is_empty_and_is_sent_in_order),
      TEST(a_call_enters_a_worker_that_is_lent),
      TEST(nothing_is_deferred_while_no_worker_is_lent),
      TEST(what_was_sent_late_may_be_lent_too),
      TEST(what_cannot_be_sent_late_ends_and_the_next_goes_on),
      TEST(what_is_deferred_fails_with_the_worker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
