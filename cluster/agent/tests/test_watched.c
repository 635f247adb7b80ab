// SPDX-License-Identifier: MIT
/* Tests of watched drives with synthetic records of requests. */
#include "../../../liblinnos/tests/test.h"
#include "model_file.h"
#include "watched.h"

#include <linux/blk-linnos.h>
#include <stdlib.h>

#define US UINT64_C(1000)
/* The clock never returns 0. */
#define T0 (UINT64_C(1000000) * US)
#define OVERDUE_US 100

enum { DISK = 8 << 20, OTHER };

static struct watched drives[2];

static void begin(void)
{
	static __u32 disks[2];

	for (unsigned int k = 0; k < 2; k++) {
		if (!drives[k].model)
			drives[k].model = model_mean_of_last(OVERDUE_US);
		drives[k].model->refuse_us = UINT32_MAX;
		drives[k].disk = &disks[k];
		watched_begin(&drives[k], DISK + k, LINNOS_IO_PAGES_MAX);
	}
}

/* Return a record of a read of one page on the first drive. */
static struct request_record record_of(enum request_event event, uint64_t request, uint64_t time_ns)
{
	return (struct request_record){.request = request,
				       .time_ns = time_ns,
				       .sector = request * 8,
				       .bytes = 4096,
				       .disk = DISK,
				       .event = event,
				       .is_read = 1};
}

static void feed(enum request_event event, uint64_t request, uint64_t time_ns)
{
	struct request_record r = record_of(event, request, time_ns);

	watched_feed(drives, 2, &r);
}

/* Query the drive, given the kernel's number of requests in flight. */
static struct answer asked_where(uint32_t kernel, uint64_t now_ns)
{
	struct query query = {.bytes = 4096, .flags = QUERY_ONLY};
	struct answer answer = {.state = STATE_PENDING_KNOWN, .pending = kernel};

	watched_query(&drives[0], &query, now_ns, &answer);
	assert(answer.known == BLK_EXPECT_LATENCY);
	assert(answer.state & STATE_PENDING_PAGES && answer.state & STATE_PENDING_KNOWN);
	return answer;
}

static struct answer asked(uint64_t now_ns)
{
	return asked_where(UINT32_MAX, now_ns);
}

TEST(watched_records_equal_an_observer)
{
	enum { IOS = 64, STEPS = 20000 };
	static struct {
		struct linnos_io io;
		struct request_record record;
		bool is_in_flight;
	} ios[IOS];
	uint32_t seen[LINNOS_N_FEATURES], wanted[LINNOS_N_FEATURES];
	uint64_t seed = 7, now_ns = T0;
	struct observer own;

	begin();
	observer_init(&own, OVERDUE_US);
	for (unsigned int step = 0; step < STEPS; step++) {
		unsigned int k = chance(&seed) % IOS;
		struct request_record *r = &ios[k].record;

		now_ns += chance(&seed) % 20000;
		if (!ios[k].is_in_flight) {
			*r = (struct request_record){
				.request = 0xffff888000000000 + 512 * k,
				.sector = chance(&seed) % 100000 * 8,
				.bytes = (1 + chance(&seed) % 300) * 4096,
				.is_read = chance(&seed) % 4 > 0,
				.disk = DISK,
				.event = REQUEST_ISSUED,
			};
			observer_sent(&own, &ios[k].io, now_ns, (uint64_t)r->sector << 9,
				      r->bytes / 4096, r->is_read);
		} else {
			r->event = chance(&seed) % 8 ? REQUEST_ANSWERED : REQUEST_FAILED;
			observer_ended(&own, &ios[k].io, now_ns,
				       r->event == REQUEST_ANSWERED ? OBSERVED_ANSWERED
								    : OBSERVED_FAILED);
		}
		ios[k].is_in_flight = !ios[k].is_in_flight;
		r->time_ns = now_ns;
		watched_feed(drives, 2, r);
		observer_features(&own, 8 * step, 1 + step % 300, now_ns, wanted);
		observer_features(&drives[0].observer, 8 * step, 1 + step % 300, now_ns, seen);
		assert(!memcmp(wanted, seen, sizeof(seen)));
		assert(observer_has_late_read(&own, now_ns) ==
		       observer_has_late_read(&drives[0].observer, now_ns));
	}
}

TEST(predictions_follow_latencies)
{
	begin();
	assert(asked(T0).state & BLK_EXPECT_STALE);
	for (uint64_t k = 1; k <= 4; k++) {
		feed(REQUEST_ISSUED, k, T0);
		assert(asked(T0).pending == 1);
		feed(REQUEST_ANSWERED, k, T0 + 90 * US);
	}
	assert(asked(T0 + 100 * US).latency_us == 90 && !asked(T0 + 100 * US).pending);
	assert(asked(T0 + 100 * US).state == (STATE_PENDING_KNOWN | STATE_PENDING_PAGES));
	feed(REQUEST_ISSUED, 5, T0 + 200 * US);
	assert(asked(T0 + 30000 * US).state & STATE_READ_LATE);
	assert(asked(T0 + 30000 * US).state & BLK_EXPECT_SLOW);
	/* a failed request has no latency */
	feed(REQUEST_FAILED, 5, T0 + 30000 * US);
	assert(asked(T0 + 30001 * US).latency_us == 90);
	assert(!(asked(T0 + 30001 * US).state & STATE_READ_LATE));
}

