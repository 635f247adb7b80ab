// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LinnOS: the network, the model file, accounting, decisions
 * and uploads. No disk is involved; the lab tests do that.
 */
#include <kunit/test.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/crc32.h>
#include <linux/prandom.h>
#include <linux/unaligned.h>

#ifdef CONFIG_BLK_LINNOS_AVX2
#include <asm/fpu/api.h>
#endif

#include "blk.h"
#include "blk-linnos-policy.h"

#define SEED 0x4c696e6e4f53ULL

/* The model file's offsets, spelled out once more on purpose. */
#define FILE_BYTES 34896
#define FILE_CRC 16
#define FILE_HIDDEN_WEIGHTS 64
#define FILE_HIDDEN_BIAS (64 + 31 * 256 * 4)
#define FILE_OUTPUT_WEIGHTS (FILE_HIDDEN_BIAS + 256 * 4)
#define FILE_OUTPUT_BIAS (FILE_OUTPUT_WEIGHTS + 256 * 2 * 4)

struct linnos_fixture {
	u8 file[FILE_BYTES];
	u8 again[FILE_BYTES];
	struct linnos_model model;
	struct linnos_net net;
	struct linnos_past past;
	struct gendisk disk;
	struct blk_linnos *linnos;
};

/* The kernel's own CRC, not the engine's. */
static void seal(u8 *file)
{
	put_unaligned_le32(0, file + FILE_CRC);
	put_unaligned_le32(~crc32_le(~0, file, FILE_BYTES), file + FILE_CRC);
}

static void set_hidden(u8 *file, int input, int unit, s32 weight)
{
	put_unaligned_le32(weight, file + FILE_HIDDEN_WEIGHTS +
					   4 * (input * 256 + unit));
}

static void set_hidden_bias(u8 *file, int unit, s32 bias)
{
	put_unaligned_le32(bias, file + FILE_HIDDEN_BIAS + 4 * unit);
}

static void set_output(u8 *file, int unit, int output, s32 weight)
{
	put_unaligned_le32(weight, file + FILE_OUTPUT_WEIGHTS +
					   4 * (unit * 2 + output));
}

static void set_output_bias(u8 *file, int output, s64 bias)
{
	put_unaligned_le64(bias, file + FILE_OUTPUT_BIAS + 8 * output);
}

/*
 * A network one can check by hand: slow when 10 pages or more are pending.
 * Unit 0 passes on the tens of what is pending now, unit 1 the hundreds.
 */
static void fill_file(u8 *file)
{
	memset(file, 0, FILE_BYTES);
	memcpy(file, "LINNOSMD", 8);
	put_unaligned_le32(1, file + 8);
	put_unaligned_le32(FILE_BYTES, file + 12);
	put_unaligned_le16(31, file + 20);
	put_unaligned_le16(256, file + 22);
	put_unaligned_le16(2, file + 24);
	file[26] = 4;
	file[27] = 3;
	file[28] = 4;
	put_unaligned_le32(1000, file + 32);
	put_unaligned_le32(150, file + 36);
	set_hidden(file, 13, 0, 1000);
	set_hidden(file, 12, 1, 1000);
	set_output(file, 0, 1, 1000);
	set_output(file, 1, 1, 1000);
	set_output_bias(file, 0, 500000);
	seal(file);
}

static int linnos_test_init(struct kunit *test)
{
	struct linnos_fixture *fx =
		kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);

	if (!fx)
		return -ENOMEM;
	strscpy(fx->disk.disk_name, "testdisk", sizeof(fx->disk.disk_name));
	fill_file(fx->file);
	fx->linnos = linnos_alloc(&fx->disk);
	if (!fx->linnos)
		return -ENOMEM;
	test->priv = fx;
	return linnos_alloc_percpu(fx->linnos);
}

static void linnos_test_exit(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;

	if (!fx || !fx->linnos)
		return;
	linnos_free(fx->linnos);
}

/* Engine */

