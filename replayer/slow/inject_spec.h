/* SPDX-License-Identifier: MIT */
/*
 * What --inject says: PATTERN:key=value,key,...
 *
 * It has four parts, which go with each other as one likes: which of the I/Os (the pattern, op),
 * how slow (latency_us, shape), where (drive, region) and when (slots).
 *
 * `rotate` deals the slots to the drives in turn, so that one burst wanders through the array:
 * slot i is drive i's, and with at_once=2 also the next one's.
 */
#ifndef REPLAYER_INJECT_SPEC_H
#define REPLAYER_INJECT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

struct inject_pattern {
	const char *name;
	unsigned int bit;
	const char *needs; /* a key */
};

struct inject_spec {
	const char *text;
	const struct inject_pattern *pattern;
	bool is_storm; /* the engine's; all others are flashsim's */
	char op[8], shape[16];
	uint64_t latency_us, ratio_ppm, period_ios, interval;
	uint64_t at_depth, tail_milli, region_start_mb, region_mb;
	uint64_t start_us, window_us, every_us; /* window 0: always */
	uint64_t storm_block_kb, storm_depth, storm_mb;
	bool rotate;
	uint64_t at_once;
	uint64_t drives; /* as bits */
	uint32_t given;	 /* keys, as bits of their places in the table */
};

/* Dies on anything that cannot be meant. The text must outlive the specification. */
struct inject_spec inject_spec_parse(const char *text, unsigned int n_drives);

/* In how many turns the slots are dealt, and which of them are a drive's, as bits. */
unsigned int inject_spec_turns(const struct inject_spec *s, unsigned int n_drives);
uint64_t inject_spec_turns_of(const struct inject_spec *s, unsigned int drive,
			      unsigned int n_drives);

#endif
