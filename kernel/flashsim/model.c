// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: time. The write buffer, and completion times of I/Os, with the chips
 * and channels of chip.c.
 *
 *           writes                                     reads
 *             |  link to the drive                       ^  link to the host
 *       write buffer --- flush: rows, to chips in turn   |
 *             |                                          |
 *  channel 0  +--[backlog]--> chip 0  ----- sense -------+
 *             +--[backlog]--> chip 1
 *  channel 1  +--[backlog]--> chip 2      one transfer at a time on a channel
 *             ...                         and in each direction of the link
 *
 * A chip does one thing at a time. It has a time until which it is committed (busy_until), and a
 * backlog of programs, moves and erases that have not started. A read goes before the backlog, but
 * not before an operation that has started: a read behind a program or an erase waits for its end,
 * or for the next point where the chip can suspend it. When reads_ahead reads in a row have
 * overtaken a chip's backlog, or the write buffer is nearly full, one step of the backlog goes
 * first. Reads are therefore fast while the drive is internally idle, and slow in bursts while it
 * flushes or collects garbage, and writes are not starved.
 *
 * A write first reserves room in the buffer; if the buffer is full, it waits for a program to
 * complete. Then its data cross the link, one write after another. The write is complete when its
 * data are in the buffer, where they are dirty. Dirty units are sent to the chips in whole rows,
 * when the number of dirty units reaches the watermark, at every tick of the flush interval, and
 * while a write waits for room. A cache flush command sends all of them, with a last row that may
 * be short. Units stay readable in the buffer until they are programmed.
 *
 * The model does not run by itself. Every access first brings the state up to date, event by event
 * and in the order of their times: flashsim_model_advance() is called with the time of each
 * submission, and by a timer only while requests wait for the model. Advancing in one step or in
 * many steps gives the same state. The result of a run therefore does not depend on when the model
 * is advanced, and oracle queries do not change it.
 *
 * Channel transfers are booked ahead, into the first gap that is long enough, so that a read whose
 * sense operation ends late does not block the channel for other reads meanwhile. The same applies
 * to the link to the host: the units of a read that lie in one row are sent as soon as they have
 * left the channel, between the rows of other reads, and not when the whole read is complete.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "chip.h"

#define MODEL_SALT		0x666c757368ULL

/* State of a unit in the write buffer: flags, and copies being programmed. */
#define UNIT_DIRTY		BIT(15)
#define UNIT_DEAD		BIT(14)
#define UNIT_INFLIGHT		GENMASK(13, 0)

/**
 * flashsim_now() - get the time
 * @clock: the drive's clock; the caller serialises calls for it
 *
 * The model's time never runs backwards, whichever CPU reads the clock.
 *
 * Return: the time, ns.
 */
u64 flashsim_now(struct flashsim_clock *clock)
{
	clock->latest = max(clock->latest, ktime_get_ns());
	return clock->latest;
}

/* ---- the write buffer ---- */

static u64 next_tick(const struct flashsim_model *m, u64 t)
{
	u64 interval = (u64)m->p->flush_interval_us * NSEC_PER_USEC;

	if (t < m->flush_phase)
		return m->flush_phase;
	return m->flush_phase +
	       (div64_u64(t - m->flush_phase, interval) + 1) * interval;
}

static u32 ring_pop(struct flashsim_model *m)
{
	u32 lpn = m->dirty_ring[m->ring_head];

	if (++m->ring_head == m->buffer_units)
		m->ring_head = 0;
	m->dirty--;
	return lpn;
}

static void ring_push(struct flashsim_model *m, u32 lpn)
{
	u32 i = m->ring_head + m->dirty++;

	if (i >= m->buffer_units)
		i -= m->buffer_units;
	m->dirty_ring[i] = lpn;
}

