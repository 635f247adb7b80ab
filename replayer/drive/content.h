/* SPDX-License-Identifier: MIT */
/*
 * What is written to a drive, and the proof that a read returned it.
 *
 * Each 4 KiB block carries a pattern made from the seed, the drive (0 when writes are replicated),
 * the block's number and its generation, which counts the writes to that block. Word 0 hides the
 * generation; every other 8-byte word depends on all four, so that a block of another drive,
 * another place, an older write or a flipped bit shows.
 *
 * A table per drive knows for each written block the last generation issued and the last one known
 * to be on the drive. A read may return any generation between the one that was complete when the
 * read was submitted and the one that was issued when the read completed. While two writes to a
 * block overlap, no one can say which of them stays: the lower bound then rests until a write that
 * met no other completes.
 *
 * Threads may share it.
 */
#ifndef REPLAYER_CONTENT_H
#define REPLAYER_CONTENT_H

#include "sparse.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BYTES 4096u
#define BLOCK_WORDS (BLOCK_BYTES / 8)

struct generation {
	uint32_t issued;
	uint16_t span;		   /* issued - span is the lowest generation a read may return */
	uint16_t outstanding : 15; /* writes in flight */
	uint16_t lone : 1;	   /* the write in flight has met no other */
} __attribute__((aligned(8)));	   /* read and written at once */

#define GENERATION_UNKNOWN 0xffffu /* span: a write failed, the block may hold anything */

struct content {
	uint64_t seed;
	uint32_t drive_key;
	uint64_t n_blocks;
	struct sparse blocks;	/* of runs of struct generation: only written ones take memory */
	bool unwritten_is_zero; /* else generation 0 is not checked */
	pthread_mutex_t lock;	/* for writers; readers need none */
};

struct content_error {
	uint64_t block;
	unsigned int word;
	uint64_t expected, found;
	uint32_t low, high; /* accepted generations */
	bool found_known;   /* found_generation holds what the block's first word claims */
	uint32_t found_generation;
};

void content_init(struct content *c, uint64_t seed, uint32_t drive_key, uint64_t n_blocks,
		  bool unwritten_is_zero);
void content_free(struct content *c);

/* Whether a block on some drive is what a replay of any seed wrote there. */
bool content_is_ours(const void *block);

/* A write: before submission, issue() counts the generations up and fills the buffer; done() on
 * completion. */
void content_issue(struct content *c, uint64_t block, uint32_t n, void *buffer);
void content_done(struct content *c, uint64_t block, uint32_t n, bool ok);

/* A read: before submission note() keeps each block's lowest acceptable generation in low[] and
 * spoils the buffer, so that a read that transfers nothing cannot pass. check() compares every word
 * and returns how many blocks were wrong; the first of them is described in *error. *torn counts
 * blocks that mixed generations of writes in flight, *unverified those that could not be checked (a
 * failed write, or unwritten and not known to be zeros). */
void content_note(struct content *c, uint64_t block, uint32_t n, void *buffer, uint32_t *low);
uint32_t content_check(struct content *c, uint64_t block, uint32_t n, const void *buffer,
		       const uint32_t *low, struct content_error *error, uint64_t *torn,
		       uint64_t *unverified);

#endif
