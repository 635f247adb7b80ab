// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that a drive is not classified as stalled when it is not.
 *
 *	stall_race
 *
 * The kernel's own blk-linnos-expect.c is compiled into this program (policy.h)
 * and checks whether the drive is stalled. It never is: its reads take 100 us
 * each, and come a second after the previous ones. All other actions happen
 * during the check (interleave.h). The test fails if the check ever returns
 * true.
 */
#include "interleave.h"

#define SECOND_NS 1000000000ULL
#define READ_NS 100000ULL

static struct blk_linnos *linnos;
static u64 now_ns = SECOND_NS;

/*
 * Two reads: B starts when A completes, possibly before that completion is
 * recorded.
 */
static struct linnos_io a, b;
static struct linnos_completed_io a_ended, b_ended;

static void begin(struct linnos_io *io)
{
	linnos_io_begin(&linnos->drive, io, 0, 1, LINNOS_IO_READ, now_ns);
	linnos_io_issue(io, now_ns);
	io->flags |= LINNOS_IO_ANSWERED;
}

static void a_ends(void)
{
	linnos_io_end(&linnos->drive, &a, now_ns, &a_ended);
}

static void b_begins(void)
{
	begin(&b);
}

static void a_is_told(void)
{
	linnos_history_update(linnos, &a_ended);
}

static void b_ends(void)
{
	linnos_io_end(&linnos->drive, &b, now_ns + READ_NS, &b_ended);
}

static void b_is_told(void)
{
	linnos_history_update(linnos, &b_ended);
}

/*
 * The actions happen in this order, each before a word with a given index is
 * read. No read starts and completes before the completion of the previous one
 * is recorded, because two checks take less time than that.
 */
static void (*const in_order[])(void) = { a_ends, b_begins, a_is_told, b_ends, b_is_told };

static bool is_called_stalled(void)
{
	bool stalled;

	now_ns += SECOND_NS;
	begin(&a);
	now_ns += READ_NS;
	look_begins();
	stalled = linnos_is_stalled(linnos, now_ns);
	look_ends();
	return stalled;
}

int main(void)
{
	struct gendisk disk = { .disk_name = "drive" };

	linnos = linnos_alloc(&disk);
	if (!linnos)
		return 1;
	linnos->stall_us = 500;
	linnos->drive.watching = true;
	acts = in_order;
	n_acts = ARRAY_SIZE(in_order);
	return try_all(is_called_stalled, 0, 0) != 0;
}
