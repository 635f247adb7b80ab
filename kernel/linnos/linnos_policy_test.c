// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LinnOS: accounting, on many CPUs too, decisions, probes, and what
 * is expected of a read. No disk is involved; the lab tests do that.
 */
#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "blk-linnos-cpus.h"
#include "blk.h"
#include "blk-linnos.h"
#include "linnos_test.h"

/* Accounting */

static void linnos_test_pending(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io a, b, c;

	fx->linnos->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test, arrive(fx, &a, REQ_OP_READ, 512, false, 0));
	KUNIT_EXPECT_EQ(test, a.io.pending, 1);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &b, REQ_OP_WRITE, 4097, false, 0));
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 3);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &c, REQ_OP_READ, 65536, true, 0));
	KUNIT_EXPECT_EQ(test, c.io.pending, 19);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 19);
	complete_io(fx, &b, BLK_STS_OK, 10);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 17);
	complete_io(fx, &a, BLK_STS_IOERR, 10);
	complete_io(fx, &c, BLK_STS_OK, 10);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_READS), 2);
}

static void linnos_test_largest_bio(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io a;

	fx->linnos->mode = LINNOS_OBSERVE;
	arrive(fx, &a, REQ_OP_WRITE, UINT_MAX & ~511, false, 0);
	KUNIT_EXPECT_EQ(test, (u32)a.io.pages, 1 << 20);
	complete_io(fx, &a, BLK_STS_OK, 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

/* What a bio is packed into is what it was. */
static void linnos_test_pack(struct kunit *test)
{
	static const struct bio_linnos cases[] = {
		{ 1, LINNOS_VERDICT_NONE, 0, 1, false, false, LINNOS_NOT_SERVED,
		  LINNOS_WATCHED, LINNOS_SIZES - 1, false },
		{ 16383, LINNOS_VERDICT_FAST, 0, 0, true, false, 0, 0, 1,
		  false },
		{ 1000, LINNOS_VERDICT_SLOW, 0, 1 << 20, false, false, 90, 1, 0,
		  true },
		{ 3, LINNOS_VERDICT_SLOW, 0, 0, true, false, LINNOS_NOT_SERVED,
		  0, 2, true },
		{ 4, LINNOS_VERDICT_NONE, 0, 1 << 20, false, true,
		  LINNOS_NOT_SERVED, 0, 0, false },
		{ 2, LINNOS_VERDICT_PROBE, 127, 256, false, false,
		  LINNOS_SERVED_MAX, 0, LINNOS_SIZES - 1, false },
		{ 2, LINNOS_VERDICT_PROBE, 0, 0, true, false, LINNOS_NOT_SERVED,
		  0, 1, false },
	};
	struct bio_linnos io;
	struct bio bio;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		linnos_pack(&bio, &cases[i]);
		io = linnos_unpack(&bio);
		KUNIT_EXPECT_EQ(test, io.pending, cases[i].pending);
		KUNIT_EXPECT_EQ(test, io.verdict, cases[i].verdict);
		KUNIT_EXPECT_EQ(test, io.probe, cases[i].probe);
		KUNIT_EXPECT_EQ(test, io.pages, cases[i].pages);
		KUNIT_EXPECT_EQ(test, io.decided, cases[i].decided);
		KUNIT_EXPECT_EQ(test, io.part, cases[i].part);
		KUNIT_EXPECT_EQ(test, io.served_us, cases[i].served_us);
		KUNIT_EXPECT_EQ(test, io.watched, cases[i].watched);
		KUNIT_EXPECT_EQ(test, io.size, cases[i].size);
		KUNIT_EXPECT_EQ(test, io.trusted, cases[i].trusted);
	}

	/* more than fits is as much as fits, and touches nothing else */
	io.pages = 256;
	io.pending = 1U << 30;
	io.verdict = LINNOS_VERDICT_FAST;
	linnos_pack(&bio, &io);
	io = linnos_unpack(&bio);
	KUNIT_EXPECT_EQ(test, io.pending, 16383);
	KUNIT_EXPECT_EQ(test, io.verdict, LINNOS_VERDICT_FAST);
	KUNIT_EXPECT_EQ(test, io.pages, 256);
}

/* What the host holds back is neither load nor a slow drive. */
static void linnos_test_held_back(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_history *h = &fx->linnos->history[0];
	struct linnos_io held, io;

	fx->linnos->mode = LINNOS_OBSERVE;
	bio_init(&held.bio, NULL, NULL, 0, REQ_OP_READ);
	held.bio.bi_iter.bi_size = 65536;
	KUNIT_EXPECT_TRUE(test, linnos_decide(fx->linnos, &held.bio, 1000));
	linnos_arrive(fx->linnos, &held.bio);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	arrive(fx, &io, REQ_OP_READ, 4096, true, 2000);
	KUNIT_EXPECT_EQ(test, io.io.pending, 1);

	/* it has a request a second later, and is issued after another */
	linnos_start(fx->linnos, &held.bio, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 17);
	held.start_ns = 2 * NSEC_PER_SEC;
	complete_io(fx, &held, BLK_STS_OK, 2 * NSEC_PER_SEC + 90000);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 90);
	/* the other one is before it by now */
	KUNIT_EXPECT_EQ(test, h->pending[3], 17);
	complete_io(fx, &io, BLK_STS_OK, 92000);

	/* refused for want of a tag: never counted */
	KUNIT_EXPECT_TRUE(test, linnos_decide(fx->linnos, &held.bio, 1000));
	linnos_arrive(fx->linnos, &held.bio);
	linnos_end(fx->linnos, &held.bio, BLK_STS_AGAIN);
	KUNIT_EXPECT_EQ(test, h->pending[3], 1);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

/* A bio and two parts of it; the slowest names the latency of the whole. */
static void linnos_test_parts(struct kunit *test)
{
	static const u64 latency_ns[3] = { 80000, 300000, 100000 };
	struct linnos_fixture *fx = test->priv;
	struct linnos_history *h = &fx->linnos->history[0];
	struct bio whole, first, second;
	struct bio *part[2] = { &first, &second };
	int i;

	fx->linnos->mode = LINNOS_OBSERVE;
	bio_init(&whole, NULL, NULL, 0, REQ_OP_READ);
	whole.bi_iter.bi_size = 65536;
	linnos_arrive(fx->linnos, &whole);
	for (i = 0; i < 2; i++) {
		bio_init(part[i], NULL, NULL, 0, REQ_OP_READ);
		part[i]->bi_iter.bi_size = 16384;
		whole.bi_iter.bi_size -= 16384;
		part[i]->bi_private = &whole;
		part[i]->bi_end_io = bio_chain_endio;
		linnos_start(fx->linnos, part[i], 0);
		KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos),
				4 * (i + 1));
	}
	linnos_start(fx->linnos, &whole, 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 16);

	linnos_served(fx->linnos, &whole, latency_ns[0], 0);
	for (i = 0; i < 2; i++) {
		linnos_served(fx->linnos, part[i], latency_ns[i + 1], 0);
		linnos_end(fx->linnos, part[i], BLK_STS_OK);
	}
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 8);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 0);
	linnos_end(fx->linnos, &whole, BLK_STS_OK);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 300);
	KUNIT_EXPECT_EQ(test, h->pending[3], 16);
	KUNIT_EXPECT_EQ(test, h->latency_us[2], 0);
}

/* The drive had it for a second and handed it back: that was not fast. */
static void linnos_test_tried_again(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_history *h = &fx->linnos->history[0];
	struct linnos_io io;

	fx->linnos->mode = LINNOS_OBSERVE;
	arrive(fx, &io, REQ_OP_READ, 4096, true, 0);
	linnos_tried(&io.bio, NSEC_PER_SEC);
	io.start_ns = 2 * NSEC_PER_SEC;
	complete_io(fx, &io, BLK_STS_OK, 2 * NSEC_PER_SEC + 90000);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], USEC_PER_SEC);

	/* refused by a busy driver: the try that was answered */
	arrive(fx, &io, REQ_OP_READ, 4096, true, 0);
	linnos_tried(&io.bio, 1000);
	complete_io(fx, &io, BLK_STS_OK, 90000);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 90);
}

/*
 * SCSI ends what is good of a failed read first, without an error, which may be
 * nothing. Only a bio whose last byte is among it has been answered.
 */
static void linnos_test_good_bytes(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct request_queue *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);
	struct request *rq = kunit_kzalloc(test, sizeof(*rq), GFP_KERNEL);
	struct blk_linnos *linnos = fx->linnos;
	struct linnos_io first, second;
	const u64 never_ns = U64_MAX;

	KUNIT_ASSERT_NOT_NULL(test, q);
	KUNIT_ASSERT_NOT_NULL(test, rq);
	linnos->mode = LINNOS_OBSERVE;
	fx->disk.linnos = linnos;
	q->disk = &fx->disk;
	rq->q = q;
	rq->cmd_flags = REQ_OP_READ;
	arrive(fx, &first, REQ_OP_READ, 4096, true, ktime_get_ns());
	arrive(fx, &second, REQ_OP_READ, 8192, true, ktime_get_ns());
	first.bio.bi_next = &second.bio;
	rq->bio = &first.bio;
	/* at boot it may be 0, which is not issued */
	rq->io_start_time_ns = ktime_get_ns() ?: 1;
	linnos->last_read_ns = never_ns;

	__blk_linnos_complete_rq(rq, 0);
	__blk_linnos_complete_rq(rq, 4095);
	KUNIT_EXPECT_EQ(test, linnos->last_read_ns, never_ns);
	KUNIT_EXPECT_EQ(test, linnos_unpack(&first.bio).served_us,
			LINNOS_NOT_SERVED);
	__blk_linnos_complete_rq(rq, 4096 + 8191);
	KUNIT_EXPECT_NE(test, linnos->last_read_ns, never_ns);
	KUNIT_EXPECT_NE(test, linnos_unpack(&first.bio).served_us,
			LINNOS_NOT_SERVED);
	KUNIT_EXPECT_EQ(test, linnos_unpack(&second.bio).served_us,
			LINNOS_NOT_SERVED);

	/* what is left of the second one is all of it then */
	rq->bio = &second.bio;
	__blk_linnos_complete_rq(rq, 8192);
	KUNIT_EXPECT_NE(test, linnos_unpack(&second.bio).served_us,
			LINNOS_NOT_SERVED);
	linnos_end(linnos, &first.bio, BLK_STS_OK);
	linnos_end(linnos, &second.bio, BLK_STS_OK);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(linnos), 0);
}

