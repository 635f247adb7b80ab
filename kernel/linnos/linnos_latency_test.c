// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LinnOS: models of latencies, their file and its upload, what
 * they predict, what they see of a drive, and what its peers have to do with it.
 */
#include "blk.h"
#include "linnos_test.h"

/* The file once more, spelled out on purpose. */
#define HEADER 64
#define SPLITS 15
#define LEAVES 16
#define N_FEATURES 22
#define CAP 0xffffff
#define TREES 32
#define TREES_BYTES (HEADER + TREES * (4 * SPLITS + 2 * LEAVES))

#define OVERDUE_US 1000
#define REFUSE_US 300

/* 24 bits, as often few of them as many. */
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
	put_unaligned_le32(HEADER + trees * (4 * SPLITS + 2 * LEAVES),
			   file + 12);
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
 * The same trees for every implementation, from a stream of random numbers:
 * every split's feature, its limit, and then the leaves.
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

/* No trees: what the last four reads took on average. */
static void fill_mean(u8 *file)
{
	fill_header(file, 0);
	put_unaligned_le32(0, file + 40);
	seal_trees(file, HEADER);
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

/* The file */

static void linnos_test_trees_round_trip(struct kunit *test)
{
	struct linnos_latency *model = alloc_latency(test);
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e;

	fill_trees(fx->file, &x);
	KUNIT_ASSERT_EQ(test,
			linnos_latency_parse(model, fx->file, TREES_BYTES),
			LINNOS_MODEL_OK);
	KUNIT_EXPECT_EQ(test, model->threshold_us, 150);
	KUNIT_EXPECT_EQ(test, model->refuse_us, REFUSE_US);
	KUNIT_EXPECT_EQ(test, linnos_latency_store(model, fx->again),
			TREES_BYTES);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, TREES_BYTES);
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
	u32 x = 0x4c494e4e;
	int i;

	fill_trees(fx->file, &x);
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		fx->file[wrong[i].at] ^= 0x10;
		KUNIT_EXPECT_EQ_MSG(test,
				    linnos_latency_parse(model, fx->file,
							 TREES_BYTES),
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
	KUNIT_EXPECT_EQ(test,
			linnos_latency_parse(model, fx->file, TREES_BYTES),
			LINNOS_MODEL_SPLIT);
	for (i = 28; i <= 36; i += 4) {
		fill_header(fx->file, 0);
		put_unaligned_le32(0, fx->file + i);
		seal_trees(fx->file, HEADER);
		KUNIT_EXPECT_EQ(test,
				linnos_latency_parse(model, fx->file, HEADER),
				LINNOS_MODEL_RANGE);
	}
}

/*
 * The line in the log is compared with what user space gets: the CRC-32 of all
 * predictions as little-endian 32-bit integers.
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
	KUNIT_ASSERT_EQ(test,
			linnos_latency_parse(model, fx->file, TREES_BYTES),
			LINNOS_MODEL_OK);
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

static const struct linnos_active_model *active_of(struct linnos_fixture *fx)
{
	return rcu_dereference_protected(fx->linnos->model, true);
}

/*
 * The mean is what a test can foresee. It would not choose; what those do with
 * its numbers that choose is what most tests are about.
 */
static void let_it_choose(struct blk_linnos *linnos)
{
	rcu_dereference_protected(linnos->model, true)->chooses = true;
}

/* What reading the model file gives, in @fx->again. */
static size_t stored(struct linnos_fixture *fx)
{
	return linnos_active_store(active_of(fx), fx->again);
}

static void linnos_test_trees_upload(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	u32 x = 0x4c494e4e, id;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_NULL(test, active_of(fx)->latency);
	KUNIT_EXPECT_FALSE(test, linnos->watching);

	fill_trees(fx->file, &x);
	id = get_unaligned_le32(fx->file + FILE_CRC);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, TREES_BYTES), 0);
	KUNIT_EXPECT_NOT_NULL(test, active_of(fx)->latency);
	KUNIT_EXPECT_TRUE(test, linnos->watching);
	KUNIT_EXPECT_EQ(test, active_of(fx)->id, id);
	KUNIT_EXPECT_EQ(test, linnos->threshold_us, 150);
	KUNIT_EXPECT_EQ(test, stored(fx), TREES_BYTES);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, TREES_BYTES);

	/* refused: the old one stays, and nothing is left of the new */
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

	/* the smallest, and back to a network */
	fill_mean(fx->file);
	KUNIT_EXPECT_EQ(test, upload_trees(fx, HEADER), 0);
	KUNIT_EXPECT_EQ(test, active_of(fx)->latency->n_trees, 0);
	fill_file(fx->file);
	KUNIT_EXPECT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_NULL(test, active_of(fx)->latency);
	KUNIT_EXPECT_FALSE(test, linnos->watching);
}

/* The largest comes in several pieces. */
static void linnos_test_trees_pieces(struct kunit *test)
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
	KUNIT_EXPECT_EQ(test, stored(fx), bytes);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, bytes);
	/* nothing may follow */
	KUNIT_ASSERT_EQ(test, put_chunk(fx, fx, fx->file, 0, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, put_chunk(fx, fx, fx->file, PAGE_SIZE, bytes),
			-EINVAL);
}

static void linnos_test_trees_memory(struct kunit *test)
{
	size_t model = linnos_latency_sizeof(TREES_BYTES);
	size_t largest = linnos_latency_sizeof(LINNOS_LATENCY_BYTES_MAX);
	size_t watch = sizeof(struct linnos_watch);

	kunit_info(test, "model %zu, the largest %zu, watch %zu bytes", model,
		   largest, watch);
	/* beside what a disk has with any model */
	KUNIT_EXPECT_LE(test, largest + watch + sizeof(struct blk_linnos),
			32 * 1024);
}

/* What is seen */

static void look_at(struct blk_linnos *linnos, u32 pages, u64 now_ns,
		    struct linnos_view *view)
{
	/* a decision's is not cleared, and all features are written */
	memset(view, 0xa5, sizeof(*view));
	view->now_ns = now_ns;
	view->pages = pages;
	linnos_see(linnos, &view->seen);
	view->pending = view->seen.pages + pages;
	view->size = linnos_size_order(pages);
	linnos_history_read(linnos, view, true);
	linnos_features(linnos->watch, view, OVERDUE_US);
}

