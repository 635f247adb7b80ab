// SPDX-License-Identifier: MIT
/* Contents of a drive, and verification of reads: see content.h. */
#include "content.h"
#include "splitmix.h"

#include <string.h>

#define STEP SPLITMIX_STEP
#define POISON 0x5bad5bad5bad5badull
#define LOW_UNKNOWN UINT32_MAX
#define RUN_BLOCKS 16u /* blocks whose generations are in one leaf, of 128 bytes */

static uint64_t place_key(const struct content *c, uint64_t block)
{
	return splitmix_mix(splitmix_mix(c->seed + STEP * (c->drive_key + 1)) + block);
}

static uint64_t word_base(uint64_t place, uint32_t generation)
{
	return splitmix_mix(place + generation) | 1;
}

static uint64_t word_of(uint64_t place, uint32_t generation, unsigned int i)
{
	if (!generation)
		return 0;
	return i ? word_base(place, generation) + i * STEP : place ^ generation;
}

void content_init(struct content *c, uint64_t seed, uint32_t drive_key, uint64_t n_blocks,
		  bool unwritten_is_zero)
{
	c->seed = seed;
	c->drive_key = drive_key;
	c->n_blocks = n_blocks;
	c->unwritten_is_zero = unwritten_is_zero;
	sparse_init(&c->blocks, n_blocks / RUN_BLOCKS + 1, RUN_BLOCKS * sizeof(struct generation));
}

/* A block that was never written has generation 0, and no write in flight. */
static struct generation generation_of(const struct content *c, uint64_t block)
{
	const struct generation *run = sparse_get(&c->blocks, block / RUN_BLOCKS);

	return run ? run[block % RUN_BLOCKS] : (struct generation){0};
}

static struct generation *written_generation(struct content *c, uint64_t block)
{
	struct generation *run = sparse_make(&c->blocks, block / RUN_BLOCKS);

	return &run[block % RUN_BLOCKS];
}

bool content_is_ours(const void *block)
{
	const uint64_t *words = block;

	/* The words after the first are an odd base plus multiples of STEP. */
	if (!((words[1] - STEP) & 1))
		return false;
	for (unsigned int i = 2; i < BLOCK_WORDS; i++)
		if (words[i] - words[i - 1] != STEP)
			return false;
	return true;
}

/* Issue the next generation and return it. */
static uint32_t next_generation(struct content *c, uint64_t block)
{
	struct generation *g = written_generation(c, block);

	/* With 65535 overlapping generations the contents count as unknown. */
	if (g->span < GENERATION_UNKNOWN)
		g->span++;
	g->lone = !g->outstanding;
	g->outstanding++;
	return ++g->issued;
}

void content_issue(struct content *c, uint64_t block, uint32_t n, void *buffer)
{
	uint64_t *words = buffer;

	for (uint32_t b = 0; b < n; b++, words += BLOCK_WORDS) {
		uint32_t generation = next_generation(c, block + b);
		uint64_t place = place_key(c, block + b), base = word_base(place, generation);

		words[0] = place ^ generation;
		for (unsigned int i = 1; i < BLOCK_WORDS; i++)
			words[i] = base + i * STEP;
	}
}

void content_done(struct content *c, uint64_t block, uint32_t n, bool ok)
{
	for (uint32_t b = 0; b < n; b++) {
		struct generation *g = written_generation(c, block + b);

		g->outstanding--;
		if (!ok)
			g->span = GENERATION_UNKNOWN;
		else if (!g->outstanding && g->lone)
			g->span = 0;
	}
}

void content_note(struct content *c, uint64_t block, uint32_t n, void *buffer, uint32_t *low)
{
	uint64_t *words = buffer;

	for (uint32_t b = 0; b < n; b++, words += BLOCK_WORDS) {
		struct generation g = generation_of(c, block + b);

		low[b] = g.span == GENERATION_UNKNOWN ? LOW_UNKNOWN : g.issued - g.span;
		words[0] = POISON;
		words[BLOCK_WORDS - 1] = POISON;
	}
}

static bool block_matches(const uint64_t *words, uint64_t place, uint32_t generation)
{
	uint64_t base, differ;

	if (!generation) {
		differ = 0;
		for (unsigned int i = 0; i < BLOCK_WORDS; i++)
			differ |= words[i];
		return !differ;
	}
	base = word_base(place, generation);
	differ = words[0] ^ place ^ generation;
	for (unsigned int i = 1; i < BLOCK_WORDS; i++)
		differ |= words[i] ^ (base + i * STEP);
	return !differ;
}

/*
 * While a write is in flight, a read may return a part of it: each word is then of one accepted
 * generation.
 */
static bool block_is_torn(const uint64_t *words, uint64_t place, uint32_t low, uint32_t high)
{
	for (unsigned int i = 0; i < BLOCK_WORDS; i++) {
		uint32_t g = low;

		while (words[i] != word_of(place, g, i))
			if (g++ == high)
				return false;
	}
	return true;
}

static void describe(struct content_error *e, const uint64_t *words, uint64_t block, uint64_t place,
		     uint32_t low, uint32_t high)
{
	uint64_t claim = words[0] ^ place;
	uint32_t g = high;

	e->block = block;
	e->low = low;
	e->high = high;
	e->found_known = claim <= UINT32_MAX || !words[0];
	e->found_generation = words[0] ? (uint32_t)claim : 0;
	if (e->found_known && e->found_generation >= low && e->found_generation <= high)
		g = e->found_generation;
	for (e->word = 0; e->word < BLOCK_WORDS - 1; e->word++)
		if (words[e->word] != word_of(place, g, e->word))
			break;
	e->expected = word_of(place, g, e->word);
	e->found = words[e->word];
}

uint32_t content_check(struct content *c, uint64_t block, uint32_t n, const void *buffer,
		       const uint32_t *low, struct content_error *error, uint64_t *torn,
		       uint64_t *unverified)
{
	const uint64_t *words = buffer;
	uint32_t wrong = 0;

	for (uint32_t b = 0; b < n; b++, words += BLOCK_WORDS) {
		uint64_t place = place_key(c, block + b);
		uint32_t high = generation_of(c, block + b).issued;
		uint64_t claim = words[0] ^ place;
		uint32_t g = words[0] ? (uint32_t)claim : 0;

		if (low[b] == LOW_UNKNOWN || (!low[b] && !c->unwritten_is_zero)) {
			++*unverified;
			continue;
		}
		if ((!words[0] || claim <= UINT32_MAX) && g >= low[b] && g <= high &&
		    block_matches(words, place, g))
			continue;
		if (high > low[b] && high - low[b] < 64 &&
		    block_is_torn(words, place, low[b], high)) {
			++*torn;
			continue;
		}
		if (!wrong++)
			describe(error, words, block + b, place, low[b], high);
	}
	return wrong;
}