/* Its disk has gone when a part of it is still on its way, maybe elsewhere. */
static void linnos_test_disk_gone(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct block_device *bdev;
	struct linnos_io whole, part;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	bdev->bd_disk = &fx->disk;
	fx->disk.linnos = fx->linnos;
	fx->linnos->mode = LINNOS_OBSERVE;

	bio_init(&whole.bio, NULL, NULL, 0, REQ_OP_READ);
	whole.bio.bi_bdev = bdev;
	whole.bio.bi_iter.bi_size = 8192;
	linnos_arrive(fx->linnos, &whole.bio);
	bio_init(&part.bio, NULL, NULL, 0, REQ_OP_READ);
	part.bio.bi_bdev = bdev;
	part.bio.bi_iter.bi_size = 4096;
	part.bio.bi_private = &whole.bio;
	part.bio.bi_end_io = bio_chain_endio;
	linnos_start(fx->linnos, &part.bio, 0);

	blk_linnos_forget_bio(&whole.bio);
	KUNIT_EXPECT_FALSE(test, bio_flagged(&whole.bio, BIO_QOS_ADMITTED));
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 1);
	linnos_served(fx->linnos, &part.bio, 1000, 1000);
	linnos_end(fx->linnos, &part.bio, BLK_STS_OK);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].latency_us[3], 0);
}

static void linnos_test_what_counts(struct kunit *test)
{
	static const struct {
		blk_opf_t opf;
		unsigned int bytes;
		bool counts;
	} cases[] = {
		{ REQ_OP_READ, 4096, true },
		{ REQ_OP_WRITE, 4096, true },
		{ REQ_OP_WRITE | REQ_PREFLUSH | REQ_FUA, 4096, true },
		{ REQ_OP_ZONE_APPEND, 4096, true },
		{ REQ_OP_WRITE | REQ_PREFLUSH, 0, false },
		{ REQ_OP_DISCARD, 4096, false },
		{ REQ_OP_SECURE_ERASE, 4096, false },
		{ REQ_OP_WRITE_ZEROES, 4096, false },
		{ REQ_OP_ZONE_RESET, 0, false },
		{ REQ_OP_DRV_IN, 4096, false },
		{ REQ_OP_DRV_OUT, 4096, false },
	};
	struct bio bio;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		bio_init(&bio, NULL, NULL, 0, cases[i].opf);
		bio.bi_iter.bi_size = cases[i].bytes;
		KUNIT_EXPECT_EQ_MSG(test, linnos_bio_counts(&bio),
				    cases[i].counts, "case %d", i);
	}
}

static void linnos_test_history(struct kunit *test)
{
	struct linnos_history *h;
	struct linnos_fixture *fx = test->priv;
	struct linnos_io *io, other;
	int i;

	h = &fx->linnos->history[0];
	io = kunit_kcalloc(test, 5, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	fx->linnos->mode = LINNOS_OBSERVE;
	for (i = 0; i < 5; i++)
		arrive(fx, &io[i], REQ_OP_READ, 4096, false, 1000 * i);

	/* in order of completion, whole microseconds */
	complete_io(fx, &io[1], BLK_STS_OK, 1000 + 1999);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 1);
	KUNIT_EXPECT_EQ(test, h->pending[3], 2);
	KUNIT_EXPECT_EQ(test, h->latency_us[2], 0);
	complete_io(fx, &io[0], BLK_STS_OK, 7000000);
	complete_io(fx, &io[4], BLK_STS_OK, 4000 + 90000);

	/* neither writes nor failed reads are remembered */
	arrive(fx, &other, REQ_OP_WRITE, 4096, false, 0);
	complete_io(fx, &other, BLK_STS_OK, 50000);
	complete_io(fx, &io[2], BLK_STS_MEDIUM, 60000);

	KUNIT_EXPECT_EQ(test, h->latency_us[0], 0);
	KUNIT_EXPECT_EQ(test, h->latency_us[1], 1);
	KUNIT_EXPECT_EQ(test, h->latency_us[2], 7000);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 90);
	KUNIT_EXPECT_EQ(test, h->pending[1], 2);
	KUNIT_EXPECT_EQ(test, h->pending[2], 1);
	KUNIT_EXPECT_EQ(test, h->pending[3], 5);

	complete_io(fx, &io[3], BLK_STS_OK, ~0ULL / 2);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], LINNOS_SERVED_MAX);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);

	linnos_forget_past(fx->linnos, 0);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, h->latency_us[i] | h->pending[i], 0);
}

/* From how many microseconds on a bucket counts, spelled out once more. */
static u64 bucket_from_us(u32 bucket)
{
	return bucket ? (u64)(4 + (bucket + 3) % 4) << ((bucket + 3) / 4 - 1) :
			0;
}

static void linnos_test_latency_buckets(struct kunit *test)
{
	static const struct {
		u32 us;
		u32 bucket;
	} cases[] = {
		{ 0, 0 },
		{ 3, 0 },
		{ 4, 1 },
		{ 7, 4 },
		{ 8, 5 },
		{ 9, 5 },
		{ 10, 6 },
		{ 15, 8 },
		{ 16, 9 },
		{ 95, 18 },
		{ 96, 19 },
		{ 111, 19 },
		{ 112, 20 },
		{ 12582911, 86 },
		{ 12582912, 87 },
		{ LINNOS_SERVED_MAX, 87 },
		{ BIT(31) - 1, 87 },
		{ BIT(31), 87 },
	};
	u32 bucket, us, last = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, linnos_latency_bucket(cases[i].us),
				    cases[i].bucket, "%u us", cases[i].us);
	/* every one has its first and its last, and comes after the one before */
	for (bucket = 1; bucket < LINNOS_LATENCY_BUCKETS; bucket++) {
		us = bucket_from_us(bucket);
		KUNIT_EXPECT_EQ(test, linnos_latency_bucket(us), bucket);
		KUNIT_EXPECT_EQ(test, linnos_latency_bucket(us - 1),
				bucket - 1);
	}
	/* and there is none between them */
	for (us = 0; us < 1 << 17; us++) {
		bucket = linnos_latency_bucket(us);
		if (bucket != last && bucket != last + 1)
			break;
		last = bucket;
	}
	KUNIT_EXPECT_EQ(test, us, 1 << 17);
}

static u64 latencies_in(struct linnos_fixture *fx, u32 bucket)
{
	return linnos_stat(fx->linnos, LINNOS_STAT_LATENCY + bucket);
}

static u64 latencies_in_all(struct linnos_fixture *fx)
{
	u64 sum = 0;
	u32 bucket;

	for (bucket = 0; bucket < LINNOS_LATENCY_BUCKETS; bucket++)
		sum += latencies_in(fx, bucket);
	return sum;
}

/* Every read that the drive has answered is counted, once, and nothing else. */
static void linnos_test_latencies(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	for (i = 0; i < 6; i++) {
		arrive(fx, &io, REQ_OP_READ, 4096, i % 2, 0);
		complete_io(fx, &io, BLK_STS_OK, 100 * NSEC_PER_USEC);
	}
	arrive(fx, &io, REQ_OP_READ, 4096, true, 0);
	complete_io(fx, &io, BLK_STS_OK, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, latencies_in(fx, 19), 6);
	KUNIT_EXPECT_EQ(test, latencies_in(fx, 72), 1);

	/* neither a write, one that failed, one that was refused, */
	arrive(fx, &io, REQ_OP_WRITE, 4096, false, 0);
	complete_io(fx, &io, BLK_STS_OK, 100 * NSEC_PER_USEC);
	arrive(fx, &io, REQ_OP_READ, 4096, false, 0);
	complete_io(fx, &io, BLK_STS_IOERR, 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, 65536, true, 0));
	/* nor one that never reached the drive */
	arrive(fx, &io, REQ_OP_READ, 4096, false, 0);
	linnos_end(fx->linnos, &io.bio, BLK_STS_OK);
	KUNIT_EXPECT_EQ(test, latencies_in_all(fx), 7);

	/* what is forgotten is the history, no counter */
	linnos_forget_past(fx->linnos, 0);
	KUNIT_EXPECT_EQ(test, latencies_in(fx, 19), 6);
}

static struct kunit_case linnos_accounting_cases[] = {
	KUNIT_CASE(linnos_test_pending),
	KUNIT_CASE(linnos_test_largest_bio),
	KUNIT_CASE(linnos_test_pack),
	KUNIT_CASE(linnos_test_what_counts),
	KUNIT_CASE(linnos_test_history),
	KUNIT_CASE(linnos_test_held_back),
	KUNIT_CASE(linnos_test_parts),
	KUNIT_CASE(linnos_test_tried_again),
	KUNIT_CASE(linnos_test_good_bytes),
	KUNIT_CASE(linnos_test_disk_gone),
	KUNIT_CASE(linnos_test_latencies),
	KUNIT_CASE(linnos_test_latency_buckets),
	{}
};

static struct kunit_suite linnos_accounting_suite = {
	.name = "linnos-accounting",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_accounting_cases,
};

/* Admission; 40 KiB is where the model of fill_file() begins to say slow */

#define SLOW_BYTES (10 * 4096)