/* Send the oldest dirty units to a chip, as one row. */
static void flush_row(struct flashsim_model *m)
{
	struct flashsim_gc_work gc = {};
	u32 lpn[FLASHSIM_MAX_ROW_UNITS];
	u32 n = 0, chip, row, i;
	struct fs_chip *c;
	struct fs_op *op;

	while (m->dirty && n < m->ftl.row_units) {
		u32 u = ring_pop(m);

		m->unit_state[u] &= ~UNIT_DIRTY;
		if (m->unit_state[u] & UNIT_DEAD) {
			m->unit_state[u] &= ~UNIT_DEAD;
			m->buffer_used--;
			continue;
		}
		m->unit_state[u]++;
		lpn[n++] = u;
	}
	if (!n)
		return;
	chip = flashsim_ftl_write_row(&m->ftl, lpn, n, &row, &gc);
	c = &m->chips[chip];
	flashsim_chip_enqueue_gc(m, c, &gc);

	i = flashsim_op_alloc(m);
	op = &m->ops[i];
	*op = (struct fs_op) {
		.n = n,
		.page_type = row % 3,
		.programs = m->program_steps,
		.seq = ++m->seq,
	};
	memcpy(op->lpn, lpn, n * sizeof(u32));
	flashsim_chip_enqueue(m, c, i);
	m->programs_out++;
	m->counters->page_programs++;
	flashsim_chip_requeue(m, c);
}

static void flush_rows(struct flashsim_model *m)
{
	if (m->dirty < m->ftl.row_units)
		return;
	m->counters->flushes++;
	/*
	 * Discards cause short rows. The pool of operations can then be
	 * exhausted before the buffer is.
	 */
	while (m->dirty >= m->ftl.row_units && m->ops_free >= 2)
		flush_row(m);
}

static bool buffer_fits(const struct flashsim_model *m,
			const struct flashsim_cmd *cmd)
{
	return m->buffer_used + cmd->nr_units <= m->buffer_units;
}

/* A write has its room: start the transfer of its data. */
static void buffer_admit(struct flashsim_model *m, struct flashsim_cmd *cmd,
			 u64 t)
{
	const struct flashsim_params *p = m->p;
	u32 i = m->arrival_head + m->nr_arrivals++;

	m->link_free = max(m->link_free, t) +
		       (u64)cmd->nr_units * p->host_transfer_ns + cmd->hold_ns;
	m->buffer_used += cmd->nr_units;
	if (i >= m->buffer_units)
		i -= m->buffer_units;
	m->arrivals[i] = (struct fs_arrival) {
		.when = m->link_free,
		.unit = cmd->unit,
		.nr_units = cmd->nr_units,
	};
	m->complete(cmd, m->link_free + p->controller_ns + p->buffer_ns +
			 cmd->extra_ns);
}

static void buffer_admit_waiting(struct flashsim_model *m, u64 t)
{
	struct flashsim_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, &m->waiting, wait) {
		if (!buffer_fits(m, cmd))
			break;
		list_del(&cmd->wait);
		buffer_admit(m, cmd, t);
	}
	/* Writes that still wait need room soon, regardless of the watermark. */
	if (!list_empty(&m->waiting))
		flush_rows(m);
}

static u64 next_arrival(const struct flashsim_model *m)
{
	return m->nr_arrivals ? m->arrivals[m->arrival_head].when : U64_MAX;
}

/* The first write on the link has reached the buffer. */
static void buffer_arrive(struct flashsim_model *m, u64 t)
{
	struct fs_arrival *a = &m->arrivals[m->arrival_head];
	u32 u;

	if (++m->arrival_head == m->buffer_units)
		m->arrival_head = 0;
	m->nr_arrivals--;
	for (u = a->unit; u < a->unit + a->nr_units; u++) {
		if (m->unit_state[u] & UNIT_DIRTY) {
			/* It replaces the previous contents. */
			m->buffer_used--;
		} else {
			m->unit_state[u] |= UNIT_DIRTY;
			ring_push(m, u);
		}
		m->unit_state[u] &= ~UNIT_DEAD;
	}
	if (m->dirty >= m->watermark)
		flush_rows(m);
	if (m->dirty >= m->ftl.row_units && m->next_flush == U64_MAX)
		m->next_flush = next_tick(m, t);
	buffer_admit_waiting(m, t);
}

