// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is a drive taken for a stalled one that is not?
 *
 *	stall_race
 *
 * The kernel's own blk-linnos-expect.c, compiled into this program (policy.h). One thread
 * has reads served, one at a time, each 100 us long and a second after the one before;
 * another asks all the while whether the drive is stalled, which it never is. It looks
 * between one word and the next of what the first has written. Fails if the answer is
 * ever yes.
 */
#include "policy.h"

#define READS 3000000
#define SECOND_NS 1000000000ULL

static u64 now_ns = SECOND_NS;
static bool over;

static void *ask(void *argument)
{
	const struct blk_linnos *linnos = argument;
	static long wrong;

	while (!READ_ONCE(over))
		wrong += linnos_is_stalled(linnos, READ_ONCE(now_ns));
	return &wrong;
}

int main(void)
{
	struct gendisk disk = { .disk_name = "drive" };
	struct blk_linnos *linnos = linnos_alloc(&disk);
	struct linnos_io io;
	pthread_t asks;
	void *wrong;
	int i;

	if (!linnos || linnos_alloc_stats(linnos))
		return 1;
	linnos->stall_us = 500;
	linnos->drive.watching = true;
	if (pthread_create(&asks, NULL, ask, linnos))
		return 1;
	for (i = 0; i < READS; i++) {
		WRITE_ONCE(now_ns, now_ns + SECOND_NS);
		linnos_io_begin(&linnos->drive, &io, 0, 1, LINNOS_IO_READ, now_ns);
		linnos_io_issue(&io, now_ns);
		io.flags |= LINNOS_IO_ANSWERED;
		linnos_done(linnos, &io, now_ns + 100000);
	}
	WRITE_ONCE(over, true);
	pthread_join(asks, &wrong);
	fprintf(stderr, "%ld times in %d reads\n", *(long *)wrong, READS);
	return *(long *)wrong != 0;
}
