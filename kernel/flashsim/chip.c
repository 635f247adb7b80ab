// SPDX-License-Identifier: GPL-2.0-only
/* flashsim: time. Chips with their backlogs, and channels, as model.c explains. */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "chip.h"

/* Percentage of the buffer in use above which the backlog no longer waits. */
#define URGENT_PCT		90

/* ---- what the oracle may change: shadows of chips and channels ---- */

static struct fs_chip *get_chip(struct flashsim_model *m, u32 i)
{
	if (!m->dry)
		return &m->chips[i];
	if (m->shadow_chip_gen[i] != m->generation) {
		m->shadow_chip_gen[i] = m->generation;
		m->shadow_chips[i] = m->chips[i];
	}
	return &m->shadow_chips[i];
}

static struct fs_channel *get_channel(struct flashsim_model *m, u32 i)
{
	const struct fs_channel *ch = &m->channels[i];

	if (!m->dry)
		return &m->channels[i];
	if (m->shadow_channel_gen[i] != m->generation) {
		m->shadow_channel_gen[i] = m->generation;
		m->shadow_channels[i].n = ch->n;
		memcpy(m->shadow_channels[i].slot, ch->slot,
		       ch->n * sizeof(ch->slot[0]));
	}
	return &m->shadow_channels[i];
}

/* ---- channels ---- */

static void channel_forget(struct fs_channel *ch, u64 now)
{
	u32 i = 0;

	while (i < ch->n && ch->slot[i].end <= now)
		i++;
	if (!i)
		return;
	ch->n -= i;
	memmove(ch->slot, ch->slot + i, ch->n * sizeof(ch->slot[0]));
}

/* Merge the two bookings with the shortest gap between them. */
static void channel_close_gap(struct fs_channel *ch)
{
	u32 i, best = 1;

	for (i = 2; i < ch->n; i++)
		if (ch->slot[i].start - ch->slot[i - 1].end <
		    ch->slot[best].start - ch->slot[best - 1].end)
			best = i;
	ch->slot[best - 1].end = ch->slot[best].end;
	ch->n--;
	memmove(ch->slot + best, ch->slot + best + 1,
		(ch->n - best) * sizeof(ch->slot[0]));
}

/* Book the first free @len ns from @ready on; return their end. */
u64 flashsim_channel_book(struct flashsim_model *m, u32 channel, u64 ready,
			  u64 len)
{
	struct fs_channel *ch = get_channel(m, channel);
	u64 start = ready;
	u32 i;

	if (!len)
		return ready;
	channel_forget(ch, m->now);
	if (ch->n == CHANNEL_SLOTS)
		channel_close_gap(ch);
	for (i = 0; i < ch->n; i++) {
		if (start + len <= ch->slot[i].start)
			break;
		start = max(start, ch->slot[i].end);
	}
	if (i > 0 && ch->slot[i - 1].end == start) {
		ch->slot[i - 1].end = start + len;
		if (i < ch->n && ch->slot[i].start == start + len) {
			ch->slot[i - 1].end = ch->slot[i].end;
			ch->n--;
			memmove(ch->slot + i, ch->slot + i + 1,
				(ch->n - i) * sizeof(ch->slot[0]));
		}
	} else if (i < ch->n && ch->slot[i].start == start + len) {
		ch->slot[i].start = start;
	} else {
		memmove(ch->slot + i + 1, ch->slot + i,
			(ch->n - i) * sizeof(ch->slot[0]));
		ch->slot[i].start = start;
		ch->slot[i].end = start + len;
		ch->n++;
	}
	return start + len;
}

/* Transfer units between a chip and the controller; return the end. */
static u64 chip_transfer(struct flashsim_model *m, u32 chip, u64 ready,
			 u32 units)
{
	return flashsim_channel_book(m, chip % m->p->channels, ready,
				     (u64)units * m->p->channel_transfer_ns);
}

/* ---- operations and backlogs ---- */

u32 flashsim_op_alloc(struct flashsim_model *m)
{
	u32 i = m->free_op;

	m->free_op = m->ops[i].next;
	m->ops_free--;
	return i;
}

void flashsim_op_free(struct flashsim_model *m, u32 i)
{
	m->ops[i].next = m->free_op;
	m->free_op = i;
	m->ops_free++;
}

/* Return the time for a page of a word line: early pages are fast, late ones slow. */
static u64 page_time(const struct flashsim_model *m, u64 ns, u32 page_type)
{
	return div_u64(ns * (100 + (int)(page_type - 1) *
			     (int)m->p->page_spread_pct), 100);
}

