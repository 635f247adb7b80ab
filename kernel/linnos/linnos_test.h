/* SPDX-License-Identifier: GPL-2.0-only */
/* Code that the KUnit tests of LinnOS share: a model file, and a policy without a real disk. */
#ifndef _LINNOS_TEST_H
#define _LINNOS_TEST_H

#include <kunit/test.h>
#include <linux/bio.h>
#include <linux/blk-linnos-array.h>
#include <linux/blkdev.h>
#include <linux/crc32.h>
#include <linux/prandom.h>
#include <linux/unaligned.h>

#include "blk-linnos.h"
#include "blk-linnos-latcrit.h"
#include "blk-linnos-policy.h"
#include "blk-linnos-query.h"

#define SEED 0x4c696e6e4f53ULL

/* The offsets of the model file. They are defined again, to detect changes of the format. */
#define FILE_BYTES 34896
#define FILE_CRC 16
#define FILE_HIDDEN_WEIGHTS 64
#define FILE_HIDDEN_BIAS (64 + 31 * 256 * 4)
#define FILE_OUTPUT_WEIGHTS (FILE_HIDDEN_BIAS + 256 * 4)
#define FILE_OUTPUT_BIAS (FILE_OUTPUT_WEIGHTS + 256 * 2 * 4)

struct linnos_fixture {
	u8 file[FILE_BYTES];
	u8 again[FILE_BYTES];
	struct linnos_net net;
	struct request_queue queue;
	struct gendisk disk;
	struct blk_linnos *linnos;
};

/* Compute the CRC of a file without the code under test. */
static inline void seal(u8 *file)
{
	put_unaligned_le32(0, file + FILE_CRC);
	put_unaligned_le32(~crc32_le(~0, file, FILE_BYTES), file + FILE_CRC);
}

static inline void set_hidden(u8 *file, int input, int unit, s32 weight)
{
	put_unaligned_le32(weight, file + FILE_HIDDEN_WEIGHTS +
					   4 * (input * 256 + unit));
}

static inline void set_hidden_bias(u8 *file, int unit, s32 bias)
{
	put_unaligned_le32(bias, file + FILE_HIDDEN_BIAS + 4 * unit);
}

static inline void set_output(u8 *file, int unit, int output, s32 weight)
{
	put_unaligned_le32(weight, file + FILE_OUTPUT_WEIGHTS +
					   4 * (unit * 2 + output));
}

static inline void set_output_bias(u8 *file, int output, s64 bias)
{
	put_unaligned_le64(bias, file + FILE_OUTPUT_BIAS + 8 * output);
}

/*
 * Write a network that can be checked by hand: it predicts slow if 10 or more pages are pending.
 * Unit 0 passes on the tens digit of the pages pending now, unit 1 the hundreds digit.
 */
static inline void fill_file(u8 *file)
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

static inline int linnos_test_init(struct kunit *test)
{
	struct linnos_fixture *fx =
		kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);

	if (!fx)
		return -ENOMEM;
	strscpy(fx->disk.disk_name, "testdisk", sizeof(fx->disk.disk_name));
	fx->queue.limits.max_sectors = UINT_MAX;
	fx->disk.queue = &fx->queue;
	fill_file(fx->file);
	fx->linnos = linnos_alloc(&fx->disk);
	if (!fx->linnos)
		return -ENOMEM;
	/* each slow read is also late */
	fx->linnos->failover_us = 0;
	test->priv = fx;
	return linnos_alloc_stats(fx->linnos);
}

static inline void linnos_test_exit(struct kunit *test)
{
	struct linnos_fixture *fx = test->priv;

	if (!fx || !fx->linnos)
		return;
	linnos_free(fx->linnos);
}

