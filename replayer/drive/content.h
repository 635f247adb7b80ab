/* SPDX-License-Identifier: MIT */
/*
 * Contents of a drive, and verification of reads.
 *
 * Each 4 KiB block contains a pattern made from the seed, the drive (0 if writes are replicated),
 * the number of the block and its generation, which counts the writes to the block. Word 0 encodes
 * the generation. Every other 8-byte word depends on all four, so that a block from another drive
 * or another offset, an older write and a flipped bit are detected.
 *
 * A table per drive contains for each written block the last generation issued and the last one
 * known to be on the drive. A read may return any generation from the one that was complete when
 * the read was submitted to the one that was issued when the read completed. If two writes to a
 * block overlap, it is unknown which of them remains. The lower bound then stays unchanged until a
 * write that overlaps no other completes.
 */
#ifndef REPLAYER_CONTENT_H
#define REPLAYER_CONTENT_H

#include "sparse.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BYTES 4096u
#define BLOCK_WORDS (BLOCK_BYTES / 8)

struct generation {
	uint32_t issued;
	uint16_t span;		   /* issued - span is the lowest generation a read may return */
	uint16_t outstanding : 15; /* writes in flight */
	uint16_t lone : 1;	   /* the write in flight has overlapped no other */
};

#define GENERATION_UNKNOWN 0xffffu /* span value: a write failed, the contents are unknown */

struct content {
	uint64_t seed;
	uint32_t drive_key;
	uint64_t n_blocks;
	struct sparse blocks; /* of arrays of struct generation; only written blocks take memory */
	bool unwritten_is_zero; /* otherwise generation 0 is not checked */
};

struct content_error {
	uint64_t block;
	unsigned int word;
	uint64_t expected, found;
	uint32_t low, high; /* accepted generations */
	bool found_known;   /* found_generation is the generation in the block's first word */
	uint32_t found_generation;
};

void content_init(struct content *c, uint64_t seed, uint32_t drive_key, uint64_t n_blocks,
		  bool unwritten_is_zero);

/* Return true if a block was written by a replay with any seed. */
bool content_is_ours(const void *block);

/*
 * For writes: call issue() before submission to increment the generations and fill the buffer, and
 * done() on completion.
 */
void content_issue(struct content *c, uint64_t block, uint32_t n, void *buffer);
void content_done(struct content *c, uint64_t block, uint32_t n, bool ok);

/*
 * For reads: call note() before submission. It stores each block's lowest acceptable generation in
 * low[] and overwrites the buffer, so that a read that transfers nothing is detected. check()
 * compares every word and returns the number of wrong blocks; *error describes the first of them.
 * *torn counts blocks with mixed generations of writes in flight. *unverified counts blocks that
 * could not be checked, after a failed write, or if they are unwritten and not known to be zero.
 */
void content_note(struct content *c, uint64_t block, uint32_t n, void *buffer, uint32_t *low);
uint32_t content_check(struct content *c, uint64_t block, uint32_t n, const void *buffer,
		       const uint32_t *low, struct content_error *error, uint64_t *torn,
		       uint64_t *unverified);

#endif