static void linnos_test_no_model(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;

	fx->linnos->mode = LINNOS_ENFORCE;
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 10000000);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_ADMITTED), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_INFERENCES),
			0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_SLOW), 0);
}

static void linnos_test_enforce(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;

	KUNIT_EXPECT_FALSE(test,
			   arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, 0));
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_REVOKED), 1);

	/* without the hint, or a write: whatever the network would say */
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, false, 0));
	complete_io(fx, &io, BLK_STS_OK, 0);
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_WRITE, SLOW_BYTES, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_INFERENCES),
			1);

	/* admitted, fast and then slow: 150 us is still fast */
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES - 4096,
				       true, 0));
	complete_io(fx, &io, BLK_STS_OK, 150999);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_SLOW), 0);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, 4096, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_SLOW), 1);
	KUNIT_EXPECT_EQ(test,
			linnos_stat(fx->linnos, LINNOS_STAT_FALSE_SUBMITS), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_ADMITTED), 2);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

static void linnos_test_observe(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 100);
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 10000000);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_REVOKED), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_PROBES), 0);
	KUNIT_EXPECT_EQ(test,
			linnos_stat(fx->linnos, LINNOS_STAT_FALSE_REVOKES), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_INFERENCES),
			2);
}

/* How many of @n reads that the network calls slow are admitted? */
static int admitted_of(struct linnos_fixture *fx, int n, struct linnos_io *last)
{
	int i, admitted = 0;

	for (i = 0; i < n; i++) {
		struct linnos_io io;

		if (!arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, 0))
			continue;
		admitted++;
		*last = io;
	}
	return admitted;
}

static void linnos_test_probe_after_revokes(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io probe;
	int wait;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 3;

	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &probe), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	/* one at a time */
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 50, &probe), 0);
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	complete_io(fx, &probe, BLK_STS_OK, 151000);

	/* the wait doubles while probes are slow, up to eight times */
	for (wait = 6; wait < 60; wait *= 2) {
		int revoked = min(wait, 24);

		KUNIT_EXPECT_EQ(test, admitted_of(fx, revoked, &probe), 0);
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
		complete_io(fx, &probe, BLK_STS_OK, 151000);
	}
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

/* While reads are fast that are called slow, others may follow, a few at a time. */
static void linnos_test_trust(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = &fx->linnos->look[0];
	struct linnos_io probe, io, *ios;
	int i, wait;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	ios = kunit_kcalloc(test, 100, sizeof(*ios), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ios);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 3;
	look->backoff = 2;
	atomic_set(&look[1].in_flight, 1);

	KUNIT_EXPECT_EQ(test, admitted_of(fx, 12, &probe), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	complete_io(fx, &probe, BLK_STS_OK, 150999);
	KUNIT_EXPECT_EQ(test, (int)look->backoff, 0);
	/* not the next probe, which is due as well */
	look->again = false;
	/* each that was fast lets one more be in flight */
	fx->linnos->probe_after_revokes = 0;
	for (i = 11; i < 40; i++) {
		KUNIT_EXPECT_EQ(test, (int)look->trust, i);
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 1);
		KUNIT_EXPECT_TRUE(test, io.io.trusted);
		complete_io(fx, &io, BLK_STS_OK, 150999);
	}
	for (i = 0; i < 40; i++)
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &ios[i]), 1);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_PROBES), 70);

	/* an error tells nothing */
	complete_io(fx, &ios[--i], BLK_STS_IOERR, 0);
	KUNIT_EXPECT_EQ(test, (int)look->trust, 40);
	/* slow ones cost ten each, and when it is used up the wait begins */
	for (wait = 3; wait; wait--) {
		complete_io(fx, &ios[--i], BLK_STS_OK, 151000);
		KUNIT_EXPECT_EQ(test, (int)look->trust, 10 * wait);
	}
	fx->linnos->probe_after_revokes = 3;
	complete_io(fx, &ios[--i], BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, (int)look->trust, 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &io), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	while (i)
		complete_io(fx, &ios[--i], BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, atomic_read(&look->trusted), 0);

	/* an error is no sign of health, the next read is to find out */
	complete_io(fx, &probe, BLK_STS_IOERR, 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 2, &probe), 1);
	complete_io(fx, &probe, BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 6, &probe), 0);
}

#define LARGE_BYTES (4096 * (LINNOS_SMALL_PAGES + 1))

/*
 * Where no larger read is in flight the model's word counts: one at a time may
 * belie it, until it says fast by itself.
 */
static void linnos_test_no_larger(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = &fx->linnos->look[0];
	struct linnos_io probe, large, io;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 3;
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &probe), 0);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
		KUNIT_EXPECT_EQ(test, (int)probe.io.verdict,
				LINNOS_VERDICT_PROBE);
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 0);
		complete_io(fx, &probe, BLK_STS_OK, 1000);
	}
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, 4096, true, 0));
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_FAST);
	complete_io(fx, &io, BLK_STS_OK, 1000);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &io), 0);

	/* a larger one is what it is mistaken about */
	atomic_set(&look->revokes, 0);
	arrive(fx, &large, REQ_OP_READ, LARGE_BYTES, false, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&look[1].in_flight), 1);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 1);
	KUNIT_EXPECT_TRUE(test, io.io.trusted);
	complete_io(fx, &io, BLK_STS_OK, 1000);
	complete_io(fx, &large, BLK_STS_OK, 1000);
	KUNIT_EXPECT_EQ(test, atomic_read(&look[1].in_flight), 0);
	/* for a while: what small ones took beside it is in the history */
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
				       10000999));
	complete_io(fx, &io, BLK_STS_OK, 10001000);
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					10001000));
}

/* A probe that does not come back from the drive says nothing about it. */
static void linnos_test_probe_without_verdict(struct kunit *test)
{
	static const blk_status_t ends[] = { BLK_STS_AGAIN, BLK_STS_TRANSPORT,
					     BLK_STS_IOERR, BLK_STS_TIMEOUT };
	struct linnos_fixture *fx = test->priv;
	struct linnos_io probe;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 3;

	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &probe), 0);
	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
		complete_io(fx, &probe, ends[i], 151000);
		KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].backoff, 0);
		KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 0);
	}
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	complete_io(fx, &probe, BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 6, &probe), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 10);
}

/*
 * A probe that a cgroup's limits hold up is given up, and what becomes of it
 * later is not taken for the end of its successor.
 */
static void linnos_test_probe_held_up(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io held, probe, io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;

	bio_init(&held.bio, NULL, NULL, 0, REQ_OP_READ);
	held.bio.bi_iter.bi_size = SLOW_BYTES;
	held.start_ns = 1000000;
	KUNIT_ASSERT_TRUE(test, linnos_decide(fx->linnos, &held.bio, 100000));
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					150000));
	/* others come first: who did nothing with it waits twice as long */
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					150001));
	KUNIT_EXPECT_EQ(test, fx->linnos->look[0].prober,
			task_tgid_nr(current));
	fx->linnos->look[0].prober++;
	KUNIT_EXPECT_TRUE(test, arrive(fx, &probe, REQ_OP_READ, SLOW_BYTES,
				       true, 150001));
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	KUNIT_EXPECT_NE(test, probe.io.probe, linnos_unpack(&held.bio).probe);
	/* the drive has been given this one: no other, however long it takes */
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					900000));

	/* the old one comes after all: the new one is still out */
	linnos_arrive(fx->linnos, &held.bio);
	linnos_start(fx->linnos, &held.bio, 1000000);
	linnos_issued(fx->linnos, &held.bio);
	complete_io(fx, &held, BLK_STS_OK, 1000001);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 0);
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					9000000));
	complete_io(fx, &probe, BLK_STS_OK, 9000000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].backoff, 1);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
				       9200000));
	complete_io(fx, &io, BLK_STS_OK, 9200000);
}

/* One that was promised and never sent is given up after months, too. */
static void linnos_test_probe_long_ago(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	const u64 day_ns = 86400 * NSEC_PER_SEC;
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	linnos_forget_past(fx->linnos, 1000000);
	KUNIT_EXPECT_EQ(test, expected_of(fx, SLOW_BYTES, 2000000),
			BLK_LINNOS_PROBE);
	fx->linnos->look[0].prober++;
	/* it has been promised by a CPU whose clock is ahead */
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					1900000));
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
				       150 * day_ns));
	complete_io(fx, &io, BLK_STS_OK, 150 * day_ns + 1000);
}

static void linnos_test_probe_after_time(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	linnos_forget_past(fx->linnos, 1000000);

	/* a time before the last completion is not long ago */
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					999999));
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					1050000));
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
				       1050001));
	complete_io(fx, &io, BLK_STS_OK, 2000000);

	/* it was slow: twice the wait */
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					2100000));
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
				       2100001));
	complete_io(fx, &io, BLK_STS_OK, 3000000);

	/* neither limit: never */
	fx->linnos->probe_after_us = 0;
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					~0ULL / 2));
}

/*
 * How long ago the drive was looked at tell those reads alone that the policy let
 * go there: not those of others, however many, and not those in observe mode that
 * were to be refused.
 */