static void program_done(struct flashsim_model *m, u32 i)
{
	struct fs_op *op = &m->ops[i];
	struct flashsim_cmd *cmd, *next;
	u32 k;

	for (k = 0; k < op->n; k++)
		m->unit_state[op->lpn[k]]--;
	m->buffer_used -= op->n;
	m->programs_out--;
	list_for_each_entry_safe(cmd, next, &m->flushing, wait) {
		if (op->seq > cmd->flush_seq || --cmd->flush_left)
			continue;
		list_del(&cmd->wait);
		m->complete(cmd, op->end + m->p->controller_ns);
	}
	flashsim_op_free(m, i);
}

/* ---- events ---- */

static void chip_event(struct flashsim_model *m, struct fs_chip *c, u64 t)
{
	bool released = false;

	while (c->run_head != FLASHSIM_NONE && m->ops[c->run_head].end <= t) {
		u32 i = c->run_head;

		c->run_head = m->ops[i].next;
		program_done(m, i);
		released = true;
	}
	while (c->head != FLASHSIM_NONE && c->busy_until <= t)
		flashsim_chip_step(m, c - m->chips, t);
	flashsim_chip_requeue(m, c);
	if (released)
		buffer_admit_waiting(m, t);
}

/**
 * flashsim_model_advance() - process all events that are due
 * @m: the model
 * @now: the time, ns; never less than in any earlier call
 */
void flashsim_model_advance(struct flashsim_model *m, u64 now)
{
	for (;;) {
		struct timerqueue_node *node = timerqueue_getnext(&m->events);
		u64 t = node ? (u64)node->expires : U64_MAX;
		u64 arrival = next_arrival(m);

		if (min3(t, m->next_flush, arrival) > now)
			break;
		if (arrival <= min(t, m->next_flush)) {
			m->now = max(m->now, arrival);
			buffer_arrive(m, m->now);
			continue;
		}
		if (m->next_flush <= t) {
			m->now = max(m->now, m->next_flush);
			m->next_flush = U64_MAX;
			flush_rows(m);
			if (m->dirty >= m->ftl.row_units)
				m->next_flush = next_tick(m, m->now);
			continue;
		}
		m->now = max(m->now, t);
		chip_event(m, container_of(node, struct fs_chip, event),
			   m->now);
	}
	m->now = max(m->now, now);
}

/**
 * flashsim_model_next_event() - get the time when the model must be advanced
 * @m: the model
 *
 * Return: the time, ns, or U64_MAX while no request waits for it.
 */
u64 flashsim_model_next_event(struct flashsim_model *m)
{
	struct timerqueue_node *node = timerqueue_getnext(&m->events);

	if (list_empty(&m->waiting) && list_empty(&m->flushing))
		return U64_MAX;
	return min3(node ? (u64)node->expires : U64_MAX, m->next_flush,
		    next_arrival(m));
}

/* ---- reads ---- */

static bool unit_is_buffered(const struct flashsim_model *m, u32 unit)
{
	u16 state = m->unit_state[unit];

	return (state & UNIT_INFLIGHT) ||
	       (state & (UNIT_DIRTY | UNIT_DEAD)) == UNIT_DIRTY;
}

/* Count units from @unit on that are in the buffer or unmapped. */
static u32 units_without_flash(struct flashsim_model *m, u32 unit, u32 end)
{
	u32 n;

	for (n = 0; unit + n < end; n++) {
		bool buffered = unit_is_buffered(m, unit + n);

		if (!buffered && m->ftl.l2p[unit + n] != FLASHSIM_NONE)
			break;
		if (!m->dry && buffered)
			m->counters->buffer_hits++;
		else if (!m->dry)
			m->counters->unmapped_reads++;
	}
	return n;
}