static void look(struct linnos_fixture *fx, u32 pages, u64 now_ns,
		 struct linnos_view *view)
{
	look_at(fx->linnos, pages, now_ns, view);
}

static int linnos_latency_test_init(struct kunit *test)
{
	struct linnos_fixture *fx;
	int ret = linnos_test_init(test);

	if (ret)
		return ret;
	fx = test->priv;
	fx->linnos->mode = LINNOS_OBSERVE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 0;
	fill_mean(fx->file);
	ret = upload_trees(fx, HEADER);
	if (!ret)
		let_it_choose(fx->linnos);
	return ret;
}

static void linnos_test_sees_load(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io read, write, late;
	struct linnos_view view;
	int i;

	look(fx, 3, 5000000, &view);
	KUNIT_EXPECT_EQ(test, view.n_features, N_FEATURES);
	for (i = 0; i < N_FEATURES; i++)
		KUNIT_EXPECT_EQ_MSG(test, view.features[i],
				    i == 0		       ? 3 :
				    i >= 6 && (i - 6) % 4 == 3 ? CAP :
								 0,
				    "feature %d", i);

	arrive(fx, &read, REQ_OP_READ, 8192, true, 5000000);
	arrive(fx, &write, REQ_OP_WRITE, 20480, false, 5100000);
	arrive(fx, &late, REQ_OP_READ, 4096, false, 5500000);
	look(fx, 1, 6000999, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], 3);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_WRITE_PAGES], 5);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READS_IN_FLIGHT], 2);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 1000);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 1);
	look(fx, 1, 6000000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 0);
	/* as it was a moment ago */
	look(fx, 1, 4000000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	look(fx, 1, 60 * NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], CAP);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 2);

	complete_io(fx, &read, BLK_STS_OK, 6100999);
	complete_io(fx, &write, BLK_STS_OK, 6150000);
	complete_io(fx, &late, BLK_STS_IOERR, 6160000);
	look(fx, 1, 6200999, &view);
	for (i = LINNOS_READ_PAGES; i <= LINNOS_OVERDUE; i++)
		KUNIT_EXPECT_EQ(test, view.features[i], 0);
	/* neither the write nor the read that failed */
	KUNIT_EXPECT_EQ(test, view.features[6], 1100);
	KUNIT_EXPECT_EQ(test, view.features[7], 2);
	KUNIT_EXPECT_EQ(test, view.features[8], 2);
	KUNIT_EXPECT_EQ(test, view.features[9], 100);
	KUNIT_EXPECT_EQ(test, view.features[13], CAP);
	look(fx, 1, 3600 * NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[9], CAP);
}

/* A bio and two parts: one read, from its first part on, of all its pages. */
static void linnos_test_sees_parts(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct bio whole, first, second;
	struct bio *part[2] = { &first, &second };
	struct linnos_view view;
	int i;

	bio_init(&whole, NULL, NULL, 0, REQ_OP_READ);
	whole.bi_iter.bi_size = 65536;
	linnos_arrive(fx->linnos, &whole);
	for (i = 0; i < 2; i++) {
		bio_init(part[i], NULL, NULL, 0, REQ_OP_READ);
		part[i]->bi_iter.bi_size = 16384;
		whole.bi_iter.bi_size -= 16384;
		part[i]->bi_private = &whole;
		part[i]->bi_end_io = bio_chain_endio;
		linnos_start(fx->linnos, part[i], 1000000 * (i + 1));
	}
	/* the host holds back the rest: the drive is not slow */
	look(fx, 1, NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], 8);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READS_IN_FLIGHT], 0);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 0);
	linnos_start(fx->linnos, &whole, 1000000);
	look(fx, 1, 9000000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], 16);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READS_IN_FLIGHT], 1);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 8000);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 1);
	for (i = 0; i < 2; i++) {
		linnos_served(fx->linnos, part[i], 5000, 9000000);
		linnos_end(fx->linnos, part[i], BLK_STS_OK);
	}
	look(fx, 1, 9000000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], 8);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 1);
	linnos_served(fx->linnos, &whole, 7000, 9500000);
	linnos_end(fx->linnos, &whole, BLK_STS_OK);
	look(fx, 1, 9501000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	KUNIT_EXPECT_EQ(test, view.features[6], 7);
	KUNIT_EXPECT_EQ(test, view.features[7], 16);
	KUNIT_EXPECT_EQ(test, view.features[8], 16);
	KUNIT_EXPECT_EQ(test, view.features[9], 1);

	/* the disk has gone before its last part had a request */
	bio_init(&whole, NULL, NULL, 0, REQ_OP_READ);
	whole.bi_iter.bi_size = 8192;
	linnos_arrive(fx->linnos, &whole);
	bio_init(&first, NULL, NULL, 0, REQ_OP_READ);
	first.bi_iter.bi_size = 4096;
	first.bi_private = &whole;
	first.bi_end_io = bio_chain_endio;
	linnos_start(fx->linnos, &first, 1000000);
	linnos_end(fx->linnos, &whole, BLK_STS_IOERR);
	linnos_end(fx->linnos, &first, BLK_STS_OK);
	look(fx, 1, 9501000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], 0);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
}