static void linnos_test_chosen_only(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;
	u64 ns;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 4;
	linnos_forget_past(fx->linnos, 1000000);
	for (ns = 1000000; ns < 1050000; ns += 10000) {
		arrive(fx, &io, REQ_OP_READ, 4096, false, ns);
		complete_io(fx, &io, BLK_STS_OK, ns + 1000);
	}
	fx->linnos->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, ns));
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_SLOW);
	complete_io(fx, &io, BLK_STS_OK, ns);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					1050000));
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
				       1050001));
	complete_io(fx, &io, BLK_STS_OK, 2050001);

	/* nor do they count as answers to those that were refused */
	fx->linnos->probe_after_us = 0;
	for (ns = 3000000; ns < 3080000; ns += 10000) {
		KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ,
						SLOW_BYTES, true, ns));
		arrive(fx, &io, REQ_OP_READ, 4096, false, ns);
		complete_io(fx, &io, BLK_STS_OK, ns + 1000);
	}
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, ns));
	complete_io(fx, &io, BLK_STS_OK, ns + 1000000);

	/* one that is admitted as fast does count, by the clock */
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	fx->linnos->look[0].backoff = 0;
	for (ns = 5000000; ns < 5200000; ns += 40000) {
		KUNIT_EXPECT_TRUE(test,
				  arrive(fx, &io, REQ_OP_READ, 4096, true, ns));
		complete_io(fx, &io, BLK_STS_OK, ns + 1000);
		KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ,
						SLOW_BYTES, true, ns + 1000));
	}
}

/* A read that was asked about and follows counts; a stranger's does not. */
static void linnos_test_asker_sends(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = &fx->linnos->look[0];
	struct linnos_cpu *cpu = raw_cpu_ptr(fx->linnos->cpus);
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;
	fx->linnos->probe_after_us = 50;
	linnos_forget_past(fx->linnos, 1000000);
	preempt_disable();
	cpu = raw_cpu_ptr(fx->linnos->cpus);
	expected_of(fx, 4096, 2000000);
	cpu->asked_by = fx;
	arrive(fx, &io, REQ_OP_READ, 4096, false, 2000000);
	preempt_enable();
	complete_io(fx, &io, BLK_STS_OK, 2001000);
	KUNIT_EXPECT_EQ(test, look->chosen_ns, 1000000);

	preempt_disable();
	expected_of(fx, 4096, 3000000);
	arrive(fx, &io, REQ_OP_READ, 4096, false, 3000000);
	preempt_enable();
	complete_io(fx, &io, BLK_STS_OK, 3001000);
	KUNIT_EXPECT_EQ(test, look->chosen_ns, 3000000);
	/* once */
	arrive(fx, &io, REQ_OP_READ, 4096, false, 4000000);
	complete_io(fx, &io, BLK_STS_OK, 4001000);
	KUNIT_EXPECT_EQ(test, look->chosen_ns, 3000000);
	/* not who was told that it is slow, and sends it all the same */
	preempt_disable();
	KUNIT_EXPECT_NE(test, expected_of(fx, SLOW_BYTES, 3010000),
			BLK_LINNOS_FAST);
	arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, false, 5000000);
	preempt_enable();
	complete_io(fx, &io, BLK_STS_IOERR, 5001000);
	KUNIT_EXPECT_EQ(test, look->chosen_ns, 3000000);
}

/* A large read that is a probe tells of large reads, and takes no small one's. */
static void linnos_test_probe_of_its_size(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = fx->linnos->look;
	struct linnos_io small, large, io;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	linnos_forget_past(fx->linnos, 1000000);
	for (i = 0; i < 3; i++) {
		u64 ns = 2000000 + i * 10000000;

		KUNIT_EXPECT_TRUE(test, arrive(fx, &large, REQ_OP_READ,
					       LARGE_BYTES, true, ns));
		KUNIT_EXPECT_EQ(test, (int)large.io.verdict,
				LINNOS_VERDICT_PROBE);
		/* one of each at a time */
		KUNIT_EXPECT_EQ(test,
				arrive(fx, &small, REQ_OP_READ, SLOW_BYTES,
				       true, ns),
				i == 0);
		complete_io(fx, &large, BLK_STS_OK, ns + 5000000);
		KUNIT_EXPECT_EQ(test, (int)look[0].backoff, 0);
		KUNIT_EXPECT_EQ(test, (int)look[1].backoff, i + 1);
		if (i == 0)
			complete_io(fx, &small, BLK_STS_OK, ns + 40000000);
		look[0].backoff = 0;
	}
	/* somebody is told to send a small one: no large one is it */
	KUNIT_EXPECT_EQ(test, expected_of(fx, SLOW_BYTES, NSEC_PER_SEC),
			BLK_LINNOS_PROBE);
	arrive(fx, &large, REQ_OP_READ, LARGE_BYTES, false, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, (int)large.io.verdict, LINNOS_VERDICT_NONE);
	complete_io(fx, &large, BLK_STS_OK, NSEC_PER_SEC + 5000000);
	arrive(fx, &small, REQ_OP_READ, SLOW_BYTES, false, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, (int)small.io.verdict, LINNOS_VERDICT_PROBE);
	complete_io(fx, &small, BLK_STS_OK, NSEC_PER_SEC + 1000);
	KUNIT_EXPECT_EQ(test, (int)look[0].trust, 11);
	KUNIT_EXPECT_EQ(test, (int)look[1].trust, 0);
	/* what was asked about comes in several bios */
	KUNIT_EXPECT_EQ(test, expected_of(fx, 8 << 20, 2 * NSEC_PER_SEC),
			BLK_LINNOS_PROBE);
	arrive(fx, &io, REQ_OP_READ, 4096 * LINNOS_MEDIUM_PAGES, false, 0);
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_PROBE);
	KUNIT_EXPECT_EQ(test, io.io.size, 2);
	complete_io(fx, &io, BLK_STS_OK, 1000);
}

/* Of the same order, too: a larger one that is late costs small ones no trust. */
static void linnos_test_trust_of_small_ones(struct kunit *test)
{
	const unsigned int larger = LINNOS_SMALL_PAGES * 4096;
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = &fx->linnos->look[0];
	struct linnos_io io;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	atomic_set(&look[1].in_flight, 1);
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 1;
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 0);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 1);
		complete_io(fx, &io, BLK_STS_OK, 1000);
	}
	fx->linnos->probe_after_revokes = 0;
	KUNIT_EXPECT_EQ(test, (int)look->trust, 13);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, larger, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 1000000);
	KUNIT_EXPECT_EQ(test, (int)look->trust, 13);
	KUNIT_EXPECT_EQ(test, (int)look->backoff, 0);
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, larger, true, 0));
	/* until many more were in time */
	for (i = 0; look->limit < LINNOS_SMALL_PAGES; i++) {
		KUNIT_ASSERT_LT(test, i, 100);
		KUNIT_ASSERT_EQ(test, admitted_of(fx, 1, &io), 1);
		complete_io(fx, &io, BLK_STS_OK, 1000);
	}
	KUNIT_EXPECT_GE(test, i, 50);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, larger, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 1000);
	/* one as small that is late does, and larger ones when none are left */
	i = look->trust;
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &io), 1);
	complete_io(fx, &io, BLK_STS_OK, 1000000);
	KUNIT_EXPECT_EQ(test, (int)look->trust, i - 10);
	for (i = look->trust; look->trust == i;) {
		look->limit = LINNOS_NO_LIMIT;
		KUNIT_ASSERT_TRUE(test, arrive(fx, &io, REQ_OP_READ, larger,
					       true, 0));
		complete_io(fx, &io, BLK_STS_OK, 1000000);
	}
	KUNIT_EXPECT_EQ(test, look->in_time, LINNOS_SMALL_PAGES);
}

/*
 * How large a read was that was split is not known, if it has no place: it must not
 * be taken for its last part, or larger ones are never trusted again.
 */
static void linnos_test_trust_of_split_ones(struct kunit *test)
{
	const unsigned int part_bytes = 32 * 4096;
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = &fx->linnos->look[1];
	struct linnos_io whole;
	struct bio part;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	for (i = 0; i < 4; i++) {
		/* the last is late, and its last part larger than the others' */
		unsigned int last = i < 3 ? 20 * 4096 : part_bytes;

		bio_init(&whole.bio, NULL, NULL, 0, REQ_OP_READ);
		whole.bio.bi_iter.bi_size = part_bytes + last;
		whole.start_ns = 1000000;
		KUNIT_ASSERT_TRUE(test, linnos_decide(fx->linnos, &whole.bio,
						      whole.start_ns));
		linnos_arrive(fx->linnos, &whole.bio);
		whole.bio.bi_iter.bi_size = last;
		bio_init(&part, NULL, NULL, 0, REQ_OP_READ);
		part.bi_iter.bi_size = part_bytes;
		part.bi_private = &whole.bio;
		part.bi_end_io = bio_chain_endio;
		linnos_start(fx->linnos, &part, 0);
		linnos_start(fx->linnos, &whole.bio, 0);
		linnos_issued(fx->linnos, &whole.bio);
		linnos_end(fx->linnos, &part, BLK_STS_OK);
		complete_io(fx, &whole, BLK_STS_OK,
			    whole.start_ns + (i < 3 ? 1000 : 1000000));
	}
	KUNIT_EXPECT_EQ(test, look->limit, LINNOS_NO_LIMIT);
	KUNIT_EXPECT_EQ(test, (int)look->trust, 3);
	KUNIT_EXPECT_EQ(test, atomic_read(&look->trusted), 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

/* Two want to send the probe at once: one does, and the other changes nothing. */
static void linnos_test_probe_race(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_look *look = &fx->linnos->look[0];
	struct linnos_io probe, io;
	u64 word;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	fx->linnos->watch =
		kunit_kzalloc(test, sizeof(*fx->linnos->watch), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fx->linnos->watch);
	/* whenever it is found, it is there with its time */
	KUNIT_ASSERT_TRUE(test, arrive(fx, &probe, REQ_OP_READ, SLOW_BYTES,
				       true, 1000000));
	linnos_watch_start(fx->linnos->watch, 0, 1000000);
	word = atomic64_read(&fx->linnos->probe[0]);
	look->prober++;
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true,
					2000000));
	KUNIT_EXPECT_EQ(test, atomic64_read(&fx->linnos->probe[0]), word);
	KUNIT_EXPECT_EQ(test, linnos_watch_probe_since(fx->linnos->watch, 0),
			1000000);
	/* the loser, who saw one given up, comes to clear the place of the next */
	linnos_watch_probe_gone(fx->linnos->watch, 0, 500000);
	KUNIT_EXPECT_EQ(test, linnos_watch_probe_since(fx->linnos->watch, 0),
			1000000);
	linnos_watch_probe_gone(fx->linnos->watch, 0, 1000000);
	KUNIT_EXPECT_EQ(test, linnos_watch_probe_since(fx->linnos->watch, 0),
			0);
	fx->linnos->watch = NULL;
	complete_io(fx, &probe, BLK_STS_OK, 2000000);
}

