// SPDX-License-Identifier: MIT
/*
 * User I/Os and the attempts that serve them: sending, checking, failing over after an error, and
 * the one answer that the user gets.
 */
#include "attempts.h"
#include "buffers.h"
#include "engine.h"
#include "error.h"
#include "hint.h"
#include "io_log.h"
#include "ring.h"
#include "series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORTED_ERRORS 5

/* Blocks are filled and checked in pieces, between which others get their turn: see ring_worked().
 * To prepare a block for a read costs about as much as to fill so many bytes. */
#define PIECE_BLOCKS 16u
#define NOTE_BYTES 512u

int replica_after_home(const struct replay *r, const struct user_io *io, uint32_t mask)
{
	for (unsigned int i = 1; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (!(mask & 1u << drive))
			return drive;
	}
	return -1;
}

struct user_io *user_io_new(struct replay *r)
{
	struct user_io *io = r->free_ios;

	if (io)
		r->free_ios = io->next_free;
	else
		io = xmalloc(sizeof(*io));
	memset(io, 0, sizeof(*io));
	io->served_by = SERVED_BY_NONE;
	return io;
}

static void user_io_free(struct replay *r, struct user_io *io)
{
	timer_disarm(&r->timers, &io->timer);
	io->next_free = r->free_ios;
	r->free_ios = io;
}

static struct attempt *attempt_new(struct replay *r, struct user_io *io, unsigned int drive)
{
	struct attempt *a = r->free_attempts;

	if (a)
		r->free_attempts = a->next;
	else
		a = xmalloc(sizeof(*a));
	a->io = io;
	a->buffer = buffer_get(r->buffers, io->size_bytes);
	a->drive = drive;
	a->hinted = false;
	a->hedge = false;
	a->lost = false;
	a->done_bytes = 0;
	a->next = io->in_flight;
	io->in_flight = a;
	io->tried |= 1u << drive;
	io->sent++;
	r->pending_pages[drive] += io_pages(io);
	r->in_flight[drive]++;
	return a;
}

static void attempt_done(struct replay *r, struct attempt *a)
{
	struct attempt **p = &a->io->in_flight;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	*(a->earlier ? &a->earlier->later : &r->earliest) = a->later;
	*(a->later ? &a->later->earlier : &r->latest) = a->earlier;
	r->pending_pages[a->drive] -= io_pages(a->io);
	r->in_flight[a->drive]--;
	if (a->lost) {
		r->losers[a->drive]--;
		r->losers_in_flight--;
	}
}

static void attempt_free(struct replay *r, struct attempt *a)
{
	buffer_put(r->buffers, a->buffer);
	a->next = r->free_attempts;
	r->free_attempts = a;
}

/* Its submission entry is complete. */
static void attempt_prepared(struct replay *r, struct attempt *a)
{
	a->later = NULL;
	a->earlier = r->latest;
	*(r->latest ? &r->latest->later : &r->earliest) = a;
	r->latest = a;
	if (!r->unsubmitted)
		r->unsubmitted = a;
	ring_mark(&r->ring);
}

void attempts_submitted(struct replay *r)
{
	for (struct attempt *a = r->unsubmitted; a; a = a->later) {
		struct user_io *io = a->io;

		a->submit_ns = r->ring.now_ns;
		if (io->submitted)
			continue;
		/* A hedge is due so long after the submission, not after the preparation. */
		if (io->timer.place && !io->failing_over && r->ring.now_ns > io->submit_ns)
			timer_arm(&r->timers, &io->timer,
				  io->timer.at_ns + (r->ring.now_ns - io->submit_ns));
		io->submit_ns = r->ring.now_ns;
		io->submitted = true;
	}
	r->unsubmitted = NULL;
}

