/* SPDX-License-Identifier: MIT */
/*
 * The io_uring, the clock, and the only place where the program sleeps.
 *
 * The caller decides which requests are in the ring; the ring handles the timing. A sleep ends with
 * a completion, at the given time, or soon after *stop is set. Then the clock is read once.
 */
#ifndef REPLAYER_RING_H
#define REPLAYER_RING_H

#include <liburing.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* user_data of requests that cancel attempts */
#define CANCEL_USER_DATA 1

/* The time at which the completions before a tail of the completion queue were seen. */
struct seen {
	uint32_t tail;
	uint64_t at_ns;
};
#define N_SEEN 256

struct ring {
	struct io_uring uring;
	uint64_t (*clock_ns)(void);
	const volatile sig_atomic_t *stop;
	uint64_t now_ns; /* the last reading of the clock */
	/*
	 * Called before marked entries are submitted to the kernel: now_ns is their submission
	 * time.
	 */
	void (*submitting)(void *context);
	void *context;
	bool marked;

	bool wait_is_absolute;
	uint64_t worked_bytes; /* bytes of content processed since the clock was read */
	uint64_t uncollected_bytes;
	struct seen seen[N_SEEN];
	uint32_t n_seen, next_seen, seen_tail;
};

/* Return CLOCK_MONOTONIC in ns. */
uint64_t ring_monotonic_ns(void);
/*
 * Set up the ring for @depth I/Os with the drives as registered files; exit on failure. Sleeps use
 * the given clock, which must run at the rate of CLOCK_MONOTONIC.
 */
void ring_open(struct ring *ring, unsigned int depth, const int *drives, unsigned int n_drives,
	       uint64_t (*clock_ns)(void), const volatile sig_atomic_t *stop);
void ring_close(struct ring *ring);
static inline bool ring_is_stopped(const struct ring *ring)
{
	return *ring->stop;
}
/* Return a free submission queue entry; submit first if the queue is full. */
struct io_uring_sqe *ring_sqe(struct ring *ring);
/* Request a call of submitting() for the last entry. */
static inline void ring_mark(struct ring *ring)
{
	ring->marked = true;
}
void ring_submit(struct ring *ring);
/*
 * Account for filled or checked blocks. After some microseconds of such work, submit prepared
 * entries and timestamp the completions.
 */
void ring_worked(struct ring *ring, uint32_t bytes);
/*
 * Return the time at which the completion at a position of the queue was seen; call it in the order
 * of the queue.
 */
uint64_t ring_seen_ns(struct ring *ring, uint32_t place);
/* Sleep until a completion arrives or the time has come, at most a second, then read the clock. */
void ring_wait_until(struct ring *ring, uint64_t at_ns);
/* Sleep until the time has come or the program has to stop. */
void ring_sleep_until(struct ring *ring, uint64_t at_ns);
/*
 * Sleep until a multiple of round_ns and return it. The phase of a run relative to the kernel's
 * periodic timers then does not depend on earlier events, so in the lab's virtual time equal runs
 * give equal results.
 */
uint64_t ring_wait_for_round_time(struct ring *ring, uint64_t round_ns);

#endif