/* A probe that is split: since its own request, and with all its pages. */
static void linnos_test_sees_split_probe(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_view view;
	struct bio whole, part;

	/* somebody was told to look, and the next read does */
	atomic_inc(&fx->linnos->look[0].revokes);
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 1;
	fx->linnos->stall_us = 1;
	bio_init(&part, NULL, NULL, 0, REQ_OP_READ);
	part.bi_iter.bi_size = 4096;
	linnos_arrive(fx->linnos, &part);
	linnos_start(fx->linnos, &part, 1000);
	KUNIT_ASSERT_EQ(test, expected_of(fx, 4096, NSEC_PER_SEC),
			BLK_LINNOS_PROBE);
	linnos_end(fx->linnos, &part, BLK_STS_IOERR);

	bio_init(&whole, NULL, NULL, 0, REQ_OP_READ);
	whole.bi_iter.bi_size = 16384;
	linnos_arrive(fx->linnos, &whole);
	KUNIT_ASSERT_EQ(test, linnos_unpack(&whole).verdict,
			LINNOS_VERDICT_PROBE);
	bio_init(&part, NULL, NULL, 0, REQ_OP_READ);
	part.bi_iter.bi_size = 4096;
	whole.bi_iter.bi_size -= 4096;
	part.bi_private = &whole;
	part.bi_end_io = bio_chain_endio;
	linnos_start(fx->linnos, &part, NSEC_PER_SEC);
	look(fx, 1, 2 * NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	linnos_start(fx->linnos, &whole, 2 * NSEC_PER_SEC);
	look(fx, 1, 2 * NSEC_PER_SEC + 5000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 5);
	linnos_served(fx->linnos, &part, 5000, 2 * NSEC_PER_SEC + 6000);
	linnos_end(fx->linnos, &part, BLK_STS_OK);
	linnos_served(fx->linnos, &whole, 7000, 2 * NSEC_PER_SEC + 7000);
	linnos_end(fx->linnos, &whole, BLK_STS_OK);
	look(fx, 1, 3 * NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	KUNIT_EXPECT_EQ(test, view.features[8], 4);
}

/* More reads than there are places: those that came first are seen. */
static void linnos_test_sees_so_many(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	const int n = LINNOS_WATCHED + 10;
	struct linnos_view view;
	struct linnos_io *io;
	int i;

	io = kunit_kcalloc(test, n, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	for (i = 0; i < n; i++)
		arrive(fx, &io[i], REQ_OP_READ, 4096, false, 1000 * (i + 1));
	look(fx, 1, NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], n);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READS_IN_FLIGHT], n);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], LINNOS_WATCHED);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 999999);
	/* one leaves, another takes its place */
	complete_io(fx, &io[0], BLK_STS_OK, NSEC_PER_SEC);
	look(fx, 1, NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 999998);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE],
			LINNOS_WATCHED - 1);
	arrive(fx, &io[0], REQ_OP_READ, 4096, false, NSEC_PER_SEC);
	look(fx, 1, 2 * NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], LINNOS_WATCHED);
	for (i = 0; i < n; i++)
		complete_io(fx, &io[i], BLK_STS_OK, 2 * NSEC_PER_SEC);
	look(fx, 1, 2 * NSEC_PER_SEC, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READS_IN_FLIGHT], 0);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	for (i = 0; i < ARRAY_SIZE(fx->linnos->watch->taken); i++)
		KUNIT_EXPECT_EQ(test, fx->linnos->watch->taken[i], 0);
}

/* Whatever is counted while there is no such model is counted out as ever. */
static void linnos_test_sees_since(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io read, write, io;
	struct linnos_view view;

	arrive(fx, &io, REQ_OP_READ, 4096, false, 1000);
	complete_io(fx, &io, BLK_STS_OK, 2000);
	arrive(fx, &io, REQ_OP_READ, 4096, false, 1000);
	fill_file(fx->file);
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	arrive(fx, &read, REQ_OP_READ, 4096, false, 1000);
	arrive(fx, &write, REQ_OP_WRITE, 4096, false, 1000);
	complete_io(fx, &io, BLK_STS_OK, 3000);
	fill_mean(fx->file);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, HEADER), 0);

	look(fx, 1, 5000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READS_IN_FLIGHT], 1);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_WRITE_PAGES], 0);
	KUNIT_EXPECT_EQ(test, view.features[9], CAP);
	KUNIT_EXPECT_EQ(test, view.features[7], 0);
	complete_io(fx, &write, BLK_STS_OK, 6000);
	complete_io(fx, &read, BLK_STS_OK, 6000);
	look(fx, 1, 8000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_WRITE_PAGES], 0);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_READ_PAGES], 0);
	KUNIT_EXPECT_EQ(test, view.features[6], 5);
	KUNIT_EXPECT_EQ(test, view.features[9], 2);
	KUNIT_EXPECT_EQ(test, view.features[13], CAP);

	/* as after a change of the mode, and after sleep */
	linnos_forget_past(fx->linnos, 9000);
	look(fx, 1, 9000, &view);
	KUNIT_EXPECT_EQ(test, view.features[9], CAP);
}

/* Slow beyond refuse_us; and a probe in flight is the oldest as any other. */
static void linnos_test_refuses(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io, probe;
	struct linnos_view view;
	u64 ns = 1000000;
	int i;

	fx->linnos->mode = LINNOS_ENFORCE;
	for (i = 0; i < 4; i++, ns += 1000000) {
		KUNIT_EXPECT_TRUE(test,
				  arrive(fx, &io, REQ_OP_READ, 4096, true, ns));
		complete_io(fx, &io, BLK_STS_OK, ns + REFUSE_US * 1000);
	}
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_SLOW), 4);
	KUNIT_EXPECT_EQ(test,
			linnos_stat(fx->linnos, LINNOS_STAT_FALSE_SUBMITS), 4);
	/* 300 us on average, and then 301 */
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, 4096, true, ns));
	complete_io(fx, &io, BLK_STS_OK, ns + (REFUSE_US + 4) * 1000);
	ns += 1000000;
	KUNIT_EXPECT_FALSE(test, arrive(fx, &io, REQ_OP_READ, 4096, true, ns));
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_REVOKED), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_INFERENCES),
			6);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns),
			BLK_LINNOS_US | BLK_LINNOS_US_SLOW | 301);

	fx->linnos->probe_after_us = 100;
	KUNIT_EXPECT_TRUE(test,
			  arrive(fx, &probe, REQ_OP_READ, 4096, true, ns));
	KUNIT_EXPECT_EQ(test, (int)probe.io.verdict, LINNOS_VERDICT_PROBE);
	look(fx, 1, ns + 7000000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 7000);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OVERDUE], 1);
	complete_io(fx, &probe, BLK_STS_OK, ns + 20000);
	look(fx, 1, ns + 7000000, &view);
	KUNIT_EXPECT_EQ(test, view.features[LINNOS_OLDEST_US], 0);
	KUNIT_EXPECT_EQ(test, view.features[8], 1);
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 11);
}

/* A random load, and the features by their definition in docs/formats.md. */
#define DEPTH 40

struct plain_io {
	struct linnos_io io;
	bool is_read;
	u32 pages;
	u32 pending;
};

struct plain_read {
	u64 end_ns;
	u32 latency_us, pending, pages;
};

static u32 capped(u64 value)
{
	return min_t(u64, value, CAP);
}

/* So many of the last reads are kept that four small ones are among them. */
#define PAST 200

