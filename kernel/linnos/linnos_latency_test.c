// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LinnOS: latency models, their files and uploads, their predictions, and
 * arrays that follow them.
 */
#include <linux/bitfield.h>
#include <linux/delay.h>

#include "blk.h"
#include "linnos_guard.h"
#include "linnos_test.h"

/* The constants of the file format. They are defined again, to detect changes of the format. */
#define HEADER 64
#define SPLITS 15
#define LEAVES 16
#define N_FEATURES 23
/* before the last feature was added */
#define N_FEATURES_OLD 22
#define CAP 0xffffff
#define TREES 32
#define TREES_MIN 16
#define BYTES_OF(trees) (HEADER + (trees) * (4 * SPLITS + 2 * LEAVES))
#define TREES_BYTES BYTES_OF(TREES)

#define OVERDUE_US 1000
#define REFUSE_US 300

/* Return a random number of up to 24 bits; all lengths are about equally likely. */
static u32 random_size(u32 *x)
{
	u32 value = xorshift32(x);

	return value >> (8 + (value & 31) % 24);
}

static void seal_trees(u8 *file, size_t bytes)
{
	put_unaligned_le32(0, file + FILE_CRC);
	put_unaligned_le32(~crc32_le(~0, file, bytes), file + FILE_CRC);
}

static void fill_header(u8 *file, u32 trees)
{
	memset(file, 0, HEADER);
	memcpy(file, "LINNOSMD", 8);
	put_unaligned_le32(2, file + 8);
	put_unaligned_le32(BYTES_OF(trees), file + 12);
	put_unaligned_le16(N_FEATURES, file + 20);
	put_unaligned_le16(trees, file + 22);
	file[24] = 4;
	file[25] = 4;
	file[26] = 10;
	put_unaligned_le32(OVERDUE_US, file + 28);
	put_unaligned_le32(REFUSE_US, file + 32);
	put_unaligned_le32(150, file + 36);
	put_unaligned_le32(8 << 10, file + 40);
}

/*
 * Write the same trees for every implementation, from a stream of random numbers: the feature and
 * the threshold of each split, and then the leaves.
 */
static void fill_trees(u8 *file, u32 *x)
{
	u8 *p = file + HEADER;
	int i;

	fill_header(file, TREES);
	for (i = 0; i < TREES * SPLITS; i++, p += 4) {
		u32 feature = xorshift32(x) % N_FEATURES;

		put_unaligned_le32(feature << 24 | random_size(x), p);
	}
	for (i = 0; i < TREES * LEAVES; i++, p += 2)
		put_unaligned_le16(xorshift32(x) % 401 - 200, p);
	seal_trees(file, TREES_BYTES);
}

/* The smallest model: all trees predict 256 us. */
static void fill_smallest(u8 *file)
{
	fill_header(file, TREES_MIN);
	memset(file + HEADER, 0, BYTES_OF(TREES_MIN) - HEADER);
	seal_trees(file, BYTES_OF(TREES_MIN));
}

static int upload_trees(struct linnos_fixture *fx, size_t bytes)
{
	return put_chunk(fx, fx, fx->file, 0, bytes);
}

static struct linnos_latency *alloc_latency(struct kunit *test)
{
	size_t bytes = linnos_latency_sizeof(TREES_BYTES);
	struct linnos_latency *model = kunit_kzalloc(test, bytes, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, model);
	return model;
}

static enum linnos_model_error parse_trees(struct linnos_latency *model,
					   const u8 *file)
{
	return linnos_latency_parse(model, file, TREES_BYTES);
}

static enum linnos_model_error check_header(const u8 *file)
{
	return linnos_latency_check_header(file, HEADER);
}

/* The file */

static void linnos_test_trees_round_trip(struct kunit *test)
{
	struct linnos_latency *model = alloc_latency(test);
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e;

	fill_trees(fx->file, &x);
	KUNIT_ASSERT_EQ(test, parse_trees(model, fx->file), LINNOS_MODEL_OK);
	KUNIT_EXPECT_EQ(test, model->refuse_us, REFUSE_US);
	KUNIT_EXPECT_EQ(test, linnos_latency_store(model, fx->again),
			TREES_BYTES);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, TREES_BYTES);
}

