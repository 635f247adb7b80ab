/* SPDX-License-Identifier: MIT */
/*
 * Slow drives during the run: program flashsim's injection settings (docs/flashsim.md) according to
 * --inject PATTERN:key=value,key,..., enable and disable them.
 *
 * A specification has four independent parts: which of the I/Os are slow (the pattern, op), how
 * slow (latency_us, shape, occupy), where (drive, region) and when (slots).
 *
 * `rotate` assigns the slots to the drives in turn, so that a burst moves through the array: slot i
 * belongs to drive i, and with at_once=2 also to the next drive.
 */
#ifndef REPLAYER_INJECT_H
#define REPLAYER_INJECT_H

#include "drive/device.h"

#include <stdbool.h>
#include <stdint.h>

struct inject;

/* The keys of a specification, in the order in which flashsim's settings are written. */
enum inject_key {
	LATENCY_US,
	SHAPE,
	OCCUPY,
	AT_DEPTH,
	TAIL,
	OP,
	RATIO,
	PERIOD_IOS,
	INTERVAL,
	REGION_START_MB,
	REGION_MB,
	START_MS,
	SLOT_MS,
	EVERY_MS,
	DRIVE,
	ROTATE,
	AT_ONCE,
	N_KEYS,
};

struct inject_spec {
	const char *text;
	const struct inject_pattern *pattern;
	/* In the unit of flashsim's setting: us, ppm, thousandths; a word by its index. */
	uint64_t values[N_KEYS];
	uint32_t given; /* bitmap of the given keys */
};

/* Called with the name and the value of a setting of flashsim. */
typedef void inject_write(const char *dir, const char *setting, const char *value);

/* Parse a specification; exit if it is invalid. The text must outlive the specification. */
struct inject_spec inject_parse(const char *text, unsigned int n_drives);
/* Write all settings of one drive; @dir is passed to @write. */
void inject_write_settings(const struct inject_spec *s, unsigned int drive, unsigned int n_drives,
			   inject_write *write, const char *dir);

/*
 * Parse the specifications and program the settings, without enabling them. Return NULL without
 * specifications. Exit on an invalid one or a drive that does not support it.
 */
struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices);
/*
 * Return true if the latency of a read depends on the number of earlier reads or on chance. Then a
 * policy that looks ahead by one read is not a bound. NULL injects nothing.
 */
bool inject_counts_reads(const struct inject *in);
void inject_arm(struct inject *in);
void inject_disarm(struct inject *in);

#endif