static void linnos_test_stall(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io write, plain, io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	linnos_forget_past(fx->linnos, 1000);

	/* off by default; only reads in flight count */
	arrive(fx, &write, REQ_OP_WRITE, 4096, false, 2000);
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, 4096, true, 9000000));
	complete_io(fx, &io, BLK_STS_OK, 9000000);
	fx->linnos->stall_us = 500;
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, 4096, true, 19000000));
	complete_io(fx, &io, BLK_STS_OK, 19000000);

	/* the clock starts with the first read in flight */
	arrive(fx, &plain, REQ_OP_READ, 4096, false, 20000000);
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, 4096, true, 20500000));
	KUNIT_EXPECT_FALSE(test, arrive(fx, &write, REQ_OP_READ, 4096, true,
					20500001));
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_REVOKED), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_STALLED), 1);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 3);

	/* and again with every read that completes */
	complete_io(fx, &io, BLK_STS_OK, 20600000);
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, 4096, true, 21100000));
	complete_io(fx, &io, BLK_STS_OK, 21100000);
	KUNIT_EXPECT_FALSE(test,
			   arrive(fx, &io, REQ_OP_READ, 4096, true, 21600001));

	/* observed, it is admitted, counted, and wrong if it was fast */
	fx->linnos->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &io, REQ_OP_READ, 4096, true, 21600001));
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_REVOKED), 2);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_STALLED), 3);
	complete_io(fx, &io, BLK_STS_OK, 21600001);
	KUNIT_EXPECT_EQ(test,
			linnos_stat(fx->linnos, LINNOS_STAT_FALSE_REVOKES), 1);
}

/* Decisions against those made straight from the file, over a random load. */
static void linnos_test_decisions(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	static const u32 usual_pending[4] = { 100, 90, 110, 100 };
	static const u32 usual_latency_us[4] = { 800, 1200, 1500, 700 };
	struct linnos_io *io;
	struct rnd_state rnd;
	u32 x = 0x4c494e4e;
	u8 digits[31];
	s64 out[2];
	int n, depth = 0, slow = 0;
	u64 now_ns = 0;

	io = kunit_kcalloc(test, 16, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	prandom_seed_state(&rnd, SEED);
	/* undecided about a read in the middle of the load below */
	fill_random(fx->file, &x);
	linnos_features_encode(usual_pending, usual_latency_us, 100, digits);
	set_output_bias(fx->file, 0, 0);
	infer_by_hand(fx->file, digits, out);
	set_output_bias(fx->file, 0, out[1] - out[0]);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;

	for (n = 0; n < 10000; n++) {
		now_ns += prandom_u32_state(&rnd) % 200000;
		if (depth < 16 && prandom_u32_state(&rnd) % 2) {
			u32 bytes = 512 * (1 + prandom_u32_state(&rnd) % 200);
			u32 pages = DIV_ROUND_UP(bytes, 4096);
			struct linnos_view view = {
				.size = linnos_size_order(pages),
			};
			struct linnos_io *new = &io[depth++];

			linnos_history_read(fx->linnos, &view, false);
			arrive(fx, new, REQ_OP_READ, bytes, true, now_ns);
			linnos_features_encode(view.history.pending,
					       view.history.latency_us,
					       new->io.pending, digits);
			slow += infer_by_hand(fx->file, digits, out);
			KUNIT_ASSERT_EQ(test,
					new->io.verdict == LINNOS_VERDICT_SLOW,
					out[1] > out[0]);
		} else if (depth) {
			int which = prandom_u32_state(&rnd) % depth;

			complete_io(fx, &io[which], BLK_STS_OK, now_ns);
			io[which] = io[--depth];
		}
	}
	KUNIT_EXPECT_GT(test, slow, 100);
	KUNIT_EXPECT_LT(test, slow, 4800);
}

/* Which of several drives */

static void linnos_test_best(struct kunit *test)
{
	static const struct {
		enum blk_linnos_expected answers[4];
		unsigned long best;
	} cases[] = {
#define P BLK_LINNOS_PROBE
#define F BLK_LINNOS_FAST
#define U BLK_LINNOS_UNKNOWN
#define S BLK_LINNOS_SLOW
#define N BLK_LINNOS_NOT_ASKED
		{ { F, F, F, F }, 0xf }, { { S, S, S, S }, 0xf },
		{ { U, U, U, U }, 0xf }, { { N, N, N, N }, 0x0 },
		{ { S, F, S, F }, 0xa }, { { F, S, S, S }, 0x1 },
		{ { S, S, S, F }, 0x8 }, { { U, S, F, N }, 0x5 },
		{ { S, U, S, S }, 0x2 }, { { N, S, N, S }, 0xa },
		{ { F, U, P, S }, 0x4 }, { { P, F, F, F }, 0x1 },
		{ { S, N, N, N }, 0x1 }, { { N, N, F, S }, 0x4 },
#undef P
#undef F
#undef U
#undef S
#undef N
	};
	enum blk_linnos_expected many[BITS_PER_LONG];
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ(test, blk_linnos_best(cases[i].answers, 4),
				cases[i].best);
	/* no more than was given */
	KUNIT_EXPECT_EQ(test, blk_linnos_best(cases[0].answers, 2), 0x3);
	KUNIT_EXPECT_EQ(test, blk_linnos_best(cases[0].answers, 0), 0);

	for (i = 0; i < BITS_PER_LONG; i++)
		many[i] = BLK_LINNOS_SLOW;
	KUNIT_EXPECT_EQ(test, blk_linnos_best(many, BITS_PER_LONG), ~0UL);
	many[BITS_PER_LONG - 1] = BLK_LINNOS_FAST;
	KUNIT_EXPECT_EQ(test, blk_linnos_best(many, BITS_PER_LONG),
			BIT(BITS_PER_LONG - 1));
}

/* A question is no decision: nothing is counted but the inference. */
static void linnos_test_expect(struct kunit *test)
{
	static const enum linnos_mode modes[] = { LINNOS_OBSERVE,
						  LINNOS_ENFORCE };
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;
	int i;

	fx->linnos->mode = LINNOS_ENFORCE;
	KUNIT_EXPECT_EQ(test, expected_of(fx, SLOW_BYTES, 0),
			BLK_LINNOS_UNKNOWN);
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		fx->linnos->mode = modes[i];
		KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, 0),
				BLK_LINNOS_FAST);
		KUNIT_EXPECT_EQ(test, expected_of(fx, SLOW_BYTES, 0),
				BLK_LINNOS_SLOW);
		/* rounded up, as the read would be */
		KUNIT_EXPECT_EQ(test, expected_of(fx, SLOW_BYTES - 4095, 0),
				BLK_LINNOS_SLOW);
	}
	/* with what is pending */
	arrive(fx, &io, REQ_OP_WRITE, SLOW_BYTES - 4096, false, 0);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, 0), BLK_LINNOS_SLOW);
	complete_io(fx, &io, BLK_STS_OK, 0);

	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	for (i = 0; i < LINNOS_STAT_INFERENCES; i++)
		KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, i), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_INFERENCES),
			7);
}

/* A stalled drive is slow whatever the network says. */
static void linnos_test_expect_stalled(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->stall_us = 500;
	linnos_forget_past(fx->linnos, 1000);
	arrive(fx, &io, REQ_OP_READ, 4096, false, 20000000);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, 20500000), BLK_LINNOS_FAST);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, 20500001), BLK_LINNOS_SLOW);
	complete_io(fx, &io, BLK_STS_OK, 20600000);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, 20600001), BLK_LINNOS_FAST);
}

static enum blk_linnos_expected slow_at(struct linnos_fixture *fx, u64 now_ns)
{
	return expected_of(fx, SLOW_BYTES, now_ns);
}

/* Who asks when it is time to look again is told to send his read. */
static void linnos_test_expect_probe(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io probe, io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	linnos_forget_past(fx->linnos, 1000000);

	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 1050000), BLK_LINNOS_SLOW);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 1050001), BLK_LINNOS_PROBE);
	/* one at a time */
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 1050002), BLK_LINNOS_SLOW);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_PROBES), 1);

	/* the next read is it, a hinted one excepted, and no other */
	arrive(fx, &io, REQ_OP_READ, 4096, true, 1050003);
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_FAST);
	complete_io(fx, &io, BLK_STS_IOERR, 1050003);
	arrive(fx, &io, REQ_OP_WRITE, 4096, false, 1050003);
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_NONE);
	complete_io(fx, &io, BLK_STS_OK, 1050003);
	arrive(fx, &probe, REQ_OP_READ, SLOW_BYTES, false, 1050003);
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	arrive(fx, &io, REQ_OP_READ, 4096, false, 1050003);
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_NONE);
	complete_io(fx, &io, BLK_STS_IOERR, 1050003);

	/* slow: twice the wait; and none while the drive has one */
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 1900000), BLK_LINNOS_SLOW);
	complete_io(fx, &probe, BLK_STS_OK, 2000000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].backoff, 1);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2100000), BLK_LINNOS_SLOW);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2100001), BLK_LINNOS_PROBE);

	/* it was not sent after all: another, when the wait is over */
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2200001), BLK_LINNOS_SLOW);
	fx->linnos->look[0].prober++;
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2200002), BLK_LINNOS_PROBE);

	atomic_set(&fx->linnos->look[1].in_flight, 1);
	/* fast: the next at once, until one is slow */
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 2200003);
	complete_io(fx, &probe, BLK_STS_OK, 2300000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].backoff, 0);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2300001), BLK_LINNOS_PROBE);
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 2300002);
	complete_io(fx, &probe, BLK_STS_OK, 2310000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 12);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, 2310001), BLK_LINNOS_FAST);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2310002), BLK_LINNOS_PROBE);
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 2310002);
	complete_io(fx, &probe, BLK_STS_OK, 2500000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 2);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2500000), BLK_LINNOS_PROBE);
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 2310002);
	complete_io(fx, &probe, BLK_STS_OK, 2500000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 0);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2500001), BLK_LINNOS_SLOW);
}

