// SPDX-License-Identifier: MIT
/* The io_uring, the clock, and the only place where the program sleeps: see ring.h. */
#include "ring.h"
#include "error.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* Both came with Linux 6.12. The flag has no feature bit, so that of the other one is checked. */
#ifndef IORING_ENTER_ABS_TIMER
#define IORING_ENTER_ABS_TIMER (1U << 5)
#endif
#ifndef IORING_FEAT_MIN_TIMEOUT
#define IORING_FEAT_MIN_TIMEOUT (1U << 15)
#endif

/* The longest sleep: a signal that arrives just before it is not delayed by more than this. */
#define WAIT_MAX_NS 1000000000ull

uint64_t ring_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * The amount of content work, in bytes, after which the clock is read again before it is used, and
 * after which completions are checked: some microseconds. Reading the clock costs 256 ns of the
 * lab's virtual time.
 */
#define CLOCK_BYTES (16u << 10)
#define COLLECT_BYTES (64u << 10)

static void read_clock(struct ring *ring)
{
	ring->now_ns = ring->clock_ns();
	ring->worked_bytes = 0;
}

static uint32_t completion_tail(const struct ring *ring)
{
	return __atomic_load_n(ring->uring.cq.ktail, __ATOMIC_ACQUIRE);
}

static void note_completions(struct ring *ring)
{
	uint32_t tail = completion_tail(ring);

	/* If the table is full, these completions get the timestamp of a later check. */
	if (tail == ring->seen_tail || ring->n_seen == N_SEEN)
		return;
	ring->seen[ring->n_seen++] = (struct seen){tail, ring->now_ns};
	ring->seen_tail = tail;
}

uint64_t ring_seen_ns(struct ring *ring, uint32_t place)
{
	while (ring->next_seen < ring->n_seen) {
		if ((int32_t)(ring->seen[ring->next_seen].tail - place) > 0)
			return ring->seen[ring->next_seen].at_ns;
		ring->next_seen++;
	}
	ring->next_seen = ring->n_seen = 0;
	read_clock(ring);
	note_completions(ring);
	return ring->now_ns;
}

void ring_worked(struct ring *ring, uint32_t bytes)
{
	ring->worked_bytes += bytes;
	ring->uncollected_bytes += bytes;
	if (ring->uncollected_bytes < COLLECT_BYTES)
		return;
	ring->uncollected_bytes = 0;
	ring_submit(ring);
	/* Completions are delivered only during a system call. */
	io_uring_get_events(&ring->uring);
	if (completion_tail(ring) != ring->seen_tail) {
		read_clock(ring);
		note_completions(ring);
	}
}

void ring_submit(struct ring *ring)
{
	if (ring->marked) {
		if (ring->worked_bytes >= CLOCK_BYTES)
			read_clock(ring);
		ring->marked = false;
		if (ring->submitting)
			ring->submitting(ring->context);
	}
	while (io_uring_sq_ready(&ring->uring)) {
		int n = io_uring_submit(&ring->uring);

		if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY)
			die("io_uring_submit: %s", strerror(-n));
		/* EBUSY: the caller's loop must reap completions first. */
		if (n == -EBUSY || n == -EAGAIN)
			return;
	}
}

struct io_uring_sqe *ring_sqe(struct ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	if (!sqe) {
		ring_submit(ring);
		sqe = io_uring_get_sqe(&ring->uring);
	}
	if (!sqe)
		die("io_uring: submission queue of %u entries is full and does not drain; use a "
		    "smaller --depth",
		    *ring->uring.sq.kring_entries);
	return sqe;
}

void ring_wait_until(struct ring *ring, uint64_t at_ns)
{
	struct __kernel_timespec ts;
	struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&ts};
	unsigned int flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
	int n;

	if (at_ns > ring->now_ns + WAIT_MAX_NS)
		at_ns = ring->now_ns + WAIT_MAX_NS;
	if (ring->wait_is_absolute) {
		flags |= IORING_ENTER_ABS_TIMER;
	} else {
		at_ns = at_ns > ring->now_ns ? at_ns - ring->now_ns : 0;
	}
	ts.tv_sec = at_ns / 1000000000;
	ts.tv_nsec = at_ns % 1000000000;
	n = io_uring_enter2(ring->uring.ring_fd, 0, 1, flags, (void *)&arg, sizeof(arg));
	if (n < 0 && n != -ETIME && n != -EINTR && n != -EBUSY && n != -EAGAIN)
		die("io_uring_enter: %s", strerror(-n));
	ring->uncollected_bytes = 0;
	read_clock(ring);
	note_completions(ring);
}

static unsigned int power_of_two(unsigned int v, unsigned int max)
{
	unsigned int p = 64;

	while (p < v && p < max)
		p *= 2;
	return p;
}

void ring_open(struct ring *ring, unsigned int depth, const int *drives, unsigned int n_drives,
	       uint64_t (*clock_ns)(void), const volatile sig_atomic_t *stop)
{
	/* Only this thread handles completions, when it waits for them. */
	struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
					     IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
				    .cq_entries = power_of_two(depth * 4, 65536)};
	int n;

	memset(ring, 0, sizeof(*ring));
	ring->clock_ns = clock_ns;
	ring->stop = stop;
	/* Otherwise timers of a waiting thread may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	n = io_uring_queue_init_params(power_of_two(depth, 4096), &ring->uring, &p);
	if (n < 0)
		die("io_uring: %s; the kernel needs io_uring (Linux 6.1 or later), and it must "
		    "not be switched off by kernel.io_uring_disabled",
		    strerror(-n));
	ring->wait_is_absolute = p.features & IORING_FEAT_MIN_TIMEOUT;
	n = io_uring_register_files(&ring->uring, drives, n_drives);
	if (n)
		die("io_uring: registering the drives: %s", strerror(-n));
}

void ring_close(struct ring *ring)
{
	/*
	 * The kernel frees a ring asynchronously, but the drives must be closed when this program
	 * has ended.
	 */
	io_uring_unregister_files(&ring->uring);
	io_uring_queue_exit(&ring->uring);
}

void ring_sleep_until(struct ring *ring, uint64_t at_ns)
{
	while (ring->now_ns < at_ns && !ring_is_stopped(ring))
		ring_wait_until(ring, at_ns);
}

uint64_t ring_wait_for_round_time(struct ring *ring, uint64_t round_ns)
{
	uint64_t at;

	/*
	 * Wait for at least a quarter of round_ns, so that timers that earlier activity has left in
	 * the kernel, such as the scheduler's, have expired.
	 */
	ring->now_ns = ring->clock_ns();
	at = ((ring->now_ns + round_ns / 4) / round_ns + 1) * round_ns;
	ring_sleep_until(ring, at);
	return at < ring->now_ns ? at : ring->now_ns;
}