static void linnos_test_features(struct kunit *test)
{
	static const u32 pending[4] = { 1, 23, 456, 1000 };
	static const u32 latency_us[4] = { 7, 89, 12345, 9999 };
	static const u8 expected[31] = {
		0, 0, 1, 0, 2, 3, 4, 5, 6, 9, 9, 9, 0, 7, 8, 0,
		0, 0, 7, 0, 0, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9,
	};
	u8 digits[31];

	linnos_features_encode(pending, latency_us, 78, digits);
	KUNIT_EXPECT_MEMEQ(test, digits, expected, sizeof(digits));
}

static void linnos_test_infer_by_hand(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u8 digits[31] = { 0 };
	s64 out[2];

	KUNIT_ASSERT_EQ(test,
			linnos_model_parse(&fx->model, fx->file, FILE_BYTES),
			LINNOS_MODEL_OK);
	digits[14] = 9;
	KUNIT_EXPECT_FALSE(test, linnos_infer(&fx->model, digits, out));
	KUNIT_EXPECT_EQ(test, out[0], 500000);
	KUNIT_EXPECT_EQ(test, out[1], 0);
	digits[13] = 2;
	digits[12] = 3;
	KUNIT_EXPECT_TRUE(test, linnos_infer(&fx->model, digits, out));
	KUNIT_EXPECT_EQ(test, out[0], 500000);
	KUNIT_EXPECT_EQ(test, out[1], 5000000);
}

static void linnos_test_equal_outputs_are_fast(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u8 digits[31] = { 0 };
	s64 out[2];

	set_output_bias(fx->file, 1, 500000);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test,
			linnos_model_parse(&fx->model, fx->file, FILE_BYTES),
			LINNOS_MODEL_OK);
	KUNIT_EXPECT_FALSE(test, linnos_infer(&fx->model, digits, out));
	KUNIT_EXPECT_EQ(test, out[0], out[1]);
}

static void fill_random(u8 *file, struct rnd_state *rnd)
{
	int i, unit, k;

	for (unit = 0; unit < 256; unit++) {
		for (i = 0; i < 31; i++)
			set_hidden(file, i, unit,
				   (s32)(prandom_u32_state(rnd) % 8001) - 4000);
		set_hidden_bias(file, unit,
				(s32)(prandom_u32_state(rnd) % 200001) -
					100000);
		for (k = 0; k < 2; k++)
			set_output(file, unit, k,
				   (s32)(prandom_u32_state(rnd) % 8001) - 4000);
	}
	seal(file);
}

static void linnos_test_infer_random(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct rnd_state rnd;
	u8 digits[31];
	int n, i, unit;
	s64 out[2];

	prandom_seed_state(&rnd, SEED);
	fill_random(fx->file, &rnd);
	KUNIT_ASSERT_EQ(test,
			linnos_model_parse(&fx->model, fx->file, FILE_BYTES),
			LINNOS_MODEL_OK);
	for (n = 0; n < 500; n++) {
		/* straight from the file, in 64 bits throughout */
		s64 fast = (s64)get_unaligned_le64(fx->file + FILE_OUTPUT_BIAS);
		s64 slow = (s64)get_unaligned_le64(fx->file + FILE_OUTPUT_BIAS +
						   8);

		for (i = 0; i < 31; i++)
			digits[i] = prandom_u32_state(&rnd) % 10;
		for (unit = 0; unit < 256; unit++) {
			const u8 *w = fx->file + FILE_HIDDEN_WEIGHTS + 4 * unit;
			const u8 *v = fx->file + FILE_OUTPUT_WEIGHTS + 8 * unit;
			const u8 *b = fx->file + FILE_HIDDEN_BIAS + 4 * unit;
			s64 sum = (s32)get_unaligned_le32(b);

			for (i = 0; i < 31; i++, w += 4 * 256)
				sum += (s64)(s32)get_unaligned_le32(w) *
				       digits[i];
			if (sum < 0)
				sum = 0;
			fast += sum * (s32)get_unaligned_le32(v);
			slow += sum * (s32)get_unaligned_le32(v + 4);
		}
		KUNIT_ASSERT_EQ(test, linnos_infer(&fx->model, digits, out),
				slow > fast);
		KUNIT_ASSERT_EQ(test, out[0], fast);
		KUNIT_ASSERT_EQ(test, out[1], slow);
	}
}

