// SPDX-License-Identifier: MIT
/* I/Os and their attempts: see attempts.h. */
#include "attempts.h"
#include "buffers.h"
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORTED_ERRORS 5

/*
 * Blocks are filled and checked in pieces, between which ring_worked() handles other I/Os.
 * Preparing a block for a read takes about as long as filling NOTE_BYTES.
 */
#define PIECE_BLOCKS 16u
#define NOTE_BYTES 512u

int replica_after_default(const struct replay *r, const struct io *io, uint32_t mask)
{
	for (unsigned int i = 1; i < r->n_drives; i++) {
		unsigned int drive = drive_after_default(r, io, i);

		if (!(mask & 1u << drive))
			return drive;
	}
	return -1;
}

struct io *io_new(struct replay *r)
{
	struct io *io = r->free_ios;

	if (io)
		r->free_ios = io->next_free;
	else
		io = xcalloc(1, sizeof(*io));
	memset(io, 0, sizeof(*io));
	io->served_by = SERVED_BY_NONE;
	return io;
}

static void io_free(struct replay *r, struct io *io)
{
	timer_disarm(&r->timers, &io->timer);
	io->next_free = r->free_ios;
	r->free_ios = io;
}

static struct attempt *attempt_new(struct replay *r, struct io *io, unsigned int drive)
{
	struct attempt *a = r->free_attempts;

	if (a)
		r->free_attempts = a->next;
	else
		a = xcalloc(1, sizeof(*a));
	a->io = io;
	a->buffer = buffer_get(r->buffers, io->size_bytes);
	a->drive = drive;
	a->hinted = false;
	a->hedge = false;
	a->orphaned = false;
	a->predicted_us = 0;
	a->done_bytes = 0;
	a->next = io->in_flight;
	io->in_flight = a;
	io->tried |= 1u << drive;
	io->sent++;
	a->met = r->in_flight[drive]++;
	r->pending_pages[drive] += io_pages(io);
	observer_sent(&r->observers[drive], &a->observed, r->ring.now_ns, io->offset_bytes,
		      io_pages(io), !io->is_write);
	return a;
}

static enum observed_end end_of(const struct attempt *a, int result)
{
	if (result == (int)a->io->size_bytes)
		return OBSERVED_ANSWERED;
	if ((a->orphaned && result == -ECANCELED) || (a->hinted && result == -EBUSY))
		return OBSERVED_IGNORED;
	return OBSERVED_FAILED;
}

static void attempt_done(struct replay *r, struct attempt *a, int result)
{
	struct attempt **p = &a->io->in_flight;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	*(a->earlier ? &a->earlier->later : &r->earliest) = a->later;
	*(a->later ? &a->later->earlier : &r->latest) = a->earlier;
	r->pending_pages[a->drive] -= io_pages(a->io);
	r->in_flight[a->drive]--;
	observer_ended(&r->observers[a->drive], &a->observed, r->done_ns, end_of(a, result));
	if (a->orphaned) {
		r->orphans[a->drive]--;
		r->orphans_in_flight--;
	}
}

static void attempt_free(struct replay *r, struct attempt *a)
{
	buffer_put(r->buffers, a->buffer);
	a->next = r->free_attempts;
	r->free_attempts = a;
}

/* The attempt's submission queue entry is complete. */
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
		struct io *io = a->io;

		a->submit_ns = r->ring.now_ns;
		observer_submitted(&r->observers[a->drive], &a->observed, r->ring.now_ns);
		if (io->submitted)
			continue;
		/* The hedge delay counts from the submission, not from the preparation. */
		if (io->timer.place && !io->failing_over && r->ring.now_ns > io->submit_ns)
			timer_arm(&r->timers, &io->timer,
				  io->timer.at_ns + (r->ring.now_ns - io->submit_ns));
		io->submit_ns = r->ring.now_ns;
		io->submitted = true;
	}
	r->unsubmitted = NULL;
}