/* Sends what of the attempt is not done yet. */
static void queue(struct replay *r, struct attempt *a)
{
	const struct user_io *io = a->io;
	struct io_uring_sqe *sqe = ring_sqe(&r->ring);
	char *data = (char *)a->buffer->data + a->done_bytes;
	uint32_t bytes = io->size_bytes - a->done_bytes;
	uint64_t offset = io->offset_bytes + a->done_bytes;

	if (io->is_write && a->buffer->registered < 0)
		io_uring_prep_write(sqe, a->drive, data, bytes, offset);
	else if (io->is_write)
		io_uring_prep_write_fixed(sqe, a->drive, data, bytes, offset,
					  a->buffer->registered);
	else if (a->buffer->registered < 0)
		io_uring_prep_read(sqe, a->drive, data, bytes, offset);
	else
		io_uring_prep_read_fixed(sqe, a->drive, data, bytes, offset, a->buffer->registered);
	sqe->flags |= IOSQE_FIXED_FILE;
	if (a->hinted)
		sqe->rw_flags = RWF_LATCRIT;
	sqe->ioprio = ioprio_with_tag(io->tag);
	io_uring_sqe_set_data(sqe, a);
}

/* A drive may do a part only: the rest is sent again, from a whole block on, as long as it does at
 * least one. The rest of a hinted read is plain: a part of it cannot be revoked. */
static bool continue_short(struct replay *r, struct attempt *a, int result)
{
	uint32_t done;

	if (result <= 0 || a->done_bytes + result >= a->io->size_bytes)
		return false;
	done = (a->done_bytes + result) / BLOCK_BYTES * BLOCK_BYTES;
	if (done == a->done_bytes)
		return false;
	a->done_bytes = done;
	a->hinted = false;
	r->c.short_ios++;
	queue(r, a);
	return true;
}

void attempt_send(struct replay *r, struct user_io *io, unsigned int drive, unsigned int flags)
{
	struct attempt *a = attempt_new(r, io, drive);

	a->hinted = flags & SEND_HINT;
	a->hedge = flags & SEND_HEDGE;
	content_note(&r->contents[drive], io->offset_bytes / BLOCK_BYTES, io_pages(io),
		     a->buffer->data, a->buffer->low);
	ring_worked(&r->ring, io_pages(io) * NOTE_BYTES);
	queue(r, a);
	attempt_prepared(r, a);
	if (a->hedge) {
		io->flags |= IO_HEDGED;
		budget_spend(&r->hedge_budget);
	}
}

static uint32_t piece(const struct user_io *io, uint32_t block)
{
	return io_pages(io) - block < PIECE_BLOCKS ? io_pages(io) - block : PIECE_BLOCKS;
}

/* How many blocks of an attempt's answer are wrong; *e is about the first of them. */
static uint32_t check(struct replay *r, const struct attempt *a, struct content_error *e)
{
	uint64_t block = a->io->offset_bytes / BLOCK_BYTES;
	struct content_error later;
	uint32_t wrong = 0;

	for (uint32_t n, b = 0; b < io_pages(a->io); b += n) {
		n = piece(a->io, b);
		wrong += content_check(&r->contents[a->drive], block + b, n,
				       (char *)a->buffer->data + (size_t)b * BLOCK_BYTES,
				       a->buffer->low + b, wrong ? &later : e, &r->c.torn_blocks,
				       &r->c.unverified_blocks);
		ring_worked(&r->ring, n * BLOCK_BYTES);
	}
	r->c.blocks_checked += io_pages(a->io);
	return wrong;
}

void write_send(struct replay *r, struct user_io *io, unsigned int drive)
{
	struct attempt *a = attempt_new(r, io, drive);
	uint64_t block = io->offset_bytes / BLOCK_BYTES;

	for (uint32_t n, b = 0; b < io_pages(io); b += n) {
		n = piece(io, b);
		content_issue(&r->contents[drive], block + b, n,
			      (char *)a->buffer->data + (size_t)b * BLOCK_BYTES);
		ring_worked(&r->ring, n * BLOCK_BYTES);
	}
	queue(r, a);
	attempt_prepared(r, a);
}

void background_write(struct replay *r, struct storm *s, unsigned int drive, uint64_t offset_bytes,
		      uint32_t size_bytes)
{
	struct user_io *io = user_io_new(r);

	io->storm = s;
	io->offset_bytes = offset_bytes;
	io->size_bytes = size_bytes;
	io->is_write = true;
	io->home = drive;
	io->submit_ns = r->ring.now_ns;
	r->background_in_flight++;
	write_send(r, io, drive);
}

static void cancel_losers(struct replay *r, struct user_io *io)
{
	for (struct attempt *a = io->in_flight; a; a = a->next) {
		struct io_uring_sqe *sqe = ring_sqe(&r->ring);

		a->lost = true;
		r->losers_in_flight++;
		if (++r->losers[a->drive] > r->c.losers_max)
			r->c.losers_max = r->losers[a->drive];
		io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)a, 0);
		sqe->user_data = CANCEL_USER_DATA;
		r->c.cancels_tried++;
	}
}