static u32 xorshift32(u32 *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

/*
 * The same vectors for every implementation, also outside the kernel: a
 * xorshift32 stream from 0x4c494e4e makes the model, field by field in the
 * order of its file, each value x % 4001 - 2000, and then the digits, x % 10.
 * The line in the log is compared with what the others get: the CRC-32 of all
 * output pairs as little-endian 64-bit integers.
 */
#define VECTORS 100000

static void expect_fast_engines_agree(struct kunit *test, const u8 *digits,
				      const s64 *out)
{
	struct linnos_fixture *fx = test->priv;
	u32 pending = 100 * digits[12] + 10 * digits[13] + digits[14];
	s64 outputs[2];

	linnos_history_scalar(&fx->net, digits, &fx->past);
	KUNIT_ASSERT_EQ(test, out[1] - out[0],
			linnos_margin_scalar(&fx->net, &fx->past, pending));
	linnos_net_outputs(&fx->net, &fx->past, pending, outputs);
	KUNIT_ASSERT_EQ(test, outputs[0], out[0]);
	KUNIT_ASSERT_EQ(test, outputs[1], out[1]);
#ifdef CONFIG_BLK_LINNOS_AVX2
	if (!strcmp(linnos_engine_name(), "avx2")) {
		s64 margin;

		memset(&fx->past, 0x55, sizeof(fx->past));
		kernel_fpu_begin();
		linnos_history_avx2(&fx->net, digits, &fx->past);
		margin = linnos_margin_avx2(&fx->net, &fx->past, pending);
		kernel_fpu_end();
		KUNIT_ASSERT_EQ(test, out[1] - out[0], margin);
	}
#endif
}

static void linnos_test_vectors(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e, crc = ~0, n, slow = 0;
	int i, unit, k;

	for (i = 0; i < 31; i++)
		for (unit = 0; unit < 256; unit++)
			set_hidden(fx->file, i, unit,
				   (s32)(xorshift32(&x) % 4001) - 2000);
	for (unit = 0; unit < 256; unit++)
		set_hidden_bias(fx->file, unit,
				(s32)(xorshift32(&x) % 4001) - 2000);
	for (unit = 0; unit < 256; unit++)
		for (k = 0; k < 2; k++)
			set_output(fx->file, unit, k,
				   (s32)(xorshift32(&x) % 4001) - 2000);
	for (k = 0; k < 2; k++)
		set_output_bias(fx->file, k,
				(s32)(xorshift32(&x) % 4001) - 2000);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test,
			linnos_model_parse(&fx->model, fx->file, FILE_BYTES),
			LINNOS_MODEL_OK);

	KUNIT_ASSERT_TRUE(test, linnos_net_pack(&fx->net, &fx->model));
	for (n = 0; n < VECTORS; n++) {
		u8 digits[31];
		__le64 pair[2];
		s64 out[2];

		for (i = 0; i < 31; i++)
			digits[i] = xorshift32(&x) % 10;
		slow += linnos_infer(&fx->model, digits, out);
		expect_fast_engines_agree(test, digits, out);
		pair[0] = cpu_to_le64(out[0]);
		pair[1] = cpu_to_le64(out[1]);
		crc = crc32_le(crc, (u8 *)pair, sizeof(pair));
	}
	pr_info("linnos_vectors: n=%u crc32=%08x slow=%u\n", n, ~crc, slow);
	KUNIT_EXPECT_EQ(test, n, VECTORS);
}

/*
 * Sums up to the first and last value of 16 bits: the fast engines compute such
 * a model in another way than one that goes further by one.
 */
