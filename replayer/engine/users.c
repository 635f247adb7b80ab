// SPDX-License-Identifier: MIT
/* Users' I/Os: see users.h. */
#include "users.h"
#include "error.h"
#include "policies/policy.h"
#include "results/io_log.h"

#include <errno.h>
#include <stdio.h>

#define REPORTED_ERRORS 5 /* limit for wrong data; further errors are only counted */

/* Record an I/O in the log. */
static void record_in_log(struct replay *r, const struct io *io, const struct attempt *by,
			  uint32_t extra)
{
	struct log_record record = {
		.due_ns = io->due_ns,
		.latency_ns = r->done_ns - io->submit_ns,
		.lag_ns = io->submit_ns - r->start_ns - io->due_ns,
		.offset_bytes = io->offset_bytes,
		.size_bytes = io->size_bytes,
		.home = io->default_drive,
		.op = io->is_write,
		.served_by = io->served_by,
		.flags = io->flags | (io->revocations ? IO_REVOKED : 0),
		.revocations = io->revocations,
		.extra_ios = extra,
		.device_latency_us = by ? saturate_u32((r->done_ns - by->submit_ns) / 1000) : 0,
	};

	log_append(r->log, &record);
}

/* The I/O is complete for its user. It is counted only here. `by` is NULL if every drive failed. */
static void answer(struct replay *r, struct io *io, struct attempt *by)
{
	uint64_t latency = r->done_ns - io->submit_ns;
	uint64_t lag = io->submit_ns - r->start_ns - io->due_ns;
	uint32_t extra = 0;

	io->answered = true;
	r->user_ios_in_flight--;
	r->c.unanswered--;
	timer_disarm(&r->timers, &io->timer);
	if (!io->is_write && io->sent > io->revocations + 1)
		extra = io->sent - io->revocations - 1;
	extra += !!(io->flags & IO_PROBED);
	if (by)
		io->served_by = by->drive;
	if (by && by->hedge)
		io->flags |= IO_HEDGE_WON;
	if (by) {
		latency_add(&r->latency[io->is_write ? WRITE_SERVICE : READ_SERVICE], latency);
		latency_add(&r->latency[io->is_write ? WRITE_RESPONSE : READ_RESPONSE],
			    lag + latency);
	}
	if (io->is_write) {
		r->c.writes++;
		r->c.write_bytes += io->size_bytes;
		r->c.writes_failed += !by;
	} else {
		r->c.reads++;
		r->c.read_bytes += io->size_bytes;
		if (by)
			r->c.served_by[by->drive]++;
		else
			r->c.reads_failed++;
		r->c.revoked += io->revocations > 0;
		r->c.revocations += io->revocations;
		r->c.probes += !!(io->flags & IO_PROBED);
		r->c.hedged += !!(io->flags & IO_HEDGED);
		r->c.hedges_won += !!(io->flags & IO_HEDGE_WON);
		r->c.extra_ios += extra;
	}
	latency_add(&r->latency[LAG], lag);
	r->c.late_ios += lag > LATE_NS;
	if (r->log)
		record_in_log(r, io, by, extra);
}

static void report_data_error(struct replay *r, const struct attempt *a,
			      const struct content_error *e, uint32_t blocks)
{
	if (r->c.data_errors++ >= REPORTED_ERRORS)
		return;
	fprintf(stderr,
		"replayer: DATA ERROR %s block %llu (byte %llu): word %u is %016llx, expected "
		"%016llx; generations %u to %u are accepted, ",
		r->devices[a->drive].path, (unsigned long long)e->block,
		(unsigned long long)e->block * BLOCK_BYTES, e->word, (unsigned long long)e->found,
		(unsigned long long)e->expected, e->low, e->high);
	if (e->found_known)
		fprintf(stderr, "the block contains %u", e->found_generation);
	else
		fprintf(stderr, "the block contains none");
	fprintf(stderr, "; %u of %u blocks are wrong%s\n", blocks, io_pages(a->io),
		r->c.data_errors == REPORTED_ERRORS
			? " (further data errors are counted, not printed)"
			: "");
}

