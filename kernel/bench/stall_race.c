// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is a drive taken for a stalled one that is not?
 *
 *	stall_race
 *
 * The kernel's own blk-linnos-expect.c, compiled into this program (policy.h), asks whether
 * the drive is stalled, which it never is: its reads take 100 us each, a second after
 * those before. Whatever else happens, happens while it asks, before one or another of
 * the words that it reads: all ways are tried. Fails if the answer is ever yes.
 */
#include "kernel_shim.h"

static void others_act(void);

#undef READ_ONCE
#define READ_ONCE(x) (others_act(), *(const volatile typeof(x) *)&(x))

#include "policy.h"

#define SECOND_NS 1000000000ULL
#define READ_NS 100000ULL
/* A question reads words, and no more of them. */
#define WORDS 16

static struct blk_linnos *linnos;
static u64 now_ns = SECOND_NS;

/* Two reads: B begins when A ends, maybe before that has been told of. */
static struct linnos_io a, b;
static struct linnos_ended a_ended, b_ended;

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
static void (*const acts[])(void) = { a_ends, b_begins, a_is_told, b_ends, b_is_told };
#define ACTS ((int)ARRAY_SIZE(acts))
static int before[ACTS];
static int acted = ACTS, word;

static void others_act(void)
{
	static bool acting;

	/* they read, too */
	if (acting)
		return;
	acting = true;
	for (; acted < ACTS && before[acted] <= word; acted++)
		acts[acted]();
	acting = false;
	word++;
}

/* Return: is the answer wrong? */
static bool ask(void)
{
	bool stalled;
	int i;

	now_ns += SECOND_NS;
	begin(&a);
	now_ns += READ_NS;
	acted = 0;
	word = 0;
	stalled = linnos_is_stalled(linnos, now_ns);
	if (!word || word > WORDS)
		abort();
	/* what was to come later still */
	word = WORDS;
	others_act();
	if (!stalled)
		return false;
	fprintf(stderr, "stalled, by acts before words");
	for (i = 0; i < ACTS; i++)
		fprintf(stderr, " %d", before[i]);
	fprintf(stderr, "\n");
	return true;
}

/* All ways for this act and those after it. Return: how many answers are wrong. */
static int try_all(int act, int from)
{
	int wrong = 0;

	if (act == ACTS)
		return ask();
	for (before[act] = from; before[act] <= WORDS; before[act]++)
		wrong += try_all(act + 1, before[act]);
	return wrong;
}

int main(void)
{
	struct gendisk disk = { .disk_name = "drive" };

	linnos = linnos_alloc(&disk);
	if (!linnos)
		return 1;
	linnos->stall_us = 500;
	linnos->drive.watching = true;
	return try_all(0, 0) != 0;
}