/* Older models have one feature less, and their predictions do not change. */
static void linnos_test_trees_old(struct kunit *test)
{
	struct linnos_latency *model = alloc_latency(test);
	struct linnos_fixture *fx = test->priv;
	u32 features[N_FEATURES] = {}, us;
	u32 x = 0x4c494e4e;
	int i;

	fill_trees(fx->file, &x);
	for (i = 0; i < TREES * SPLITS; i++)
		fx->file[HEADER + 4 * i + 3] %= N_FEATURES_OLD;
	put_unaligned_le16(N_FEATURES_OLD, fx->file + 20);
	seal_trees(fx->file, TREES_BYTES);
	KUNIT_ASSERT_EQ(test, parse_trees(model, fx->file), LINNOS_MODEL_OK);
	KUNIT_EXPECT_EQ(test, linnos_latency_store(model, fx->again),
			TREES_BYTES);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, TREES_BYTES);
	us = linnos_latency_us(model, features);
	features[N_FEATURES_OLD] = CAP;
	KUNIT_EXPECT_EQ(test, linnos_latency_us(model, features), us);

	fx->file[HEADER + 3] = N_FEATURES_OLD;
	seal_trees(fx->file, TREES_BYTES);
	KUNIT_EXPECT_EQ(test, parse_trees(model, fx->file), LINNOS_MODEL_SPLIT);
	for (i = N_FEATURES_OLD - 1; i <= N_FEATURES + 1; i += 3) {
		put_unaligned_le16(i, fx->file + 20);
		seal_trees(fx->file, TREES_BYTES);
		KUNIT_EXPECT_EQ(test, check_header(fx->file),
				LINNOS_MODEL_SHAPE);
	}
}

static void linnos_test_trees_header(struct kunit *test)
{
	static const struct {
		int at;
		enum linnos_model_error error;
	} wrong[] = {
		{ 0, LINNOS_MODEL_MAGIC },
		{ 7, LINNOS_MODEL_MAGIC },
		{ 8, LINNOS_MODEL_UNKNOWN_VERSION },
		{ 12, LINNOS_MODEL_SIZE },
		{ 15, LINNOS_MODEL_SIZE },
		{ 16, LINNOS_MODEL_CRC },
		{ 20, LINNOS_MODEL_SHAPE },
		{ 22, LINNOS_MODEL_SIZE },
		{ 23, LINNOS_MODEL_SHAPE },
		{ 24, LINNOS_MODEL_SHAPE },
		{ 25, LINNOS_MODEL_SHAPE },
		{ 26, LINNOS_MODEL_SHAPE },
		{ 27, LINNOS_MODEL_RESERVED },
		{ 29, LINNOS_MODEL_CRC },
		{ 31, LINNOS_MODEL_RANGE },
		{ 36, LINNOS_MODEL_CRC },
		{ 42, LINNOS_MODEL_RANGE },
		{ 44, LINNOS_MODEL_RESERVED },
		{ 63, LINNOS_MODEL_RESERVED },
		{ 64, LINNOS_MODEL_CRC },
		{ TREES_BYTES - 1, LINNOS_MODEL_CRC },
	};
	static const int sizes[] = { 0, 7, 8, 63, 64, TREES_BYTES - 1 };
	struct linnos_latency *model = alloc_latency(test);
	struct linnos_fixture *fx = test->priv;
	enum linnos_model_error error;
	u32 x = 0x4c494e4e;
	int i;

	fill_trees(fx->file, &x);
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		fx->file[wrong[i].at] ^= 0x10;
		KUNIT_EXPECT_EQ_MSG(test, parse_trees(model, fx->file),
				    wrong[i].error, "byte %d", wrong[i].at);
		fx->file[wrong[i].at] ^= 0x10;
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		KUNIT_EXPECT_EQ(test,
				linnos_latency_parse(model, fx->file, sizes[i]),
				LINNOS_MODEL_TRUNCATED);
	KUNIT_EXPECT_EQ(test,
			linnos_latency_parse(model, fx->file, TREES_BYTES + 1),
			LINNOS_MODEL_SIZE);

	fx->file[HEADER + 3] = N_FEATURES;
	seal_trees(fx->file, TREES_BYTES);
	KUNIT_EXPECT_EQ(test, parse_trees(model, fx->file), LINNOS_MODEL_SPLIT);
	for (i = 28; i <= 36; i += 4) {
		fill_smallest(fx->file);
		put_unaligned_le32(0, fx->file + i);
		KUNIT_EXPECT_EQ(test, check_header(fx->file),
				LINNOS_MODEL_RANGE);
	}
	for (i = TREES_MIN - 1; i <= TREES_MIN; i++) {
		fill_header(fx->file, i);
		error = check_header(fx->file);
		KUNIT_EXPECT_EQ(test, error == LINNOS_MODEL_OK, i == TREES_MIN);
	}
}