/* Check the contents of a complete read; return true if they are right. */
static bool check(struct replay *r, const struct attempt *a)
{
	struct content_error e;
	uint32_t wrong = attempt_check(r, a, &e);

	if (wrong)
		report_data_error(r, a, &e, wrong);
	latency_add(&r->drive_latency[a->drive], r->done_ns - a->submit_ns);
	return !wrong;
}

static void write_done(struct replay *r, struct attempt *a, int result)
{
	struct io *io = a->io;

	if (result == (int)io->size_bytes) {
		/*
		 * A replicated write is complete with its last copy, and is counted for the default
		 * drive.
		 */
		if (io->served_by == SERVED_BY_NONE || a->drive == io->default_drive)
			io->served_by = a->drive;
	} else {
		io->flags |= IO_ERROR;
		attempt_failed(r, a, result);
	}
	if (!io->in_flight) {
		a->drive = io->served_by;
		answer(r, io, io->served_by == SERVED_BY_NONE ? NULL : a);
	}
}

/*
 * After an error, send the read to another replica: one that was not tried yet, otherwise one that
 * has only revoked it.
 */
static void failover_on_error(struct replay *r, struct io *io)
{
	uint32_t all = (1u << r->n_drives) - 1;
	int drive;

	/* Another attempt or a pending failover will bring the answer. */
	if (io->in_flight || (io->failing_over && io->timer.place))
		return;
	drive = replica_after_default(r, io, io->tried);
	if (drive < 0)
		drive = replica_after_default(r, io, io->failed);
	if (drive < 0 && !(io->failed & 1u << io->default_drive))
		drive = io->default_drive;
	if (io->failed == all || drive < 0) {
		answer(r, io, NULL);
		return;
	}
	r->c.failovers_on_error++;
	attempt_send(r, io, drive, SEND_PLAIN);
}

static void read_done(struct replay *r, struct attempt *a, int result)
{
	struct io *io = a->io;

	if (result == -ECANCELED && io->answered) {
		r->c.cancelled++;
		return;
	}
	if (result == -EBUSY && a->hinted) {
		if (io->answered)
			return;
		io->revocations++;
		r->o.policy->revoked(r, io, a);
		return;
	}
	if (result == -EOPNOTSUPP && a->hinted)
		die("drive %s: no read with RWF_LATCRIT: this kernel lacks the LinnOS patch",
		    r->devices[a->drive].path);
	if (result != (int)io->size_bytes) {
		io->failed |= 1u << a->drive;
		io->flags |= IO_ERROR;
		attempt_failed(r, a, result);
		if (!io->answered)
			failover_on_error(r, io);
		return;
	}
	if (!check(r, a) && !io->answered)
		io->flags |= IO_DATA_ERROR;
	if (r->o.policy->answered)
		r->o.policy->answered(r, io, a);
	if (!io->answered) {
		answer(r, io, a);
		attempts_cancel(r, io);
	}
}

/* A probe copy has completed. No user waits for it, but it is checked like any read. */
static void copy_done(struct replay *r, struct attempt *a, int result)
{
	r->probe_copies_in_flight--;
	if (result != (int)a->io->size_bytes)
		attempt_failed(r, a, result);
	else
		check(r, a);
}

void user_read_copy(struct replay *r, struct io *io, unsigned int drive)
{
	struct io *copy = io_new(r);

	io->flags |= IO_PROBED;
	copy->done = copy_done;
	copy->answered = true;
	copy->offset_bytes = io->offset_bytes;
	copy->size_bytes = io->size_bytes;
	copy->default_drive = drive;
	copy->tag = io->tag;
	copy->submit_ns = r->ring.now_ns;
	r->probe_copies_in_flight++;
	attempt_send(r, copy, drive, SEND_PLAIN);
}

void user_io_start(struct replay *r, struct io *io)
{
	io->done = io->is_write ? write_done : read_done;
	io->submit_ns = r->ring.now_ns;
	r->user_ios_in_flight++;
	r->c.unanswered++;
	if (!io->is_write) {
		budget_earn(&r->hedge_budget);
		r->o.policy->read(r, io);
	} else if (r->o.replicate_writes) {
		for (unsigned int k = 0; k < r->n_drives; k++)
			write_send(r, io, k);
	} else {
		write_send(r, io, io->default_drive);
	}
}
