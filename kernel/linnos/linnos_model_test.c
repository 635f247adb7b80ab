// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of LinnOS: the model file, its upload, and the memory of a model. */
#include "linnos_test.h"

static void linnos_test_model_round_trip(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	u32 x = 0x4c494e4e;

	fill_random(fx->file, &x);
	KUNIT_ASSERT_EQ(test, LINNOS_NETWORK_BYTES, FILE_BYTES);
	KUNIT_ASSERT_EQ(test, parse(fx), LINNOS_MODEL_OK);
	KUNIT_EXPECT_EQ(test, linnos_network_store(&fx->net, fx->again),
			FILE_BYTES);
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
	static const int sizes[] = { 0, 7, 8, 63, 64, 4096, FILE_BYTES - 1 };
	struct linnos_fixture *fx = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		KUNIT_EXPECT_EQ(test,
				linnos_network_parse(&fx->net, fx->file,
						     sizes[i]),
				LINNOS_MODEL_TRUNCATED);
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		fx->file[wrong[i].at] ^= 0x10;
		KUNIT_EXPECT_EQ_MSG(test, parse(fx), wrong[i].error, "byte %d",
				    wrong[i].at);
		fx->file[wrong[i].at] ^= 0x10;
	}
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_OK);

	put_unaligned_le32(0, fx->file + 32);
	seal(fx->file);
	KUNIT_EXPECT_EQ(test, parse(fx), LINNOS_MODEL_RANGE);
}

static enum linnos_model_error parse_sealed(struct linnos_fixture *fx)
{
	seal(fx->file);
	return parse(fx);
}

/* Each sum is tested at its limit and one beyond it. */
static void linnos_test_width_limits(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	int unit;

	/* 9 * 7 + bias is exactly the maximum: digits with negative weights are 0 */
	set_hidden(fx->file, 3, 255, 7);
	set_hidden(fx->file, 4, 255, -7);
	set_hidden_bias(fx->file, 255, S16_MAX - 63);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_OK);
	set_hidden_bias(fx->file, 255, S16_MAX - 62);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);
	set_hidden_bias(fx->file, 255, S16_MIN + 63);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_OK);
	set_hidden_bias(fx->file, 255, S16_MIN + 62);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);

	/* weights of which only the low 16 bits fit, and one that the bias cancels */
	fill_file(fx->file);
	set_hidden(fx->file, 3, 255, 0x10000);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);
	set_hidden_bias(fx->file, 255, -9 * 0x10000);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);
	fill_file(fx->file);
	set_output(fx->file, 255, 1, S16_MAX + 1);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);
	set_output(fx->file, 255, 1, S16_MAX);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_OK);
	/* each output weight fits, but not their difference */
	set_output(fx->file, 255, 0, -1);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);

	/* margin: 255 * 32767 * 257 is less than 2^31, 256 * 32767 * 257 is more */
	fill_file(fx->file);
	for (unit = 0; unit < 256; unit++) {
		set_hidden(fx->file, 12, unit, 0);
		set_hidden(fx->file, 13, unit, 0);
		set_hidden_bias(fx->file, unit, unit ? S16_MAX : 0);
		set_output(fx->file, unit, 0, 257);
		set_output(fx->file, unit, 1, 0);
	}
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_OK);
	set_hidden_bias(fx->file, 0, S16_MAX);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);

	fill_file(fx->file);
	set_output_bias(fx->file, 0, (1LL << 61) - 1);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_OK);
	set_output_bias(fx->file, 0, -(1LL << 61));
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);
}

/*
 * The lower half of the margin contains the products of the first two units of a word, whose
 * sums are the largest here, with the weights of the last two.
 */
static void linnos_test_margin_lower_half(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;
	int unit;

	for (unit = 0; unit < 256; unit++) {
		bool first = unit % 4 < 2;

		set_hidden_bias(fx->file, unit, first ? 20000 : 0);
		set_output(fx->file, unit, 0, 0);
		set_output(fx->file, unit, 1, first ? 0 : 800);
	}
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_OK);
	/* 128 * 20000 * 839 reaches 2^31 */
	for (unit = 0; unit < 256; unit++)
		set_output(fx->file, unit, 1, unit % 4 < 2 ? 0 : 839);
	KUNIT_EXPECT_EQ(test, parse_sealed(fx), LINNOS_MODEL_NOT_NARROW);
}

static u32 active_id(struct linnos_fixture *fx)
{
	struct linnos_model *active;
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

	/* the model is activated with the last byte, and an upload can be restarted */
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

	/* chunks out of order, of two writers, or past the end */
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

static void linnos_test_memory(struct kunit *test)
{
	/* a model of 32 trees, as training makes them */
	size_t trees = offsetof(struct linnos_model, trees) +
		       linnos_latency_sizeof(LINNOS_FILE_HEADER +
					     32 * LINNOS_TREE_BYTES);
	size_t largest = linnos_latency_sizeof(LINNOS_LATENCY_BYTES_MAX);
	/* most of it are the products of all digits with the weights */
	size_t network = sizeof(struct linnos_model);
	size_t disk = sizeof(struct blk_linnos);
	size_t cpu = sizeof(struct linnos_stats);

	kunit_info(test, "trees %zu, network %zu, disk %zu, each CPU %zu bytes",
		   trees, network, disk, cpu);
	KUNIT_EXPECT_LE(test, trees + disk + 4 * cpu, 16 * 1024);
	KUNIT_EXPECT_LE(test, largest + disk, 32 * 1024);
	KUNIT_EXPECT_LE(test, network, 164 * 1024);
}

static struct kunit_case linnos_model_cases[] = {
	KUNIT_CASE(linnos_test_model_round_trip),
	KUNIT_CASE(linnos_test_model_header),
	KUNIT_CASE(linnos_test_width_limits),
	KUNIT_CASE(linnos_test_margin_lower_half),
	KUNIT_CASE(linnos_test_upload),
	KUNIT_CASE(linnos_test_upload_refused),
	KUNIT_CASE(linnos_test_memory),
	{}
};

static struct kunit_suite linnos_model_suite = {
	.name = "linnos-model",
	.init = linnos_test_init,
	.exit = linnos_test_exit,
	.test_cases = linnos_model_cases,
};

kunit_test_suite(linnos_model_suite);