/*
 * The line in the log is compared with the result of user space: the CRC-32 of all predictions
 * as little-endian 32-bit integers.
 */
#define VECTORS 100000

static void linnos_test_trees_vectors(struct kunit *test)
{
	struct linnos_latency *model = alloc_latency(test);
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e, crc = ~0, n, slow = 0;
	u32 features[N_FEATURES];
	__le32 le;
	u32 us;
	int i;

	fill_trees(fx->file, &x);
	KUNIT_ASSERT_EQ(test, parse_trees(model, fx->file), LINNOS_MODEL_OK);
	for (n = 0; n < VECTORS; n++) {
		for (i = 0; i < N_FEATURES; i++)
			features[i] = random_size(&x);
		us = linnos_latency_us(model, features);
		slow += us > model->refuse_us;
		le = cpu_to_le32(us);
		crc = crc32_le(crc, (u8 *)&le, sizeof(le));
	}
	pr_info("linnos_latency_vectors: n=%u crc32=%08x slow=%u\n", n, ~crc,
		slow);
	KUNIT_EXPECT_GT(test, slow, VECTORS / 10);
	KUNIT_EXPECT_LT(test, slow, VECTORS - VECTORS / 10);
}

/* Upload */

static const struct linnos_model *active_of(struct linnos_fixture *fx)
{
	return rcu_dereference_protected(fx->linnos->model, true);
}

/* Remove the trees. The mean of the last latencies is then predicted, which tests can compute. */
static void predict_mean(struct blk_linnos *linnos)
{
	rcu_dereference_protected(linnos->model, true)->latency->n_trees = 0;
}

/* Store the active model in @fx->again, as a read of the sysfs file does. */
static size_t store_active(struct linnos_fixture *fx)
{
	return linnos_model_store(active_of(fx), fx->again);
}

