/* SPDX-License-Identifier: MIT */
/*
 * The argument of --inject: PATTERN:key=value,key,...
 *
 * It has four independent parts: which of the I/Os are slow (the pattern, op), how slow
 * (latency_us, shape, occupy), where (drive, region) and when (slots).
 *
 * `rotate` assigns the slots to the drives in turn, so that a burst moves through the array: slot i
 * belongs to drive i, and with at_once=2 also to the next drive.
 */
#ifndef REPLAYER_INJECT_SPEC_H
#define REPLAYER_INJECT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

struct inject_pattern {
	const char *name;
	unsigned int bit;
	const char *needs; /* a required key */
};

struct inject_spec {
	const char *text;
	const struct inject_pattern *pattern;
	char op[8], shape[16];
	uint64_t latency_us, ratio_ppm, period_ios, interval;
	uint64_t at_depth, tail_milli, region_start_mb, region_mb;
	uint64_t start_us, window_us, every_us; /* window_us is 0 for always */
	bool occupy, rotate;
	uint64_t at_once;
	uint64_t drives; /* bitmap */
	uint32_t given;	 /* bitmap of the given keys, by index in the table */
};

/* Parse a specification; exit if it is invalid. The text must outlive the specification. */
struct inject_spec inject_spec_parse(const char *text, unsigned int n_drives);

/* Return the number of turns of the slots, and a bitmap of the turns of a drive. */
unsigned int inject_spec_turns(const struct inject_spec *s, unsigned int n_drives);
uint64_t inject_spec_turns_of(const struct inject_spec *s, unsigned int drive,
			      unsigned int n_drives);

#endif