/* The user has the answer: counted here and nowhere else. `by` is NULL when every drive failed. */
static void answer(struct replay *r, struct user_io *io, struct attempt *by)
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
	if (by)
		io->served_by = by->drive;
	if (by && by->hedge)
		io->flags |= IO_HEDGE_WON;
	if (io->warmup) {
		r->c.warmup_ios++;
		return;
	}
	if (io->is_write) {
		r->c.writes++;
		r->c.write_bytes += io->size_bytes;
		r->c.writes_failed += !by;
		if (by) {
			latency_add(&r->write_latency, latency);
			latency_add(&r->write_response, lag + latency);
		}
	} else {
		r->c.reads++;
		r->c.read_bytes += io->size_bytes;
		r->c.reads_failed += !by;
		if (by) {
			latency_add(&r->read_latency, latency);
			latency_add(&r->read_response, lag + latency);
			series_add(r->series, r->done_ns - r->start_ns, latency, lag + latency);
			r->c.served_by[by->drive]++;
		}
		r->c.revoked += io->revocations > 0;
		r->c.revocations += io->revocations;
		r->c.hedged += !!(io->flags & IO_HEDGED);
		r->c.hedges_won += !!(io->flags & IO_HEDGE_WON);
		r->c.extra_ios += extra;
	}
	latency_add(&r->lag, lag);
	r->c.late_ios += lag > LATE_NS;
	if (r->log) {
		struct log_record record = {
			.due_ns = io->due_ns,
			.latency_ns = latency,
			.lag_ns = lag,
			.offset_bytes = io->offset_bytes,
			.size_bytes = io->size_bytes,
			.home = io->home,
			.op = io->is_write,
			.served_by = io->served_by,
			.flags = io->flags | (io->revocations ? IO_REVOKED : 0),
			.revocations = io->revocations,
			.extra_ios = extra,
			.device_latency_us =
				by ? saturate_u32((r->done_ns - by->submit_ns) / 1000) : 0,
		};

		log_append(r->log, &record);
	}
}

/* result: a negative errno, or how many bytes were done before the drive did no more. */
static void report_io_error(struct replay *r, const struct attempt *a, int result)
{
	char ended[48];

	snprintf(ended, sizeof(ended), "it ended after %d bytes", result);
	r->c.io_errors_by[a->drive]++;
	if (r->c.io_errors++ >= REPORTED_ERRORS)
		return;
	fprintf(stderr, "replayer: %s: %s of %u bytes at %llu: %s%s\n", r->devices[a->drive].path,
		a->io->is_write ? "write" : "read", a->io->size_bytes,
		(unsigned long long)a->io->offset_bytes, result < 0 ? strerror(-result) : ended,
		r->c.io_errors == REPORTED_ERRORS ? " (further I/O errors are counted, not printed)"
						  : "");
}

static void report_data_error(struct replay *r, const struct attempt *a,
			      const struct content_error *e, uint32_t blocks)
{
	if (r->c.data_errors++ >= REPORTED_ERRORS)
		return;
	fprintf(stderr,
		"replayer: DATA ERROR %s block %llu (byte %llu): word %u is %016llx, "
		"expected %016llx; generations %u to %u would do, ",
		r->devices[a->drive].path, (unsigned long long)e->block,
		(unsigned long long)e->block * BLOCK_BYTES, e->word, (unsigned long long)e->found,
		(unsigned long long)e->expected, e->low, e->high);
	if (e->found_known)
		fprintf(stderr, "the block claims %u", e->found_generation);
	else
		fprintf(stderr, "the block claims none");
	fprintf(stderr, "; %u of %u blocks wrong%s\n", blocks, io_pages(a->io),
		r->c.data_errors == REPORTED_ERRORS
			? " (further data errors are counted, not printed)"
			: "");
}