static void linnos_test_trees_upload(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	u32 x = 0x4c494e4e, id;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_NULL(test, active_of(fx)->latency);
	KUNIT_EXPECT_FALSE(test, linnos->drive.tracks_starts);

	fill_trees(fx->file, &x);
	id = get_unaligned_le32(fx->file + FILE_CRC);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, TREES_BYTES), 0);
	KUNIT_EXPECT_NOT_NULL(test, active_of(fx)->latency);
	KUNIT_EXPECT_TRUE(test, linnos->drive.tracks_starts);
	KUNIT_EXPECT_FALSE(test, linnos->drive.ignores_regions);
	KUNIT_EXPECT_EQ(test, active_of(fx)->id, id);
	KUNIT_EXPECT_EQ(test, linnos->threshold_us, 150);
	KUNIT_EXPECT_EQ(test, store_active(fx), TREES_BYTES);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, TREES_BYTES);

	/* rejected: the old model remains active, and the new one is freed */
	fx->file[TREES_BYTES - 1] ^= 1;
	KUNIT_EXPECT_EQ(test, upload_trees(fx, TREES_BYTES), -EINVAL);
	fx->file[TREES_BYTES - 1] ^= 1;
	KUNIT_EXPECT_EQ(test, upload_trees(fx, TREES_BYTES - 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, upload_trees(fx, TREES_BYTES + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, upload_trees(fx, HEADER - 1), -EINVAL);
	fx->file[25] = 5;
	KUNIT_EXPECT_EQ(test, upload_trees(fx, TREES_BYTES), -EINVAL);
	KUNIT_EXPECT_NULL(test, linnos->upload.file);
	KUNIT_EXPECT_EQ(test, active_of(fx)->id, id);

	/* the smallest model, and back to a network */
	fill_smallest(fx->file);
	KUNIT_EXPECT_EQ(test, upload_trees(fx, BYTES_OF(TREES_MIN)), 0);
	KUNIT_EXPECT_EQ(test, active_of(fx)->latency->n_trees, TREES_MIN);
	KUNIT_EXPECT_TRUE(test, linnos->drive.tracks_starts);
	KUNIT_EXPECT_TRUE(test, linnos->drive.ignores_regions);
	fill_file(fx->file);
	KUNIT_EXPECT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_NULL(test, active_of(fx)->latency);
	KUNIT_EXPECT_FALSE(test, linnos->drive.tracks_starts);
}

/* The largest model is written in several chunks. */
static void linnos_test_trees_chunks(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	size_t at, bytes = LINNOS_LATENCY_BYTES_MAX;

	fill_header(fx->file, LINNOS_TREES_MAX);
	memset(fx->file + HEADER, 1, bytes - HEADER);
	seal_trees(fx->file, bytes);
	for (at = 0; at < bytes; at += PAGE_SIZE) {
		KUNIT_EXPECT_NULL(test, active_of(fx));
		KUNIT_ASSERT_EQ(test,
				put_chunk(fx, fx, fx->file + at, at,
					  min_t(size_t, PAGE_SIZE, bytes - at)),
				0);
	}
	KUNIT_ASSERT_NOT_NULL(test, active_of(fx));
	KUNIT_EXPECT_EQ(test, store_active(fx), bytes);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, bytes);
	/* a chunk that exceeds the file is rejected */
	KUNIT_ASSERT_EQ(test, put_chunk(fx, fx, fx->file, 0, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, put_chunk(fx, fx, fx->file, PAGE_SIZE, bytes),
			-EINVAL);
}

/* Decisions and answers */

static int linnos_latency_test_init(struct kunit *test)
{
	struct linnos_fixture *fx;
	int ret = linnos_test_init(test);

	if (ret)
		return ret;
	fx = test->priv;
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->drive.probe_after_us = 0;
	fx->linnos->drive.probe_after_refused = 0;
	fill_smallest(fx->file);
	ret = upload_trees(fx, BYTES_OF(TREES_MIN));
	if (!ret)
		predict_mean(fx->linnos);
	return ret;
}

/* A read predicted slower than refuse_us is refused, and probes work as with a network. */
static void linnos_test_refuse_predicted_slow(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	u64 ns = 1000000;
	struct sent sent;

	complete_reads(linnos, 4, REFUSE_US, ns);
	KUNIT_EXPECT_TRUE(test, send(linnos, &sent, HINTED_READ, 4096, ns));
	/* the mean is 300 us, and then 301 us */
	answer(linnos, &sent, BLK_STS_OK, ns + (REFUSE_US + 4) * 1000);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_FALSE_SUBMITS),
			1);
	KUNIT_EXPECT_FALSE(test, send(linnos, &sent, HINTED_READ, 4096, ns));
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns),
			BLK_LINNOS_US | BLK_LINNOS_US_SLOW | 301);
	linnos->drive.probe_after_us = 100;
	KUNIT_EXPECT_TRUE(test, send(linnos, &sent, HINTED_READ, 4096, ns));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_PROBES), 1);
	/* the probe counts for the oldest start time like any other read */
	KUNIT_EXPECT_EQ(test, linnos_oldest_ns(&linnos->drive.start_slots), ns);
	answer(linnos, &sent, BLK_STS_OK, ns + 20000);
	KUNIT_EXPECT_EQ(test, linnos_oldest_ns(&linnos->drive.start_slots), 0);
	KUNIT_EXPECT_EQ(test, linnos->drive.probes[0].window, 1);
}

