// SPDX-License-Identifier: MIT
/* Tests of the ring with a simulated clock, in which all sleeps last some ns. */
#include "engine/ring.h"

#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static uint64_t time_ns, step_ns;
static unsigned int n_readings;

static uint64_t fake_clock_ns(void)
{
	n_readings++;
	return time_ns += step_ns;
}

static volatile sig_atomic_t stop;
static struct ring ring;

static void open_ring(uint64_t start_ns, uint64_t step)
{
	char path[] = "/tmp/ringXXXXXX";
	int fd = mkstemp(path);

	assert(fd >= 0);
	unlink(path);
	time_ns = start_ns;
	step_ns = step;
	n_readings = 0;
	stop = 0;
	ring_open(&ring, 64, &fd, 1, fake_clock_ns, &stop);
}

static void put_nop(uint64_t user_data)
{
	struct io_uring_sqe *sqe = ring_sqe(&ring);

	io_uring_prep_nop(sqe);
	sqe->user_data = user_data;
}

static unsigned int n_reported;
static uint64_t reported_ns;

static void report(void *context)
{
	assert(context == &ring);
	n_reported++;
	reported_ns = ring.now_ns;
}

TEST(ring_waits_for_a_multiple_at_least_a_quarter_away)
{
	open_ring(1234, 100);
	assert(ring_wait_for_round_time(&ring, 1000) == 2000);
	assert(ring.now_ns >= 2000);
	/* 3000 would be too early. */
	time_ns = 2700;
	assert(ring_wait_for_round_time(&ring, 1000) == 4000);
	ring_close(&ring);
}

TEST(stop_flag_ends_a_sleep)
{
	open_ring(0, 1);
	stop = 1;
	assert(ring_is_stopped(&ring));
	ring_sleep_until(&ring, UINT64_MAX);
	assert(n_readings == 0);
	assert(ring_wait_for_round_time(&ring, 1000000) == ring.now_ns && n_readings == 1);
	ring_close(&ring);
}

TEST(ring_reads_the_clock_once_after_a_sleep)
{
	open_ring(0, 10);
	put_nop(7);
	ring_submit(&ring);
	ring_wait_until(&ring, 5);
	assert(n_readings == 1 && ring.now_ns == 10);
	ring_sleep_until(&ring, 35);
	assert(n_readings == 4 && ring.now_ns == 40);
	ring_close(&ring);
}

TEST(ring_reports_marked_entries_when_it_submits_them)
{
	open_ring(0, 1);
	ring.submitting = report;
	ring.context = &ring;
	n_reported = 0;
	put_nop(7);
	ring_submit(&ring);
	assert(n_reported == 0);
	put_nop(8);
	ring_mark(&ring);
	ring_submit(&ring);
	assert(n_reported == 1 && reported_ns == ring.now_ns);
	ring_submit(&ring);
	assert(n_reported == 1);
	ring_close(&ring);
}

TEST(ring_reads_the_clock_before_a_submission_after_work)
{
	open_ring(0, 1);
	ring.submitting = report;
	ring.context = &ring;
	ring_worked(&ring, 4096);
	put_nop(7);
	ring_mark(&ring);
	ring_submit(&ring);
	assert(n_readings == 0);
	ring_worked(&ring, 16384);
	put_nop(8);
	ring_mark(&ring);
	ring_submit(&ring);
	assert(n_readings == 1 && reported_ns == 1);
	ring_close(&ring);
}

TEST(completion_keeps_the_time_when_it_was_found)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	open_ring(0, 1);
	put_nop(7);
	ring_worked(&ring, 65536); /* submits, and finds the first */
	assert(ring.now_ns == 1);
	put_nop(8);
	ring_submit(&ring);
	ring_wait_until(&ring, 2); /* finds the second */
	time_ns = 100;
	io_uring_for_each_cqe(&ring.uring, head, cqe)
	{
		assert(cqe->user_data == 7 + n);
		assert(ring_seen_ns(&ring, head) == 1 + n);
		n++;
	}
	assert(n == 2);
	io_uring_cq_advance(&ring.uring, n);
	ring_close(&ring);
}

TEST(full_queue_is_submitted_to_make_room)
{
	open_ring(0, 1);
	for (unsigned int i = 0; i < 64; i++)
		put_nop(7);
	assert(io_uring_sq_ready(&ring.uring) == 64);
	put_nop(8);
	assert(io_uring_sq_ready(&ring.uring) == 1);
	ring_close(&ring);
}
