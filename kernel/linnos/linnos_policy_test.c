// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LinnOS: the state of a drive, probes, decisions, and answers to queries. No
 * disk is used; the lab tests use disks.
 */
#include <linux/delay.h>
#include <linux/kthread.h>

#include "blk.h"
#include "linnos_test.h"

#define START_NS (1000 * NSEC_PER_USEC)

/* The conditions for a probe, and the latency above which a read is late. */
struct rules {
	u32 probe_after_us;
	u32 probe_after_refused;
	u32 late_us;
};

/* The policy of a test, its drive, and the rules of the drive (NULL if the test has no probes). */
static struct blk_linnos *linnos;
static struct linnos_drive *drive;
static const struct rules *rules;

static int linnos_drive_test_init(struct kunit *test)
{
	int ret = linnos_test_init(test);
	struct linnos_fixture *fx = test->priv;

	if (ret)
		return ret;
	linnos = fx->linnos;
	drive = &linnos->drive;
	rules = NULL;
	return 0;
}

static void set_rules(const struct rules *new_rules)
{
	rules = new_rules;
	drive->probe_after_us = rules->probe_after_us;
	drive->probe_after_refused = rules->probe_after_refused;
}

/* Start a read and issue it. */
static void read_begins(struct linnos_io *io, u32 pages, u8 flags, u64 now_ns)
{
	linnos_io_begin(drive, io, 0, pages, LINNOS_IO_READ | flags, now_ns);
	linnos_io_issue(io, now_ns);
}

/* Complete a read successfully. Return false if it was not counted. */
static bool read_completes(struct linnos_io *io, u64 now_ns,
			   struct linnos_completed_io *ended)
{
	io->flags |= LINNOS_IO_ANSWERED;
	if (!linnos_io_end(drive, io, now_ns, ended))
		return false;
	linnos_history_add(&drive->history, ended);
	return true;
}

/* Complete a read successfully; it may be the one that decides whether the probe was late. */
static void read_ends(struct linnos_io *io, u64 now_ns)
{
	struct linnos_completed_io ended;

	if (read_completes(io, now_ns, &ended) && rules)
		linnos_probe_complete(drive, io, ended.end_ns,
				      ended.latency_us > rules->late_us);
}

static void read_takes(u32 pages, u32 us, u64 end_ns)
{
	struct linnos_io io;

	read_begins(&io, pages, 0, end_ns - us * 1000ULL);
	read_ends(&io, end_ns);
}

/* I/O in flight */

static void linnos_test_pending(struct kunit *test)
{
	struct linnos_io read, write, third;
	struct linnos_completed_io ended;

	read_begins(&read, 1, 0, 1000);
	KUNIT_EXPECT_EQ(test, read.pending, 1);
	linnos_io_begin(drive, &write, 0, 5, 0, 0);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 1, 1, 5));
	read_begins(&third, 16, 0, 2000);
	KUNIT_EXPECT_EQ(test, third.pending, 22);
	/* a merge adds to the pages of the I/O and the drive, but not to the pending pages */
	linnos_io_grow(drive, &third, 2);
	linnos_io_grow(drive, &write, 3);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 2, 19, 8));

	KUNIT_EXPECT_FALSE(test, linnos_io_end(drive, &write, 0, &ended));
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 2, 19, 0));
	third.flags |= LINNOS_IO_ANSWERED;
	KUNIT_EXPECT_TRUE(test, linnos_io_end(drive, &third, 9000, &ended));
	KUNIT_EXPECT_EQ(test, ended.end_ns, 9000);
	KUNIT_EXPECT_EQ(test, ended.latency_us, 7);
	KUNIT_EXPECT_EQ(test, ended.pages, 18);
	KUNIT_EXPECT_EQ(test, ended.pending, 22);
	read_ends(&read, 9000);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
}

/* The size of the largest I/O saturates, and the same size is subtracted at the end. */
static void linnos_test_size_saturates(struct kunit *test)
{
	struct linnos_io read, write;

	KUNIT_EXPECT_EQ(test, linnos_pages_of(0), 0);
	KUNIT_EXPECT_EQ(test, linnos_pages_of(512), 1);
	KUNIT_EXPECT_EQ(test, linnos_pages_of(4097), 2);
	KUNIT_EXPECT_EQ(test, linnos_pages_of(0xffffULL * 4096), 0xffff);
	KUNIT_EXPECT_EQ(test, linnos_pages_of(UINT_MAX), 0xffff);

	linnos_io_begin(drive, &write, 0, 1 << 20, 0, 0);
	linnos_io_grow(drive, &write, 100);
	read_begins(&read, 0xfffe, 0, 0);
	linnos_io_grow(drive, &read, 100);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 1, 0xffff, 0xffff));
	KUNIT_EXPECT_EQ(test, read.pending, 0xffff);
	KUNIT_EXPECT_EQ(test, write.pending, 0xffff);
	read_ends(&read, 0);
	read_ends(&write, 0);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
}

/* 32 full queues with the largest requests of NVMe drives, and impossible values. */
static void linnos_test_full_queues(struct kunit *test)
{
	const u32 n = 32 * 1023, pages = 320;
	struct linnos_io io;
	u32 i;

	for (i = 0; i < n; i++)
		linnos_io_begin(drive, &io, 0, pages, LINNOS_IO_READ, 0);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, n, n * pages, 0));
	for (i = 0; i < n; i++)
		linnos_io_begin(drive, &io, 0, pages, 0, 0);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, n, n * pages, n * pages));
	KUNIT_EXPECT_EQ(test, io.pending, LINNOS_IO_PAGES_MAX);
	atomic64_set(&drive->load, -1);
	atomic64_set(&drive->write_pages, S64_MAX);
	KUNIT_EXPECT_TRUE(test,
			  is_in_flight(drive, 0xffffff, S32_MAX, S32_MAX));
	atomic64_set(&drive->load, 0);
	atomic64_set(&drive->write_pages, 0);
}

/* An I/O that is not counted is not subtracted, and no I/O is subtracted twice. */
static void linnos_test_counted_once(struct kunit *test)
{
	struct linnos_io io = { .issued_ns = 1,
				.pages = 7,
				.flags = LINNOS_IO_READ | LINNOS_IO_ANSWERED };
	struct linnos_completed_io ended;

	linnos_io_grow(drive, &io, 1);
	KUNIT_EXPECT_FALSE(test, linnos_io_end(drive, &io, 9, &ended));
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	drive->tracks_starts = true;
	read_begins(&io, 300, LINNOS_IO_SLOW, 1);
	KUNIT_EXPECT_TRUE(test, read_completes(&io, 9, &ended));
	KUNIT_EXPECT_FALSE(test, linnos_io_end(drive, &io, 9, &ended));
	linnos_io_grow(drive, &io, 1);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	KUNIT_EXPECT_EQ(test, atomic_read(&drive->probes[2].in_flight), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&drive->probes[2].slow_in_flight), 0);
	KUNIT_EXPECT_EQ(test, drive->start_slots.taken[0], 0);
}

static void linnos_test_latency(struct kunit *test)
{
	const u64 long_us = 1ULL << 33;
	struct linnos_completed_io ended;
	struct linnos_io io;

	/* requeued and issued again: the latency starts at the first issue */
	read_begins(&io, 1, 0, 1000);
	linnos_io_issue(&io, 8000);
	KUNIT_EXPECT_TRUE(test, read_completes(&io, 10999, &ended));
	KUNIT_EXPECT_EQ(test, ended.latency_us, 9);
	/* completed before its start, by the clock of another CPU */
	read_begins(&io, 1, 0, 1000);
	KUNIT_EXPECT_TRUE(test, read_completes(&io, 999, &ended));
	KUNIT_EXPECT_EQ(test, ended.latency_us, 0);
	read_begins(&io, 1, 0, 1000);
	KUNIT_EXPECT_TRUE(test, read_completes(&io, long_us * 1000, &ended));
	KUNIT_EXPECT_EQ(test, ended.latency_us, U32_MAX);
	/* not successful, and then not issued */
	read_begins(&io, 1, 0, 1000);
	KUNIT_EXPECT_FALSE(test, linnos_io_end(drive, &io, 9000, &ended));
	linnos_io_begin(drive, &io, 0, 1, LINNOS_IO_READ, 1000);
	KUNIT_EXPECT_FALSE(test, read_completes(&io, 9000, &ended));
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
}

