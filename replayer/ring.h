/* SPDX-License-Identifier: MIT */
/* The io_uring, the clock, and the only place where the program sleeps. */
#ifndef REPLAYER_RING_H
#define REPLAYER_RING_H

#include <liburing.h>
#include <stdint.h>

struct replay;

/* user_data of requests that are no attempt */
#define CANCEL_USER_DATA 1
#define TICK_USER_DATA 2

/* Sets the ring up with the drives as its registered files; dies when the kernel cannot. */
void ring_open(struct replay *r);
void ring_submit(struct replay *r);
/* A free submission entry; submits what is there when the queue is full. */
struct io_uring_sqe *ring_sqe(struct replay *r);
/* Blocks were filled or checked: after some us' worth submits what is ready, and notes which
 * completions are there. */
void ring_worked(struct replay *r, uint32_t bytes);
/* When the completion at this place of the queue was seen; asked in the queue's order. */
uint64_t ring_seen_ns(struct replay *r, uint32_t place);
/* Sleeps until a completion is there or the time has come, then reads the clock into r->now_ns. */
void ring_wait_until(struct replay *r, uint64_t at_ns);
/* A completion in a second, with TICK_USER_DATA: no sleep is longer then. */
void ring_tick(struct replay *r);
/* Submits, sleeps until a completion is there, and reads the clock. */
void ring_submit_and_wait(struct replay *r);
/* Sleeps to a round time and returns it, so that a run's place among the kernel's periodic timers
 * does not depend on what came before it: in the lab's virtual time equal runs then are equal. */
uint64_t ring_wait_for_round_time(struct replay *r);

#endif