static int order_of(u32 pages)
{
	return pages <= 16 ? 0 : pages <= 256 ? 1 : 2;
}

static void define_features(const struct plain_io *io, int depth,
			    const struct plain_read *past, u32 pages,
			    u64 now_ns, u32 *f)
{
	int i, k;

	memset(f, 0, N_FEATURES * sizeof(*f));
	f[0] = pages;
	for (i = 0; i < depth; i++) {
		u64 age_ns = now_ns - io[i].io.start_ns;

		if (!io[i].is_read) {
			f[2] += io[i].pages;
			continue;
		}
		f[1] += io[i].pages;
		f[3]++;
		f[4] = max(f[4], capped(div_u64(age_ns, 1000)));
		f[5] += age_ns > OVERDUE_US * 1000ULL;
	}
	for (i = 0, k = 0; i < 4; i++, k++) {
		while (k < PAST && order_of(past[k].pages) > order_of(pages))
			k++;
		f[6 + 4 * i] = k < PAST ? capped(past[k].latency_us) : 0;
		f[7 + 4 * i] = k < PAST ? past[k].pending : 0;
		f[8 + 4 * i] = k < PAST ? past[k].pages : 0;
		f[9 + 4 * i] =
			k == PAST || !past[k].end_ns ?
				CAP :
				capped(div_u64(now_ns - past[k].end_ns, 1000));
	}
}

static void linnos_test_sees_what_there_is(struct kunit *test)
{
	struct linnos_latency *model = alloc_latency(test);
	struct linnos_fixture *fx = test->priv;
	struct plain_read *past;
	u32 x = 0x4c494e4e, features[N_FEATURES];
	int n, depth = 0, slow = 0, decided = 0;
	struct linnos_view view;
	struct plain_io *io;
	u64 now_ns = 1000;
	u32 us;

	io = kunit_kcalloc(test, DEPTH, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	past = kunit_kcalloc(test, PAST, sizeof(*past), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, past);
	fill_trees(fx->file, &x);
	/* in the middle of what this load has */
	put_unaligned_le32(1500, fx->file + 32);
	seal_trees(fx->file, TREES_BYTES);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, TREES_BYTES), 0);
	KUNIT_ASSERT_EQ(test,
			linnos_latency_parse(model, fx->file, TREES_BYTES),
			LINNOS_MODEL_OK);

	for (n = 0; n < 20000; n++) {
		struct plain_io *one;

		/* seldom long, so that some are overdue and some are not */
		now_ns += xorshift32(&x) %
			  (xorshift32(&x) % 100 ? 100000 : 2000000000);
		if (depth < DEPTH && xorshift32(&x) % 2) {
			u32 bytes = 512 * (1 + xorshift32(&x) % 400);
			bool hinted, refused;

			/* of all orders of size */
			if (xorshift32(&x) % 3 == 0)
				bytes *= 8;

			one = &io[depth];
			one->is_read = xorshift32(&x) % 3;
			one->pages = DIV_ROUND_UP(bytes, 4096);
			hinted = one->is_read && xorshift32(&x) % 2;
			define_features(io, depth, past, one->pages, now_ns,
					features);
			look(fx, one->pages, now_ns, &view);
			KUNIT_EXPECT_MEMEQ(test, view.features, features,
					   sizeof(features));
			arrive(fx, &one->io,
			       one->is_read ? REQ_OP_READ : REQ_OP_WRITE, bytes,
			       hinted, now_ns);
			depth++;
			one->pending = features[1] + features[2] + one->pages;
			if (!hinted)
				continue;
			decided++;
			refused = one->io.io.verdict == LINNOS_VERDICT_SLOW;
			slow += refused;
			us = linnos_latency_us(model, features);
			KUNIT_ASSERT_EQ(test, refused, us > 1500);
		} else if (depth) {
			bool fails = xorshift32(&x) % 20 == 0;

			one = &io[xorshift32(&x) % depth];
			complete_io(fx, &one->io,
				    fails ? BLK_STS_IOERR : BLK_STS_OK, now_ns);
			if (one->is_read && !fails) {
				memmove(past + 1, past,
					(PAST - 1) * sizeof(*past));
				past[0] = (struct plain_read){
					now_ns,
					div_u64(now_ns - one->io.start_ns,
						1000),
					one->pending, one->pages
				};
			}
			*one = io[--depth];
		}
	}
	KUNIT_EXPECT_GT(test, slow, decided / 10);
	KUNIT_EXPECT_LT(test, slow, decided - decided / 10);
}

/* Which of several drives */

static void linnos_test_lowest(struct kunit *test)
{
	static const struct {
		int answers[4];
		unsigned long best;
	} cases[] = {
#define US(n) (BLK_LINNOS_US | (n))
#define SLOW(n) (BLK_LINNOS_US | BLK_LINNOS_US_SLOW | (n))
#define STALLED SLOW(BLK_LINNOS_US_MASK)
#define N BLK_LINNOS_NOT_ASKED
		{ { US(100), US(130), US(133), US(134) }, 0x7 },
		{ { US(134), US(133), US(130), US(100) }, 0xe },
		{ { US(100), N, SLOW(1000), US(50) }, 0x8 },
		{ { US(90), US(90), US(90), US(90) }, 0xf },
		{ { N, US(16000000), N, N }, 0x2 },
		/* the least slow; and slow by its own model, but lowest */
		{ { SLOW(500), SLOW(1000), SLOW(600), N }, 0x5 },
		{ { US(500), SLOW(100), N, N }, 0x2 },
		{ { STALLED, US(16000000), N, N }, 0x3 },
		{ { STALLED, US(900), N, N }, 0x2 },
		{ { STALLED, STALLED, N, N }, 0x3 },
		/* not all tell microseconds */
		{ { US(10), BLK_LINNOS_FAST, SLOW(50), BLK_LINNOS_UNKNOWN },
		  0xb },
		{ { US(10), BLK_LINNOS_SLOW, US(500), N }, 0x5 },
		{ { SLOW(10), BLK_LINNOS_SLOW, N, N }, 0x3 },
		{ { US(1), US(1), BLK_LINNOS_PROBE, US(1) }, 0x4 },
#undef US
#undef SLOW
#undef STALLED
#undef N
	};
	enum blk_linnos_expected answers[4];
	int i, k;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (k = 0; k < 4; k++)
			answers[k] = cases[i].answers[k];
		KUNIT_EXPECT_EQ_MSG(test, blk_linnos_best(answers, 4),
				    cases[i].best, "case %d", i);
	}
}