/* Start times of the reads in flight. One more read than there are slots has none. */
static void linnos_test_start_slots(struct kunit *test)
{
	const int n = LINNOS_START_SLOTS + 1;
	struct linnos_drive_snapshot view = { .now_ns = 500 };
	u32 features[LINNOS_N_FEATURES];
	struct linnos_io *io, before;
	int i;

	io = kunit_kcalloc(test, n, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	KUNIT_EXPECT_EQ(test, linnos_oldest_ns(&drive->start_slots), 0);
	/* a read that was in flight before tracking was switched on has none either */
	read_begins(&before, 1, 0, 10);
	drive->tracks_starts = true;
	for (i = 0; i < n; i++)
		read_begins(&io[i], 1, 0, 100 + i);
	KUNIT_EXPECT_EQ(test, io[n - 1].start_slot, 0);
	KUNIT_EXPECT_EQ(test, linnos_oldest_ns(&drive->start_slots), 100);
	read_ends(&before, 500);
	read_ends(&io[0], 500);
	KUNIT_EXPECT_EQ(test, linnos_oldest_ns(&drive->start_slots), 101);
	/* the lowest free slot is used, whichever read had it before */
	read_ends(&io[70], 500);
	read_begins(&io[0], 1, 0, 300);
	KUNIT_EXPECT_EQ(test, io[0].start_slot, 1);
	linnos_compute_features(&drive->start_slots, &view, 0, features);
	KUNIT_EXPECT_EQ(test, features[LINNOS_OVERDUE], LINNOS_START_SLOTS - 1);
	read_begins(&io[70], 1, 0, 400);
	KUNIT_EXPECT_EQ(test, io[70].start_slot, 71);

	/* after tracking is switched off, each read still frees its slot */
	drive->tracks_starts = false;
	for (i = 0; i < n; i++)
		read_ends(&io[i], 500);
	KUNIT_EXPECT_EQ(test, linnos_oldest_ns(&drive->start_slots), 0);
	for (i = 0; i < ARRAY_SIZE(drive->start_slots.taken); i++)
		KUNIT_EXPECT_EQ(test, drive->start_slots.taken[i], 0);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
}

/* Reads are counted by region: 8 KiB of each 512 KiB. */
static void linnos_test_regions(struct kunit *test)
{
	static const struct {
		u64 offset;
		u8 region;
	} cases[] = {
		{ 0, 0 },	 { 8191, 0 },
		{ 8192, 1 },	 { 516096, 63 },
		{ 524287, 63 },	 { 524288, 0 },
		{ U64_MAX, 63 }, { (3ULL << 40) + 16384, 2 },
	};
	struct linnos_io before, here, there, write, joins;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, linnos_region_of(cases[i].offset),
				    cases[i].region, "%llu", cases[i].offset);
	/* reads that were in flight before tracking was switched on are not counted */
	linnos_io_begin(drive, &before, 5, 1, LINNOS_IO_READ, 0);
	drive->tracks_starts = true;
	linnos_io_begin(drive, &here, 5, 300, LINNOS_IO_READ, 0);
	linnos_io_begin(drive, &joins, 5, 1, LINNOS_IO_READ, 0);
	linnos_io_begin(drive, &there, 63, 1, LINNOS_IO_READ, 0);
	/* a write is not counted by region */
	linnos_io_begin(drive, &write, 5, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, 5), 2);
	KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, 63), 1);
	KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, 6), 0);
	KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, LINNOS_REGION_UNKNOWN),
			LINNOS_LATENCY_CAP);
	linnos_io_join(drive, &there, &joins);
	KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, 5), 1);
	read_ends(&before, 0);
	read_ends(&write, 0);
	read_ends(&joins, 0);
	KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, 5), 1);
	linnos_drive_reset_history(drive, START_NS);
	drive->tracks_starts = false;
	read_ends(&here, 0);
	read_ends(&here, 0);
	read_ends(&there, 0);
	for (i = 0; i < LINNOS_REGIONS; i++)
		KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, i), 0);
}

/* Completed reads */

static bool history_is(u32 size, u32 a, u32 b, u32 c, u32 d)
{
	static const u32 pages[] = { 1, LINNOS_MEDIUM_PAGES,
				     LINNOS_IO_PAGES_MAX };
	struct linnos_drive_snapshot view;
	const struct linnos_completed_io *past = view.past;

	linnos_drive_view(drive, &drive->history, 0, pages[size], 0, &view);
	return past[0].latency_us == a && past[1].latency_us == b &&
	       past[2].latency_us == c && past[3].latency_us == d;
}

/* The last four reads of the same or a smaller size class, oldest first. */
static void linnos_test_history(struct kunit *test)
{
	static const u32 pages[] = { 1, 300, 17, 2, 16, 256, 257, 4 };
	int i;

	KUNIT_EXPECT_TRUE(test, history_is(2, 0, 0, 0, 0));
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		if (i == 2) {
			KUNIT_EXPECT_TRUE(test, history_is(0, 0, 0, 0, 10));
			KUNIT_EXPECT_TRUE(test, history_is(2, 0, 0, 10, 20));
		}
		/* all at the same time: they are ordered as they were added */
		read_takes(pages[i], 10 * (i + 1), START_NS);
	}
	KUNIT_EXPECT_TRUE(test, history_is(0, 10, 40, 50, 80));
	KUNIT_EXPECT_TRUE(test, history_is(1, 40, 50, 60, 80));
	KUNIT_EXPECT_TRUE(test, history_is(2, 50, 60, 70, 80));
	linnos_drive_reset_history(drive, START_NS);
	KUNIT_EXPECT_TRUE(test, history_is(2, 0, 0, 0, 0));
}

/* If a size class's counter overflows, empty entries of others do not become recent reads. */
static void linnos_test_history_wraps(struct kunit *test)
{
	static const u32 many[] = { S32_MAX - 2, U32_MAX - 2 };
	struct linnos_history *history = &drive->history;
	int i, k;

	for (i = 0; i < ARRAY_SIZE(many); i++) {
		linnos_drive_reset_history(drive, 1);
		history->nr = many[i];
		history->n[0] = many[i];
		for (k = 1; k <= 6; k++)
			read_takes(1, k, START_NS + k);
		KUNIT_EXPECT_TRUE(test, history_is(0, 3, 4, 5, 6));
		KUNIT_EXPECT_TRUE(test, history_is(2, 3, 4, 5, 6));
		read_takes(17, 7, START_NS + 7);
		read_takes(1, 8, START_NS + 8);
		KUNIT_EXPECT_TRUE(test, history_is(1, 5, 6, 7, 8));
	}
}

/* Inputs of models, compared with values computed by hand. */
static void linnos_test_model_inputs(struct kunit *test)
{
	static const struct linnos_drive_snapshot view = {
		.now_ns = 20000000,
		.pages = 7,
		.load = { 3, 10, 20 },
		.in_region = 2,
		.past = {
			{ .latency_us = 0x1000000, .pages = 1, .pending = 1000,
			  .end_ns = 1 },
			{ .latency_us = 1234, .pages = 2, .pending = 12,
			  .end_ns = 19000000 },
			{ .latency_us = 5, .pages = 3, .pending = 345,
			  .end_ns = 20000001 },
			{},
		},
	};
	static const u8 expected[] = {
		9, 9, 9, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 3, 7, 9,
		9, 9, 9, 1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 0,
	};
	static const u32 features[] = {
		7, 10,	     20,       3,    5000, 1,	  0,	0,
		0, 0xffffff, 5,	       345,  3,	   0,	  1234, 12,
		2, 1000,     0xffffff, 1000, 1,	   19999, 2,
	};
	u32 seen[LINNOS_N_FEATURES];
	u8 digits[LINNOS_N_INPUTS];
	struct linnos_io io[3];
	int i;

	linnos_encode_digits(&view, digits);
	KUNIT_EXPECT_EQ(test, sizeof(digits), sizeof(expected));
	KUNIT_EXPECT_MEMEQ(test, digits, expected, sizeof(expected));
	/* not quite overdue, overdue, and started after the snapshot */
	drive->tracks_starts = true;
	read_begins(&io[0], 1, 0, 16000000);
	read_begins(&io[1], 1, 0, 15000000);
	read_begins(&io[2], 1, 0, 20000001);
	linnos_compute_features(&drive->start_slots, &view, 4000, seen);
	KUNIT_EXPECT_EQ(test, sizeof(seen), sizeof(features));
	KUNIT_EXPECT_MEMEQ(test, seen, features, sizeof(features));
	/* the time is shorter than the overdue limit */
	linnos_compute_features(&drive->start_slots, &view, U32_MAX, seen);
	KUNIT_EXPECT_EQ(test, seen[LINNOS_OVERDUE], 0);
	for (i = 0; i < 3; i++)
		read_ends(&io[i], START_NS);
}

/* The lower limit of a bucket in us, computed independently. */
static u32 bucket_from_us(u32 bucket)
{
	return bucket ? (4 + (bucket + 3) % 4) << ((bucket + 3) / 4 - 1) : 0;
}

static void linnos_test_latency_buckets(struct kunit *test)
{
	static const struct {
		u32 us;
		u32 bucket;
	} cases[] = {
		{ 0, 0 },	  { 3, 0 },	    { 4, 1 },
		{ 7, 4 },	  { 8, 5 },	    { 9, 5 },
		{ 10, 6 },	  { 95, 18 },	    { 96, 19 },
		{ 12582911, 86 }, { 12582912, 87 }, { BIT(31), 87 },
		{ U32_MAX, 87 },
	};
	u32 bucket, us;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, linnos_latency_bucket(cases[i].us),
				    cases[i].bucket, "%u us", cases[i].us);
	/* the first and the last value of each bucket, and no gaps between buckets */
	for (bucket = 1; bucket < LINNOS_LATENCY_BUCKETS; bucket++) {
		us = bucket_from_us(bucket);
		KUNIT_EXPECT_EQ(test, linnos_latency_bucket(us), bucket);
		KUNIT_EXPECT_EQ(test, linnos_latency_bucket(us - 1),
				bucket - 1);
	}
}