static void linnos_test_best_drives(struct kunit *test)
{
	static const struct {
		int answers[4];
		unsigned long best;
	} cases[] = {
#define P BLK_LINNOS_PROBE
#define F BLK_LINNOS_FAST
#define U BLK_LINNOS_UNKNOWN
#define S BLK_LINNOS_SLOW
#define N BLK_LINNOS_NOT_QUERIED
#define US(n) (BLK_LINNOS_US | (n))
#define SLOW(n) (BLK_LINNOS_US | BLK_LINNOS_US_SLOW | (n))
		{ { F, F, F, F }, 0xf },
		{ { S, S, S, S }, 0xf },
		{ { U, U, U, U }, 0xf },
		{ { N, N, N, N }, 0x0 },
		{ { S, F, S, F }, 0xa },
		{ { F, S, S, S }, 0x1 },
		{ { S, S, S, F }, 0x8 },
		{ { U, S, F, N }, 0x5 },
		{ { S, U, S, S }, 0x2 },
		{ { N, S, N, S }, 0xa },
		{ { F, U, P, S }, 0x4 },
		{ { P, F, F, F }, 0x1 },
		{ { S, N, N, N }, 0x1 },
		{ { N, N, F, S }, 0x4 },
		/* in microseconds, within the margin of the fastest */
		{ { US(100), US(130), US(133), US(134) }, 0x7 },
		{ { US(134), US(133), US(130), US(100) }, 0xe },
		{ { US(100), N, SLOW(1000), US(50) }, 0x8 },
		{ { US(90), US(90), US(90), US(90) }, 0xf },
		{ { N, US(16000000), N, N }, 0x2 },
		/* the fastest of the slow ones; a drive that is slow by its model, but fastest */
		{ { SLOW(500), SLOW(1000), SLOW(600), N }, 0x5 },
		{ { US(500), SLOW(100), N, N }, 0x2 },
		/* not all answers are in microseconds */
		{ { US(10), F, SLOW(50), U }, 0xb },
		{ { US(10), S, US(500), N }, 0x5 },
		{ { SLOW(10), S, N, N }, 0x3 },
		{ { US(1), US(1), P, US(1) }, 0x4 },
#undef P
#undef F
#undef U
#undef S
#undef N
#undef US
#undef SLOW
	};
	enum blk_linnos_expected answers[BITS_PER_LONG];
	int i, k;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (k = 0; k < 4; k++)
			answers[k] = cases[i].answers[k];
		KUNIT_EXPECT_EQ_MSG(test, blk_linnos_best(answers, 4),
				    cases[i].best, "case %d", i);
	}
	/* only the given number of answers is used */
	for (i = 0; i < BITS_PER_LONG; i++)
		answers[i] = BLK_LINNOS_SLOW;
	KUNIT_EXPECT_EQ(test, blk_linnos_best(answers, 2), 0x3);
	KUNIT_EXPECT_EQ(test, blk_linnos_best(answers, 0), 0);
	KUNIT_EXPECT_EQ(test, blk_linnos_best(answers, BITS_PER_LONG), ~0UL);
	answers[BITS_PER_LONG - 1] = BLK_LINNOS_FAST;
	KUNIT_EXPECT_EQ(test, blk_linnos_best(answers, BITS_PER_LONG),
			BIT(BITS_PER_LONG - 1));
}

/* Answers in microseconds. A drive that is avoided is probed. */
static void linnos_test_answers_in_us(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	enum blk_linnos_expected expected;
	struct blk_expect_drive drive;
	u64 ns = 1000000;
	struct sent sent;
	int i;

	complete_reads(linnos, 4, 200, ns);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns),
			BLK_LINNOS_US | 200);

	/* probed if no read has completed for long and many reads were sent to other drives */
	linnos->drive.probe_after_us = 5000;
	linnos->drive.probe_after_refused = 3;
	for (i = 0; i < 9; i++)
		KUNIT_EXPECT_EQ(test,
				query_expected(linnos, 4096, ns + 5000000),
				BLK_LINNOS_US | 200);
	/* not stale: a query does not write to a cache line that all queries read */
	KUNIT_EXPECT_EQ(test, atomic_read(&linnos->drive.probes[0].refused), 0);
	ns += 5000001;
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns),
				BLK_LINNOS_US | 200);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns),
			BLK_LINNOS_PROBE);
	send(linnos, &sent, REQ_OP_READ, 4096, ns);
	/* a read in flight increases the returned latency, but not drive.latency_us */
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns),
			BLK_LINNOS_US | (200 + OVERDUE_US / LINNOS_CROWD));
	expected = linnos_query_read(linnos, 0, 4096, ns, false, &drive);
	KUNIT_EXPECT_EQ(test, without_slowness(expected),
			BLK_LINNOS_US | (200 + OVERDUE_US / LINNOS_CROWD));
	KUNIT_EXPECT_EQ(test, FIELD_GET(BLK_LINNOS_US_SLOWNESS, expected),
			LINNOS_SLOWNESS_NORMAL);
	KUNIT_EXPECT_EQ(test, drive.latency_us, 200);
	answer(linnos, &sent, BLK_STS_OK, ns + 100000);
	KUNIT_EXPECT_EQ(test, query_expected(linnos, 4096, ns + 100000),
			BLK_LINNOS_US | 175);

	/* the penalty saturates */
	KUNIT_EXPECT_EQ(test,
			linnos_queueing_penalty_us(1 << 18, LINNOS_LATENCY_CAP),
			LINNOS_LATENCY_CAP);
}

/*
 * Predict 128 us; twice that if a read is in flight in the region, and eight times that if the
 * query does not give the address.
 */