/* Count units from @unit on, which is on flash, that lie in the same row. */
static u32 units_of_row(const struct flashsim_model *m, u32 unit, u32 end)
{
	u32 row = m->ftl.l2p[unit] / m->ftl.row_units;
	u32 n;

	for (n = 1; unit + n < end; n++) {
		u32 ppn = m->ftl.l2p[unit + n];

		if (ppn == FLASHSIM_NONE || ppn / m->ftl.row_units != row ||
		    m->unit_state[unit + n])
			break;
	}
	return n;
}

static u64 read_units(struct flashsim_model *m, u32 unit, u32 nr, u64 hold_ns,
		      u64 now)
{
	const struct flashsim_params *p = m->p;
	u64 t0 = now + p->controller_ns;
	u64 done = 0;
	u32 end = unit + nr;
	u32 n;

	for (; unit < end; unit += n) {
		u64 ready = t0 + p->buffer_ns;

		n = units_without_flash(m, unit, end);
		if (!n) {
			n = units_of_row(m, unit, end);
			ready = flashsim_read_row(m, m->ftl.l2p[unit] /
						  m->ftl.row_units, n, t0,
						  hold_ns);
			hold_ns = 0;
		}
		ready = flashsim_channel_book(m, p->channels, ready,
					      (u64)n * p->host_transfer_ns);
		done = max(done, ready);
	}
	/* Without a row on flash, the read keeps the link. */
	return flashsim_channel_book(m, p->channels, done, hold_ns);
}

/**
 * flashsim_model_oracle_begin() - start a query about reads that are not
 * submitted
 * @m: the model
 * @now: their assumed submission time, ns
 */
void flashsim_model_oracle_begin(struct flashsim_model *m, u64 now)
{
	flashsim_model_advance(m, now);
	m->dry = true;
	m->generation++;
}

/**
 * flashsim_model_oracle_read() - get the completion time of a read
 * @m: the model, between flashsim_model_oracle_begin() and _end()
 * @unit: first unit
 * @nr_units: number of units
 * @hold_ns: its injected latency that occupies what serves it
 *
 * The read is assumed to be submitted after those queried before.
 *
 * Return: the time, ns; no other injected latency is included.
 */
u64 flashsim_model_oracle_read(struct flashsim_model *m, u32 unit, u32 nr_units,
			       u64 hold_ns)
{
	return read_units(m, unit, nr_units, hold_ns, m->now);
}

/**
 * flashsim_model_oracle_end() - end the query; the model is as before
 * @m: the model
 */
void flashsim_model_oracle_end(struct flashsim_model *m)
{
	m->dry = false;
}

/* ---- submission ---- */

static void submit_flush(struct flashsim_model *m, struct flashsim_cmd *cmd,
			 u64 now)
{
	while (m->dirty)
		flush_row(m);
	m->next_flush = U64_MAX;
	if (!m->programs_out) {
		m->complete(cmd, now + m->p->controller_ns);
		return;
	}
	cmd->flush_seq = m->seq;
	cmd->flush_left = m->programs_out;
	list_add_tail(&cmd->wait, &m->flushing);
}

static void submit_discard(struct flashsim_model *m, struct flashsim_cmd *cmd,
			   u64 now)
{
	u32 u;

	for (u = cmd->unit; u < cmd->unit + cmd->nr_units; u++) {
		flashsim_ftl_trim(&m->ftl, u);
		if (m->unit_state[u] & UNIT_DIRTY)
			m->unit_state[u] |= UNIT_DEAD;
	}
	m->complete(cmd, now + m->p->controller_ns + m->p->buffer_ns);
}

/**
 * flashsim_model_submit() - submit a request to the drive
 * @m: the model
 * @cmd: the request; its completion time is reported now, or when the model has
 *	advanced far enough to know it
 * @now: the time, ns
 */
