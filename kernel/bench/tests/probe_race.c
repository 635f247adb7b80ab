// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that a probe in flight is not lost when two callers request one at the
 * same time.
 *
 *	probe_race
 *
 * The kernel's own linnos_probe.c is compiled into this program (policy.h) and
 * is called to decide whether a read becomes a probe. Meanwhile another caller
 * does the same, and a read starts that completes late (interleave.h). The test
 * fails if neither of the two is to send the probe and the read in flight is
 * not used as one, or if its completion does not count.
 */
#include "interleave.h"

#define SECOND_NS 1000000000ULL
#define LATE_NS 1000000ULL

static struct blk_linnos *linnos;
static struct linnos_drive *drive;
static u64 now_ns = SECOND_NS;
static struct linnos_io probe;
static bool other_claimed, again;

static bool claim(void)
{
	return linnos_probe_claim(drive, 0, again, now_ns);
}

static void other_claim(void)
{
	other_claimed = claim();
}

static void other_send(void)
{
	linnos_io_begin(drive, &probe, 0, 1, LINNOS_IO_READ | LINNOS_IO_SLOW, now_ns);
	linnos_io_issue(&probe, now_ns);
}

static void (*const in_order[])(void) = { other_claim, other_send };

static bool is_wrong(void)
{
	struct linnos_probe_state *state = &drive->probes[0];
	struct linnos_completed_io ended;
	bool claimed, wrong;

	now_ns += SECOND_NS;
	linnos_drive_reset_history(drive, now_ns - SECOND_NS / 2);
	state->window = again;
	begin_run();
	claimed = claim();
	end_run();
	wrong = !(claimed || other_claimed) || !(state->claimed_ns & LINNOS_PROBE_SENT) || claim() ||
		linnos_oldest_ns(&drive->start_slots) != now_ns;
	probe.flags |= LINNOS_IO_ANSWERED;
	if (linnos_io_end(drive, &probe, now_ns + LATE_NS, &ended))
		linnos_probe_complete(drive, &probe, ended.end_ns, true);
	return wrong || state->claimed_ns || state->backoff != 1;
}

int main(void)
{
	struct gendisk disk = { .disk_name = "drive" };
	int wrong = 0, i;

	linnos = linnos_alloc(&disk);
	if (!linnos)
		return 1;
	drive = &linnos->drive;
	drive->probe_after_refused = 0;
	drive->tracks_starts = true;
	actions = in_order;
	n_actions = ARRAY_SIZE(in_order);
	/*
	 * because of the clock, and because the previous probe completed in
	 * time
	 */
	for (i = 0; i < 2; i++, again = true)
		wrong += try_all(is_wrong, 0, 0);
	return wrong != 0;
}