/* Probes. A read of more than 150 us is late. */

static const struct rules after_time = { .probe_after_us = 50, .late_us = 150 };
static const struct rules after_refused = { .probe_after_refused = 3,
					    .late_us = 150 };

/* Begin a test of probes. */
static void begin(const struct rules *new_rules)
{
	set_rules(new_rules);
	linnos_drive_reset_history(drive, START_NS);
}

static bool claim(u64 now_ns)
{
	return linnos_probe_claim(drive, 0, false, now_ns);
}

static bool claim_again(u64 now_ns)
{
	return linnos_probe_claim(drive, 0, true, now_ns);
}

static bool allows(u64 now_ns)
{
	return linnos_probe_window_allows(drive, 0, now_ns);
}

#define CLAIMED(now_ns) ((now_ns) & ~LINNOS_PROBE_SENT)

/* A small read that was predicted slow but admitted takes @us. */
static void slow_read_takes(u32 us, u64 end_ns)
{
	struct linnos_io io;

	read_begins(&io, 1, LINNOS_IO_SLOW, end_ns - us * 1000ULL);
	read_ends(&io, end_ns);
}

/* The wait doubles while probes are late or are not sent, up to a limit. */
static const u32 waits_us[] = { 50, 100, 200, 400, 400 };
static const u32 refusals[] = { 3, 6, 12, 24, 24 };

static void linnos_test_probe_after_time(struct kunit *test)
{
	struct linnos_probe_state *probe = &drive->probes[0];
	u64 ns = START_NS;
	struct linnos_io io;
	int i;

	begin(&after_time);
	for (i = 0; i < ARRAY_SIZE(waits_us); i++) {
		ns += waits_us[i] * 1000;
		KUNIT_EXPECT_FALSE_MSG(test, claim(ns), "%u us", waits_us[i]);
		ns++;
		KUNIT_EXPECT_TRUE_MSG(test, claim(ns), "%u us", waits_us[i]);
		/* the next caller is asked, too, in case the first one does not send its read */
		KUNIT_EXPECT_TRUE(test, claim(ns + 1));
		KUNIT_EXPECT_FALSE(test, claim(ns + 1));
		read_begins(&io, 1, 0, ns + 2);
		KUNIT_EXPECT_FALSE(test, claim(ns + 3));
		/* however long the probe takes */
		KUNIT_EXPECT_FALSE(test, claim(ns + NSEC_PER_SEC));
		ns += 1000000;
		read_ends(&io, ns);
	}
	/* after a probe in time, the wait is as short as at the beginning */
	ns += 400001;
	KUNIT_EXPECT_TRUE(test, claim(ns));
	slow_read_takes(150, ns + 150000);
	KUNIT_EXPECT_EQ(test, probe->backoff, 0);
	KUNIT_EXPECT_FALSE(test, claim(ns + 200000));
	KUNIT_EXPECT_TRUE(test, claim(ns + 200001));
}

/* A read that is expected to be fast restarts the wait, to within an eighth of it. */
static void linnos_test_fast_read_restarts_wait(struct kunit *test)
{
	begin(&after_time);
	linnos_probe_note_fast_read(drive, 0, START_NS + 6250);
	KUNIT_EXPECT_TRUE(test, claim(START_NS + 50001));
	linnos_drive_reset_history(drive, START_NS);
	linnos_probe_note_fast_read(drive, 0, START_NS + 6251);
	KUNIT_EXPECT_FALSE(test, claim(START_NS + 56251));
	/* an older time changes nothing */
	linnos_probe_note_fast_read(drive, 0, START_NS);
	KUNIT_EXPECT_FALSE(test, claim(START_NS + 56251));
	KUNIT_EXPECT_TRUE(test, claim(START_NS + 56252));
}

static void linnos_test_probe_after_refused(struct kunit *test)
{
	struct linnos_probe_state *probe = &drive->probes[0];
	u64 ns = START_NS;
	int i;

	begin(&after_refused);
	for (i = 0; i < ARRAY_SIZE(refusals); i++, ns += NSEC_PER_SEC) {
		atomic_add(refusals[i] - 1, &probe->refused);
		KUNIT_EXPECT_FALSE(test, claim(ns));
		atomic_inc(&probe->refused);
		KUNIT_EXPECT_TRUE(test, claim(ns));
		slow_read_takes(151, ns + 151000);
		KUNIT_EXPECT_EQ(test, atomic_read(&probe->refused), 0);
	}
	/* neither condition is set: there is no probe */
	atomic_set(&probe->refused, 1000000);
	set_rules(&(struct rules){});
	KUNIT_EXPECT_FALSE(test, claim(ns));
}

/* If the probe is not sent, others are asked when it would be due again because of time. */
static void linnos_test_probe_unsent_time(struct kunit *test)
{
	struct linnos_probe_state *probe = &drive->probes[0];
	u64 ns = START_NS + 50001;
	int i;

	begin(&after_time);
	KUNIT_EXPECT_TRUE(test, claim(ns));
	for (i = 0; i < ARRAY_SIZE(waits_us); i++) {
		KUNIT_EXPECT_EQ(test, probe->backoff, min(i, 3));
		KUNIT_EXPECT_TRUE(test, claim(ns));
		ns = CLAIMED(ns) + waits_us[i] * 1000;
		KUNIT_EXPECT_FALSE_MSG(test, claim(ns), "%u us", waits_us[i]);
		ns += 1;
		KUNIT_EXPECT_TRUE_MSG(test, claim(ns), "%u us", waits_us[i]);
	}
	/* a read that is sent late is still the probe, and completes in time */
	ns += NSEC_PER_SEC;
	slow_read_takes(150, ns);
	KUNIT_EXPECT_EQ(test, probe->claimed_ns, 0);
	KUNIT_EXPECT_EQ(test, probe->backoff, 0);
	KUNIT_EXPECT_EQ(test, probe->window, 1);
	/* while the window is open, only two callers at a time are asked, too */
	KUNIT_EXPECT_TRUE(test, claim_again(ns));
	KUNIT_EXPECT_TRUE(test, claim_again(ns));
	KUNIT_EXPECT_FALSE(test, claim_again(ns));
	KUNIT_EXPECT_FALSE(test, claim_again(CLAIMED(ns) + 50000));
	KUNIT_EXPECT_TRUE(test, claim_again(CLAIMED(ns) + 50001));
}

/* The second caller is not asked if it queries more than 500 us after the first one. */
static void linnos_test_probe_second_caller(struct kunit *test)
{
	const u64 ns = CLAIMED(START_NS + 10000001);
	static const struct rules late = { .probe_after_us = 10000 };

	set_rules(&late);
	linnos_drive_reset_history(drive, ns - 10000001);
	KUNIT_EXPECT_TRUE(test, claim(ns));
	KUNIT_EXPECT_FALSE(test, claim(ns + 500001));
	linnos_drive_reset_history(drive, ns - 10000001);
	KUNIT_EXPECT_TRUE(test, claim(ns));
	KUNIT_EXPECT_TRUE(test, claim(ns + 500000));
}

/* If the probe is not sent, others are asked after enough further refusals. */
static void linnos_test_probe_unsent_refused(struct kunit *test)
{
	int i, n;

	begin(&after_refused);
	atomic_set(&drive->probes[0].refused, 3);
	KUNIT_EXPECT_TRUE(test, claim(START_NS));
	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		KUNIT_EXPECT_TRUE(test, claim(START_NS));
		for (n = 2; n < refusals[i]; n++)
			KUNIT_EXPECT_FALSE(test, claim(START_NS));
		KUNIT_EXPECT_TRUE(test, claim(START_NS));
	}
}

/* Send @n hinted reads, split into @part pages each. Return the number that a slow drive gets. */
static int slow_reads(u32 pages, u32 part, int n, u8 flags)
{
	u32 size_class = linnos_size_class(pages), left;
	static struct linnos_io io[64];
	u64 ns = START_NS;
	int admitted = 0;
	int i, parts;

	drive->probe_after_us = 10000;
	drive->probe_after_refused = 100;
	linnos_drive_reset_history(drive, ns);
	for (i = 0; i < n; i++, ns += 100000) {
		if (!linnos_probe_window_allows(drive, size_class, ns) &&
		    !linnos_probe_claim(drive, size_class, false, ns)) {
			atomic_inc(&drive->probes[size_class].refused);
			continue;
		}
		admitted++;
		for (left = pages, parts = 0; left; parts++) {
			u32 size = min(left, part);

			left -= size;
			/* only the last part of a bio has the flags of the decision */
			read_begins(&io[parts], size, left ? 0 : flags, ns);
		}
		ns += 2000000;
		while (parts--) {
			struct linnos_completed_io ended;

			read_completes(&io[parts], ns, &ended);
			linnos_probe_complete(drive, &io[parts], ns, true);
		}
	}
	return admitted;
}

