// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of LinnOS: the network. */
#include "linnos_test.h"

/* Check the margin and both outputs against those computed from the file. */
static bool infer(struct kunit *test, const u8 *digits, s64 *out)
{
	struct linnos_fixture *fx = test->priv;
	struct linnos_hidden hidden;
	s64 expected[2], margin;

	memset(&hidden, 0x55, sizeof(hidden));
	linnos_hidden_layer(&fx->net, digits, &hidden);
	margin = linnos_margin(&fx->net, &hidden);
	linnos_outputs(&fx->net, &hidden, out);
	infer_from_file(fx->file, digits, expected);
	KUNIT_ASSERT_EQ(test, out[0], expected[0]);
	KUNIT_ASSERT_EQ(test, out[1], expected[1]);
	KUNIT_ASSERT_EQ(test, margin, expected[1] - expected[0]);
	return margin > 0;
}

static void linnos_test_known_outputs(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u8 digits[31] = { 0 };
	s64 out[2];

	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	digits[14] = 9;
	KUNIT_EXPECT_FALSE(test, infer(test, digits, out));
	KUNIT_EXPECT_EQ(test, out[0], 500000);
	KUNIT_EXPECT_EQ(test, out[1], 0);
	digits[13] = 2;
	digits[12] = 3;
	KUNIT_EXPECT_TRUE(test, infer(test, digits, out));
	KUNIT_EXPECT_EQ(test, out[0], 500000);
	KUNIT_EXPECT_EQ(test, out[1], 5000000);

	/* a read with equal outputs is fast */
	set_output_bias(fx->file, 1, 500000 - 5000000);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	KUNIT_EXPECT_FALSE(test, infer(test, digits, out));
	KUNIT_EXPECT_EQ(test, out[0], out[1]);
}

/*
 * The same vectors for every implementation, also outside the kernel: a xorshift32 stream that
 * starts with 0x4c494e4e generates the model and then the digits, x % 10. The line in the log is
 * compared with the results of the others: the CRC-32 of all output pairs as little-endian
 * 64-bit integers.
 */
#define VECTORS 100000

static void linnos_test_vectors(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e, crc = ~0, n, slow = 0;
	int i;

	fill_random(fx->file, &x);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	for (n = 0; n < VECTORS; n++) {
		u8 digits[31];
		__le64 pair[2];
		s64 out[2];

		for (i = 0; i < 31; i++)
			digits[i] = xorshift32(&x) % 10;
		slow += infer(test, digits, out);
		pair[0] = cpu_to_le64(out[0]);
		pair[1] = cpu_to_le64(out[1]);
		crc = crc32_le(crc, (u8 *)pair, sizeof(pair));
	}
	pr_info("linnos_vectors: n=%u crc32=%08x slow=%u\n", n, ~crc, slow);
	KUNIT_EXPECT_EQ(test, n, VECTORS);
}

/* Hidden sums up to the smallest and the largest value of 16 bits. */
static void linnos_test_extreme_sums(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e, n;
	int i;

	fill_random(fx->file, &x);
	for (i = 0; i < 31; i++) {
		set_hidden(fx->file, i, 8, 100);
		set_hidden(fx->file, i, 9, -100);
	}
	/* 31 * 9 * 100 = 27900 */
	set_hidden_bias(fx->file, 8, 32767 - 27900);
	set_hidden_bias(fx->file, 9, -32768 + 27900);
	seal(fx->file);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	for (n = 0; n < 10000; n++) {
		u8 digits[31];
		s64 out[2];

		for (i = 0; i < 31; i++)
			digits[i] = xorshift32(&x) % 10;
		/* digits that are all 0, all 9, and mostly 0 as in practice */
		for (i = 0; n % 2 && i < 31; i++)
			digits[i] *= xorshift32(&x) % 2;
		if (n < 2)
			memset(digits, n ? 9 : 0, sizeof(digits));
		infer(test, digits, out);
	}
}

static struct kunit_case linnos_network_cases[] = {
	KUNIT_CASE(linnos_test_known_outputs),
	KUNIT_CASE(linnos_test_vectors),
	KUNIT_CASE(linnos_test_extreme_sums),
	{}
};

static struct kunit_suite linnos_network_suite = {
	.name = "linnos-network",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_network_cases,
};

kunit_test_suite(linnos_network_suite);