static void linnos_test_narrow(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e, n;
	int beyond, i, unit, k;

	for (beyond = 0; beyond < 2; beyond++) {
		for (i = 0; i < 31; i++) {
			for (unit = 0; unit < 256; unit++)
				set_hidden(fx->file, i, unit,
					   (s32)(xorshift32(&x) % 201) - 100);
			set_hidden(fx->file, i, 8, 100);
			set_hidden(fx->file, i, 9, -100);
		}
		for (unit = 0; unit < 256; unit++) {
			set_hidden_bias(fx->file, unit,
					(s32)(xorshift32(&x) % 4001) - 2000);
			for (k = 0; k < 2; k++)
				set_output(fx->file, unit, k,
					   (s32)(xorshift32(&x) % 201) - 100);
		}
		/* 31 nines by 100 are 27900 */
		set_hidden_bias(fx->file, 8, 32767 - 27900 + beyond);
		set_hidden_bias(fx->file, 9, -32768 + 27900);
		seal(fx->file);
		KUNIT_ASSERT_EQ(test,
				linnos_model_parse(&fx->model, fx->file,
						   FILE_BYTES),
				LINNOS_MODEL_OK);
		KUNIT_ASSERT_TRUE(test, linnos_net_pack(&fx->net, &fx->model));
		KUNIT_EXPECT_EQ(test, fx->net.narrow, !beyond);
		for (n = 0; n < 10000; n++) {
			u8 digits[31];
			s64 out[2];

			for (i = 0; i < 31; i++)
				digits[i] = xorshift32(&x) % 10;
			/* all zero, all nine, and mostly zero as real ones */
			for (i = 0; n % 2 && i < 31; i++)
				digits[i] *= xorshift32(&x) % 2;
			if (n < 2)
				memset(digits, n ? 9 : 0, sizeof(digits));
			linnos_infer(&fx->model, digits, out);
			expect_fast_engines_agree(test, digits, out);
		}
	}
}

static struct kunit_case linnos_engine_cases[] = {
	KUNIT_CASE(linnos_test_features),
	KUNIT_CASE(linnos_test_infer_by_hand),
	KUNIT_CASE(linnos_test_equal_outputs_are_fast),
	KUNIT_CASE(linnos_test_infer_random),
	KUNIT_CASE(linnos_test_vectors),
	KUNIT_CASE(linnos_test_narrow),
	{}
};

static struct kunit_suite linnos_engine_suite = {
	.name = "linnos-engine",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_engine_cases,
};

/* Model file */

static enum linnos_model_error parse(struct linnos_fixture *fx)
{
	return linnos_model_parse(&fx->model, fx->file, FILE_BYTES);
}

static void linnos_test_model_round_trip(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, SEED);
	fill_random(fx->file, &rnd);
	KUNIT_ASSERT_EQ(test, LINNOS_MODEL_BYTES, FILE_BYTES);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	KUNIT_EXPECT_EQ(test, fx->model.threshold_us, 150);
	linnos_model_store(&fx->model, fx->again);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, FILE_BYTES);
}

static void linnos_test_model_header(struct kunit *test)
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
		{ 22, LINNOS_MODEL_SHAPE },
		{ 24, LINNOS_MODEL_SHAPE },
		{ 26, LINNOS_MODEL_SHAPE },
		{ 27, LINNOS_MODEL_SHAPE },
		{ 28, LINNOS_MODEL_SHAPE },
		{ 29, LINNOS_MODEL_RESERVED },
		{ 31, LINNOS_MODEL_RESERVED },
		{ 33, LINNOS_MODEL_CRC },
		{ 36, LINNOS_MODEL_CRC },
		{ 40, LINNOS_MODEL_RESERVED },
		{ 63, LINNOS_MODEL_RESERVED },
		{ 64, LINNOS_MODEL_CRC },
		{ FILE_BYTES - 1, LINNOS_MODEL_CRC },
	};
	struct linnos_fixture *fx = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		fx->file[wrong[i].at] ^= 0x10;
		KUNIT_EXPECT_EQ_MSG(test, parse(fx), wrong[i].error, "byte %d",
				    wrong[i].at);
		fx->file[wrong[i].at] ^= 0x10;
	}
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OK);

	put_unaligned_le32(0, fx->file + 32);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_SCALE);
}

static void linnos_test_model_size(struct kunit *test)
{
	static const int sizes[] = { 0, 7, 8, 63, 64, 4096, FILE_BYTES - 1 };
	struct linnos_fixture *fx = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		KUNIT_EXPECT_EQ(test,
				linnos_model_parse(&fx->model, fx->file,
						   sizes[i]),
				LINNOS_MODEL_TRUNCATED);
}