/* How long it would take; a drive that is passed over is looked at. */
static void linnos_test_expects_us(struct kunit *test)
{
	const int stalled = BLK_LINNOS_US | BLK_LINNOS_US_SLOW |
			    BLK_LINNOS_US_MASK;
	struct linnos_fixture *fx = test->priv;
	struct blk_expect_drive drive;
	struct linnos_io io;
	u64 ns = 1000000;
	int i, answer;

	for (i = 0; i < 4; i++, ns += 1000000) {
		arrive(fx, &io, REQ_OP_READ, 4096, false, ns);
		complete_io(fx, &io, BLK_STS_OK, ns + 200000);
	}
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns), BLK_LINNOS_US | 200);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_INFERENCES),
			1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_REVOKED), 0);

	/* for as long, and as often; not one without the other */
	fx->linnos->probe_after_us = 5000;
	fx->linnos->probe_after_revokes = 3;
	for (i = 0; i < 9; i++)
		KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns),
				BLK_LINNOS_US | 200);
	arrive(fx, &io, REQ_OP_READ, 4096, false, ns);
	complete_io(fx, &io, BLK_STS_OK, ns + 200000);
	ns += 5200001;
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns),
				BLK_LINNOS_US | 200);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns), BLK_LINNOS_PROBE);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns), BLK_LINNOS_US | 200);
	arrive(fx, &io, REQ_OP_READ, 4096, false, ns);
	KUNIT_EXPECT_EQ(test, (int)io.io.verdict, LINNOS_VERDICT_PROBE);
	complete_io(fx, &io, BLK_STS_OK, ns + 100000);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns), BLK_LINNOS_US | 175);
	/* nothing was said against it that could have been wrong */
	KUNIT_EXPECT_EQ(test, (int)fx->linnos->look[0].trust, 0);

	/* stalled: later than all that are not */
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 0;
	fx->linnos->stall_us = 500;
	arrive(fx, &io, REQ_OP_READ, 4096, false, ns + 100000);
	answer = expected_of(fx, 4096, ns + 600001);
	KUNIT_EXPECT_EQ(test, answer, stalled);
	/* a program is told what its model says, and that it is stalled */
	answer = linnos_expect(fx->linnos, 4096, ns + 600001, true, &drive);
	KUNIT_EXPECT_EQ(test, answer, stalled);
	KUNIT_EXPECT_EQ(test, drive.known, BLK_EXPECT_LATENCY);
	KUNIT_EXPECT_EQ(test, drive.flags,
			BLK_EXPECT_SLOW | BLK_EXPECT_STALLED);
	KUNIT_EXPECT_EQ(test, drive.latency_us, 175);
	complete_io(fx, &io, BLK_STS_OK, ns + 600001);
}

/*
 * A model without trees: it tells how long, and nothing follows from it, neither a
 * refusal, nor a choice, nor a look at a drive that was passed over.
 */
static void linnos_test_no_choice(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->linnos;
	struct blk_expect_drive drive;
	u64 ns = 1000000;
	struct linnos_io io;
	u32 x = 0x4c494e4e;
	int i;

	fill_mean(fx->file);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, HEADER), 0);
	KUNIT_EXPECT_FALSE(test, active_of(fx)->chooses);
	linnos->mode = LINNOS_ENFORCE;
	linnos->probe_after_us = 100;
	linnos->probe_after_revokes = 1;
	for (i = 0; i < 8; i++, ns += 10000000) {
		KUNIT_EXPECT_TRUE(test,
				  arrive(fx, &io, REQ_OP_READ, 4096, true, ns));
		KUNIT_EXPECT_EQ(test, io.io.verdict, LINNOS_VERDICT_NONE);
		complete_io(fx, &io, BLK_STS_OK, ns + 5000000);
		KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns + 9000000),
				BLK_LINNOS_UNKNOWN);
	}
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_SLOW), 8);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_INFERENCES), 16);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_PROBES), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_FALSE_SUBMITS),
			0);

	KUNIT_EXPECT_EQ(test, linnos_expect(linnos, 4096, ns, false, &drive),
			BLK_LINNOS_UNKNOWN);
	KUNIT_EXPECT_EQ(test, drive.known, BLK_EXPECT_LATENCY);
	KUNIT_EXPECT_EQ(test, drive.flags & ~BLK_EXPECT_STALE,
			BLK_EXPECT_NO_CHOICE);
	KUNIT_EXPECT_EQ(test, drive.latency_us, 5000);

	/* not by a read that does not complete, either */
	linnos->stall_us = 100;
	arrive(fx, &io, REQ_OP_READ, 4096, false, ns);
	KUNIT_EXPECT_EQ(test, expected_of(fx, 4096, ns + 900000),
			BLK_LINNOS_UNKNOWN);
	complete_io(fx, &io, BLK_STS_OK, ns + 900000);
	linnos->stall_us = 0;

	/* trees do */
	fill_trees(fx->file, &x);
	KUNIT_ASSERT_EQ(test, upload_trees(fx, TREES_BYTES), 0);
	KUNIT_EXPECT_TRUE(test, active_of(fx)->chooses);
	KUNIT_EXPECT_NE(test, expected_of(fx, 4096, ns), BLK_LINNOS_UNKNOWN);
}

/* Peers: the first drive names others; the last one has no model. */

#define DRIVES (LINNOS_PEERS_MAX + 2)
#define NO_MODEL (DRIVES - 1)

struct peers_fixture {
	u8 file[FILE_BYTES];
	char text[PAGE_SIZE];
	struct gendisk disk[DRIVES];
	struct blk_linnos *drive[DRIVES];
};

static int give_model(struct peers_fixture *fx, struct blk_linnos *linnos,
		      size_t bytes)
{
	const char *why;
	int ret;

	mutex_lock(&linnos->lock);
	ret = linnos_set_model(linnos, fx->file, bytes, &why);
	mutex_unlock(&linnos->lock);
	if (!ret)
		let_it_choose(linnos);
	return ret;
}