static void fill_region_trees(u8 *file)
{
	int i;

	fill_header(file, TREES);
	memset(file + HEADER, 0xff, TREES * SPLITS * 4);
	for (i = 0; i < TREES * SPLITS; i++)
		file[HEADER + 4 * i + 3] = 0;
	put_unaligned_le32(22 << 24, file + HEADER);
	put_unaligned_le32(22 << 24 | 1000, file + HEADER + 4 * SPLITS);
	memset(file + HEADER + TREES * SPLITS * 4, 0, TREES * LEAVES * 2);
	for (i = LEAVES / 2; i < LEAVES; i++) {
		u8 *leaf = file + HEADER + TREES * SPLITS * 4 + 2 * i;

		put_unaligned_le16(1 << 10, leaf);
		put_unaligned_le16(2 << 10, leaf + 2 * LEAVES);
	}
	put_unaligned_le32(7 << 10, file + 40);
	seal_trees(file, TREES_BYTES);
}

/* Sectors on a partition are converted to sectors on the disk. */
static void linnos_test_query_sector(struct kunit *test)
{
	static const struct {
		sector_t start, sector;
		u32 us;
	} cases[] = {
		{ 0, 0, 256 },	   { 0, 15, 256 },
		{ 0, 16, 128 },	   { 0, 1024, 256 },
		{ 1008, 0, 128 },  { 1008, 15, 128 },
		{ 1008, 16, 256 }, { 16, LINNOS_SECTOR_UNKNOWN, 1024 },
		{ 2048, 31, 128 },
	};
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	struct blk_expect_drive drive;
	struct block_device *bdev;
	const u64 ns = 1000000;
	struct sent sent;
	int i;

	bdev = kunit_kzalloc(test, sizeof(*bdev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bdev);
	bdev->bd_disk = linnos->disk;
	linnos->disk->linnos = linnos;
	fill_region_trees(fx->file);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, TREES_BYTES), 0);
	send(linnos, &sent, REQ_OP_READ, 4096, ns);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		bdev->bd_start_sect = cases[i].start;
		blk_linnos_query(bdev, cases[i].sector, 4096, ns, false,
				 &drive);
		KUNIT_EXPECT_EQ_MSG(test, drive.latency_us, cases[i].us,
				    "case %d", i);
	}
	answer(linnos, &sent, BLK_STS_OK, ns + 1000);
	bdev->bd_start_sect = 0;
	blk_linnos_query(bdev, 0, 4096, ns + 1000, false, &drive);
	KUNIT_EXPECT_EQ(test, drive.latency_us, 128);
}

static struct kunit_case linnos_latency_model_cases[] = {
	KUNIT_CASE(linnos_test_trees_round_trip),
	KUNIT_CASE(linnos_test_trees_old),
	KUNIT_CASE(linnos_test_trees_header),
	KUNIT_CASE(linnos_test_trees_vectors),
	KUNIT_CASE(linnos_test_trees_upload),
	KUNIT_CASE(linnos_test_trees_chunks),
	{}
};

static struct kunit_suite linnos_latency_model_suite = {
	.name = "linnos-latency-model",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_latency_model_cases,
};

/* Send @n reads to two disks, the first being the default. Return the number of redirects. */
static int redirect(struct blk_linnos_array *array,
		    enum blk_linnos_expected default_answer, int n,
		    u32 control_us, u32 redirected_us)
{
	enum blk_linnos_expected answers[] = { default_answer,
					       BLK_LINNOS_US | 100 };
	int redirected = 0;

	while (n--) {
		struct blk_linnos_assignment group = { .queries_all = true };
		unsigned long where = 0;

		if (blk_linnos_may_redirect(array, &group, default_answer))
			where = blk_linnos_redirect(array, answers, 2, 0,
						    &group);
		if (group.start_ns) {
			group.start_ns = ktime_get_ns() -
					 (where ? redirected_us : control_us) *
						 NSEC_PER_USEC;
			blk_linnos_record_latency(array, &group);
		}
		redirected += where == BIT(1);
	}
	return redirected;
}

/* Return true if redirecting is suspended; @page gets the guard's text. */
static bool is_suspended(struct blk_linnos_array *array, char *page)
{
	blk_linnos_array_show_guard(array, page);
	return strstr(page, "state suspended\n");
}

/* Return the number of reads in 1000 for which disks are queried. */
static int count_queries(struct blk_linnos_array *array)
{
	struct blk_linnos_assignment group;
	int n, queries = 0;

	for (n = 0; n < 1000; n++) {
		udelay(1); /* the clock selects the reads */
		queries += blk_linnos_array_should_query(array, &group);
	}
	return queries;
}