static void write_completed(struct replay *r, struct attempt *a, int result)
{
	struct user_io *io = a->io;
	bool ok = result == (int)io->size_bytes;

	content_done(&r->contents[a->drive], io->offset_bytes / BLOCK_BYTES, io_pages(io), ok);
	if (ok) {
		/* A replicated write is done with its last copy, and counted as the home drive's.
		 */
		if (io->served_by == SERVED_BY_NONE || a->drive == io->home)
			io->served_by = a->drive;
	} else {
		io->flags |= IO_ERROR;
		report_io_error(r, a, result);
	}
	if (io->storm) {
		io->answered = true;
		r->background_in_flight--;
		storm_written(r, io->storm, ok);
	} else if (!io->in_flight) {
		a->drive = io->served_by;
		answer(r, io, io->served_by == SERVED_BY_NONE ? NULL : a);
	}
}

/* Asks another replica after an error: one that was not asked yet, else one that only revoked. */
static void failover_on_error(struct replay *r, struct user_io *io)
{
	uint32_t all = (1u << r->n_drives) - 1;
	int drive;

	/* Another attempt, or a failover that waits for its timer, will bring the answer. */
	if (io->in_flight || (io->failing_over && io->timer.place))
		return;
	drive = replica_after_home(r, io, io->tried);
	if (drive < 0)
		drive = replica_after_home(r, io, io->failed);
	if (drive < 0 && !(io->failed & 1u << io->home))
		drive = io->home;
	if (io->failed == all || drive < 0) {
		answer(r, io, NULL);
		return;
	}
	r->c.failovers_on_error++;
	attempt_send(r, io, drive, SEND_PLAIN);
}

static void read_completed(struct replay *r, struct attempt *a, int result)
{
	struct user_io *io = a->io;
	struct content_error e;
	uint32_t wrong;

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
		report_io_error(r, a, result);
		if (!io->answered)
			failover_on_error(r, io);
		return;
	}
	wrong = check(r, a, &e);
	if (wrong) {
		report_data_error(r, a, &e, wrong);
		if (!io->answered)
			io->flags |= IO_DATA_ERROR;
	}
	if (!io->warmup)
		latency_add(&r->drive_latency[a->drive], r->done_ns - a->submit_ns);
	if (r->o.policy->answered)
		r->o.policy->answered(r, io, a);
	if (!io->answered) {
		answer(r, io, a);
		cancel_losers(r, io);
	}
}

bool attempts_timed_out(struct replay *r)
{
	uint64_t limit_ns = r->o.timeout_s * 1e9;
	struct attempt *first = r->earliest;

	if (!limit_ns || !first || first == r->unsubmitted ||
	    r->ring.now_ns - first->submit_ns < limit_ns)
		return false;
	for (struct attempt *a = first; a && a != r->unsubmitted; a = a->later)
		r->c.timed_out += r->ring.now_ns - a->submit_ns >= limit_ns;
	fprintf(stderr,
		"replayer: %s: %s of %u bytes at %llu has not come back in %g s (--timeout); "
		"%u I/Os are at this drive\n",
		r->devices[first->drive].path, first->io->is_write ? "write" : "read",
		first->io->size_bytes, (unsigned long long)first->io->offset_bytes, r->o.timeout_s,
		r->in_flight[first->drive]);
	return true;
}

void attempts_reap(struct replay *r)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n;

	do {
		n = 0;
		io_uring_for_each_cqe(&r->ring.uring, head, cqe)
		{
			struct attempt *a = io_uring_cqe_get_data(cqe);
			struct user_io *io;
			int result;

			n++;
			r->done_ns = ring_seen_ns(&r->ring, head);
			if (cqe->user_data == TICK_USER_DATA)
				ring_tick(&r->ring);
			if (cqe->user_data <= TICK_USER_DATA)
				continue;
			io = a->io;
			if (cqe->res == -EINVAL && io->tag)
				die("--tag: drive %s refused an I/O with the tag %u; I/O tags need "
				    "Linux 6.5 or later",
				    r->devices[a->drive].path, io->tag);
			if (continue_short(r, a, cqe->res))
				continue;
			result = cqe->res < 0 ? cqe->res : (int)a->done_bytes + cqe->res;
			attempt_done(r, a);
			if (io->is_write)
				write_completed(r, a, result);
			else
				read_completed(r, a, result);
			attempt_free(r, a);
			if (io->answered && !io->in_flight)
				user_io_free(r, io);
		}
		io_uring_cq_advance(&r->ring.uring, n);
	} while (n);
}