static int linnos_peers_test_init(struct kunit *test)
{
	struct peers_fixture *fx = kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);
	struct blk_linnos *linnos;
	int i, ret = 0;

	if (!fx)
		return -ENOMEM;
	test->priv = fx;
	fill_mean(fx->file);
	for (i = 0; i < DRIVES && !ret; i++) {
		snprintf(fx->disk[i].disk_name, DISK_NAME_LEN, "kunit%d", i);
		linnos = linnos_alloc(&fx->disk[i]);
		if (!linnos)
			return -ENOMEM;
		fx->drive[i] = linnos;
		linnos_join(linnos);
		ret = linnos_alloc_percpu(linnos);
		if (!ret && i != NO_MODEL)
			ret = give_model(fx, linnos, HEADER);
		linnos->mode = LINNOS_ENFORCE;
		linnos->awake = true;
		linnos->probe_after_us = 0;
		linnos->probe_after_revokes = 0;
	}
	return ret;
}

static void linnos_peers_test_exit(struct kunit *test)
{
	struct peers_fixture *fx = test->priv;
	int i;

	for (i = 0; fx && i < DRIVES; i++) {
		if (!fx->drive[i])
			continue;
		linnos_leave(fx->drive[i]);
		linnos_free(fx->drive[i]);
	}
}

/* What the file says of the first drive's peers. */
static const char *peers_of(struct peers_fixture *fx)
{
	/* page-aligned, as sysfs gives it */
	char *page = (char *)get_zeroed_page(GFP_KERNEL);

	fx->text[0] = '\0';
	if (page && linnos_show_peers(fx->drive[0], page))
		strscpy(fx->text, page, sizeof(fx->text));
	free_page((unsigned long)page);
	return fx->text;
}

static void linnos_test_peers_named(struct kunit *test)
{
	static const struct {
		const char *names;
		int ret;
	} wrong[] = {
		{ "kunit0", -EINVAL },
		{ "kunit2 kunit0", -EINVAL },
		{ "kunit", -ENODEV },
		{ "kunit1 kunit10\n", -ENODEV },
		{ "kunit1,kunit2", -ENODEV },
		{ "/dev/kunit1", -ENODEV },
		{ "kunit1 kunit2 kunit1", -EEXIST },
		{ "kunit1 kunit2 kunit3 kunit4 kunit5 kunit6 kunit7 kunit8",
		  -E2BIG },
	};
	static const char seven[] =
		"  kunit1 kunit2\tkunit3 kunit4 kunit5 kunit6 kunit7 ";
	struct peers_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->drive[0];
	int i;

	KUNIT_EXPECT_STREQ(test, peers_of(fx), "\n");
	KUNIT_EXPECT_EQ(test, linnos_set_peers(linnos, "kunit2 kunit1\n"), 0);
	KUNIT_EXPECT_STREQ(test, peers_of(fx), "kunit2 kunit1\n");
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		KUNIT_EXPECT_EQ_MSG(test,
				    linnos_set_peers(linnos, wrong[i].names),
				    wrong[i].ret, "%s", wrong[i].names);
		KUNIT_EXPECT_STREQ(test, peers_of(fx), "kunit2 kunit1\n");
	}
	KUNIT_EXPECT_EQ(test, linnos_set_peers(linnos, " \t\n"), 0);
	KUNIT_EXPECT_STREQ(test, peers_of(fx), "\n");
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(linnos->peers));
	KUNIT_EXPECT_EQ(test, linnos_set_peers(linnos, seven), 0);

	/* one that goes is in nobody's list, and is not found again */
	linnos_leave(fx->drive[3]);
	KUNIT_EXPECT_STREQ(test, peers_of(fx),
			   "kunit1 kunit2 kunit4 kunit5 kunit6 kunit7\n");
	KUNIT_EXPECT_EQ(test, linnos_set_peers(linnos, "kunit3"), -ENODEV);
	linnos_join(fx->drive[3]);
	KUNIT_EXPECT_EQ(test, linnos_set_peers(linnos, "kunit3"), 0);
	KUNIT_EXPECT_EQ(test, linnos_set_peers(fx->drive[3], "kunit0 kunit1"),
			0);
	linnos_leave(fx->drive[3]);
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(fx->drive[3]->peers));
	KUNIT_EXPECT_STREQ(test, peers_of(fx), "\n");
	/* not as if none had been named */
	KUNIT_EXPECT_NOT_NULL(test, rcu_access_pointer(linnos->peers));
}

/* Four reads, each so long. */
static void takes_us(struct blk_linnos *linnos, u64 now_ns, u32 us)
{
	struct bio bio;
	int i;

	for (i = 0; i < LINNOS_HISTORY; i++) {
		bio_init(&bio, NULL, NULL, 0, REQ_OP_READ);
		bio.bi_iter.bi_size = 4096;
		linnos_arrive(linnos, &bio);
		linnos_start(linnos, &bio, now_ns);
		linnos_served(linnos, &bio, us * 1000ULL,
			      now_ns + us * 1000ULL);
		linnos_end(linnos, &bio, BLK_STS_OK);
	}
}

/* A hinted read that never gets as far as the drive. */
static bool is_admitted(struct blk_linnos *linnos, u64 now_ns)
{
	struct bio bio;

	bio_init(&bio, NULL, NULL, 0, REQ_OP_READ);
	bio.bi_iter.bi_size = 4096;
	if (!linnos_decide(linnos, &bio, now_ns))
		return false;
	linnos_arrive(linnos, &bio);
	linnos_end(linnos, &bio, BLK_STS_AGAIN);
	return true;
}

#define KEPT LINNOS_STAT_KEPT
#define GAIN_US LINNOS_STAT_EXPECTED_GAIN_US

