// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is a drive taken for a stalled one that is not?
 *
 *	stall_race
 *
 * The kernel's own blk-linnos-expect.c, compiled into this program (policy.h), asks whether
 * the drive is stalled, which it never is: its reads take 100 us each, a second after
 * those before. Whatever else happens, happens while it asks (interleave.h). Fails if the
 * answer is ever yes.
 */
#include "interleave.h"

#define SECOND_NS 1000000000ULL
#define READ_NS 100000ULL

static struct blk_linnos *linnos;
static u64 now_ns = SECOND_NS;

/* Two reads: B begins when A ends, maybe before that has been told of. */
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
 * In this order, each before so manyth a word is read. No read comes and goes before one
 * is told of the end of that before it: two looks are quicker than that.
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