static inline u32 xorshift32(u32 *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

/*
 * Write random weights up to 100 and biases up to 2000, in the order of the file. With
 * 31 digits of 9, the sum is at most 31 * 9 * 100 + 2000 = 29900.
 */
static inline void fill_random(u8 *file, u32 *x)
{
	int i, unit, k;

	for (i = 0; i < 31; i++)
		for (unit = 0; unit < 256; unit++)
			set_hidden(file, i, unit,
				   (s32)(xorshift32(x) % 201) - 100);
	for (unit = 0; unit < 256; unit++)
		set_hidden_bias(file, unit, (s32)(xorshift32(x) % 4001) - 2000);
	for (unit = 0; unit < 256; unit++)
		for (k = 0; k < 2; k++)
			set_output(file, unit, k,
				   (s32)(xorshift32(x) % 201) - 100);
	for (k = 0; k < 2; k++)
		set_output_bias(file, k, (s32)(xorshift32(x) % 4001) - 2000);
	seal(file);
}

/* Compute the outputs from the file, in 64 bits. Return true if the prediction is slow. */
static inline bool infer_from_file(const u8 *file, const u8 *digits, s64 *out)
{
	int i, unit, k;

	for (k = 0; k < 2; k++)
		out[k] = get_unaligned_le64(file + FILE_OUTPUT_BIAS + 8 * k);
	for (unit = 0; unit < 256; unit++) {
		const u8 *w = file + FILE_HIDDEN_WEIGHTS + 4 * unit;
		const u8 *v = file + FILE_OUTPUT_WEIGHTS + 8 * unit;
		const u8 *b = file + FILE_HIDDEN_BIAS + 4 * unit;
		s64 sum = (s32)get_unaligned_le32(b);

		for (i = 0; i < 31; i++, w += 4 * 256)
			sum += (s64)(s32)get_unaligned_le32(w) * digits[i];
		for (k = 0; k < 2 && sum > 0; k++)
			out[k] += sum * (s32)get_unaligned_le32(v + 4 * k);
	}
	return out[1] > out[0];
}

static inline enum linnos_model_error parse(struct linnos_fixture *fx)
{
	return linnos_network_parse(&fx->net, fx->file, FILE_BYTES);
}

static inline int put_chunk(struct linnos_fixture *fx, const void *writer,
			    const void *chunk, size_t at, size_t bytes)
{
	int ret;

	mutex_lock(&fx->linnos->lock);
	ret = linnos_upload_chunk(fx->linnos, writer, chunk, at, bytes);
	mutex_unlock(&fx->linnos->lock);
	return ret;
}

/* Write @fx->file in chunks of a page, as sysfs does. */
static inline int upload(struct linnos_fixture *fx, size_t bytes)
{
	size_t at;
	int ret = 0;

	for (at = 0; at < bytes && !ret; at += PAGE_SIZE)
		ret = put_chunk(fx, fx, fx->file + at, at,
				min_t(size_t, PAGE_SIZE, bytes - at));
	return ret;
}

#define HINTED_READ (REQ_OP_READ | REQ_LATCRIT)

/* A bio and its request. */
struct sent {
	struct request rq;
	struct bio bio;
};

static inline struct linnos_io *io_of(struct sent *sent)
{
	return (struct linnos_io *)sent->rq.linnos;
}

/* Allocate the request of a bio, and issue it at once. */
static inline void get_request(struct blk_linnos *linnos, struct sent *sent,
			       u64 now_ns)
{
	struct linnos_io *io = io_of(sent);

	blk_linnos_ops.track(&linnos->rqos, &sent->rq, &sent->bio);
	/* use the time of the test, not the real clock */
	if (io->flags & LINNOS_IO_COUNTED && io->start_slot)
		linnos->drive.start_slots.start_ns[io->start_slot - 1] = now_ns;
	linnos_io_issue(io, now_ns);
}

/* Send a bio. Return false if it is refused, which only happens with %REQ_LATCRIT. */
static inline bool send(struct blk_linnos *linnos, struct sent *sent,
			blk_opf_t opf, unsigned int bytes, u64 now_ns)
{
	memset(sent, 0, sizeof(*sent));
	bio_init(&sent->bio, NULL, NULL, 0, opf);
	sent->bio.bi_iter.bi_size = bytes;
	if (opf & REQ_LATCRIT &&
	    !linnos_decide_read(linnos, &sent->bio, now_ns))
		return false;
	get_request(linnos, sent, now_ns);
	return true;
}

static inline void answer(struct blk_linnos *linnos, struct sent *sent,
			  blk_status_t status, u64 now_ns)
{
	__blk_linnos_answer(&sent->rq, status);
	linnos_request_done(linnos, io_of(sent), now_ns);
}

/* Complete @n reads without the hint, one after the other, each after @us. */
static inline void complete_reads(struct blk_linnos *linnos, int n, u32 us,
				  u64 end_ns)
{
	struct sent sent;

	while (n--) {
		send(linnos, &sent, REQ_OP_READ, 4096, end_ns - us * 1000ULL);
		answer(linnos, &sent, BLK_STS_OK, end_ns);
	}
}

/* Return an answer without the slowness class. */
static inline int without_slowness(enum blk_linnos_expected answer)
{
	return answer & ~BLK_LINNOS_US_SLOWNESS;
}

/* Return the answer for a caller that has a read of @bytes. */
static inline int query_expected(struct blk_linnos *linnos, unsigned int bytes,
				 u64 now_ns)
{
	enum blk_linnos_expected expected;
	struct linnos_prediction found;

	expected = linnos_expect_read(linnos, 0, bytes, now_ns, true, &found);
	return without_slowness(expected);
}

static inline bool is_in_flight(const struct linnos_drive *drive, u32 reads,
				u32 read_pages, u32 write_pages)
{
	struct linnos_load load;

	linnos_load_snapshot(drive, &load);
	return load.reads == reads && load.read_pages == read_pages &&
	       load.write_pages == write_pages;
}

#endif /* _LINNOS_TEST_H */
