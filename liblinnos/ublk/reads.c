// SPDX-License-Identifier: MIT
/* Reads: see mirror.h. */
#include "worker.h"
#include "program/program.h"

#include <errno.h>
#include <stdio.h>

/* Each worker reports this many failed reads individually. */
#define READS_REPORTED 10

static void report_failed_read(struct worker *w, const char *why)
{
	count(&w->stats.reads_failed, 1);
	if (w->stats.reads_failed > READS_REPORTED)
		return;
	warn("/dev/ublkb%u: %s%s", w->mirror->device.number, why,
	     w->stats.reads_failed == READS_REPORTED ? "; further failed reads are only counted"
						     : "");
}

/* @error_text is the reason if the result is negative. */
static void read_done(struct worker *w, const struct request *r, ssize_t result,
		      const char *error_text)
{
	char text[128];

	if (result >= 0 && (uint64_t)result < r->bytes) {
		snprintf(text, sizeof(text),
			 "read of %llu bytes at %llu: all replicas have become shorter",
			 (unsigned long long)r->bytes, (unsigned long long)r->start);
		error_text = text;
		result = -EIO;
	}
	if (result < 0)
		report_failed_read(w, error_text);
	else
		count(&w->stats.read_bytes, result);
	commit(w, r, (int)result);
}

static void read_sent(struct worker *w, struct io_uring_sqe *sqe)
{
	sqe->user_data |= READ_MARK;
	w->n_reading++;
}

void read_begin(struct worker *w, struct request *r)
{
	struct iovec iov = {.iov_base = buffer(w, r->tag), .iov_len = r->bytes};
	struct io_uring_sqe *sqe = get_sqe(w);
	int error = linnos_queue_prep_read(w->reads, sqe, &iov, 1, (off_t)r->start, NULL, r);

	read_sent(w, sqe);
	count(&w->stats.reads, 1);
	if (error)
		read_done(w, r, error, linnos_error());
}

static void read_resubmit(struct worker *w, struct linnos_read *read)
{
	struct io_uring_sqe *sqe = get_sqe(w);

	linnos_queue_prep_retry(read, sqe);
	read_sent(w, sqe);
}

void read_complete(struct worker *w, const struct io_uring_cqe *cqe)
{
	struct linnos_completion c;

	w->n_reading--;
	switch (linnos_queue_complete(cqe->user_data, cqe->res, &c)) {
	case LINNOS_READ_DONE:
		read_done(w, c.user, c.result, c.error_text ? c.error_text : linnos_error());
		break;
	case LINNOS_READ_RESUBMIT:
		read_resubmit(w, c.read);
		break;
	case LINNOS_READ_PENDING:
		break;
	}
}

void reads_resubmit_expired(struct worker *w)
{
	struct linnos_completion due;

	while (linnos_queue_next_expired(w->reads, &due) == LINNOS_READ_RESUBMIT)
		read_resubmit(w, due.read);
}