/* Some reads are admitted, but at most one in fifty, no matter how the device splits reads. */
static void linnos_test_probe_split(struct kunit *test)
{
	static const u32 cases[][2] = { { 1, 1 },     { 32, 32 },
					{ 32, 16 },   { 32, 1 },
					{ 300, 150 }, { 512, 320 },
					{ 512, 256 }, { 512, 16 },
					{ 257, 16 } };
	int i, flags, admitted;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (flags = 0; flags <= LINNOS_IO_SLOW;
		     flags += LINNOS_IO_SLOW) {
			admitted = slow_reads(cases[i][0], cases[i][1], 5000,
					      flags);
			KUNIT_EXPECT_LE_MSG(test, admitted, 100, "%u in %u",
					    cases[i][0], cases[i][1]);
			KUNIT_EXPECT_GE_MSG(test, admitted, 5, "%u in %u",
					    cases[i][0], cases[i][1]);
		}
	}
}

/* The last part of a split read completes the probe and counts for the window. */
static void linnos_test_probe_last_part(struct kunit *test)
{
	struct linnos_probe_state *probe = drive->probes;
	const u64 ns = START_NS + 50001;
	struct linnos_io first, last;

	begin(&after_time);
	KUNIT_EXPECT_TRUE(test, linnos_probe_claim(drive, 1, false, ns));
	read_begins(&first, 8, 0, ns);
	KUNIT_EXPECT_EQ(test, probe[1].claimed_ns, CLAIMED(ns));
	read_begins(&last, 8, LINNOS_IO_SLOW, ns);
	KUNIT_EXPECT_EQ(test, probe[1].claimed_ns,
			CLAIMED(ns) | LINNOS_PROBE_SENT);
	KUNIT_EXPECT_EQ(test, atomic_read(&probe[1].slow_in_flight), 1);
	read_ends(&first, ns + 1000);
	read_ends(&last, ns + 150000);
	KUNIT_EXPECT_EQ(test, probe[1].window, 1);
	KUNIT_EXPECT_EQ(test, probe[0].window, 0);
	/* the window is that of the read's size class, and a late read closes it */
	KUNIT_EXPECT_TRUE(test, linnos_probe_window_allows(drive, 1, ns));
	read_begins(&first, 8, 0, ns);
	read_begins(&last, 8, LINNOS_IO_SLOW, ns);
	KUNIT_EXPECT_FALSE(test, linnos_probe_window_allows(drive, 1, ns));
	read_ends(&first, ns + 1000);
	read_ends(&last, ns + 151000);
	KUNIT_EXPECT_EQ(test, probe[1].window, 0);
	/* if its own class may have such a read, it is counted there */
	probe[0].window = 1;
	probe[1].window = 1;
	read_begins(&last, 8, LINNOS_IO_SLOW, ns);
	KUNIT_EXPECT_EQ(test, atomic_read(&probe[0].slow_in_flight), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&probe[1].slow_in_flight), 0);
	read_ends(&last, ns);
}

/* Small reads of one plug that are merged before they are counted, as in Linux 6.1. */
static void linnos_test_probe_plugged(struct kunit *test)
{
	u64 ns = START_NS;
	int admitted = 0;
	struct linnos_io io;
	int i, k, n;

	drive->probe_after_us = 10000;
	drive->probe_after_refused = 100;
	linnos_drive_reset_history(drive, ns);
	for (i = 0; i < 300; i++, ns += 3200000) {
		for (k = 0, n = 0; k < 32; k++) {
			if (linnos_probe_claim(drive, 0, false, ns))
				n++;
			else
				atomic_inc(&drive->probes[0].refused);
		}
		admitted += n;
		if (!n)
			continue;
		/* merged with other reads of the program, for which it did not query */
		read_begins(&io, n + 31, 0, ns);
		ns += 2000000;
		read_ends(&io, ns);
		linnos_probe_complete(drive, &io, ns, true);
	}
	KUNIT_EXPECT_LE(test, admitted, 300 * 32 / 50);
	KUNIT_EXPECT_GE(test, admitted, 5);
}

/* A probe that fails decides nothing, and the next read may be the probe. */
static void linnos_test_probe_lost(struct kunit *test)
{
	const u64 ns = START_NS + 50001;
	struct linnos_completed_io ended;
	struct linnos_io io, other;

	begin(&after_time);
	KUNIT_EXPECT_TRUE(test, claim(ns));
	/* a write and a read of another size class are not the probe */
	linnos_io_begin(drive, &other, 0, 1, 0, ns);
	linnos_io_end(drive, &other, 0, &ended);
	read_begins(&other, 17, 0, ns);
	KUNIT_EXPECT_EQ(test, drive->probes[0].claimed_ns, CLAIMED(ns));
	read_begins(&io, 1, 0, ns);
	KUNIT_EXPECT_EQ(test, drive->probes[0].claimed_ns,
			CLAIMED(ns) | LINNOS_PROBE_SENT);
	KUNIT_EXPECT_FALSE(test, claim(ns));
	/* a read of another size class fails */
	linnos_io_end(drive, &other, ns + 1, &ended);
	KUNIT_EXPECT_FALSE(test, claim(ns + 1));
	KUNIT_EXPECT_FALSE(test, linnos_io_end(drive, &io, ns + 2, &ended));
	KUNIT_EXPECT_EQ(test, drive->probes[0].backoff, 0);
	KUNIT_EXPECT_TRUE(test, claim(ns + 3));
}

/*
 * If a scheduler merges the probe into another request, that request may replace it, unless it was
 * issued before the probe was needed and has been requeued since.
 */
static void linnos_test_probe_merged(struct kunit *test)
{
	static const struct {
		u32 pages;
		bool counted;
		bool issued_before;
		bool replaces;
	} cases[] = {
		{ 16, true, false, true },
		{ 17, true, false, false },
		{ 16, false, false, false },
		{ 1, true, true, false },
	};
	struct linnos_probe_state *state = &drive->probes[0];
	const u64 ns = START_NS + 50001;
	struct linnos_completed_io ended;
	struct linnos_io io, probe;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		bool replaces = cases[i].replaces;

		begin(&after_time);
		read_begins(&io, cases[i].pages, 0,
			    ns - 10 * cases[i].issued_before);
		if (!cases[i].counted)
			read_completes(&io, ns, &ended);
		KUNIT_EXPECT_TRUE(test, claim(ns));
		linnos_io_begin(drive, &probe, 0, 1,
				LINNOS_IO_READ | LINNOS_IO_SLOW, ns);
		linnos_io_join(drive, &io, &probe);
		KUNIT_EXPECT_EQ_MSG(test, state->claimed_ns,
				    replaces ? CLAIMED(ns) | LINNOS_PROBE_SENT :
					       0,
				    "case %d", i);
		linnos_io_issue(&io, ns + 1);
		read_ends(&io, ns + 200000);
		KUNIT_EXPECT_EQ(test, state->backoff, replaces);
	}
	begin(&after_time);
	KUNIT_EXPECT_TRUE(test, claim(ns));
}

/* A merge of a write does not affect the probe. */
static void linnos_test_probe_merged_writes(struct kunit *test)
{
	const u64 ns = START_NS + 50001;
	struct linnos_io into = {}, write, probe;

	begin(&after_time);
	KUNIT_EXPECT_TRUE(test, claim(ns));
	read_begins(&probe, 1, 0, ns);
	linnos_io_begin(drive, &write, 0, 1, 0, ns);
	linnos_io_join(drive, &into, &write);
	KUNIT_EXPECT_FALSE(test, claim(ns + 1));
	read_ends(&probe, ns + 200000);
	KUNIT_EXPECT_EQ(test, drive->probes[0].backoff, 1);
}

/* The read that decides whether the probe was late. */
static void linnos_test_late_read_decides_probe(struct kunit *test)
{
	struct linnos_probe_state *state = &drive->probes[0];
	struct linnos_io early, waiting, probe, large;
	const u64 ns = START_NS + 60000;

	begin(&after_time);
	read_begins(&early, 1, 0, ns - 200000);
	linnos_io_begin(drive, &waiting, 0, 1, LINNOS_IO_READ, ns - 1);
	KUNIT_EXPECT_TRUE(test, claim(ns));
	read_begins(&probe, 1, LINNOS_IO_SLOW, ns + 1);
	read_begins(&large, 17, 0, ns + 1);
	/* issued before the probe was needed, or of another size class */
	read_ends(&early, ns + 2);
	read_ends(&large, ns + 200000);
	KUNIT_EXPECT_EQ(test, state->backoff, 0);
	KUNIT_EXPECT_FALSE(test, claim(ns + 200000));
	/* a read that was issued after that, and was late */
	linnos_io_issue(&waiting, ns + 3);
	read_ends(&waiting, ns + 200003);
	KUNIT_EXPECT_EQ(test, state->backoff, 1);
	KUNIT_EXPECT_EQ(test, state->claimed_ns, 0);
	/* the probe itself decides nothing any more */
	read_ends(&probe, ns + 300000);
	KUNIT_EXPECT_EQ(test, state->backoff, 1);
	KUNIT_EXPECT_FALSE(test, claim(ns + 300003));
	KUNIT_EXPECT_TRUE(test, claim(ns + 300004));
}

