// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LinnOS: the network, by all of its engines.
 */
#include "linnos_test.h"

#ifdef CONFIG_BLK_LINNOS_AVX2
#include <asm/fpu/api.h>
#endif

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

kunit_test_suite(linnos_engine_suite);