static void linnos_test_hidden_range(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u8 digits[31];
	s64 out[2];

	/* 9 * 7 + bias is exactly the largest, with digits that do not help */
	set_hidden(fx->file, 3, 255, 7);
	set_hidden(fx->file, 4, 255, -7);
	set_hidden_bias(fx->file, 255, S32_MAX - 63);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	set_hidden_bias(fx->file, 255, S32_MAX - 62);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_HIDDEN_RANGE);
	set_hidden_bias(fx->file, 255, S32_MIN + 63);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	set_hidden_bias(fx->file, 255, S32_MIN + 62);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_HIDDEN_RANGE);

	/* a product beyond 32 bits that the bias brings back into range */
	set_hidden(fx->file, 4, 255, 0);
	set_hidden(fx->file, 3, 255, 400000000);
	set_hidden_bias(fx->file, 255, S32_MIN);
	set_output(fx->file, 255, 0, 1);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	memset(digits, 0, sizeof(digits));
	digits[3] = 9;
	linnos_infer(&fx->model, digits, out);
	KUNIT_EXPECT_EQ(test, out[0], 500000 + 3600000000LL + S32_MIN);
}

static void linnos_test_output_range(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	s64 largest;

	/* unit 7 reaches 9 * 1000 */
	set_hidden(fx->file, 0, 7, 1000);
	set_output(fx->file, 7, 0, S32_MAX);
	largest = 9000LL * S32_MAX;
	set_output_bias(fx->file, 0, S64_MAX - largest);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	set_output_bias(fx->file, 0, S64_MAX - largest + 1);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OUTPUT_RANGE);
	set_output(fx->file, 7, 0, S32_MIN);
	set_output_bias(fx->file, 0, S64_MIN + 9000LL * -(s64)S32_MIN - 1);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OUTPUT_RANGE);
}

static int put_chunk(struct linnos_fixture *fx, const void *writer,
		     const void *chunk, size_t at, size_t bytes)
{
	int ret;

	mutex_lock(&fx->linnos->lock);
	ret = linnos_upload_chunk(fx->linnos, writer, chunk, at, bytes);
	mutex_unlock(&fx->linnos->lock);
	return ret;
}

/* Write @fx->file as sysfs would, in pages. */
static int upload(struct linnos_fixture *fx, size_t bytes)
{
	size_t at;
	int ret = 0;

	for (at = 0; at < bytes && !ret; at += PAGE_SIZE)
		ret = put_chunk(fx, fx, fx->file + at, at,
				min_t(size_t, PAGE_SIZE, bytes - at));
	return ret;
}

static u32 active_id(struct linnos_fixture *fx)
{
	struct linnos_active_model *active;
	u32 id;

	rcu_read_lock();
	active = rcu_dereference(fx->linnos->model);
	id = active ? active->id : 0;
	rcu_read_unlock();
	return id;
}