/* Without larger reads: one read at a time, until one is late or the model predicts fast. */
static void linnos_test_window_alone(struct kunit *test)
{
	struct linnos_probe_state *probe = &drive->probes[0];
	u64 ns = START_NS;
	struct linnos_io io;

	begin(&after_time);
	KUNIT_EXPECT_FALSE(test, allows(ns));
	/* only a probe opens the window */
	slow_read_takes(150, ns);
	KUNIT_EXPECT_EQ(test, probe->window, 0);
	probe->window = 1;
	KUNIT_EXPECT_TRUE(test, allows(ns));
	/* the same applies to a query ahead of a read */
	KUNIT_EXPECT_TRUE(test, claim_again(ns));
	read_begins(&io, 1, LINNOS_IO_SLOW, ns);
	KUNIT_EXPECT_FALSE(test, allows(ns));
	KUNIT_EXPECT_FALSE(test, claim_again(ns));
	read_ends(&io, ns + 1);
	KUNIT_EXPECT_EQ(test, probe->window, 1);
	KUNIT_EXPECT_TRUE(test, allows(ns));
	/* late: the wait restarts, but is not doubled, because this was not a probe */
	atomic_set(&probe->refused, 5);
	ns += NSEC_PER_SEC;
	slow_read_takes(151, ns);
	KUNIT_EXPECT_EQ(test, probe->window, 0);
	KUNIT_EXPECT_EQ(test, probe->backoff, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&probe->refused), 0);
	KUNIT_EXPECT_FALSE(test, claim(ns + 50000));
	KUNIT_EXPECT_FALSE(test, claim_again(ns));

	probe->window = 1;
	linnos_probe_close_window(probe);
	KUNIT_EXPECT_FALSE(test, allows(ns));
}

/* With larger reads in flight: the window opens wide, because the model may be wrong. */
static void linnos_test_window_larger(struct kunit *test)
{
	struct linnos_probe_state *probe = &drive->probes[0];
	u64 ns = START_NS + NSEC_PER_SEC;
	struct linnos_completed_io ended;
	struct linnos_io large, io[12];
	int i;

	begin(&after_time);
	read_begins(&large, 17, 0, ns);
	probe->window = 1;
	for (i = 0; i < 45; i++) {
		slow_read_takes(150, ns);
		KUNIT_EXPECT_EQ(test, probe->window, min(11 + i, 50));
	}
	linnos_probe_close_window(probe);
	for (i = 4; i > 0; i--) {
		slow_read_takes(151, ns);
		KUNIT_EXPECT_EQ(test, probe->window, 10 * i);
	}
	slow_read_takes(150, ns);
	KUNIT_EXPECT_EQ(test, probe->window, 11);
	for (i = 0; i < 11; i++) {
		KUNIT_EXPECT_TRUE(test, allows(ns));
		read_begins(&io[i], 1, LINNOS_IO_SLOW, ns);
	}
	KUNIT_EXPECT_FALSE(test, allows(ns));
	/* larger reads only, and only for a limited time after the last one has completed */
	for (i = 1; i < 11; i++)
		read_completes(&io[i], ns, &ended);
	KUNIT_EXPECT_FALSE(test, linnos_probe_window_allows(drive, 1, ns));
	read_ends(&large, ns);
	KUNIT_EXPECT_TRUE(test, allows(ns + 49999));
	KUNIT_EXPECT_FALSE(test, allows(ns + 50000));
	read_completes(&io[0], ns, &ended);
	KUNIT_EXPECT_TRUE(test, allows(ns + 50000));
	/* after that, a late read closes the window at once */
	slow_read_takes(151, ns + 50000);
	KUNIT_EXPECT_EQ(test, probe->window, 0);
}

/* Large reads do not count as probes for small reads. */
static void linnos_test_probe_size_classes(struct kunit *test)
{
	const u64 ns = START_NS + 50001;
	struct linnos_io io;

	begin(&after_time);
	atomic_set(&drive->probes[0].refused, 3);
	linnos_probe_note_fast_read(drive, 1, ns);
	atomic_set(&drive->probes[1].refused, 3);
	set_rules(&after_refused);
	KUNIT_EXPECT_TRUE(test, linnos_probe_claim(drive, 1, false, ns));
	read_begins(&io, 17, LINNOS_IO_SLOW, ns);
	set_rules(&after_time);
	read_ends(&io, ns + 1);
	KUNIT_EXPECT_EQ(test, drive->probes[1].window, 1);
	KUNIT_EXPECT_EQ(test, drive->probes[0].window, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&drive->probes[0].refused), 3);
	KUNIT_EXPECT_TRUE(test, claim(ns));
}

static void expect_none_in_flight(struct kunit *test,
				  const struct linnos_probe_state *probe)
{
	KUNIT_EXPECT_EQ(test, atomic_read(&probe->in_flight), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&probe->slow_in_flight), 0);
}

/* If a read is split because of the layout of its buffer, one of its parts is the probe. */
static void linnos_test_probe_parts(struct kunit *test)
{
	struct linnos_probe_state *medium = &drive->probes[1],
				  *large = &drive->probes[2];
	const u64 ns = START_NS + 50001;
	struct linnos_io io[3];
	int i;

	begin(&after_time);
	KUNIT_EXPECT_TRUE(test, linnos_probe_claim(drive, 2, false, ns));
	read_begins(&io[0], 16, 0, ns);
	KUNIT_EXPECT_EQ(test, large->claimed_ns, CLAIMED(ns));
	/* a probe of the request's own size class takes precedence */
	KUNIT_EXPECT_TRUE(test, linnos_probe_claim(drive, 1, false, ns));
	read_begins(&io[1], 128, 0, ns);
	KUNIT_EXPECT_EQ(test, medium->claimed_ns,
			CLAIMED(ns) | LINNOS_PROBE_SENT);
	KUNIT_EXPECT_EQ(test, large->claimed_ns, CLAIMED(ns));
	read_begins(&io[2], 128, 0, ns);
	KUNIT_EXPECT_EQ(test, large->claimed_ns,
			CLAIMED(ns) | LINNOS_PROBE_SENT);
	KUNIT_EXPECT_EQ(test, atomic_read(&large->in_flight), 1);
	for (i = 0; i < ARRAY_SIZE(io); i++)
		read_ends(&io[i], ns + 200000);
	KUNIT_EXPECT_EQ(test, drive->probes[0].backoff, 0);
	KUNIT_EXPECT_EQ(test, medium->backoff, 1);
	KUNIT_EXPECT_EQ(test, large->backoff, 1);
	for (i = 0; i < LINNOS_SIZE_CLASSES; i++)
		expect_none_in_flight(test, &drive->probes[i]);
}

/* The history of a size class is stale if no read of it has completed for long. */
static void linnos_test_stale_history(struct kunit *test)
{
	const u64 ns = START_NS + 50000;

	read_takes(1, 10, START_NS);
	set_rules(&after_time);
	KUNIT_EXPECT_FALSE(test, linnos_history_is_stale(drive, 0, ns));
	KUNIT_EXPECT_TRUE(test, linnos_history_is_stale(drive, 0, ns + 1));
	KUNIT_EXPECT_TRUE(test, linnos_history_is_stale(drive, 1, ns));
	set_rules(&after_refused);
	KUNIT_EXPECT_FALSE(test, linnos_history_is_stale(drive, 1, ns));
}

/* Requests */

/* Answers. */
#define FAST BLK_LINNOS_FAST
#define SLOW BLK_LINNOS_SLOW
#define PROBE BLK_LINNOS_PROBE
#define UNKNOWN BLK_LINNOS_UNKNOWN

/* The model of fill_file() predicts slow from 40 KiB on. */
#define SLOW_BYTES (10 * 4096)

static u64 stat_of(struct kunit *test, enum linnos_stat stat)
{
	return linnos_stat(linnos, stat);
}

/* Send a read with the hint. Return true if it is admitted. */
static bool send_hinted(struct sent *sent, unsigned int bytes, u64 now_ns)
{
	return send(linnos, sent, HINTED_READ, bytes, now_ns);
}

/* Upload that model. No probe is due unless a test sets the conditions. */
static int linnos_policy_test_init(struct kunit *test)
{
	int ret = linnos_drive_test_init(test);

	if (ret)
		return ret;
	linnos->mode = LINNOS_ENFORCE;
	drive->probe_after_us = 0;
	drive->probe_after_refused = 0;
	linnos_reset_history(linnos);
	return upload(test->priv, FILE_BYTES);
}