/* Answers for which other disks are never or always queried, independent of the guard. */
static void linnos_test_may_redirect(struct kunit *test)
{
	static const enum blk_linnos_expected never[] = {
		BLK_LINNOS_PROBE, BLK_LINNOS_FAST, BLK_LINNOS_UNKNOWN,
		BLK_LINNOS_US | 2000
	};
	const enum blk_linnos_expected always[] = {
		BLK_LINNOS_SLOW, BLK_LINNOS_NOT_QUERIED,
		BLK_LINNOS_US | FIELD_PREP(BLK_LINNOS_US_SLOWNESS,
					   LINNOS_SLOWNESS_NORMAL)
	};
	struct blk_linnos_assignment all = { .queries_all = true };
	struct blk_linnos_array array = {};
	struct blk_linnos_assignment group = {};
	bool redirects;
	int i;

	KUNIT_ASSERT_EQ(test, blk_linnos_array_init(&array), 0);
	KUNIT_EXPECT_EQ(test, blk_linnos_array_store(&array, "on"), 0);
	for (i = 0; i < ARRAY_SIZE(never); i++) {
		redirects = blk_linnos_may_redirect(&array, &all, never[i]);
		KUNIT_EXPECT_FALSE_MSG(test, redirects, "%d", i);
	}
	for (i = 0; i < ARRAY_SIZE(always); i++) {
		redirects = blk_linnos_may_redirect(&array, &group, always[i]);
		KUNIT_EXPECT_TRUE_MSG(test, redirects, "%d", i);
	}
	kfree(array.guard);
}

/* Send @n reads to a normal default disk. Query another one, predicted to take @other_us. */
static void query_other_disk(struct blk_linnos_array *array, int n,
			     u32 other_us, struct blk_linnos_assignment group)
{
	enum blk_linnos_expected answers[] = {
		BLK_LINNOS_US | 100 |
			FIELD_PREP(BLK_LINNOS_US_SLOWNESS,
				   LINNOS_SLOWNESS_NORMAL),
		other_us ? BLK_LINNOS_US | other_us : BLK_LINNOS_NOT_QUERIED
	};

	while (n--) {
		struct blk_linnos_assignment copy = group;

		if (blk_linnos_may_redirect(array, &group, answers[0]))
			blk_linnos_redirect(array, answers, 2, 0, &copy);
	}
}

/* If other disks are rarely better, they are queried for only a few reads. */
static void linnos_test_rarely_useful_queries(struct kunit *test)
{
	const enum blk_linnos_expected usual =
		BLK_LINNOS_US | 100 |
		FIELD_PREP(BLK_LINNOS_US_SLOWNESS, LINNOS_SLOWNESS_NORMAL);
	const enum blk_linnos_expected slow =
		BLK_LINNOS_US | 300 |
		FIELD_PREP(BLK_LINNOS_US_SLOWNESS, LINNOS_SLOWNESS_OVER_P90);
	char *page = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct blk_linnos_assignment counts = { .start_ns = 1 };
	struct blk_linnos_assignment all = { .queries_all = true };
	struct blk_linnos_array array = {};
	struct blk_linnos_assignment group = {};

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, blk_linnos_array_init(&array), 0);
	KUNIT_EXPECT_EQ(test, blk_linnos_array_store(&array, "on"), 0);
	/* reads for which there is no other disk are not counted */
	query_other_disk(&array, 999, 0, counts);
	KUNIT_EXPECT_TRUE(test, blk_linnos_may_redirect(&array, &group, usual));
	query_other_disk(&array, 999, 100, counts);
	KUNIT_EXPECT_FALSE(test, is_suspended(&array, page));
	KUNIT_EXPECT_FALSE(test,
			   blk_linnos_may_redirect(&array, &group, usual));
	KUNIT_EXPECT_TRUE(test, blk_linnos_may_redirect(&array, &all, usual));
	/* this does not affect slower classes */
	KUNIT_EXPECT_TRUE(test, blk_linnos_may_redirect(&array, &group, slow));
	/* the few reads that still query disks notice a change */
	query_other_disk(&array, 99, 50, all);
	KUNIT_EXPECT_FALSE(test, is_suspended(&array, page));
	KUNIT_EXPECT_TRUE(test, blk_linnos_may_redirect(&array, &group, usual));
	kfree(array.guard);
}