static void linnos_test_upload(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 first, second;

	KUNIT_EXPECT_EQ(test, upload(fx, FILE_BYTES), 0);
	first = get_unaligned_le32(fx->file + FILE_CRC);
	KUNIT_EXPECT_EQ(test, active_id(fx), first);
	KUNIT_EXPECT_EQ(test, fx->linnos->threshold_us, 150);

	/* nothing happens before the last byte, and a restart is fine */
	set_output_bias(fx->file, 0, 700000);
	seal(fx->file);
	second = get_unaligned_le32(fx->file + FILE_CRC);
	KUNIT_EXPECT_EQ(test, upload(fx, 8 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, active_id(fx), first);
	KUNIT_EXPECT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_EQ(test, active_id(fx), second);
}

static void linnos_test_upload_refused(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 id;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	id = active_id(fx);

	KUNIT_EXPECT_EQ(test, upload(fx, FILE_BYTES - 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, upload(fx, 10), -EINVAL);

	fx->file[FILE_BYTES - 1] ^= 1;
	KUNIT_EXPECT_EQ(test, upload(fx, FILE_BYTES), -EINVAL);
	fx->file[FILE_BYTES - 1] ^= 1;

	/* pieces out of order, of two writers, or past the end */
	KUNIT_EXPECT_EQ(test,
			put_chunk(fx, fx, fx->file + PAGE_SIZE, PAGE_SIZE,
				  PAGE_SIZE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, upload(fx, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test,
			put_chunk(fx, test, fx->file + PAGE_SIZE, PAGE_SIZE,
				  PAGE_SIZE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, upload(fx, 8 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test,
			put_chunk(fx, fx, fx->file, 8 * PAGE_SIZE, PAGE_SIZE),
			-EINVAL);

	KUNIT_EXPECT_EQ(test, active_id(fx), id);
}

/* Accounting */

struct linnos_io {
	struct bio bio;
	struct bio_linnos io;
	u64 start_ns;
};

/* A read or write arrives, has its request and is issued, all at once. */
static bool arrive(struct linnos_fixture *fx, struct linnos_io *io,
		   enum req_op op, unsigned int bytes, bool latcrit, u64 now_ns)
{
	bool asks = latcrit && op == REQ_OP_READ;

	bio_init(&io->bio, NULL, NULL, 0, op);
	io->bio.bi_iter.bi_size = bytes;
	io->start_ns = now_ns;
	if (asks && !linnos_decide(fx->linnos, &io->bio, now_ns))
		return false;
	linnos_arrive(fx->linnos, &io->bio);
	linnos_start(fx->linnos, &io->bio, now_ns);
	io->io = linnos_unpack(&io->bio);
	return true;
}

static void complete_io(struct linnos_fixture *fx, struct linnos_io *io,
			blk_status_t status, u64 now_ns)
{
	if (!status)
		linnos_served(fx->linnos, &io->bio, now_ns - io->start_ns,
			      now_ns);
	linnos_end(fx->linnos, &io->bio, status);
}

static void linnos_test_pending(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io a, b, c;

	fx->linnos->mode = LINNOS_OBSERVE;
	KUNIT_EXPECT_TRUE(test, arrive(fx, &a, REQ_OP_READ, 512, false, 0));
	KUNIT_EXPECT_EQ(test, a.io.pending, 1);
	KUNIT_EXPECT_TRUE(test, arrive(fx, &b, REQ_OP_WRITE, 4097, false, 0));
	KUNIT_EXPECT_EQ(test, b.io.pending, 3);
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
		{ 1, LINNOS_VERDICT_NONE, 1, false, false, LINNOS_NOT_SERVED },
		{ 16383, LINNOS_VERDICT_FAST, 0, true, false, 0 },
		{ 1000, LINNOS_VERDICT_SLOW, 1 << 20, false, false, 90 },
		{ 2, LINNOS_VERDICT_PROBE, 256, false, true,
		  LINNOS_SERVED_MAX },
	};
	struct bio_linnos io;
	struct bio bio;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		linnos_pack(&bio, &cases[i]);
		io = linnos_unpack(&bio);
		KUNIT_EXPECT_EQ(test, io.pending, cases[i].pending);
		KUNIT_EXPECT_EQ(test, io.verdict, cases[i].verdict);
		KUNIT_EXPECT_EQ(test, io.pages, cases[i].pages);
		KUNIT_EXPECT_EQ(test, io.decided, cases[i].decided);
		KUNIT_EXPECT_EQ(test, io.part, cases[i].part);
		KUNIT_EXPECT_EQ(test, io.served_us, cases[i].served_us);
	}

	/* more than fits is as much as fits, and touches nothing else */
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
	struct linnos_history *h = &fx->linnos->history;
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
	KUNIT_EXPECT_EQ(test, h->pending[3], 16);
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
	struct linnos_history *h = &fx->linnos->history;
	struct bio whole, part[2];
	int i;

	fx->linnos->mode = LINNOS_OBSERVE;
	bio_init(&whole, NULL, NULL, 0, REQ_OP_READ);
	whole.bi_iter.bi_size = 65536;
	linnos_arrive(fx->linnos, &whole);
	for (i = 0; i < 2; i++) {
		bio_init(&part[i], NULL, NULL, 0, REQ_OP_READ);
		part[i].bi_iter.bi_size = 16384;
		part[i].bi_private = &whole;
		part[i].bi_end_io = bio_chain_endio;
		linnos_start(fx->linnos, &part[i], 0);
		KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos),
				4 * (i + 1));
	}
	whole.bi_iter.bi_size = 32768;
	linnos_start(fx->linnos, &whole, 0);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 16);

	linnos_served(fx->linnos, &whole, latency_ns[0], 0);
	for (i = 0; i < 2; i++) {
		linnos_served(fx->linnos, &part[i], latency_ns[i + 1], 0);
		linnos_end(fx->linnos, &part[i], BLK_STS_OK);
	}
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 8);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 0);
	linnos_end(fx->linnos, &whole, BLK_STS_OK);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 0);
	KUNIT_EXPECT_EQ(test, h->latency_us[3], 300);
	KUNIT_EXPECT_EQ(test, h->pending[3], 16);
	KUNIT_EXPECT_EQ(test, h->latency_us[2], 0);
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
	struct linnos_io io[5], other;
	int i;

	h = &fx->linnos->history;
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