/* Queue the part of the attempt that is not done yet. */
static void queue(struct replay *r, struct attempt *a)
{
	static const int operations[][2] = {{IORING_OP_READ, IORING_OP_READ_FIXED},
					    {IORING_OP_WRITE, IORING_OP_WRITE_FIXED}};
	const struct io *io = a->io;
	struct io_uring_sqe *sqe = ring_sqe(&r->ring);
	bool is_fixed = a->buffer->registered >= 0;

	io_uring_prep_rw(operations[io->is_write][is_fixed], sqe, a->drive,
			 (char *)a->buffer->data + a->done_bytes, io->size_bytes - a->done_bytes,
			 io->offset_bytes + a->done_bytes);
	if (is_fixed)
		sqe->buf_index = a->buffer->registered;
	sqe->flags |= IOSQE_FIXED_FILE;
	if (a->hinted)
		sqe->rw_flags = RWF_LATCRIT;
	/*
	 * Use best effort with the middle priority, the usual default. Without an explicit class
	 * the kernel would replace the tag by the process's priority.
	 */
	sqe->ioprio = io->tag ? 2 << 13 | io->tag << 3 | 4 : 0;
	io_uring_sqe_set_data(sqe, a);
}

/*
 * If at least one more block was done by a short completion, resubmit the rest, beginning with the
 * first block that is not done. The rest of a hinted read has no hint, because a part of a read
 * cannot be revoked.
 */
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

void attempt_send(struct replay *r, struct io *io, unsigned int drive, unsigned int flags)
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

static uint32_t piece(const struct io *io, uint32_t block)
{
	return io_pages(io) - block < PIECE_BLOCKS ? io_pages(io) - block : PIECE_BLOCKS;
}

uint32_t attempt_check(struct replay *r, const struct attempt *a, struct content_error *e)
{
	uint64_t block = a->io->offset_bytes / BLOCK_BYTES;
	uint64_t unverified = r->c.unverified_blocks;
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
	r->c.blocks_checked += io_pages(a->io) - (r->c.unverified_blocks - unverified);
	return wrong;
}

void write_send(struct replay *r, struct io *io, unsigned int drive)
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

void background_write(struct replay *r, unsigned int drive, uint64_t offset_bytes,
		      uint32_t size_bytes, void (*done)(struct replay *, struct attempt *, int),
		      void *owner)
{
	struct io *io = io_new(r);

	io->done = done;
	io->owner = owner;
	io->offset_bytes = offset_bytes;
	io->size_bytes = size_bytes;
	io->is_write = true;
	io->default_drive = drive;
	io->submit_ns = r->ring.now_ns;
	write_send(r, io, drive);
}

void attempts_cancel(struct replay *r, struct io *io)
{
	for (struct attempt *a = io->in_flight; a; a = a->next) {
		struct io_uring_sqe *sqe = ring_sqe(&r->ring);

		a->orphaned = true;
		r->orphans_in_flight++;
		if (++r->orphans[a->drive] > r->c.orphans_max)
			r->c.orphans_max = r->orphans[a->drive];
		io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)a, 0);
		sqe->user_data = CANCEL_USER_DATA;
		r->c.cancels_tried++;
	}
}

void attempt_failed(struct replay *r, const struct attempt *a, int result)
{
	char ended[48];

	snprintf(ended, sizeof(ended), "only %d bytes were transferred", result);
	r->c.io_errors_by[a->drive]++;
	if (r->c.io_errors++ >= REPORTED_ERRORS)
		return;
	fprintf(stderr, "replayer: %s: %s of %u bytes at %llu: %s%s\n", r->devices[a->drive].path,
		a->io->is_write ? "write" : "read", a->io->size_bytes,
		(unsigned long long)a->io->offset_bytes, result < 0 ? strerror(-result) : ended,
		r->c.io_errors == REPORTED_ERRORS ? " (further I/O errors are counted, not printed)"
						  : "");
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
		"replayer: %s: %s of %u bytes at %llu was not completed in %g s (--timeout); the "
		"drive has %u I/Os in flight\n",
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
			struct io *io;
			int result;

			n++;
			r->done_ns = ring_seen_ns(&r->ring, head);
			if (cqe->user_data == CANCEL_USER_DATA)
				continue;
			io = a->io;
			if (cqe->res == -EINVAL && io->tag)
				die("--tag: drive %s refused an I/O with the tag %u; I/O tags need "
				    "Linux 6.5 or later",
				    r->devices[a->drive].path, io->tag);
			if (continue_short(r, a, cqe->res))
				continue;
			result = cqe->res < 0 ? cqe->res : (int)a->done_bytes + cqe->res;
			attempt_done(r, a, result);
			if (io->is_write)
				content_done(&r->contents[a->drive], io->offset_bytes / BLOCK_BYTES,
					     io_pages(io), result == (int)io->size_bytes);
			io->done(r, a, result);
			attempt_free(r, a);
			if (io->answered && !io->in_flight)
				io_free(r, io);
		}
		io_uring_cq_advance(&r->ring.uring, n);
	} while (n);
}