static void linnos_test_requests(struct kunit *test)
{
	static const struct {
		blk_opf_t opf;
		unsigned int bytes;
		u32 reads, read_pages, write_pages;
	} cases[] = {
		{ REQ_OP_READ, 512, 1, 1, 0 },
		{ REQ_OP_WRITE, 8192, 0, 0, 2 },
		{ REQ_OP_WRITE | REQ_PREFLUSH | REQ_FUA, 4097, 0, 0, 2 },
		{ REQ_OP_ZONE_APPEND, 4096, 0, 0, 1 },
		{ REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, 0, 0 },
		{ REQ_OP_DISCARD, 4096, 0, 0, 0 },
		{ REQ_OP_WRITE_ZEROES, 4096, 0, 0, 0 },
		{ REQ_OP_DRV_IN, 4096, 0, 0, 0 },
	};
	struct sent sent, more;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		send(linnos, &sent, cases[i].opf, cases[i].bytes, START_NS);
		KUNIT_EXPECT_TRUE_MSG(test,
				      is_in_flight(drive, cases[i].reads,
						   cases[i].read_pages,
						   cases[i].write_pages),
				      "case %d", i);
		answer(linnos, &sent, BLK_STS_OK, START_NS);
		KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	}
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_READS), 1);
	KUNIT_EXPECT_EQ(test, drive->history.nr, 1);

	/* merged */
	send(linnos, &more, REQ_OP_READ, 8192, START_NS);
	blk_linnos_ops.merge(&linnos->rqos, &sent.rq, &more.bio);
	blk_linnos_ops.merge(&linnos->rqos, &more.rq, &more.bio);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 1, 4, 0));

	/* the policy is switched off, and then a read starts */
	linnos->mode = LINNOS_OFF;
	send(linnos, &sent, REQ_OP_READ, 4096, START_NS);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 1, 4, 0));
	answer(linnos, &more, BLK_STS_OK, START_NS);
	linnos->mode = LINNOS_OBSERVE;
	answer(linnos, &sent, BLK_STS_OK, START_NS);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	KUNIT_EXPECT_EQ(test, drive->history.nr, 2);
}

static u64 count_latencies(struct kunit *test)
{
	u64 sum = 0;
	u32 bucket;

	for (bucket = 0; bucket < LINNOS_LATENCY_BUCKETS; bucket++)
		sum += stat_of(test, LINNOS_STAT_LATENCY + bucket);
	return sum;
}

/* The last call counts. SCSI completes the good part of a failed read first. */
static void linnos_test_completion_status(struct kunit *test)
{
	static const struct {
		int n;
		blk_status_t status[3];
		bool counts;
	} cases[] = {
		{ 0, {}, false },
		{ 1, { BLK_STS_OK }, true },
		{ 1, { BLK_STS_IOERR }, false },
		{ 2, { BLK_STS_OK, BLK_STS_MEDIUM }, false },
		{ 3, { BLK_STS_OK, BLK_STS_OK, BLK_STS_IOERR }, false },
		{ 2, { BLK_STS_RESOURCE, BLK_STS_OK }, true },
	};
	int i, k, counted = 0;
	struct sent sent;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		send(linnos, &sent, REQ_OP_READ, 4096, START_NS);
		for (k = 0; k < cases[i].n; k++)
			__blk_linnos_answer(&sent.rq, cases[i].status[k]);
		linnos_request_done(linnos, io_of(&sent), START_NS + 100000);
		counted += cases[i].counts;
		KUNIT_EXPECT_EQ_MSG(test, count_latencies(test), counted,
				    "case %d", i);
		KUNIT_EXPECT_EQ(test, drive->history.nr, counted);
	}
	/* a multipath driver's request whose bios were taken back; uses the real clock */
	send(linnos, &sent, REQ_OP_READ, 4096, START_NS);
	blk_linnos_ops.issue(&linnos->rqos, &sent.rq);
	blk_linnos_ops.done(&linnos->rqos, &sent.rq);
	blk_linnos_ops.done(&linnos->rqos, &sent.rq);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_LATENCY + 19), counted);
	/* this resets the history, but no counter */
	linnos_reset_history(linnos);
	KUNIT_EXPECT_EQ(test, count_latencies(test), counted);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_SLOW), 0);
}

/* Changes of the mode, as if the policy had been added to the queue before. */
static void linnos_test_modes(struct kunit *test)
{
	static const struct {
		enum linnos_mode mode;
		bool forgets;
	} cases[] = {
		{ LINNOS_OBSERVE, false }, { LINNOS_ENFORCE, false },
		{ LINNOS_OFF, false },	   { LINNOS_ENFORCE, true },
		{ LINNOS_OFF, false },	   { LINNOS_OBSERVE, true },
	};
	int i;

	linnos->attached = true;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!drive->history.nr)
			complete_reads(linnos, 4, 100, START_NS);
		mutex_lock(&linnos->lock);
		KUNIT_EXPECT_EQ(test, linnos_set_mode(linnos, cases[i].mode),
				0);
		mutex_unlock(&linnos->lock);
		KUNIT_EXPECT_EQ_MSG(test, !drive->history.nr, cases[i].forgets,
				    "case %d", i);
	}
	linnos->attached = false;
}

/* Decisions */

/* Return the flags from which the request derives the prediction. */
static int flags_of(struct sent *sent)
{
	return (bio_flagged(&sent->bio, BIO_LATCRIT_DECIDED) ? 1 : 0) +
	       (sent->bio.bi_opf & REQ_LATCRIT ? 2 : 0);
}

#define UNDECIDED 0
#define PREDICTED_SLOW 1
#define PREDICTED_FAST 3

static void linnos_test_no_model(struct kunit *test)
{
	struct blk_linnos *bare = linnos_alloc(linnos->disk);
	struct sent sent;

	KUNIT_ASSERT_NOT_NULL(test, bare);
	KUNIT_EXPECT_EQ(test, linnos_stat(bare, LINNOS_STAT_READS), 0);
	KUNIT_ASSERT_EQ(test, linnos_alloc_stats(bare), 0);
	bare->mode = LINNOS_ENFORCE;
	KUNIT_EXPECT_TRUE(test,
			  send(bare, &sent, HINTED_READ, SLOW_BYTES, START_NS));
	KUNIT_EXPECT_EQ(test, flags_of(&sent), UNDECIDED);
	answer(bare, &sent, BLK_STS_OK, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, linnos_stat(bare, LINNOS_STAT_ADMITTED), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(bare, LINNOS_STAT_INFERENCES), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(bare, LINNOS_STAT_SLOW), 0);
	linnos_free(bare);
}

static void linnos_test_enforce(struct kunit *test)
{
	struct sent sent, write;

	KUNIT_EXPECT_TRUE(test, send_hinted(&sent, 4096, START_NS));
	KUNIT_EXPECT_EQ(test, flags_of(&sent), PREDICTED_FAST);
	answer(linnos, &sent, BLK_STS_OK, START_NS + 150000);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_SLOW), 0);
	KUNIT_EXPECT_TRUE(test, send_hinted(&sent, 4096, START_NS));
	answer(linnos, &sent, BLK_STS_OK, START_NS + 151000);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_SLOW), 1);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_FALSE_SUBMITS), 1);

	/* decided by the pages in flight, including its own, rounded up */
	KUNIT_EXPECT_FALSE(test,
			   send_hinted(&sent, SLOW_BYTES - 4095, START_NS));
	KUNIT_EXPECT_EQ(test, flags_of(&sent), PREDICTED_SLOW);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	send(linnos, &write, REQ_OP_WRITE, SLOW_BYTES - 4096, START_NS);
	KUNIT_EXPECT_FALSE(test, send_hinted(&sent, 4096, START_NS));
	/* a read without the hint */
	KUNIT_EXPECT_TRUE(test,
			  send(linnos, &sent, REQ_OP_READ, 4096, START_NS));
	KUNIT_EXPECT_EQ(test, flags_of(&sent), UNDECIDED);
	answer(linnos, &sent, BLK_STS_OK, NSEC_PER_SEC);
	answer(linnos, &write, BLK_STS_OK, NSEC_PER_SEC);

	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_READS), 5);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_LATENCY_CRITICAL), 4);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_ADMITTED), 2);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_REVOKED), 2);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_INFERENCES), 4);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_SLOW), 2);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_FALSE_SUBMITS), 1);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_FALSE_REVOKES), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&drive->probes[0].refused), 2);
}

static void linnos_test_observe(struct kunit *test)
{
	struct sent sent;
	int i;

	linnos->mode = LINNOS_OBSERVE;
	drive->probe_after_us = 1;
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test,
				  send_hinted(&sent, SLOW_BYTES, NSEC_PER_SEC));
		KUNIT_EXPECT_EQ(test, flags_of(&sent), PREDICTED_SLOW);
		answer(linnos, &sent, BLK_STS_OK,
		       NSEC_PER_SEC + 150000 + 1000 * i);
	}
	/* one read was predicted slow, but was fast; there is no other error */
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_FALSE_REVOKES), 1);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_SLOW), 1);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_FALSE_SUBMITS), 0);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_ADMITTED), 2);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_REVOKED), 0);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_PROBES), 0);
	KUNIT_EXPECT_EQ(test, drive->probes[0].claimed_ns, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&drive->probes[0].refused), 0);
}

static bool is_admitted(struct bio *bio)
{
	return blk_linnos_decide(bio) == BLK_STS_OK;
}