void flashsim_chip_requeue(struct flashsim_model *m, struct fs_chip *c)
{
	u64 t = U64_MAX;

	if (m->dry)
		return;
	if (c->run_head != FLASHSIM_NONE)
		t = m->ops[c->run_head].end;
	if (c->head != FLASHSIM_NONE)
		t = min(t, max(c->busy_until, m->now));
	if (timerqueue_node_queued(&c->event)) {
		if (c->event.expires == t)
			return;
		timerqueue_del(&m->events, &c->event);
	}
	if (t == U64_MAX)
		return;
	c->event.expires = t;
	timerqueue_add(&m->events, &c->event);
}

static void chip_load_head(struct flashsim_model *m, struct fs_chip *c)
{
	const struct fs_op *op = &m->ops[c->head];

	c->reads = op->reads;
	c->programs = op->programs;
	c->erases = op->erases;
}

void flashsim_chip_enqueue(struct flashsim_model *m, struct fs_chip *c, u32 i)
{
	m->ops[i].next = FLASHSIM_NONE;
	c->backlog++;
	if (c->head == FLASHSIM_NONE) {
		c->head = i;
		c->tail = i;
		c->overtaken = 0;
		chip_load_head(m, c);
	} else {
		m->ops[c->tail].next = i;
		c->tail = i;
	}
}

/* Commit the chip to the next step of its backlog, which starts at @t. */
void flashsim_chip_step(struct flashsim_model *m, u32 chip, u64 t)
{
	struct fs_chip *c = get_chip(m, chip);
	const struct flashsim_params *p = m->p;
	u32 i = c->head;
	struct fs_op *op = &m->ops[i];
	u64 end;

	if (c->reads) {
		c->reads--;
		end = chip_transfer(m, chip, t + p->page_read_ns,
				    op->units_per_read);
	} else if (c->programs) {
		end = t;
		if (c->programs % m->program_steps == 0)
			end = chip_transfer(m, chip, t, m->ftl.row_units);
		c->programs--;
		end += div_u64(page_time(m, p->page_program_ns, op->page_type),
			       m->program_steps);
	} else {
		c->erases--;
		end = t + p->block_erase_ns / m->erase_steps;
	}
	c->busy_ns += end - t;
	c->busy_until = end;
	c->overtaken = 0;
	if (c->reads || c->programs || c->erases)
		return;

	/* After its last step, the operation leaves the backlog. */
	c->head = op->next;
	c->backlog--;
	if (c->head != FLASHSIM_NONE)
		chip_load_head(m, c);
	if (m->dry)
		return;
	if (!op->n) {
		flashsim_op_free(m, i);
		return;
	}
	op->end = end;
	op->next = FLASHSIM_NONE;
	if (c->run_head == FLASHSIM_NONE)
		c->run_head = i;
	else
		m->ops[c->run_tail].next = i;
	c->run_tail = i;
}

void flashsim_chip_enqueue_gc(struct flashsim_model *m, struct fs_chip *c,
			      const struct flashsim_gc_work *gc)
{
	u32 programs = gc->rows_programmed * m->program_steps;
	u32 erases = gc->erases * m->erase_steps;
	u32 i;

	if (!gc->rows_read && !programs && !erases)
		return;
	m->counters->page_programs += gc->rows_programmed;
	m->counters->page_reads += gc->rows_read;
	i = flashsim_op_alloc(m);
	m->ops[i] = (struct fs_op) {
		.page_type = 1,
		.reads = gc->rows_read,
		.programs = programs,
		.erases = erases,
		.units_per_read = gc->rows_read ?
			DIV_ROUND_UP(gc->units_moved, gc->rows_read) : 0,
	};
	flashsim_chip_enqueue(m, c, i);
}

static bool backlog_urgent(const struct flashsim_model *m)
{
	return !list_empty(&m->waiting) ||
	       (u64)m->buffer_used * 100 > (u64)m->buffer_units * URGENT_PCT;
}

/*
 * Read @n units of one row, which keeps the chip for @hold_ns longer than usual;
 * return when they have left the channel.
 */
u64 flashsim_read_row(struct flashsim_model *m, u32 row, u32 n, u64 t0,
		      u64 hold_ns)
{
	u32 chip = row / (m->ftl.chip_blocks * m->p->pages_per_block);
	u32 page_type = row % 3;
	struct fs_chip *c = get_chip(m, chip);
	u64 start, sensed, end;

	if (c->head != FLASHSIM_NONE) {
		if (backlog_urgent(m) || c->overtaken >= m->p->reads_ahead)
			flashsim_chip_step(m, chip, max(c->busy_until, m->now));
		else
			c->overtaken++;
	}
	start = max(t0, c->busy_until);
	sensed = start + page_time(m, m->p->page_read_ns, page_type) + hold_ns;
	end = chip_transfer(m, chip, sensed, n);
	c->busy_ns += sensed - start;
	c->busy_until = sensed;
	flashsim_chip_requeue(m, c);
	if (!m->dry)
		m->counters->page_reads++;
	return end;
}