static void linnos_test_peers_choice(struct kunit *test)
{
	static const struct {
		u32 failover_us, here_us, there_us[2];
		int kept, revoked, gain_us;
	} cases[] = {
		/* fast is fast, whatever the others are */
		{ 15, REFUSE_US, { 1, 1 }, 0, 0, 0 },
		{ 15, 400, { 384, 500 }, 0, 1, 1 },
		{ 15, 400, { 385, 500 }, 1, 0, 0 },
		{ 15, 400, { 900, 100 }, 0, 1, 285 },
		{ 15, 400, { 401, 5000 }, 1, 0, 0 },
		{ 15, 9000, { 4000, 5000 }, 0, 1, 4985 },
		{ 0, 400, { 400, 401 }, 1, 0, 0 },
		{ 0, 400, { 401, 399 }, 0, 1, 1 },
		{ 1000000, 900000, { 1, 1 }, 1, 0, 0 },
	};
	struct peers_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->drive[0];
	int i, kept = 0, revoked = 0, gain_us = 0;
	u64 ns = 1000000;

	KUNIT_EXPECT_EQ(test, linnos->failover_us, 15);
	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, "kunit1 kunit2"), 0);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		linnos->failover_us = cases[i].failover_us;
		takes_us(linnos, ns, cases[i].here_us);
		takes_us(fx->drive[1], ns, cases[i].there_us[0]);
		takes_us(fx->drive[2], ns, cases[i].there_us[1]);
		ns += 1000000;
		KUNIT_EXPECT_EQ_MSG(test, is_admitted(linnos, ns),
				    !cases[i].revoked, "case %d", i);
		kept += cases[i].kept;
		revoked += cases[i].revoked;
		gain_us += cases[i].gain_us;
		KUNIT_EXPECT_EQ_MSG(test, linnos_stat(linnos, KEPT), kept,
				    "case %d", i);
		KUNIT_EXPECT_EQ_MSG(test,
				    linnos_stat(linnos, LINNOS_STAT_REVOKED),
				    revoked, "case %d", i);
		KUNIT_EXPECT_EQ_MSG(test, linnos_stat(linnos, GAIN_US), gain_us,
				    "case %d", i);
	}
	/* those that are asked know nothing of it but that, and their own */
	for (i = 0; i < LINNOS_STAT_LATENCY; i++)
		if (i != LINNOS_STAT_INFERENCES &&
		    i != LINNOS_STAT_INFERENCE_NS && i != LINNOS_STAT_READS &&
		    i != LINNOS_STAT_SLOW)
			KUNIT_EXPECT_EQ(test, linnos_stat(fx->drive[1], i), 0);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->drive[1], LINNOS_STAT_INFERENCES),
			ARRAY_SIZE(cases) - 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->drive[1], LINNOS_STAT_READS),
			LINNOS_HISTORY * ARRAY_SIZE(cases));
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->drive[1]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->drive[1]->look[0].revokes), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&fx->drive[1]->probe[0]), 0);
	KUNIT_EXPECT_TRUE(test, fx->drive[1]->hinted);

	/* observed: what would have been kept; nothing is gained */
	linnos->failover_us = 15;
	linnos->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	takes_us(fx->drive[1], ns, 899990);
	takes_us(fx->drive[2], ns, 899990);
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, KEPT), kept + 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, GAIN_US), gain_us);
}

/* A drive that does not tell, or will not answer, is no reason to refuse. */
static void linnos_test_peers_unknown(struct kunit *test)
{
	struct peers_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->drive[0], *peer = fx->drive[1];
	const u64 ns = 9000000;

	takes_us(linnos, 1000000, 400);
	takes_us(peer, 1000000, 100);
	/* none named: as ever */
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));
	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, "kunit1 kunit8"), 0);
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, GAIN_US), 285);
	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, "kunit8"), 0);
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, "kunit1"), 0);

	set_bit(GD_DEAD, &fx->disk[1].state);
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	clear_bit(GD_DEAD, &fx->disk[1].state);
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));

	/* off; asleep, and woken up by the question */
	peer->awake = false;
	peer->mode = LINNOS_OFF;
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	flush_work(&peer->wake_work);
	KUNIT_EXPECT_FALSE(test, peer->awake);
	peer->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	flush_work(&peer->wake_work);
	KUNIT_EXPECT_TRUE(test, peer->awake);
	takes_us(peer, 1000000, 100);
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));
	KUNIT_EXPECT_TRUE(test, peer->hinted);
	mutex_lock(&peer->lock);
	linnos_set_mode(peer, LINNOS_OFF);
	mutex_unlock(&peer->lock);
	cancel_delayed_work_sync(&peer->sleep_work);
	peer->awake = true;

	fill_file(fx->file);
	KUNIT_ASSERT_EQ(test, give_model(fx, peer, FILE_BYTES), 0);
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	fill_mean(fx->file);
	KUNIT_ASSERT_EQ(test, give_model(fx, peer, HEADER), 0);
	takes_us(peer, 1000000, 100);
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));
	/* a model by which nothing is chosen */
	rcu_dereference_protected(peer->model, true)->chooses = false;
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	let_it_choose(peer);

	/* all that were named have gone, or none are named any more */
	linnos_leave(peer);
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, ""), 0);
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));
	linnos_join(peer);

	/* a network's verdict is not weighed against anybody's */
	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, "kunit8"), 0);
	fill_file(fx->file);
	set_output_bias(fx->file, 1, 1000000);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, give_model(fx, linnos, FILE_BYTES), 0);
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns));
}

/* Later than all that do not stall; and a probe is a probe. */
static void linnos_test_peers_stalled(struct kunit *test)
{
	struct peers_fixture *fx = test->priv;
	struct blk_linnos *linnos = fx->drive[0], *peer = fx->drive[1];
	u64 ns = 9000000;
	struct bio here, there;
	struct bio *io[2] = { &here, &there };
	int i;

	KUNIT_ASSERT_EQ(test, linnos_set_peers(linnos, "kunit1"), 0);
	takes_us(linnos, 1000000, 400);
	takes_us(peer, 1000000, 100);
	for (i = 0; i < 2; i++) {
		fx->drive[i]->stall_us = 500;
		bio_init(io[i], NULL, NULL, 0, REQ_OP_READ);
		io[i]->bi_iter.bi_size = 4096;
		linnos_arrive(fx->drive[i], io[i]);
		linnos_start(fx->drive[i], io[i], ns);
	}
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns + 500000));
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns + 500001));

	/* here it is fast by the model, and stalls */
	takes_us(linnos, 1000000, 200);
	peer->stall_us = 0;
	KUNIT_EXPECT_FALSE(test, is_admitted(linnos, ns + 500001));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_STALLED), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, GAIN_US), 285);
	peer->stall_us = 500;
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns + 500001));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_STALLED), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, KEPT), 2);
	for (i = 0; i < 2; i++) {
		linnos_end(fx->drive[i], io[i], BLK_STS_IOERR);
		fx->drive[i]->stall_us = 0;
	}

	/* what is kept needs no probe, and what is a probe gains nothing */
	linnos->probe_after_us = 1000;
	takes_us(linnos, 1000000, 400);
	takes_us(peer, 1000000, 500);
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_PROBES), 0);
	takes_us(peer, 1000000, 100);
	ns += 2000000;
	KUNIT_EXPECT_TRUE(test, is_admitted(linnos, ns));
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, LINNOS_STAT_PROBES), 1);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, GAIN_US), 285);
	KUNIT_EXPECT_EQ(test, linnos_stat(linnos, KEPT), 3);
}