void flashsim_model_submit(struct flashsim_model *m, struct flashsim_cmd *cmd,
			   u64 now)
{
	flashsim_model_advance(m, now);
	switch (cmd->op) {
	case REQ_OP_READ:
		m->complete(cmd, read_units(m, cmd->unit, cmd->nr_units,
					    cmd->hold_ns, now) +
				 cmd->extra_ns);
		break;
	case REQ_OP_WRITE:
		if (list_empty(&m->waiting) && buffer_fits(m, cmd)) {
			buffer_admit(m, cmd, now);
			break;
		}
		m->counters->buffer_full_writes++;
		list_add_tail(&cmd->wait, &m->waiting);
		flush_rows(m);
		break;
	case REQ_OP_DISCARD:
		submit_discard(m, cmd, now);
		break;
	default:
		submit_flush(m, cmd, now);
		break;
	}
	/* Operations that were queued on idle chips start at this time. */
	flashsim_model_advance(m, now);
}

/**
 * flashsim_model_precondition() - age the drive, without using time
 * @m: the model
 */
void flashsim_model_precondition(struct flashsim_model *m)
{
	flashsim_ftl_precondition(&m->ftl, m->seed);
}

/**
 * flashsim_model_show() - print the state, for debugfs
 * @m: the model
 * @s: the output
 */
void flashsim_model_show(struct flashsim_model *m, struct seq_file *s)
{
	u32 i;

	seq_printf(s, "now_ns %llu\n", m->now);
	seq_printf(s, "buffer_units %u\nbuffer_used %u\ndirty_units %u\n",
		   m->buffer_units, m->buffer_used, m->dirty);
	seq_printf(s, "programs_out %u\nnext_flush_ns %lld\n", m->programs_out,
		   m->next_flush == U64_MAX ? -1 : (s64)m->next_flush);
	seq_printf(s, "chip_blocks %u\nblock_units %u\nchip_valid_max %u\n",
		   m->ftl.chip_blocks, m->ftl.block_units,
		   m->ftl.chip_valid_max);
	seq_puts(s, "chip busy_until_ns backlog busy_ns free_blocks valid_units min_erases max_erases\n");
	for (i = 0; i < m->ftl.nr_chips; i++) {
		const struct fs_chip *c = &m->chips[i];
		u32 free, valid, least, most;

		flashsim_ftl_wear(&m->ftl, i, &free, &valid, &least, &most);
		seq_printf(s, "%u %llu %u %llu %u %u %u %u\n", i, c->busy_until,
			   c->backlog, c->busy_ns, free, valid, least, most);
	}
}

static u32 steps(u32 total_ns, u32 suspend_ns)
{
	return suspend_ns ? DIV_ROUND_UP(total_ns, suspend_ns) : 1;
}

/**
 * flashsim_model_create() - create the model of a drive that is switched on
 * @p: parameters, which must outlive it
 * @counters: counters, which must outlive it; zeroed once the mapping is set up
 * @nr_units: exported size in units
 * @seed: seed of all random choices
 * @now: the time, ns
 * @complete: called once for each request
 *
 * Return: the model, or an ERR_PTR: -ENOMEM, or -EINVAL if the parameters are
 * inconsistent.
 */