static struct kunit_case linnos_accounting_cases[] = {
	KUNIT_CASE(linnos_test_pending), KUNIT_CASE(linnos_test_largest_bio),
	KUNIT_CASE(linnos_test_pack),	 KUNIT_CASE(linnos_test_what_counts),
	KUNIT_CASE(linnos_test_history), KUNIT_CASE(linnos_test_held_back),
	KUNIT_CASE(linnos_test_parts),	 {}
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

static void linnos_test_probe_again_when_fast(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io probe, io;
	int i;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_ENFORCE;
	fx->linnos->probe_after_us = 0;
	fx->linnos->probe_after_revokes = 3;
	fx->linnos->probe_backoff = 2;

	KUNIT_EXPECT_EQ(test, admitted_of(fx, 12, &probe), 0);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, admitted_of(fx, 5, &probe), 1);
		complete_io(fx, &probe, BLK_STS_OK, 150999);
	}
	KUNIT_EXPECT_EQ(test, linnos_stat(fx->linnos, LINNOS_STAT_PROBES), 4);

	/* once the network says fast, a later slow must be stale again */
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, 4096, true, 0));
	complete_io(fx, &io, BLK_STS_OK, 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 3, &probe), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);

	/* an error is no sign of health, the next read is to find out */
	complete_io(fx, &probe, BLK_STS_IOERR, 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 2, &probe), 1);
	complete_io(fx, &probe, BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 6, &probe), 0);
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
		KUNIT_EXPECT_EQ(test, (int)fx->linnos->probe_backoff, 0);
		KUNIT_EXPECT_FALSE(test, fx->linnos->probe_again);
	}
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	complete_io(fx, &probe, BLK_STS_OK, 151000);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 6, &probe), 0);
	KUNIT_EXPECT_EQ(test, admitted_of(fx, 1, &probe), 1);
	KUNIT_EXPECT_EQ(test, linnos_pending_pages(fx->linnos), 10);
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

static struct kunit_case linnos_admission_cases[] = {
	KUNIT_CASE(linnos_test_no_model),
	KUNIT_CASE(linnos_test_enforce),
	KUNIT_CASE(linnos_test_observe),
	KUNIT_CASE(linnos_test_probe_after_revokes),
	KUNIT_CASE(linnos_test_probe_again_when_fast),
	KUNIT_CASE(linnos_test_probe_without_verdict),
	KUNIT_CASE(linnos_test_probe_after_time),
	KUNIT_CASE(linnos_test_stall),
	{}
};

static struct kunit_suite linnos_admission_suite = {
	.name = "linnos-admission",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_admission_cases,
};

/* The model in use */

static void read_back(struct linnos_fixture *fx)
{
	mutex_lock(&fx->linnos->lock);
	linnos_active_store(rcu_dereference_protected(fx->linnos->model, true),
			    fx->again, &fx->model);
	mutex_unlock(&fx->linnos->lock);
}

static bool is_packed(struct linnos_fixture *fx)
{
	bool packed;

	rcu_read_lock();
	packed = !rcu_dereference(fx->linnos->model)->wide;
	rcu_read_unlock();
	return packed;
}