/* Who asks and sends nothing keeps nobody else from a drive that is in time. */
static void linnos_test_expect_never_sends(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io probe;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;
	fx->linnos->probe_after_us = 50;
	fx->linnos->probe_after_revokes = 0;
	linnos_forget_past(fx->linnos, 1000000);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2000000), BLK_LINNOS_PROBE);
	/* it is not known to be in time yet */
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2000001), BLK_LINNOS_SLOW);
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 2000002);
	complete_io(fx, &probe, BLK_STS_OK, 2010000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 11);

	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2010001 + i),
				BLK_LINNOS_PROBE);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_PROBES), 4);
	/* the first that is sent is it, and then there is one */
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 2010004);
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 2010005), BLK_LINNOS_SLOW);
	complete_io(fx, &probe, BLK_STS_OK, 2020000);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 12);
}

/* Reads that went elsewhere make it stale as revoked ones do. */
static void linnos_test_expect_probe_after_answers(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io probe;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 3;
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 0), BLK_LINNOS_SLOW);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 0), BLK_LINNOS_PROBE);
	/* what is promised to a read without the hint, no hinted one takes */
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 0);
	arrive(fx, &probe, REQ_OP_READ, 4096, false, 0);
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	complete_io(fx, &probe, BLK_STS_OK, 1000);
	/* and the other way round */
	fx->linnos->look[0].again = false;
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &probe), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	KUNIT_EXPECT_EQ(test, (int)slow_at(fx, 0), BLK_LINNOS_SLOW);
	complete_io(fx, &probe, BLK_STS_OK, 1000);
}

/* Drives that nobody can tell of; a question wakes one that is asleep. */
static void linnos_test_expect_unknown(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	struct block_device *bdev;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	bdev->bd_disk = &fx->disk;
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);

	/* no policy, or off as that of a drive that is gone */
	fx->disk.linnos = NULL;
	KUNIT_EXPECT_EQ(test, (int)blk_linnos_expect(bdev, SLOW_BYTES),
			BLK_LINNOS_UNKNOWN);
	fx->disk.linnos = linnos;
	KUNIT_EXPECT_EQ(test, (int)blk_linnos_expect(bdev, SLOW_BYTES),
			BLK_LINNOS_UNKNOWN);
	flush_work(&linnos->wake_work);
	KUNIT_EXPECT_FALSE(test, linnos->awake);

	linnos->mode = LINNOS_OBSERVE;
	linnos->probe_after_us = 0;
	KUNIT_EXPECT_EQ(test, (int)blk_linnos_expect(bdev, SLOW_BYTES),
			BLK_LINNOS_UNKNOWN);
	flush_work(&linnos->wake_work);
	KUNIT_EXPECT_TRUE(test, linnos->awake);
	KUNIT_EXPECT_FALSE(test, linnos->hinted);
	KUNIT_EXPECT_EQ(test, (int)blk_linnos_expect(bdev, SLOW_BYTES),
			BLK_LINNOS_SLOW);
	/* and keeps it awake */
	KUNIT_EXPECT_TRUE(test, linnos->hinted);

	mutex_lock(&linnos->lock);
	linnos_set_mode(linnos, LINNOS_OFF);
	mutex_unlock(&linnos->lock);
	cancel_delayed_work_sync(&linnos->sleep_work);
	KUNIT_EXPECT_EQ(test, (int)blk_linnos_expect(bdev, SLOW_BYTES),
			BLK_LINNOS_UNKNOWN);
}

/* What blk_linnos_ask() returns, and tells of a drive with no model of latencies. */
static bool tells(struct block_device *bdev, unsigned int bytes, u64 now_ns,
		  enum blk_linnos_expected answer, u32 known, u32 flags)
{
	struct blk_expect_drive drive = { 7, 7, 7, 7 };

	return blk_linnos_ask(bdev, bytes, now_ns, false, &drive) == answer &&
	       drive.fd == 7 && drive.known == known && drive.flags == flags &&
	       drive.latency_us == 0;
}

/* In full: from what it is known, and how old that is. */
static void linnos_test_ask(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	struct block_device *bdev;
	struct linnos_io io;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	bdev->bd_disk = &fx->disk;
	linnos->probe_after_us = 50;
	linnos->probe_after_revokes = 0;

	KUNIT_EXPECT_TRUE(test, tells(bdev, 4096, 0, BLK_LINNOS_UNKNOWN,
				      BLK_EXPECT_NO_POLICY, 0));
	fx->disk.linnos = linnos;
	KUNIT_EXPECT_TRUE(test, tells(bdev, 4096, 0, BLK_LINNOS_UNKNOWN,
				      BLK_EXPECT_OFF, 0));
	linnos->mode = LINNOS_OBSERVE;
	linnos->awake = true;
	linnos_forget_past(linnos, 1000000);
	KUNIT_EXPECT_TRUE(test, tells(bdev, 4096, 1000000, BLK_LINNOS_UNKNOWN,
				      BLK_EXPECT_NO_MODEL, 0));
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_TRUE(test, tells(bdev, 4096, 1050000, BLK_LINNOS_FAST,
				      BLK_EXPECT_VERDICT, 0));
	KUNIT_EXPECT_TRUE(test,
			  tells(bdev, SLOW_BYTES, 1050000, BLK_LINNOS_SLOW,
				BLK_EXPECT_VERDICT, BLK_EXPECT_SLOW));
	/* stale; of a drive that is slow one asker looks */
	KUNIT_EXPECT_TRUE(test, tells(bdev, 4096, 1050001, BLK_LINNOS_FAST,
				      BLK_EXPECT_VERDICT, BLK_EXPECT_STALE));
	KUNIT_EXPECT_TRUE(test, tells(bdev, SLOW_BYTES, 1050001,
				      BLK_LINNOS_PROBE, BLK_EXPECT_VERDICT,
				      BLK_EXPECT_SLOW | BLK_EXPECT_STALE |
					      BLK_EXPECT_PROBE));
	KUNIT_EXPECT_TRUE(test, tells(bdev, SLOW_BYTES, 1050002,
				      BLK_LINNOS_SLOW, BLK_EXPECT_VERDICT,
				      BLK_EXPECT_SLOW | BLK_EXPECT_STALE));
	/* it has answered, and another does not come back */
	arrive(fx, &io, REQ_OP_READ, 4096, false, 1050003);
	complete_io(fx, &io, BLK_STS_OK, 1100000);
	mutex_lock(&linnos->lock);
	linnos_set_stall(linnos, 10);
	mutex_unlock(&linnos->lock);
	arrive(fx, &io, REQ_OP_READ, 4096, false, 1100000);
	KUNIT_EXPECT_TRUE(test, tells(bdev, 4096, 1150000, BLK_LINNOS_SLOW,
				      BLK_EXPECT_VERDICT,
				      BLK_EXPECT_SLOW | BLK_EXPECT_STALLED));
	complete_io(fx, &io, BLK_STS_OK, 1150000);
	linnos->awake = false;
}

/* Who only looks changes nothing, and may do so at any time. */
static void linnos_test_look(struct kunit *test)
{
	const u32 slow = BLK_EXPECT_SLOW | BLK_EXPECT_STALE;
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	struct blk_expect_drive drive;
	struct block_device *bdev;
	int i;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	bdev->bd_disk = &fx->disk;
	fx->disk.linnos = linnos;
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	linnos->mode = LINNOS_OBSERVE;
	blk_linnos_ask(bdev, 4096, 0, true, &drive);
	KUNIT_EXPECT_EQ(test, drive.known, BLK_EXPECT_ASLEEP);
	flush_work(&linnos->wake_work);
	KUNIT_EXPECT_FALSE(test, linnos->awake);

	linnos->awake = true;
	linnos->probe_after_us = 50;
	linnos->probe_after_revokes = 2;
	linnos_forget_past(linnos, 1000000);
	linnos->look[0].trust = 3;
	for (i = 0; i < 10; i++) {
		KUNIT_EXPECT_EQ(test,
				(int)blk_linnos_ask(bdev, SLOW_BYTES, 2000000,
						    true, &drive),
				BLK_LINNOS_SLOW);
		KUNIT_EXPECT_EQ(test, drive.flags, slow);
		KUNIT_EXPECT_EQ(test,
				(int)blk_linnos_ask(bdev, 4096, 2000000, true,
						    &drive),
				BLK_LINNOS_FAST);
		KUNIT_EXPECT_EQ(test, drive.flags, BLK_EXPECT_STALE);
	}
	KUNIT_EXPECT_EQ(test, (int)linnos->look[0].trust, 3);
	KUNIT_EXPECT_FALSE(test, linnos->hinted);
	KUNIT_EXPECT_EQ(test, atomic_read(&linnos->look[0].revokes), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&linnos->probe[0]), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_PROBES), 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(linnos), 0);
	linnos->awake = false;
}

