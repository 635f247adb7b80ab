// SPDX-License-Identifier: MIT
/*
 * Tests of flashsim's settings for valid --inject specifications.
 * tests/unit/test_replayer_inputs.py tests invalid ones.
 */
#include "slow/inject.h"

#include "test.h"

#define N_DRIVES 3

static char written[1024];

static void append(const char *dir, const char *setting, const char *value)
{
	size_t used = strlen(written);

	snprintf(written + used, sizeof(written) - used, " %s=%s", setting, value);
}

/* Return true if these settings of a drive, each after a space, are written for a specification. */
static bool has(const char *text, unsigned int drive, const char *settings)
{
	struct inject_spec s = inject_parse(text, N_DRIVES);
	char wanted[60];

	*written = 0;
	inject_write_settings(&s, drive, N_DRIVES, append, NULL);
	strcat(written, " ");
	for (int n; sscanf(settings, " %59s%n", wanted, &n) == 1; settings += n) {
		char word[64];

		snprintf(word, sizeof(word), " %s ", wanted);
		if (!strstr(written, word))
			return false;
	}
	return true;
}

TEST(settings_follow_from_a_specification)
{
	static const char *const cases[][2] = {
		{"continuous:latency_us=2000,op=read,ratio=1%",
		 "arm=0 latency_us=2000 shape=constant occupy=0 at_depth=1 tail_milli=1000 op=read "
		 "ratio_ppm=10000 period_ios=100000 region_sector=0 region_sectors=0 "
		 "window_start_us=0 window_us=0 window_every_us=0 window_turns=1 "
		 "window_turn_mask=1 pattern=continuous"},
		{"random:latency_us=1,ratio=0.25,occupy", "ratio_ppm=250000 op=both occupy=1"},
		{"interval:interval=7,latency_us=0", "interval=7 latency_us=0 pattern=interval"},
		{"all:latency_us=9,shape=ramp,slot_ms=100", "shape=ramp window_us=100000"},
		{"all:latency_us=9,shape=queue,at_depth=16", "shape=queue at_depth=16"},
		{"random:ratio=5%,latency_us=9,shape=pareto,tail=1.25",
		 "shape=pareto tail_milli=1250 ratio_ppm=50000"},
		{"all:latency_us=9,region_start_mb=64,region_mb=16",
		 "region_sector=131072 region_sectors=32768"},
		{"all:latency_us=9,start_ms=1.5,slot_ms=60,every_ms=500",
		 "window_start_us=1500 window_us=60000 window_every_us=500000"},
		/* A slot that is longer than the period: the drive is always slow. */
		{"all:latency_us=9,slot_ms=600,every_ms=500",
		 "window_us=600000 window_every_us=500000"},
		{"all:latency_us=9,every_ms=0", "window_us=0 window_every_us=0"},
		/* Without an end: longer than any run. */
		{"all:latency_us=9,start_ms=20000",
		 "window_start_us=20000000 window_us=1000000000000 window_every_us=0"},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert(has(cases[i][0], 0, cases[i][1]));
}

TEST(rotate_gives_each_drive_its_slots)
{
	static const char one[] = "all:latency_us=1,slot_ms=50,every_ms=500,rotate",
			  two[] = "all:latency_us=1,slot_ms=50,every_ms=500,rotate,at_once=2";

	assert(has(one, 0, "window_turns=3 window_turn_mask=1"));
	assert(has(one, 2, "window_turns=3 window_turn_mask=4"));
	/* Drive 0 is slow in the first and in the last slot, in which drive 2 is slow as well. */
	assert(has(two, 0, "window_turn_mask=5"));
	assert(has(two, 1, "window_turn_mask=3"));
	assert(has(two, 2, "window_turn_mask=6"));
}

TEST(specification_names_drives)
{
	assert((inject_parse("all:latency_us=1,drive=0+2", N_DRIVES).values[DRIVE] & 7) == 5);
	assert((inject_parse("all:latency_us=1,drive=all", N_DRIVES).values[DRIVE] & 7) == 7);
	assert((inject_parse("all:latency_us=1", N_DRIVES).values[DRIVE] & 7) == 7);
}