TEST(waiting_request_can_grow_and_be_merged)
{
	struct request_record r = record_of(REQUEST_ISSUED, 2, T0 + 10 * US);

	begin();
	/* a merge at the front changes its first sector */
	r.sector = 8;
	r.bytes = 12288;
	feed(REQUEST_WAITS, 1, T0);
	feed(REQUEST_WAITS, 2, T0);
	assert(asked(T0).pending == 2);
	watched_feed(drives, 2, &r);
	assert(asked(T0).pending == 4);
	feed(REQUEST_MERGED, 1, T0);
	assert(asked(T0).pending == 3);
	/* requeued and issued again: counted once, from the first issue on */
	r.time_ns = T0 + 50 * US;
	watched_feed(drives, 2, &r);
	assert(asked(T0).pending == 3);
	r.time_ns = T0 + 90 * US;
	r.event = REQUEST_ANSWERED;
	watched_feed(drives, 2, &r);
	feed(REQUEST_ANSWERED, 1, T0);
	assert(!asked(T0).pending && asked(T0).latency_us == 80 / 4);
}

TEST(missed_completion_is_dropped)
{
	struct request_record write = record_of(REQUEST_ISSUED, 1, T0);
	uint64_t now_ns = T0 + 30000 * US;

	begin();
	/* another request uses the same address */
	feed(REQUEST_ISSUED, 1, T0);
	write.is_read = 0;
	write.bytes = 8192;
	watched_feed(drives, 2, &write);
	assert(drives[0].observer.drive.write_pages == 2);
	feed(REQUEST_ANSWERED, 1, T0);

	/*
	 * the kernel's count, which excludes waiting requests, is lower, but not each time, because
	 * some requests are in transit: no request is dropped
	 */
	feed(REQUEST_ISSUED, 1, T0);
	feed(REQUEST_ISSUED, 2, T0 + 20000 * US);
	write.disk = OTHER;
	write.time_ns = T0 - US;
	watched_feed(drives, 2, &write);
	feed(REQUEST_WAITS, 3, T0);
	for (unsigned int k = 0; k < 100; k++, now_ns += 2000 * US)
		assert(asked_where(1 + (k % 4 == 0), now_ns).pending == 3);
	assert(asked(now_ns).state & STATE_READ_LATE);
	for (unsigned int k = 0; k < 100; k++)
		assert(asked_where(1, now_ns).pending == 3);
	for (unsigned int k = 0; k < 8; k++, now_ns += 2000 * US)
		asked_where(1, now_ns);
	assert(asked_where(1, now_ns).pending == 2);
	/* a young request is not dropped */
	feed(REQUEST_ANSWERED, 2, now_ns);
	feed(REQUEST_ISSUED, 3, now_ns);
	for (uint64_t end_ns = now_ns + 19000 * US; now_ns < end_ns; now_ns += 1000 * US)
		assert(asked_where(0, now_ns).pending == 1);

	watched_lost();
	assert(!asked(now_ns).pending);
	begin();
	/* a request without issue record has no latency */
	feed(REQUEST_ANSWERED, 3, T0 + 50 * US);
	feed(REQUEST_WAITS, 4, T0);
	feed(REQUEST_ANSWERED, 4, T0 + 50 * US);
	assert(!asked(T0).pending && asked(T0 + 60 * US).latency_us == 1);
}

TEST(drive_that_returns_has_no_history)
{
	struct request_record other = {
		.request = 1, .time_ns = T0, .bytes = 4096, .disk = OTHER, .event = REQUEST_ISSUED};

	begin();
	feed(REQUEST_ISSUED, 1, T0);
	/* at the same address, after the first has completed */
	watched_feed(drives, 2, &other);
	watched_begin(&drives[0], NO_DISK, 0);
	assert(*drives[0].disk == NO_DISK && !asked(T0).pending);
	feed(REQUEST_ISSUED, 2, T0);
	watched_begin(&drives[0], DISK, LINNOS_IO_PAGES_MAX);
	feed(REQUEST_ANSWERED, 1, T0 + 50 * US);
	assert(!asked(T0).pending && asked(T0 + 60 * US).latency_us == 1);
	assert(linnos_pages_of(1) == drives[1].observer.drive.write_pages);
}

TEST(drive_configured_twice_has_two_states)
{
	begin();
	watched_begin(&drives[1], DISK, LINNOS_IO_PAGES_MAX);
	feed(REQUEST_ISSUED, 1, T0);
	assert(drives[0].observer.drive.load && drives[1].observer.drive.load);
	feed(REQUEST_ANSWERED, 1, T0 + 90 * US);
	assert(!drives[0].observer.drive.load && !drives[1].observer.drive.load);
	assert(drives[0].observer.seen.nr == 1 && drives[1].observer.seen.nr == 1);
}

TEST(requests_beyond_the_table_are_not_tracked)
{
	enum { MANY = 20000 };
	unsigned int most;

	begin();
	for (uint64_t k = 1; k <= MANY; k++)
		feed(REQUEST_ISSUED, k * 64, T0);
	most = asked(T0).pending;
	assert(most > MANY / 4 && most < MANY);
	/* completing in this order, the last first and then the first, each finds its own slot */
	for (uint64_t k = MANY; k > MANY / 8; k--)
		feed(REQUEST_ANSWERED, k * 64, T0 + k);
	assert(asked(T0).pending == MANY / 8);
	for (uint64_t k = 1; k <= MANY / 8; k++) {
		feed(REQUEST_ANSWERED, k * 64, T0 + k);
		assert(asked(T0).pending == MANY / 8 - k);
	}
}