static struct kunit_case linnos_expectation_cases[] = {
	KUNIT_CASE(linnos_test_best),
	KUNIT_CASE(linnos_test_expect),
	KUNIT_CASE(linnos_test_expect_stalled),
	KUNIT_CASE(linnos_test_expect_probe),
	KUNIT_CASE(linnos_test_expect_probe_after_answers),
	KUNIT_CASE(linnos_test_expect_never_sends),
	KUNIT_CASE(linnos_test_expect_unknown),
	KUNIT_CASE(linnos_test_ask),
	KUNIT_CASE(linnos_test_look),
	{}
};

static struct kunit_suite linnos_expectation_suite = {
	.name = "linnos-expectation",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_expectation_cases,
};

static struct kunit_case linnos_admission_cases[] = {
	KUNIT_CASE(linnos_test_no_model),
	KUNIT_CASE(linnos_test_enforce),
	KUNIT_CASE(linnos_test_observe),
	KUNIT_CASE(linnos_test_probe_after_revokes),
	KUNIT_CASE(linnos_test_trust),
	KUNIT_CASE(linnos_test_no_larger),
	KUNIT_CASE(linnos_test_probe_without_verdict),
	KUNIT_CASE(linnos_test_probe_after_time),
	KUNIT_CASE(linnos_test_probe_held_up),
	KUNIT_CASE(linnos_test_probe_long_ago),
	KUNIT_CASE(linnos_test_chosen_only),
	KUNIT_CASE(linnos_test_asker_sends),
	KUNIT_CASE(linnos_test_probe_of_its_size),
	KUNIT_CASE(linnos_test_trust_of_small_ones),
	KUNIT_CASE(linnos_test_trust_of_split_ones),
	KUNIT_CASE(linnos_test_probe_race),
	KUNIT_CASE(linnos_test_stall),
	KUNIT_CASE(linnos_test_decisions),
	{}
};

static struct kunit_suite linnos_admission_suite = {
	.name = "linnos-admission",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_admission_cases,
};

/* Many CPUs: the others are made up, but for the last test */

#define TEST_QUIET_NS 8000
#define TEST_HELD 16

static int linnos_cpus_test_init(struct kunit *test)
{
	int ret = linnos_test_init(test);
	struct linnos_fixture *fx = test->priv;

	if (ret)
		return ret;
	fx->linnos->mode = LINNOS_OBSERVE;
	fx->linnos->quiet_ns = TEST_QUIET_NS;
	fx->linnos->held_most = TEST_HELD;
	/* the test, that is: what it did is on the line of this CPU */
	return set_cpus_allowed_ptr(current,
				    cpumask_of(raw_smp_processor_id()));
}

static void linnos_cpus_test_exit(struct kunit *test)
{
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	linnos_test_exit(test);
}

static struct linnos_cpu *this_line(struct linnos_fixture *fx)
{
	return raw_cpu_ptr(fx->linnos->cpus);
}

/* What all CPUs see, without what any of them holds. */
static s32 pages_for_all(struct linnos_fixture *fx)
{
	return linnos_pages_of(atomic64_read(&fx->linnos->in_flight));
}

static u32 pages_here(struct linnos_fixture *fx)
{
	struct linnos_seen seen;

	linnos_see(fx->linnos, &seen);
	return seen.pages;
}

/* A read of this CPU ends right after one of another, or when told. */
static void end_after_other(struct linnos_fixture *fx, u64 other_ns, u64 now_ns)
{
	struct linnos_io io;

	fx->linnos->history[0].cpu = raw_smp_processor_id() + 1;
	fx->linnos->recorded_ns = other_ns;
	arrive(fx, &io, REQ_OP_READ, 4096, false, now_ns - 1000);
	complete_io(fx, &io, BLK_STS_OK, now_ns);
}

static void make_quiet(struct linnos_fixture *fx, u64 now_ns)
{
	int i;

	for (i = 0; i < MET_OFTEN; i++)
		end_after_other(fx, now_ns - 100, now_ns);
	/* the end of the last one is held */
	linnos_collect(fx->linnos);
}

/* A CPU that has the drive to itself: all is where all see it, however fast. */
static void linnos_test_alone(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io hinted, write, plain;
	int i;

	for (i = 0; i < 200; i++) {
		u64 now_ns = NSEC_PER_SEC + 10 * i;

		arrive(fx, &hinted, REQ_OP_READ, 4096, true, now_ns);
		arrive(fx, &write, REQ_OP_WRITE, 8192, false, now_ns);
		arrive(fx, &plain, REQ_OP_READ, 4096, false, now_ns);
		KUNIT_EXPECT_EQ(test, pages_for_all(fx), 4);
		KUNIT_EXPECT_EQ(test, plain.io.pending, 4);
		complete_io(fx, &plain, BLK_STS_OK, now_ns + 1);
		complete_io(fx, &write, BLK_STS_OK, now_ns + 2);
		complete_io(fx, &hinted, BLK_STS_OK, now_ns + 3);
		KUNIT_EXPECT_EQ(test, pages_for_all(fx), 0);
		KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation,
				2 * (i + 1));
		KUNIT_EXPECT_EQ(test, fx->linnos->recorded_ns, now_ns + 3);
	}
	KUNIT_EXPECT_EQ(test, this_line(fx)->quiet_until_ns, 0);
	KUNIT_EXPECT_FALSE(test, fx->linnos->held_back);
}

static void linnos_test_meets(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u64 now_ns = NSEC_PER_SEC;
	int i;

	/* not if the other was long ago */
	for (i = 0; i < 20; i++)
		end_after_other(fx, now_ns - MET_NS - 1, now_ns);
	KUNIT_EXPECT_EQ(test, this_line(fx)->quiet_until_ns, 0);
	/* nor if only every second read meets one */
	for (i = 0; i < 20; i++)
		end_after_other(fx, now_ns - (i % 2 ? MET_NS + 1 : 0), now_ns);
	KUNIT_EXPECT_EQ(test, this_line(fx)->quiet_until_ns, 0);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation, 40);
	make_quiet(fx, now_ns);
	KUNIT_EXPECT_EQ(test, this_line(fx)->quiet_until_ns,
			now_ns + TEST_QUIET_NS);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation, 44);

	/* no read is recorded before that, and then one */
	end_after_other(fx, now_ns, now_ns + TEST_QUIET_NS - 1);
	KUNIT_EXPECT_EQ(test, this_line(fx)->left_out, 1);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation, 44);
	KUNIT_EXPECT_EQ(test, fx->linnos->last_read_ns, now_ns);
	now_ns += TEST_QUIET_NS;
	end_after_other(fx, now_ns - APART_NS, now_ns);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation, 45);
	KUNIT_EXPECT_EQ(test, fx->linnos->last_read_ns, now_ns);
	KUNIT_EXPECT_EQ(test, this_line(fx)->quiet_until_ns,
			now_ns + TEST_QUIET_NS);
	/* others come seldom now: each read is recorded */
	for (i = 0; i < 3; i++) {
		now_ns += APART_NS + 1;
		end_after_other(fx, now_ns - APART_NS - 1, now_ns);
	}
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation, 48);
	KUNIT_EXPECT_EQ(test, this_line(fx)->quiet_until_ns, 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

/* What a quiet CPU holds is its own to see, and never much. */
static void linnos_test_holds(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io write, *io;
	u64 now_ns = NSEC_PER_SEC;
	int i;

	io = kunit_kcalloc(test, TEST_HELD, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	make_quiet(fx, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 0);
	for (i = 0; i < TEST_HELD; i++) {
		arrive(fx, &io[i], REQ_OP_READ, 4096, false, now_ns);
		KUNIT_EXPECT_EQ(test, io[i].io.pending, i + 1);
		KUNIT_EXPECT_EQ(test, pages_here(fx), i + 1);
		KUNIT_EXPECT_EQ(test, pages_for_all(fx),
				i < TEST_HELD - 1 ? 0 : TEST_HELD);
	}
	KUNIT_EXPECT_TRUE(test, fx->linnos->held_back);
	/* counted out, and a write of so many pages beside */
	for (i = 0; i < TEST_HELD - 1; i++)
		complete_io(fx, &io[i], BLK_STS_OK, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), TEST_HELD);
	KUNIT_EXPECT_EQ(test, pages_here(fx), 1);
	KUNIT_EXPECT_EQ(test, linnos_reads_in_flight(fx->linnos), 1);
	arrive(fx, &write, REQ_OP_WRITE, 128 * 4096, false, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 129);
	KUNIT_EXPECT_EQ(test, atomic64_read(&this_line(fx)->in_flight), 0);
	complete_io(fx, &write, BLK_STS_OK, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 1);
	/* with its first count after it was quiet it has nothing left */
	complete_io(fx, &io[TEST_HELD - 1], BLK_STS_OK, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 1);
	arrive(fx, &io[0], REQ_OP_READ, 4096, true, now_ns + TEST_QUIET_NS);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 1);
	KUNIT_EXPECT_EQ(test, atomic64_read(&this_line(fx)->in_flight), 0);
	complete_io(fx, &io[0], BLK_STS_OK, now_ns + TEST_QUIET_NS);
	KUNIT_EXPECT_EQ(test, atomic64_read(&fx->linnos->in_flight),
			IN_FLIGHT_DISK);
}

/* Of another CPU nobody knows what it holds, but for a millisecond. */
static void linnos_test_collects(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u64 now_ns = NSEC_PER_SEC;
	struct linnos_io io, write;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	expected_of(fx, 4096, now_ns);
	make_quiet(fx, now_ns);
	arrive(fx, &io, REQ_OP_READ, 8192, false, now_ns);
	arrive(fx, &write, REQ_OP_WRITE, 4096, false, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 0);
	fx->linnos->collected_ns = now_ns;
	expected_of(fx, 4096, now_ns + HELD_NS - 1);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 0);
	expected_of(fx, 4096, now_ns + HELD_NS);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 3);
	KUNIT_EXPECT_EQ(test, pages_here(fx), 3);
	KUNIT_EXPECT_FALSE(test, fx->linnos->held_back);
	/* and what it counts out after that, should it be quiet */
	WRITE_ONCE(this_line(fx)->quiet_until_ns, S64_MAX);
	complete_io(fx, &write, BLK_STS_OK, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 3);
	KUNIT_EXPECT_TRUE(test, fx->linnos->held_back);
	complete_io(fx, &io, BLK_STS_IOERR, now_ns);
	expected_of(fx, 4096, now_ns + 2 * HELD_NS);
	KUNIT_EXPECT_EQ(test, atomic64_read(&fx->linnos->in_flight),
			IN_FLIGHT_DISK);
}