/* A bio is decided by the policy of its disk, and only once. */
static void linnos_test_decided_once(struct kunit *test)
{
	struct block_device *bdev;
	struct bio bio;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	bdev->bd_disk = linnos->disk;
	bio_init(&bio, NULL, NULL, 0, HINTED_READ);
	bio.bi_bdev = bdev;
	bio.bi_iter.bi_size = SLOW_BYTES;
	/* without a policy, the hint is kept for the drives below */
	KUNIT_EXPECT_TRUE(test, is_admitted(&bio));
	KUNIT_EXPECT_TRUE(test, bio.bi_opf & REQ_LATCRIT);
	linnos->disk->linnos = linnos;
	KUNIT_EXPECT_FALSE(test, is_admitted(&bio));
	KUNIT_EXPECT_TRUE(test, bio_flagged(&bio, BIO_LATCRIT_DECIDED));
	KUNIT_EXPECT_TRUE(test, is_admitted(&bio));
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_LATENCY_CRITICAL), 1);

	bio_clear_flag(&bio, BIO_LATCRIT_DECIDED);
	bio.bi_opf = REQ_OP_WRITE | REQ_LATCRIT;
	KUNIT_EXPECT_TRUE(test, is_admitted(&bio));
	KUNIT_EXPECT_FALSE(test, bio.bi_opf & REQ_LATCRIT);
	bio.bi_opf = HINTED_READ;
	linnos->mode = LINNOS_OFF;
	KUNIT_EXPECT_TRUE(test, is_admitted(&bio));
	KUNIT_EXPECT_FALSE(test, bio.bi_opf & REQ_LATCRIT);
	KUNIT_EXPECT_FALSE(test, bio_flagged(&bio, BIO_LATCRIT_DECIDED));
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_LATENCY_CRITICAL), 1);
	linnos->disk->linnos = NULL;
}

/* Send @n slow reads. Return the number of admitted reads. @sent is the last one of them. */
static int count_admitted(int n, struct sent *sent, u64 now_ns)
{
	struct sent one;
	int admitted = 0;

	while (n--) {
		if (!send_hinted(&one, SLOW_BYTES, now_ns))
			continue;
		*sent = one;
		admitted++;
	}
	return admitted;
}

static void linnos_test_probes(struct kunit *test)
{
	u64 ns = START_NS;
	struct sent sent, fast;

	drive->probe_after_refused = 3;
	KUNIT_EXPECT_EQ(test, count_admitted(3, &sent, ns), 0);
	KUNIT_EXPECT_EQ(test, count_admitted(3, &sent, ns), 1);
	KUNIT_EXPECT_EQ(test, flags_of(&sent), PREDICTED_SLOW);
	KUNIT_EXPECT_EQ(test, atomic_read(&drive->probes[0].slow_in_flight), 1);
	/* late, and then slow but within the cost of a failover */
	linnos->failover_us = 30;
	answer(linnos, &sent, BLK_STS_OK, ns + 181000);
	KUNIT_EXPECT_EQ(test, count_admitted(6, &sent, ns), 0);
	KUNIT_EXPECT_EQ(test, count_admitted(1, &sent, ns), 1);
	answer(linnos, &sent, BLK_STS_OK, ns + 180000);
	/* in time: another one is admitted at once, one at a time */
	KUNIT_EXPECT_EQ(test, count_admitted(3, &sent, ns), 1);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_PROBES), 3);
	answer(linnos, &sent, BLK_STS_OK, ns + 1000);
	/* until the model predicts fast */
	KUNIT_EXPECT_TRUE(test, send_hinted(&fast, 4096, ns));
	answer(linnos, &fast, BLK_STS_OK, ns + 1000);
	KUNIT_EXPECT_EQ(test, count_admitted(1, &sent, ns), 0);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_FALSE_REVOKES), 0);

	/* by time: since the last read that was expected to be fast */
	drive->probe_after_refused = 0;
	drive->probe_after_us = 50;
	ns = NSEC_PER_SEC;
	KUNIT_EXPECT_TRUE(test, send_hinted(&fast, 4096, ns));
	answer(linnos, &fast, BLK_STS_OK, ns + 1000);
	KUNIT_EXPECT_EQ(test, count_admitted(1, &sent, ns + 50000), 0);
	KUNIT_EXPECT_EQ(test, count_admitted(2, &sent, ns + 50001), 1);
	answer(linnos, &sent, BLK_STS_IOERR, ns + 50002);
	KUNIT_EXPECT_EQ(test, count_admitted(2, &sent, ns + 50003), 1);
	answer(linnos, &sent, BLK_STS_OK, ns + 50004);
}

/* Answers to queries */

/* A query is not a decision: only the inference is counted. */
static void linnos_test_query(struct kunit *test)
{
	struct sent write;
	int i;

	for (i = LINNOS_OBSERVE; i <= LINNOS_ENFORCE; i++) {
		linnos->mode = i;
		KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, START_NS),
				FAST);
		KUNIT_EXPECT_EQ(test,
				query_expected(linnos, SLOW_BYTES, START_NS),
				SLOW);
	}
	/* the pages in flight count */
	send(linnos, &write, REQ_OP_WRITE, SLOW_BYTES - 4096, START_NS);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, START_NS), SLOW);
	answer(linnos, &write, BLK_STS_OK, START_NS);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	for (i = 0; i < LINNOS_STAT_INFERENCES; i++)
		KUNIT_EXPECT_EQ(test, stat_of(test, i), 0);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_INFERENCES), 5);
}

/* A caller that queries when a probe is due is asked to send its read. */
static void linnos_test_query_probe(struct kunit *test)
{
	u64 ns = START_NS;
	struct sent sent;
	int i;

	/* after three reads were sent to other drives */
	linnos->mode = LINNOS_OBSERVE;
	drive->probe_after_refused = 3;
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, query_expected(linnos, SLOW_BYTES, ns),
				SLOW);
	/* two callers are asked to probe; while they do not send their reads, two of three are */
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test,
				query_expected(linnos, SLOW_BYTES, ns + i),
				i % 3 == 2 ? SLOW : PROBE);
	/* a fast read in between does not matter */
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns), FAST);
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_PROBES), 4);
	ns += NSEC_PER_SEC;
	send(linnos, &sent, REQ_OP_READ, SLOW_BYTES, ns);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, SLOW_BYTES, ns), SLOW);
	answer(linnos, &sent, BLK_STS_OK, ns + 150000);

	/* in time: another probe follows, which any caller may send */
	KUNIT_EXPECT_EQ(test, query_expected(linnos, SLOW_BYTES, ns + 150000),
			PROBE);
	send(linnos, &sent, REQ_OP_READ, 4096, ns + 150001);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, SLOW_BYTES, ns + 150001),
			SLOW);
	answer(linnos, &sent, BLK_STS_OK, ns + 300002);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, SLOW_BYTES, ns + 300002),
			PROBE);
	/* predicted fast, and then slow again */
	complete_reads(linnos, 1, 10, ns + 400000);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns + 400000), FAST);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, SLOW_BYTES, ns + 400000),
			SLOW);
}

/* Return true if blk_linnos_query() gives this answer with these details. */
static bool query_returns(struct block_device *bdev, unsigned int bytes,
			  u64 now_ns, enum blk_linnos_expected expected,
			  u32 known, u32 flags)
{
	struct blk_expect_drive details = { 7, 7, 7, { 7 } };

	return blk_linnos_query(bdev, LINNOS_SECTOR_UNKNOWN, bytes, now_ns,
				true, &details) == expected &&
	       details.fd == 7 && details.known == known &&
	       details.flags == flags && details.latency_us == 0;
}

/* The details of an answer: the kind of model, and the age of the history. */
static void linnos_test_query_details(struct kunit *test)
{
	const u32 slow = BLK_EXPECT_SLOW, stale = BLK_EXPECT_STALE;
	const u32 verdict = BLK_EXPECT_FAST_OR_SLOW;
	struct blk_linnos *bare = linnos_alloc(linnos->disk);
	struct block_device *bdev;
	struct sent sent;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	KUNIT_ASSERT_NOT_NULL(test, bare);
	bdev->bd_disk = linnos->disk;
	KUNIT_EXPECT_TRUE(test, query_returns(bdev, 4096, 1, UNKNOWN,
					      BLK_EXPECT_NO_POLICY, 0));
	linnos->disk->linnos = bare;
	KUNIT_EXPECT_TRUE(test, query_returns(bdev, 4096, 1, UNKNOWN,
					      BLK_EXPECT_OFF, 0));
	bare->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test, query_returns(bdev, 4096, 1, UNKNOWN,
					      BLK_EXPECT_NO_MODEL, 0));
	KUNIT_EXPECT_EQ(test, (int)blk_linnos_expect(bdev, 0, SLOW_BYTES),
			UNKNOWN);
	linnos_free(bare);

	linnos->disk->linnos = linnos;
	drive->probe_after_us = 50;
	linnos_drive_reset_history(drive, START_NS);
	complete_reads(linnos, 1, 10, START_NS);
	KUNIT_EXPECT_TRUE(test, query_returns(bdev, 4096, START_NS + 50000,
					      FAST, verdict, 0));
	linnos_drive_reset_history(drive, START_NS);
	complete_reads(linnos, 1, 10, START_NS);
	KUNIT_EXPECT_TRUE(test,
			  query_returns(bdev, SLOW_BYTES, START_NS + 50000,
					SLOW, verdict, slow));
	/* stale; if the drive is slow, the caller is asked to probe it */
	KUNIT_EXPECT_TRUE(test, query_returns(bdev, SLOW_BYTES,
					      START_NS + 50001, PROBE, verdict,
					      slow | stale | BLK_EXPECT_PROBE));
	KUNIT_EXPECT_TRUE(test, query_returns(bdev, 4096, START_NS + 50001,
					      FAST, verdict, stale));
	send(linnos, &sent, REQ_OP_READ, 4096, START_NS + 50002);
	KUNIT_EXPECT_TRUE(test,
			  query_returns(bdev, SLOW_BYTES, START_NS + 50002,
					SLOW, verdict, slow | stale));
	answer(linnos, &sent, BLK_STS_OK, START_NS + 50003);
	linnos->disk->linnos = NULL;
}

