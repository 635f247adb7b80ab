// SPDX-License-Identifier: MIT
/* The io_uring, the clock, and the only place where the program sleeps: see ring.h. */
#include "ring.h"
#include "attempts.h"
#include "engine.h"
#include "error.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* Both came with Linux 6.12; the feature tells of the flag, which has none of its own. */
#ifndef IORING_ENTER_ABS_TIMER
#define IORING_ENTER_ABS_TIMER (1U << 5)
#endif
#ifndef IORING_FEAT_MIN_TIMEOUT
#define IORING_FEAT_MIN_TIMEOUT (1U << 15)
#endif

/* The longest sleep: a signal that arrives just before it must not wait longer than this. */
#define WAIT_MAX_NS 1000000000ull

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Work on content from which the clock is read again before its reading is used, some us; and from
 * which completions are looked for. A reading costs 256 ns of the lab's virtual time. */
#define LOOK_BYTES (16u << 10)
#define COLLECT_BYTES (64u << 10)

static void look(struct replay *r)
{
	r->now_ns = clock_ns();
	r->worked_bytes = 0;
}

static void look_after_work(struct replay *r)
{
	if (r->worked_bytes >= LOOK_BYTES)
		look(r);
}

static uint32_t completion_tail(const struct replay *r)
{
	return __atomic_load_n(r->ring.cq.ktail, __ATOMIC_ACQUIRE);
}

static void note_completions(struct replay *r)
{
	uint32_t tail = completion_tail(r);

	/* Without a place left those that come now are taken to be seen later. */
	if (tail == r->seen_tail || r->n_seen == N_SEEN)
		return;
	r->seen[r->n_seen++] = (struct seen){tail, r->now_ns};
	r->seen_tail = tail;
}

uint64_t ring_seen_ns(struct replay *r, uint32_t place)
{
	while (r->next_seen < r->n_seen) {
		if ((int32_t)(r->seen[r->next_seen].tail - place) > 0)
			return r->seen[r->next_seen].at_ns;
		r->next_seen++;
	}
	r->next_seen = r->n_seen = 0;
	look(r);
	note_completions(r);
	return r->now_ns;
}

void ring_worked(struct replay *r, uint32_t bytes)
{
	r->worked_bytes += bytes;
	r->uncollected_bytes += bytes;
	if (r->uncollected_bytes < COLLECT_BYTES)
		return;
	r->uncollected_bytes = 0;
	ring_submit(r);
	/* Completions are handed over in a system call only. */
	io_uring_get_events(&r->ring);
	if (completion_tail(r) != r->seen_tail) {
		look(r);
		note_completions(r);
	}
}

void ring_submit(struct replay *r)
{
	if (r->unsubmitted) {
		look_after_work(r);
		attempts_submitted(r);
	}
	while (io_uring_sq_ready(&r->ring)) {
		int n = io_uring_submit(&r->ring);

		if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY)
			die("io_uring_submit: %s", strerror(-n));
		/* EBUSY: completions must be reaped first; the caller's loop does that. */
		if (n == -EBUSY || n == -EAGAIN)
			return;
	}
}

struct io_uring_sqe *ring_sqe(struct replay *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe) {
		ring_submit(r);
		sqe = io_uring_get_sqe(&r->ring);
	}
	if (!sqe)
		die("io_uring: submission queue of %u entries is full and does not drain; use a "
		    "smaller --depth",
		    *r->ring.sq.kring_entries);
	return sqe;
}

void ring_wait_until(struct replay *r, uint64_t at_ns)
{
	struct __kernel_timespec ts;
	struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&ts};
	unsigned int flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
	int n;

	if (at_ns > r->now_ns + WAIT_MAX_NS)
		at_ns = r->now_ns + WAIT_MAX_NS;
	if (r->wait_is_absolute) {
		flags |= IORING_ENTER_ABS_TIMER;
	} else {
		at_ns = at_ns > r->now_ns ? at_ns - r->now_ns : 0;
	}
	ts.tv_sec = at_ns / 1000000000;
	ts.tv_nsec = at_ns % 1000000000;
	n = io_uring_enter2(r->ring.ring_fd, 0, 1, flags, (void *)&arg, sizeof(arg));
	if (n < 0 && n != -ETIME && n != -EINTR && n != -EBUSY && n != -EAGAIN)
		die("io_uring_enter: %s", strerror(-n));
	r->uncollected_bytes = 0;
	look(r);
	note_completions(r);
}

void ring_tick(struct replay *r)
{
	struct io_uring_sqe *sqe = ring_sqe(r);

	r->tick = (struct __kernel_timespec){.tv_sec = WAIT_MAX_NS / 1000000000};
	io_uring_prep_timeout(sqe, &r->tick, 0, 0);
	sqe->user_data = TICK_USER_DATA;
}

void ring_submit_and_wait(struct replay *r)
{
	int n;

	look_after_work(r);
	attempts_submitted(r);
	n = io_uring_submit_and_wait(&r->ring, 1);
	if (n < 0 && n != -EINTR && n != -EBUSY && n != -EAGAIN)
		die("io_uring_submit_and_wait: %s", strerror(-n));
	r->uncollected_bytes = 0;
	look(r);
	note_completions(r);
}

static unsigned int power_of_two(unsigned int v, unsigned int max)
{
	unsigned int p = 64;

	while (p < v && p < max)
		p *= 2;
	return p;
}

void ring_open(struct replay *r)
{
	/* The most the kernel has is used: completions handled by this thread only, when it waits
	 * for them. */
	static const unsigned int flags[] = {IORING_SETUP_SINGLE_ISSUER |
						     IORING_SETUP_DEFER_TASKRUN,
					     IORING_SETUP_COOP_TASKRUN, 0};
	int fds[MAX_DRIVES], n = -1;
	struct io_uring_params p;

	/* Timers of a waiting thread may otherwise be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	for (unsigned int i = 0; n < 0 && i < sizeof(flags) / sizeof(*flags); i++) {
		memset(&p, 0, sizeof(p));
		p.flags = flags[i] | IORING_SETUP_CQSIZE;
		p.cq_entries = power_of_two(r->o.depth * 4, 65536);
		n = io_uring_queue_init_params(power_of_two(r->o.depth, 4096), &r->ring, &p);
	}
	if (n < 0)
		die("io_uring: %s; the kernel needs io_uring (Linux 5.11 or later), and it must "
		    "not "
		    "be switched off by kernel.io_uring_disabled",
		    strerror(-n));
	if (!(p.features & IORING_FEAT_EXT_ARG))
		die("io_uring: waiting with a timeout needs Linux 5.11 or later");
	r->wait_is_absolute = p.features & IORING_FEAT_MIN_TIMEOUT;
	for (unsigned int k = 0; k < r->n_drives; k++)
		fds[k] = r->devices[k].fd;
	n = io_uring_register_files(&r->ring, fds, r->n_drives);
	if (n)
		die("io_uring: registering the drives: %s", strerror(-n));
}

uint64_t ring_wait_for_round_time(struct replay *r)
{
	uint64_t round_ns = (uint64_t)(r->o.start_every_s * 1e9);
	uint64_t at;

	/*
	 * Not before a quarter of it: what the system did just now leaves traces, such as the
	 * scheduler's timers, that a moment of rest lets run out.
	 */
	r->now_ns = clock_ns();
	at = ((r->now_ns + round_ns / 4) / round_ns + 1) * round_ns;
	while (r->now_ns < at && !engine_interrupted())
		ring_wait_until(r, at);
	return at < r->now_ns ? at : r->now_ns;
}