/* An array redirects reads while they gain from it, or always if it is unguarded. */
static void linnos_test_array(struct kunit *test)
{
	const enum blk_linnos_expected bad =
		BLK_LINNOS_US |
		FIELD_PREP(BLK_LINNOS_US_SLOWNESS, LINNOS_SLOWNESS_OVER_3X_P90);
	const enum blk_linnos_expected slow =
		BLK_LINNOS_US |
		FIELD_PREP(BLK_LINNOS_US_SLOWNESS, LINNOS_SLOWNESS_OVER_P90);
	struct blk_linnos_assignment all = { .queries_all = true };
	char *page = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct blk_linnos_array array = {};
	struct blk_linnos_assignment group = {};

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, blk_linnos_array_init(&array), 0);
	blk_linnos_array_show(&array, page);
	KUNIT_EXPECT_STREQ(test, page, "off\n");
	KUNIT_EXPECT_EQ(test, blk_linnos_array_store(&array, "ON\n"), -EINVAL);
	KUNIT_EXPECT_EQ(test, blk_linnos_array_store(&array, "on\n"), 0);
	KUNIT_EXPECT_FALSE(test, is_suspended(&array, page));
	/* not better by the margin: no read is redirected or counted */
	KUNIT_EXPECT_EQ(test, redirect(&array, BLK_LINNOS_US | 130, 99, 130, 1),
			0);
	/* redirecting pays off */
	KUNIT_EXPECT_GT(test, redirect(&array, bad | 2000, 2000, 2000, 100),
			1900);
	KUNIT_EXPECT_FALSE(test, is_suspended(&array, page));
	KUNIT_EXPECT_NOT_NULL(test, strstr(page, "normal reads 0 "));
	KUNIT_EXPECT_NOT_NULL(test, strstr(page, "over_3x_p90 reads 2000 "));
	KUNIT_EXPECT_EQ(test, count_queries(&array), 1000);
	/* redirecting no longer pays off */
	redirect(&array, bad | 2000, 8000, 100, 2000);
	KUNIT_EXPECT_LT(test, redirect(&array, bad | 2000, 2000, 100, 2000),
			100);
	KUNIT_EXPECT_TRUE(test, is_suspended(&array, page));
	KUNIT_EXPECT_GT(test, count_queries(&array), 50);
	KUNIT_EXPECT_LT(test, count_queries(&array), 250);
	/* while another class gains, other disks are rarely queried for this one */
	redirect(&array, slow | 500, 500, 500, 100);
	KUNIT_EXPECT_FALSE(test, is_suspended(&array, page));
	KUNIT_EXPECT_FALSE(test, blk_linnos_may_redirect(&array, &group, bad));
	KUNIT_EXPECT_TRUE(test, blk_linnos_may_redirect(&array, &all, bad));
	/* no control reads if unguarded */
	KUNIT_EXPECT_EQ(test, redirect(&array, BLK_LINNOS_US | 2000, 99, 1, 1),
			0);
	KUNIT_EXPECT_EQ(test, blk_linnos_array_store(&array, "unguarded"), 0);
	KUNIT_EXPECT_EQ(test, redirect(&array, bad | 2000, 99, 100, 2000), 99);
	KUNIT_EXPECT_TRUE(test,
			  blk_linnos_may_redirect(&array, &group, bad | 2000));
	/* switching on again resets the guard */
	KUNIT_EXPECT_EQ(test, blk_linnos_array_store(&array, "on"), 0);
	blk_linnos_array_show_guard(&array, page);
	KUNIT_EXPECT_NOT_NULL(test,
			      strstr(page, "redirecting\nredirected 0\n"));
	kfree(array.guard);
}

static struct kunit_case linnos_latency_cases[] = {
	KUNIT_CASE(linnos_test_refuse_predicted_slow),
	KUNIT_CASE(linnos_test_best_drives),
	KUNIT_CASE(linnos_test_answers_in_us),
	KUNIT_CASE(linnos_test_query_sector),
	KUNIT_CASE(linnos_test_may_redirect),
	KUNIT_CASE(linnos_test_rarely_useful_queries),
	KUNIT_CASE(linnos_test_array),
	{}
};

static struct kunit_suite linnos_latency_suite = {
	.name = "linnos-latency",
	.init = linnos_latency_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_latency_cases,
};

kunit_test_suites(&linnos_latency_model_suite, &linnos_latency_suite);