/* A probe has much to tell, whoever is quiet. */
static void linnos_test_quiet_probe(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u64 now_ns = NSEC_PER_SEC;
	struct linnos_io probe;
	u32 generation;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	make_quiet(fx, now_ns);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 1;
	atomic_set(&fx->linnos->look[0].revokes, 1);
	KUNIT_ASSERT_EQ(test, admitted_of(fx, 1, &probe), 1);
	probe.start_ns = now_ns;
	WRITE_ONCE(this_line(fx)->quiet_until_ns, now_ns + TEST_QUIET_NS);
	generation = fx->linnos->history[0].generation;
	complete_io(fx, &probe, BLK_STS_OK, now_ns + 1000);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation,
			generation + 1);
	KUNIT_EXPECT_EQ(test, fx->linnos->last_read_ns, now_ns + 1000);
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->linnos->look[0].revokes), 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
}

/* The stall rule has to know of every read. */
static void linnos_test_stall_ends_quiet(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u64 now_ns = NSEC_PER_SEC;
	struct linnos_io io;
	u32 generation;

	make_quiet(fx, now_ns);
	arrive(fx, &io, REQ_OP_READ, 4096, false, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 0);
	mutex_lock(&fx->linnos->lock);
	linnos_set_stall(fx->linnos, 500);
	mutex_unlock(&fx->linnos->lock);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 1);
	generation = fx->linnos->history[0].generation;
	complete_io(fx, &io, BLK_STS_OK, now_ns);
	KUNIT_EXPECT_EQ(test, pages_for_all(fx), 0);
	KUNIT_EXPECT_EQ(test, fx->linnos->history[0].generation,
			generation + 1);
	mutex_lock(&fx->linnos->lock);
	linnos_set_stall(fx->linnos, 0);
	mutex_unlock(&fx->linnos->lock);
	KUNIT_EXPECT_EQ(test, !fx->linnos->quiet_ns, num_possible_cpus() == 1);
}

struct linnos_on_cpu {
	struct linnos_fixture *fx;
	struct linnos_io *io;
	enum req_op op;
	unsigned int bytes;
	u64 now_ns;
	u32 seen;
};

static void arrive_there(void *argument)
{
	struct linnos_on_cpu *on = argument;

	WRITE_ONCE(this_line(on->fx)->quiet_until_ns, S64_MAX);
	arrive(on->fx, on->io, on->op, on->bytes, false, on->now_ns);
	on->seen = pages_here(on->fx);
}

static void complete_there(void *argument)
{
	struct linnos_on_cpu *on = argument;

	complete_io(on->fx, on->io, BLK_STS_OK, on->now_ns);
	on->seen = pages_here(on->fx);
}

/* The CPUs there are, all quiet, count in and out what others count out and in. */
static void linnos_test_cpus_agree(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	int bound = (num_online_cpus() - 1) * (TEST_HELD - 1);
	struct linnos_on_cpu on = { .fx = fx };
	int n, depth = 0, off = 0, cpu, which;
	struct linnos_io *io;
	struct rnd_state rnd;
	s32 pages = 0;

	io = kunit_kcalloc(test, 64, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	prandom_seed_state(&rnd, SEED);
	for (n = 0; n < 4000; n++) {
		cpu = cpumask_nth(prandom_u32_state(&rnd) % num_online_cpus(),
				  cpu_online_mask);
		on.now_ns = NSEC_PER_SEC + 100 * n;
		if (depth < 64 && prandom_u32_state(&rnd) % 2) {
			on.io = &io[depth++];
			on.bytes = 4096 * (1 + prandom_u32_state(&rnd) % 4);
			on.op = n % 3 ? REQ_OP_READ : REQ_OP_WRITE;
			pages += on.bytes / 4096;
			smp_call_function_single(cpu, arrive_there, &on, true);
		} else if (depth) {
			which = prandom_u32_state(&rnd) % depth;
			on.io = &io[which];
			pages -= on.io->io.pages;
			smp_call_function_single(cpu, complete_there, &on,
						 true);
			io[which] = io[--depth];
		} else {
			continue;
		}
		off = max(off, abs((s32)on.seen - pages));
		KUNIT_ASSERT_EQ(test, linnos_pending_pages(fx->linnos), pages);
	}
	kunit_info(test, "%d CPUs, off by %d pages, %d at most",
		   num_online_cpus(), off, bound);
	KUNIT_EXPECT_LE(test, off, bound);
	while (depth--) {
		on.io = &io[depth];
		complete_there(&on);
	}
	linnos_count_exactly(fx->linnos);
	KUNIT_EXPECT_EQ(test, atomic64_read(&fx->linnos->in_flight),
			IN_FLIGHT_DISK);
}

#define RACE_SLOTS 16
#define RACE_STEPS 5000

struct linnos_race {
	struct linnos_fixture *fx;
	struct linnos_io *slot[RACE_SLOTS]; /* in flight, for anyone to end */
	atomic_t running;
	struct completion done;
};

/* Counts in, and out what any CPU has counted in; quiet now and then. */
static int race_on_cpu(void *argument)
{
	struct linnos_race *race = argument;
	struct linnos_fixture *fx = race->fx;
	struct linnos_io *io = NULL;
	struct rnd_state rnd;
	int n;

	prandom_seed_state(&rnd, SEED + raw_smp_processor_id());
	for (n = 0; n < RACE_STEPS; n++) {
		u32 random = prandom_u32_state(&rnd);
		enum req_op op = random & 1 ? REQ_OP_READ : REQ_OP_WRITE;

		if (!(random & 0x70))
			WRITE_ONCE(this_line(fx)->quiet_until_ns,
				   random & 0x180 ? S64_MAX : 0);
		if (!io)
			io = kmalloc(sizeof(*io), GFP_KERNEL);
		if (!io)
			break;
		arrive(fx, io, op, 4096 * (1 + (random >> 9) % 20), false, n);
		io = xchg(&race->slot[(random >> 16) % RACE_SLOTS], io);
		if (io)
			complete_io(fx, io, BLK_STS_OK, n + 1);
		cond_resched();
	}
	kfree(io);
	if (atomic_dec_and_test(&race->running))
		complete(&race->done);
	return 0;
}

/* All CPUs at once, while somebody wants it exact, and not any more. */
static void linnos_test_cpus_race(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_race *race;
	struct linnos_seen seen;
	int i, cpu;

	race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, race);
	fx->linnos->watch = kzalloc(sizeof(*fx->linnos->watch), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fx->linnos->watch);
	fx->linnos->watching = true;
	race->fx = fx;
	init_completion(&race->done);
	atomic_set(&race->running, 1);
	for_each_online_cpu(cpu) {
		struct task_struct *task;

		atomic_inc(&race->running);
		task = kthread_create(race_on_cpu, race, "linnos-race/%d", cpu);
		KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		kthread_bind(task, cpu);
		wake_up_process(task);
	}
	for (i = 0; i < 10; i++) {
		mutex_lock(&fx->linnos->lock);
		linnos_set_stall(fx->linnos, 1000000);
		linnos_set_stall(fx->linnos, 0);
		mutex_unlock(&fx->linnos->lock);
		/* where there is one CPU, too */
		WRITE_ONCE(fx->linnos->quiet_ns, TEST_QUIET_NS);
		linnos_collect_late(fx->linnos, i * 10 * HELD_NS);
		usleep_range(1000, 2000);
	}
	if (!atomic_dec_and_test(&race->running))
		wait_for_completion(&race->done);
	for (i = 0; i < RACE_SLOTS; i++) {
		if (race->slot[i])
			complete_io(fx, race->slot[i], BLK_STS_OK, 0);
		kfree(race->slot[i]);
	}
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	KUNIT_EXPECT_EQ(test, linnos_reads_in_flight(fx->linnos), 0);
	WRITE_ONCE(fx->linnos->quiet_ns, TEST_QUIET_NS);
	linnos_count_exactly(fx->linnos);
	KUNIT_EXPECT_EQ(test, atomic64_read(&fx->linnos->in_flight),
			IN_FLIGHT_DISK);
	linnos_see(fx->linnos, &seen);
	KUNIT_EXPECT_EQ(test, seen.write_pages, 0);
	for (i = 0; i < ARRAY_SIZE(fx->linnos->watch->taken); i++)
		KUNIT_EXPECT_EQ(test, fx->linnos->watch->taken[i], 0);
}

static struct kunit_case linnos_cpus_cases[] = {
	KUNIT_CASE(linnos_test_alone),
	KUNIT_CASE(linnos_test_meets),
	KUNIT_CASE(linnos_test_holds),
	KUNIT_CASE(linnos_test_collects),
	KUNIT_CASE(linnos_test_quiet_probe),
	KUNIT_CASE(linnos_test_stall_ends_quiet),
	KUNIT_CASE(linnos_test_cpus_agree),
	KUNIT_CASE(linnos_test_cpus_race),
	{}
};

static struct kunit_suite linnos_cpus_suite = {
	.name = "linnos-cpus",
	.init = linnos_cpus_test_init,
	.exit = linnos_cpus_test_exit,
	.test_cases = linnos_cpus_cases,
};

kunit_test_suites(&linnos_accounting_suite, &linnos_cpus_suite,
		  &linnos_admission_suite, &linnos_expectation_suite);