/* A query without a read changes nothing, and is possible at any time. */
static void linnos_test_query_without_read(struct kunit *test)
{
	struct blk_expect_drive details;
	struct linnos_drive *before;
	int i;

	before = kunit_kmalloc(test, sizeof(*before), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, before);
	drive->probe_after_us = 50;
	drive->probe_after_refused = 2;
	linnos_drive_reset_history(drive, START_NS);
	drive->probes[0].window = 1;
	memcpy(before, drive, sizeof(*before));
	for (i = 0; i < 10; i++) {
		KUNIT_EXPECT_EQ(test,
				linnos_query_read(linnos, 0, SLOW_BYTES,
						  2 * START_NS, false,
						  &details),
				SLOW);
		KUNIT_EXPECT_EQ(test, details.flags,
				BLK_EXPECT_SLOW | BLK_EXPECT_STALE);
		KUNIT_EXPECT_EQ(test,
				linnos_query_read(linnos, 0, 4096, 2 * START_NS,
						  false, &details),
				FAST);
		KUNIT_EXPECT_EQ(test, details.flags, BLK_EXPECT_STALE);
	}
	KUNIT_EXPECT_MEMEQ(test, drive, before, sizeof(*before));
	KUNIT_EXPECT_EQ(test, stat_of(test, LINNOS_STAT_PROBES), 0);
}

/* Concurrency */

#define THREADS 8
#define THREAD_IOS 10000
#define THREAD_DEPTH 20

struct race {
	struct sent *sent; /* of all threads */
	atomic_t ready;
	atomic_t running;
};

/* Start, grow and end reads and writes that are issued at once. Some of them fail. */
static int race_thread(void *argument)
{
	struct race *race = argument;
	int nr = atomic_inc_return(&race->ready), n;
	struct sent *own = race->sent + (nr - 1) * THREAD_DEPTH;
	u32 x = nr;

	for (n = 0; n < THREAD_IOS + THREAD_DEPTH; n++) {
		/* the clock of a guest in virtual time may be 0 */
		u64 now_ns = ktime_get_ns() + START_NS;
		struct sent *sent = &own[n % THREAD_DEPTH];
		blk_opf_t opf = xorshift32(&x) % 4 ? REQ_OP_READ : REQ_OP_WRITE;

		if (n >= THREAD_DEPTH) {
			__blk_linnos_answer(&sent->rq, xorshift32(&x) % 8 ?
							       BLK_STS_OK :
							       BLK_STS_IOERR);
			blk_linnos_ops.done(&linnos->rqos, &sent->rq);
		}
		if (n >= THREAD_IOS)
			continue;
		if (opf == REQ_OP_READ && xorshift32(&x) % 2)
			opf |= REQ_LATCRIT;
		send(linnos, sent, opf, 512 << xorshift32(&x) % 13, now_ns);
		blk_linnos_ops.merge(&linnos->rqos, &sent->rq, &sent->bio);
		query_expected(linnos, 4096, now_ns);
		if (xorshift32(&x) % 64 == 0)
			usleep_range(1, 2);
	}
	atomic_dec(&race->running);
	return 0;
}

/* Copy the history as a decision does. Return true if the copy is consistent. */
static bool is_consistent(struct linnos_history *copy)
{
	u64 n = 0, newest = 0;
	u32 size;
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&drive->history_lock.seq);
		memcpy(copy, &drive->history, sizeof(*copy));
	} while (read_seqcount_retry(&drive->history_lock.seq, seq));
	for (size = 0; size < LINNOS_SIZE_CLASSES; size++) {
		u32 i = (copy->n[size] - 1) % LINNOS_HISTORY;

		n += copy->n[size];
		newest = max(newest, copy->last[size][i].nr);
	}
	return n == copy->nr && newest == copy->nr;
}

static void linnos_test_concurrent_io(struct kunit *test)
{
	struct linnos_history *copy;
	struct task_struct *task;
	int i, inconsistent = 0;
	struct race *race;

	race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	copy = kunit_kzalloc(test, sizeof(*copy), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, race);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	race->sent = kunit_kcalloc(test, THREADS * THREAD_DEPTH,
				   sizeof(*race->sent), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, race->sent);
	drive->probe_after_refused = 100;
	for (i = 0; i < THREADS; i++) {
		atomic_inc(&race->running);
		task = kthread_run(race_thread, race, "linnos-race/%d", i);
		if (IS_ERR(task))
			atomic_dec(&race->running);
		KUNIT_EXPECT_FALSE(test, IS_ERR(task));
	}
	while (atomic_read(&race->running)) {
		/* slots are allocated from time to time, and always freed */
		WRITE_ONCE(drive->tracks_starts, !drive->tracks_starts);
		inconsistent += !is_consistent(copy);
		usleep_range(1, 2);
	}
	KUNIT_EXPECT_EQ(test, inconsistent, 0);
	KUNIT_EXPECT_TRUE(test, is_in_flight(drive, 0, 0, 0));
	for (i = 0; i < LINNOS_SIZE_CLASSES; i++) {
		expect_none_in_flight(test, &drive->probes[i]);
		KUNIT_EXPECT_GT(test, drive->history.n[i], 0);
	}
	for (i = 0; i < ARRAY_SIZE(drive->start_slots.taken); i++)
		KUNIT_EXPECT_EQ(test, drive->start_slots.taken[i], 0);
	for (i = 0; i < LINNOS_REGIONS; i++)
		KUNIT_EXPECT_EQ(test, linnos_region_reads(drive, i), 0);
	KUNIT_EXPECT_EQ(test, count_latencies(test), drive->history.nr);
}

static struct kunit_case linnos_drive_cases[] = {
	KUNIT_CASE(linnos_test_pending),
	KUNIT_CASE(linnos_test_size_saturates),
	KUNIT_CASE(linnos_test_full_queues),
	KUNIT_CASE(linnos_test_counted_once),
	KUNIT_CASE(linnos_test_latency),
	KUNIT_CASE(linnos_test_start_slots),
	KUNIT_CASE(linnos_test_regions),
	KUNIT_CASE(linnos_test_history),
	KUNIT_CASE(linnos_test_history_wraps),
	KUNIT_CASE(linnos_test_model_inputs),
	KUNIT_CASE(linnos_test_latency_buckets),
	KUNIT_CASE(linnos_test_probe_after_time),
	KUNIT_CASE(linnos_test_fast_read_restarts_wait),
	KUNIT_CASE(linnos_test_probe_after_refused),
	KUNIT_CASE(linnos_test_probe_unsent_time),
	KUNIT_CASE(linnos_test_probe_second_caller),
	KUNIT_CASE(linnos_test_probe_unsent_refused),
	KUNIT_CASE(linnos_test_probe_split),
	KUNIT_CASE(linnos_test_probe_last_part),
	KUNIT_CASE(linnos_test_probe_plugged),
	KUNIT_CASE(linnos_test_probe_lost),
	KUNIT_CASE(linnos_test_probe_merged),
	KUNIT_CASE(linnos_test_probe_merged_writes),
	KUNIT_CASE(linnos_test_late_read_decides_probe),
	KUNIT_CASE(linnos_test_window_alone),
	KUNIT_CASE(linnos_test_window_larger),
	KUNIT_CASE(linnos_test_probe_size_classes),
	KUNIT_CASE(linnos_test_probe_parts),
	KUNIT_CASE(linnos_test_stale_history),
	{}
};

static struct kunit_suite linnos_drive_suite = {
	.name = "linnos-drive",
	.init = linnos_drive_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_drive_cases,
};

static struct kunit_case linnos_policy_cases[] = {
	KUNIT_CASE(linnos_test_requests),
	KUNIT_CASE(linnos_test_completion_status),
	KUNIT_CASE(linnos_test_modes),
	KUNIT_CASE(linnos_test_no_model),
	KUNIT_CASE(linnos_test_enforce),
	KUNIT_CASE(linnos_test_observe),
	KUNIT_CASE(linnos_test_decided_once),
	KUNIT_CASE(linnos_test_probes),
	KUNIT_CASE(linnos_test_query),
	KUNIT_CASE(linnos_test_query_probe),
	KUNIT_CASE(linnos_test_query_details),
	KUNIT_CASE(linnos_test_query_without_read),
	{}
};

static struct kunit_suite linnos_policy_suite = {
	.name = "linnos-policy",
	.init = linnos_policy_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_policy_cases,
};

static struct kunit_case linnos_cpus_cases[] = {
	KUNIT_CASE(linnos_test_concurrent_io),
	{}
};

static struct kunit_suite linnos_cpus_suite = {
	.name = "linnos-cpus",
	.init = linnos_policy_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_cpus_cases,
};

kunit_test_suites(&linnos_drive_suite, &linnos_policy_suite,
		  &linnos_cpus_suite);
