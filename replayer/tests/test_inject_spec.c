// SPDX-License-Identifier: MIT
/* Tests of valid --inject specifications. tests/unit/test_replayer_inputs.py tests invalid ones. */
#include "slow/inject_spec.h"

#include "test.h"

#define N_DRIVES 3

static struct inject_spec of(const char *text)
{
	return inject_spec_parse(text, N_DRIVES);
}

TEST(specification_has_a_pattern_of_counted_ios)
{
	struct inject_spec s = of("continuous:latency_us=2000,op=read,ratio=1%");

	assert(!strcmp(s.pattern->name, "continuous"));
	assert(s.latency_us == 2000 && s.ratio_ppm == 10000 && s.period_ios == 100000);
	assert(!strcmp(s.op, "read") && !strcmp(s.shape, "constant"));
	assert(s.drives == 7 && !s.rotate && !s.region_mb);
	assert(!s.start_us && !s.window_us && !s.every_us);
	s = of("random:latency_us=1,ratio=0.25");
	assert(s.ratio_ppm == 250000 && !strcmp(s.op, "both"));
	s = of("interval:interval=7,latency_us=0");
	assert(s.interval == 7 && !s.latency_us && !s.occupy);
	s = of("random:latency_us=1,ratio=1%,occupy");
	assert(s.occupy);
}

TEST(rotate_gives_each_drive_every_third_slot)
{
	struct inject_spec s = of(
		"continuous:latency_us=1,ratio=100%,slot_ms=50,every_ms=500,start_ms=1.5,rotate");

	assert(s.window_us == 50000 && s.every_us == 500000 && s.start_us == 1500);
	assert(s.ratio_ppm == 1000000 && inject_spec_turns(&s, N_DRIVES) == 3);
	for (unsigned int k = 0; k < N_DRIVES; k++)
		assert(inject_spec_turns_of(&s, k, N_DRIVES) == 1u << k);
}

TEST(at_once_gives_a_slot_to_several_drives)
{
	struct inject_spec s = of("all:latency_us=1,slot_ms=50,every_ms=500,rotate,at_once=2");
	unsigned int in_turn[N_DRIVES] = {0};

	for (unsigned int k = 0; k < N_DRIVES; k++)
		for (unsigned int turn = 0; turn < N_DRIVES; turn++)
			in_turn[turn] |= (inject_spec_turns_of(&s, k, N_DRIVES) >> turn & 1) << k;
	assert(in_turn[0] == 3 && in_turn[1] == 6 && in_turn[2] == 5);
	s = of("all:latency_us=1,slot_ms=50,every_ms=500,rotate,at_once=3");
	for (unsigned int k = 0; k < N_DRIVES; k++)
		assert(inject_spec_turns_of(&s, k, N_DRIVES) == 7);
}

TEST(every_slot_affects_all_drives_without_rotate)
{
	struct inject_spec s = of("all:latency_us=1,slot_ms=50,every_ms=500,drive=0+2");

	assert(s.drives == 5 && inject_spec_turns(&s, N_DRIVES) == 1);
	for (unsigned int k = 0; k < N_DRIVES; k++)
		assert(inject_spec_turns_of(&s, k, N_DRIVES) == 1);
	assert(of("all:latency_us=1,drive=all").drives == 7);
	assert(of("all:latency_us=1,drive=1").drives == 2);
}

TEST(specification_has_a_shape_of_latencies)
{
	struct inject_spec s = of("all:latency_us=900,shape=ramp,slot_ms=100");

	assert(!strcmp(s.shape, "ramp") && s.window_us == 100000);
	s = of("all:latency_us=900,shape=queue,at_depth=16");
	assert(!strcmp(s.shape, "queue") && s.at_depth == 16);
	s = of("random:ratio=5%,latency_us=900,shape=pareto,tail=1.25");
	assert(!strcmp(s.shape, "pareto") && s.tail_milli == 1250 && s.ratio_ppm == 50000);
}

TEST(specification_has_a_region)
{
	struct inject_spec s = of("all:latency_us=900,region_start_mb=64,region_mb=16,drive=1");

	assert(s.region_start_mb == 64 && s.region_mb == 16 && s.drives == 2);
	s = of("all:latency_us=900,region_mb=16");
	assert(!s.region_start_mb && s.region_mb == 16);
}

TEST(specification_has_a_start_time)
{
	struct inject_spec s = of("all:latency_us=900,start_ms=20000,slot_ms=60000,drive=1");

	assert(s.start_us == 20000000 && s.window_us == 60000000 && !s.every_us);
	/* Without an end: longer than any run. */
	s = of("all:latency_us=900,start_ms=20000");
	assert(s.start_us == 20000000 && s.window_us >= 1000000000000);
}