/* Three drives under a random load, each the others' peer. */
#define PEERS_DEPTH 12

struct peers_io {
	struct linnos_io io;
	int drive;
};

static void linnos_test_peers_load(struct kunit *test)
{
	static const char *const named[3] = { "kunit1 kunit2", "kunit2 kunit0",
					      "kunit0 kunit1" };
	struct linnos_latency *model = alloc_latency(test);
	struct peers_fixture *fx = test->priv;
	int n, i, depth = 0, kept = 0, revoked = 0, where;
	u64 ns = 1000, gain_us = 0, counted_us = 0;
	u32 x = 0x4c494e4e, us[3], least_us;
	struct linnos_view view;
	struct peers_io *io, *one;

	io = kunit_kcalloc(test, PEERS_DEPTH, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	fill_trees(fx->file, &x);
	put_unaligned_le32(1500, fx->file + 32);
	seal_trees(fx->file, TREES_BYTES);
	KUNIT_ASSERT_EQ(test,
			linnos_latency_parse(model, fx->file, TREES_BYTES),
			LINNOS_MODEL_OK);
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, give_model(fx, fx->drive[i], TREES_BYTES),
				0);
		KUNIT_ASSERT_EQ(test, linnos_set_peers(fx->drive[i], named[i]),
				0);
		fx->drive[i]->failover_us = 100;
	}
	for (n = 0; n < 10000; n++) {
		ns += xorshift32(&x) %
		      (xorshift32(&x) % 100 ? 100000 : 2000000000);
		if (depth && xorshift32(&x) % 2) {
			one = &io[xorshift32(&x) % depth];
			linnos_served(fx->drive[one->drive], &one->io.bio,
				      ns - one->io.start_ns, ns);
			linnos_end(fx->drive[one->drive], &one->io.bio,
				   BLK_STS_OK);
			*one = io[--depth];
			continue;
		}
		if (depth == PEERS_DEPTH)
			continue;
		one = &io[depth];
		where = xorshift32(&x) % 3;
		one->drive = where;
		bio_init(&one->io.bio, NULL, NULL, 0, REQ_OP_READ);
		one->io.bio.bi_iter.bi_size = 4096 * (1 + xorshift32(&x) % 50);
		one->io.start_ns = ns;
		for (i = 0; i < 3; i++) {
			look_at(fx->drive[i],
				one->io.bio.bi_iter.bi_size / 4096, ns, &view);
			us[i] = linnos_latency_us(model, view.features);
		}
		least_us = min(us[(where + 1) % 3], us[(where + 2) % 3]);
		if (us[where] > 1500 && least_us + 100 < us[where]) {
			revoked++;
			gain_us += us[where] - least_us - 100;
			KUNIT_ASSERT_FALSE(test,
					   linnos_decide(fx->drive[where],
							 &one->io.bio, ns));
			/* it goes there all the same, without the hint */
		} else {
			kept += us[where] > 1500;
			KUNIT_ASSERT_TRUE(test,
					  linnos_decide(fx->drive[where],
							&one->io.bio, ns));
		}
		linnos_arrive(fx->drive[where], &one->io.bio);
		linnos_start(fx->drive[where], &one->io.bio, ns);
		depth++;
	}
	KUNIT_EXPECT_GT(test, kept, 50);
	for (i = 0; i < 3; i++) {
		kept -= linnos_stat(fx->drive[i], KEPT);
		counted_us += linnos_stat(fx->drive[i], GAIN_US);
	}
	KUNIT_EXPECT_EQ(test, kept, 0);
	KUNIT_EXPECT_EQ(test, counted_us, gain_us);
	KUNIT_EXPECT_GT(test, revoked, 150);
}

static struct kunit_case linnos_latency_model_cases[] = {
	KUNIT_CASE(linnos_test_trees_round_trip),
	KUNIT_CASE(linnos_test_trees_header),
	KUNIT_CASE(linnos_test_trees_vectors),
	KUNIT_CASE(linnos_test_trees_upload),
	KUNIT_CASE(linnos_test_trees_pieces),
	KUNIT_CASE(linnos_test_trees_memory),
	{}
};

static struct kunit_suite linnos_latency_model_suite = {
	.name = "linnos-latency-model",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_latency_model_cases,
};

static struct kunit_case linnos_latency_cases[] = {
	KUNIT_CASE(linnos_test_sees_load),
	KUNIT_CASE(linnos_test_sees_parts),
	KUNIT_CASE(linnos_test_sees_split_probe),
	KUNIT_CASE(linnos_test_sees_so_many),
	KUNIT_CASE(linnos_test_sees_since),
	KUNIT_CASE(linnos_test_sees_what_there_is),
	KUNIT_CASE(linnos_test_refuses),
	KUNIT_CASE(linnos_test_lowest),
	KUNIT_CASE(linnos_test_expects_us),
	KUNIT_CASE(linnos_test_no_choice),
	{}
};

static struct kunit_suite linnos_latency_suite = {
	.name = "linnos-latency",
	.init = linnos_latency_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_latency_cases,
};

static struct kunit_case linnos_peers_cases[] = {
	KUNIT_CASE(linnos_test_peers_named),
	KUNIT_CASE(linnos_test_peers_choice),
	KUNIT_CASE(linnos_test_peers_unknown),
	KUNIT_CASE(linnos_test_peers_stalled),
	KUNIT_CASE(linnos_test_peers_load),
	{}
};

static struct kunit_suite linnos_peers_suite = {
	.name = "linnos-peers",
	.init = linnos_peers_test_init,
	.exit = linnos_peers_test_exit,
	.test_cases = linnos_peers_cases,
};

kunit_test_suites(&linnos_latency_model_suite, &linnos_latency_suite,
		  &linnos_peers_suite);
