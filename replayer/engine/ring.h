/* SPDX-License-Identifier: MIT */
/*
 * The io_uring, the clock, and the only place where the program sleeps.
 *
 * What lies in the ring and what it is for is its user's; the ring knows when. A sleep ends with a
 * completion, at its time, or soon after *stop is set, and the clock is read once after it.
 */
#ifndef REPLAYER_RING_H
#define REPLAYER_RING_H

#include <liburing.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* user_data of requests that are no attempt */
#define CANCEL_USER_DATA 1
#define TICK_USER_DATA 2

/* When completions were seen: those before this tail of the completion queue. */
struct seen {
	uint32_t tail;
	uint64_t at_ns;
};
#define N_SEEN 256

struct ring {
	struct io_uring uring;
	uint64_t (*clock_ns)(void);
	const sig_atomic_t *stop;
	uint64_t now_ns; /* the clock's last reading */
	/* Told before entries of which one was marked go to the kernel: now_ns is their submission.
	 */
	void (*submitting)(void *context);
	void *context;
	bool marked;

	bool wait_is_absolute;
	uint64_t worked_bytes; /* of content, since the clock was read */
	uint64_t uncollected_bytes;
	struct __kernel_timespec tick; /* see ring_tick() */
	struct seen seen[N_SEEN];
	uint32_t n_seen, next_seen, seen_tail;
};

/* CLOCK_MONOTONIC. */
uint64_t ring_monotonic_ns(void);
/* Sets the ring up for so many I/Os with the drives as its registered files; dies when the kernel
 * cannot. Sleeps are in the time of the clock, which runs as CLOCK_MONOTONIC does. */
void ring_open(struct ring *ring, unsigned int depth, const int *drives, unsigned int n_drives,
	       uint64_t (*clock_ns)(void), const sig_atomic_t *stop);
void ring_close(struct ring *ring);
static inline bool ring_is_stopped(const struct ring *ring)
{
	return __atomic_load_n(ring->stop, __ATOMIC_RELAXED);
}
/* A free submission entry; submits what is there when the queue is full. */
struct io_uring_sqe *ring_sqe(struct ring *ring);
/* The last entry is one whose submission is to be told. */
static inline void ring_mark(struct ring *ring)
{
	ring->marked = true;
}
void ring_submit(struct ring *ring);
/* Blocks were filled or checked: after some us' worth submits what is ready, and notes which
 * completions are there. */
void ring_worked(struct ring *ring, uint32_t bytes);
/* When the completion at this place of the queue was seen; asked in the queue's order. */
uint64_t ring_seen_ns(struct ring *ring, uint32_t place);
/* Sleeps until a completion is there or the time has come, a second at most, then reads the clock.
 */
void ring_wait_until(struct ring *ring, uint64_t at_ns);
/* Sleeps until the time has come or the program is to stop. */
void ring_sleep_until(struct ring *ring, uint64_t at_ns);
/* A completion in a second, with TICK_USER_DATA: no sleep is longer then. */
void ring_tick(struct ring *ring);
/* Submits, sleeps until a completion is there, and reads the clock. */
void ring_submit_and_wait(struct ring *ring);
/* Sleeps to a multiple of round_ns and returns it, so that a run's place among the kernel's
 * periodic timers does not depend on what came before it: in the lab's virtual time equal runs then
 * are equal. */
uint64_t ring_wait_for_round_time(struct ring *ring, uint64_t round_ns);

#endif