struct flashsim_model *flashsim_model_create(const struct flashsim_params *p,
					     struct flashsim_counters *counters,
					     u32 nr_units, u64 seed, u64 now,
					     flashsim_complete_fn complete)
{
	u32 nr_chips = p->channels * p->chips_per_channel;
	struct flashsim_model *m;
	u32 nr_ops, i;
	int err;

	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return ERR_PTR(-ENOMEM);
	err = flashsim_ftl_init(&m->ftl, p, counters, nr_units);
	if (err) {
		kfree(m);
		return ERR_PTR(err);
	}
	*counters = (struct flashsim_counters) {};
	m->p = p;
	m->counters = counters;
	m->complete = complete;
	m->seed = seed;
	m->now = now;
	m->buffer_units = p->buffer_mb << (20 - FLASHSIM_UNIT_SHIFT);
	m->watermark = max_t(u32, m->ftl.row_units,
			     (u64)m->buffer_units * p->buffer_watermark_pct /
			     100);
	m->flush_phase = now + flashsim_hash(seed ^ MODEL_SALT, 0) %
			 ((u64)p->flush_interval_us * NSEC_PER_USEC);
	m->next_flush = U64_MAX;
	m->program_steps = steps(p->page_program_ns, p->program_suspend_ns);
	m->erase_steps = steps(p->block_erase_ns, p->erase_suspend_ns);
	INIT_LIST_HEAD(&m->waiting);
	INIT_LIST_HEAD(&m->flushing);
	timerqueue_init_head(&m->events);

	/*
	 * Programs in progress hold buffer units, so their number is limited by
	 * the buffer: one per row, or one per unit if cache flushes cause short
	 * rows. Each may have a collection queued before it.
	 */
	nr_ops = m->buffer_units;
	if (!p->volatile_cache)
		nr_ops = nr_ops / m->ftl.row_units + 1;
	nr_ops = 2 * (nr_ops + nr_chips);

	m->chips = kvcalloc(nr_chips, sizeof(*m->chips), GFP_KERNEL);
	m->shadow_chips = kvcalloc(nr_chips, sizeof(*m->chips), GFP_KERNEL);
	m->shadow_chip_gen = kvcalloc(nr_chips, sizeof(u32), GFP_KERNEL);
	m->channels = kvcalloc(p->channels + 1, sizeof(*m->channels),
			       GFP_KERNEL);
	m->shadow_channels = kvcalloc(p->channels + 1, sizeof(*m->channels),
				      GFP_KERNEL);
	m->shadow_channel_gen = kvcalloc(p->channels + 1, sizeof(u32),
					 GFP_KERNEL);
	m->arrivals = kvcalloc(m->buffer_units, sizeof(*m->arrivals),
			       GFP_KERNEL);
	m->ops = kvcalloc(nr_ops, sizeof(*m->ops), GFP_KERNEL);
	m->unit_state = kvcalloc(nr_units, sizeof(u16), GFP_KERNEL);
	m->dirty_ring = kvcalloc(m->buffer_units, sizeof(u32), GFP_KERNEL);
	if (!m->chips || !m->shadow_chips || !m->shadow_chip_gen ||
	    !m->channels || !m->shadow_channels || !m->shadow_channel_gen ||
	    !m->arrivals || !m->ops || !m->unit_state || !m->dirty_ring) {
		flashsim_model_destroy(m);
		return ERR_PTR(-ENOMEM);
	}
	for (i = 0; i < nr_chips; i++) {
		struct fs_chip *c = &m->chips[i];

		c->head = FLASHSIM_NONE;
		c->run_head = FLASHSIM_NONE;
		timerqueue_init(&c->event);
	}
	m->ops_free = nr_ops;
	for (i = 0; i < nr_ops; i++)
		m->ops[i].next = i + 1 < nr_ops ? i + 1 : FLASHSIM_NONE;
	return m;
}

/**
 * flashsim_model_destroy() - free a model without requests
 * @m: the model
 */
void flashsim_model_destroy(struct flashsim_model *m)
{
	flashsim_ftl_destroy(&m->ftl);
	kvfree(m->chips);
	kvfree(m->shadow_chips);
	kvfree(m->shadow_chip_gen);
	kvfree(m->channels);
	kvfree(m->shadow_channels);
	kvfree(m->shadow_channel_gen);
	kvfree(m->arrivals);
	kvfree(m->ops);
	kvfree(m->unit_state);
	kvfree(m->dirty_ring);
	kfree(m);
}