/* Weights that do not fit 16 bits: not packed, and otherwise no different. */
static void linnos_test_wide_model(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_io io;

	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_TRUE(test, is_packed(fx));
	read_back(fx);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, FILE_BYTES);

	set_hidden(fx->file, 13, 0, 40000);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	KUNIT_EXPECT_FALSE(test, is_packed(fx));
	read_back(fx);
	KUNIT_EXPECT_MEMEQ(test, fx->file, fx->again, FILE_BYTES);

	fx->linnos->mode = LINNOS_ENFORCE;
	KUNIT_EXPECT_TRUE(test, arrive(fx, &io, REQ_OP_READ, SLOW_BYTES - 4096,
				       true, 0));
	complete_io(fx, &io, BLK_STS_OK, 0);
	KUNIT_EXPECT_FALSE(test,
			   arrive(fx, &io, REQ_OP_READ, SLOW_BYTES, true, 0));
}

/*
 * Decisions with shares of the history prepared and remembered, against the
 * reference engine, over a random load.
 */
static void linnos_test_decisions(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	static const u32 usual_pending[4] = { 100, 90, 110, 100 };
	static const u32 usual_latency_us[4] = { 800, 1200, 1500, 700 };
	struct linnos_io *io;
	struct rnd_state rnd;
	u8 digits[31];
	s64 out[2];
	int n, depth = 0, slow = 0;
	u64 now_ns = 0;

	io = kunit_kcalloc(test, 16, sizeof(*io), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, io);
	prandom_seed_state(&rnd, SEED);
	/* undecided about a read in the middle of the load below */
	fill_random(fx->file, &rnd);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	linnos_features_encode(usual_pending, usual_latency_us, 100, digits);
	linnos_infer(&fx->model, digits, out);
	set_output_bias(fx->file, 0,
			fx->model.output_bias[0] + out[1] - out[0]);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	KUNIT_ASSERT_EQ(test, upload(fx, FILE_BYTES), 0);
	fx->linnos->mode = LINNOS_OBSERVE;

	for (n = 0; n < 5000; n++) {
		now_ns += prandom_u32_state(&rnd) % 200000;
		if (depth < 16 && prandom_u32_state(&rnd) % 2) {
			u32 bytes = 512 * (1 + prandom_u32_state(&rnd) % 200);
			struct linnos_history *h = &fx->linnos->history;
			struct linnos_io *new = &io[depth++];

			arrive(fx, new, REQ_OP_READ, bytes, true, now_ns);
			linnos_features_encode(h->pending, h->latency_us,
					       new->io.pending, digits);
			slow += linnos_infer(&fx->model, digits, out);
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
	KUNIT_EXPECT_LT(test, slow, 2400);
}

static void linnos_test_memory(struct kunit *test)
{
	size_t model = PAGE_ALIGN(sizeof(struct linnos_active_model));
	size_t disk = sizeof(struct blk_linnos);
	size_t cpu =
		sizeof(struct linnos_prepared) + sizeof(struct linnos_stats);

	kunit_info(test, "model %zu, disk %zu, each CPU %zu bytes", model, disk,
		   cpu);
	KUNIT_EXPECT_LE(test, model + disk + 4 * cpu, 28 * 1024);
}

static struct kunit_case linnos_model_cases[] = {
	KUNIT_CASE(linnos_test_model_round_trip),
	KUNIT_CASE(linnos_test_model_header),
	KUNIT_CASE(linnos_test_model_size),
	KUNIT_CASE(linnos_test_hidden_range),
	KUNIT_CASE(linnos_test_output_range),
	KUNIT_CASE(linnos_test_upload),
	KUNIT_CASE(linnos_test_upload_refused),
	KUNIT_CASE(linnos_test_wide_model),
	KUNIT_CASE(linnos_test_decisions),
	KUNIT_CASE(linnos_test_memory),
	{}
};

static struct kunit_suite linnos_model_suite = {
	.name = "linnos-model",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_model_cases,
};

kunit_test_suites(&linnos_engine_suite, &linnos_model_suite,
		  &linnos_accounting_suite, &linnos_admission_suite);
