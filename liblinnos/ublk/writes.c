// SPDX-License-Identifier: MIT
/* Writes, zeros and flushes, which are sent to each replica: see mirror.h. */
#include "worker.h"
#include "program/program.h"
#include "record.h"
#include "ublk_abi.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_zeroing(const struct request *r)
{
	return r->op == UBLK_IO_OP_DISCARD || r->op == UBLK_IO_OP_WRITE_ZEROES;
}

/* Discarded blocks must read as zeros, too, because their content must not depend on the
 * replica. */
static int hole_mode(const struct mirror *m, const struct request *r, unsigned int k)
{
	if (m->replicas[k].is_block && (r->keeps_blocks || r->writes_zeroes & 1u << k))
		return FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
	return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
}

static void submit_replica_write(struct worker *w, struct request *r, unsigned int k)
{
	const struct mirror *m = w->mirror;
	struct io_uring_sqe *sqe = get_sqe(w);
	int fd = m->replicas[k].fd;

	if (r->op == UBLK_IO_OP_FLUSH || r->synced & 1u << k)
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	else if (is_zeroing(r))
		io_uring_prep_fallocate(sqe, fd, hole_mode(m, r, k), (off_t)r->start,
					(off_t)r->bytes);
	else
		io_uring_prep_write(sqe, fd, buffer(w, r->tag) + r->written[k],
				    r->bytes - r->written[k], r->start + r->written[k]);
	if (r->op == UBLK_IO_OP_WRITE && r->is_fua)
		sqe->rw_flags = RWF_DSYNC;
	sqe->user_data = user_data_pack(
		&(struct user_data){.kind = KIND_REPLICA_WRITE, .tag = r->tag, .replica = k});
}

static void submit_replica_writes(struct worker *w, struct request *r)
{
	struct mirror *m = w->mirror;

	r->sent = mirror_in(m);
	r->failed = r->writes_zeroes = r->synced = 0;
	memset(r->written, 0, sizeof(r->written));
	for (unsigned int k = 0; k < m->n; k++)
		if (r->sent & 1u << k) {
			r->n_replica_writes++;
			if (r->op == UBLK_IO_OP_WRITE)
				linnos_array_write_start(m->array, &r->attempts[k], k, r->bytes);
			submit_replica_write(w, r, k);
		}
}

/* Return true if the replica write must be submitted again: it was interrupted or incomplete, or
 * another method is needed. */
static bool replica_write_resubmit(const struct mirror *m, struct request *r, unsigned int k,
				   int result)
{
	uint32_t bit = 1u << k;

	if (result == -EINTR)
		return true;
	if (is_zeroing(r) && m->replicas[k].is_block && !r->keeps_blocks &&
	    !(r->writes_zeroes & bit) && result == -EOPNOTSUPP) {
		r->writes_zeroes |= bit;
		return true;
	}
	if (is_zeroing(r) && r->is_fua && !(r->synced & bit) && !result) {
		r->synced |= bit;
		return true;
	}
	if (r->op != UBLK_IO_OP_WRITE || result <= 0)
		return false;
	r->written[k] += result;
	return r->written[k] < r->bytes;
}

static const char *name_of(const struct request *r)
{
	static const char *const names[] = {
		[UBLK_IO_OP_WRITE] = "write",
		[UBLK_IO_OP_FLUSH] = "flush",
		[UBLK_IO_OP_DISCARD] = "discard",
		[UBLK_IO_OP_WRITE_ZEROES] = "zeroing",
	};

	return names[r->op];
}

/*
 * Drop a replica. The caller holds the lock. The order matters: a thread that finds the replica
 * removed from `in` sees no later read sent there, and a server that takes over from this one sends
 * none either.
 */
static void drop(struct mirror *m, unsigned int k, const struct request *r)
{
	const uint32_t in = m->in & ~(1u << k);
	int error = 0, state_error;

	linnos_array_drop_replica(m->array, k);
	snprintf(m->why_dropped[k], sizeof(m->why_dropped[k]), "%s of %llu bytes at %llu: %s",
		 name_of(r), (unsigned long long)r->bytes, (unsigned long long)r->start,
		 strerror(-r->errors[k]));
	state_error = state_drop(&m->state, k);
	if (m->recorded)
		error = record_write(m->device.number, m->recorded, m->n, in);
	__atomic_store_n(&m->in, in, __ATOMIC_RELEASE);
	warn("/dev/ublkb%u: %s DROPPED: %s; it is no longer used, and is out of date until "
	     "--resync has copied the missing data to it; %d of %u replicas left",
	     m->device.number, m->replicas[k].path, m->why_dropped[k], __builtin_popcount(in),
	     m->n);
	if (state_error)
		warn("/dev/ublkb%u: the drop cannot be recorded in %s: %s; from now on all writes "
		     "fail, because after a crash %s would be taken for up to date; make the file "
		     "writable, stop the server, and start it with --resync",
		     m->device.number, m->state.path, strerror(-state_error), m->replicas[k].path);
	if (error)
		warn("/dev/ublkb%u: the drop cannot be recorded in /run/linnos-ublk: %s; the "
		     "device cannot be recovered if this server is killed",
		     m->device.number, strerror(-error));
}

/*
 * A flush that has failed may succeed when it is repeated, without the data that it should have
 * covered. A replica that fails a flush is therefore dropped before the others have answered: this
 * server may be killed until then, and the server that takes over must know. The last replica is
 * left to drop_failed().
 */
static void replica_write_failed(struct mirror *m, const struct request *r, unsigned int k)
{
	const uint32_t bit = 1u << k;
	const bool is_flush =
		r->op == UBLK_IO_OP_FLUSH || (r->is_fua && (!is_zeroing(r) || r->synced & bit));

	if (!is_flush)
		return;
	pthread_mutex_lock(&m->lock);
	if (m->in & bit && m->in & ~r->failed)
		drop(m, k, r);
	pthread_mutex_unlock(&m->lock);
}

/* Drop the replicas on which the write has failed, and return the result for the device. The caller
 * holds the lock. */
static int drop_failed(struct mirror *m, const struct request *r)
{
	uint32_t failed = r->failed & m->in, kept = m->in & ~failed;
	bool changed = false;
	int error = 0;

	if (!failed)
		return (int)r->bytes;
	for (unsigned int k = 0; k < m->n; k++)
		if (failed & 1u << k) {
			changed = changed || !is_zeroing(r) || r->errors[k] != -EOPNOTSUPP;
			error = error ? error : r->errors[k];
		}
	/* All replicas failed and none was changed: they are as equal as before. */
	if (!kept && !changed)
		return error;
	/* Keep one replica as the mirror's last one. Several of them might return the old data in
	 * one read and the new data in another. */
	if (!kept)
		failed &= failed - 1;
	for (unsigned int k = 0; k < m->n; k++)
		if (failed & 1u << k)
			drop(m, k, r);
	return kept ? (int)r->bytes : error;
}

static int result_of(struct mirror *m, const struct request *r)
{
	int result;

	if (__atomic_load_n(&m->state.is_lost, __ATOMIC_ACQUIRE))
		return -EIO;
	if (!r->failed)
		return (int)r->bytes;
	pthread_mutex_lock(&m->lock);
	result = drop_failed(m, r);
	if (m->state.is_lost)
		result = -EIO;
	pthread_mutex_unlock(&m->lock);
	return result;
}

static bool overlaps_earlier(const struct request *r)
{
	for (const struct request *w = r->earlier; w; w = w->earlier)
		if (w->start < r->start + r->bytes && r->start < w->start + w->bytes)
			return true;
	return false;
}

static int64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec;
}

/* The caller holds the lock. */
static void write_state(struct worker *w)
{
	struct mirror *m = w->mirror;
	struct io_uring_sqe *sqe = get_sqe(w);
	const size_t bytes = state_stage(&m->state);

	io_uring_prep_write(sqe, m->state.fd, m->state.staged, bytes, STATE_BITS_OFFSET);
	sqe->user_data = user_data_pack(&(struct user_data){.kind = KIND_STATE});
	w->n_messages++;
}

void write_begin(struct worker *w, struct request *r)
{
	struct mirror *m = w->mirror;
	bool waits, is_recorded;

	pthread_mutex_lock(&m->lock);
	r->later = NULL;
	r->earlier = m->last_write;
	*(m->last_write ? &m->last_write->later : &m->first_write) = r;
	m->last_write = r;
	waits = overlaps_earlier(r);
	r->waits = waits;
	m->n_waiting += waits;
	r->record_error = 0;
	is_recorded = state_touch(&m->state, r->start, r->bytes);
	r->is_recorded = is_recorded;
	if (!is_recorded && !m->state.is_writing)
		write_state(w);
	pthread_mutex_unlock(&m->lock);
	count(&w->stats.waited, waits);
	if (!waits && is_recorded)
		submit_replica_writes(w, r);
}

void flush_begin(struct worker *w, struct request *r)
{
	struct mirror *m = w->mirror;

	r->start = r->bytes = 0;
	pthread_mutex_lock(&m->lock);
	r->sweeps = state_sweep_begin(&m->state, now_s());
	/* The flush may not cover the writes in flight. */
	for (const struct request *o = m->first_write; r->sweeps && o; o = o->later)
		state_touch(&m->state, o->start, o->bytes);
	pthread_mutex_unlock(&m->lock);
	submit_replica_writes(w, r);
}

static void flush_end(struct worker *w, struct request *r)
{
	struct mirror *m = w->mirror;

	if (!r->sweeps)
		return;
	pthread_mutex_lock(&m->lock);
	if (state_sweep_end(&m->state, !r->failed, now_s()) && !m->state.is_writing)
		write_state(w);
	pthread_mutex_unlock(&m->lock);
}

/* Start a deferred write. The caller holds the lock, so if the write has failed and belongs to this
 * worker, it is ended later, by a completion of this worker's own ring. */
static void write_start_deferred(struct worker *w, struct request *r)
{
	struct io_uring_sqe *sqe;

	if (r->worker != w) {
		send_message(w, r->worker, KIND_WRITE_MAY_START, r->tag);
	} else if (!r->record_error) {
		submit_replica_writes(w, r);
	} else {
		sqe = get_sqe(w);
		io_uring_prep_nop(sqe);
		sqe->user_data = user_data_pack(
			&(struct user_data){.kind = KIND_WRITE_MAY_START, .tag = r->tag});
	}
}

static void write_end(struct worker *w, struct request *r)
{
	struct mirror *m = w->mirror;

	pthread_mutex_lock(&m->lock);
	*(r->earlier ? &r->earlier->later : &m->first_write) = r->later;
	*(r->later ? &r->later->earlier : &m->last_write) = r->earlier;
	for (struct request *next = r->later; m->n_waiting && next; next = next->later)
		if (next->waits && !overlaps_earlier(next)) {
			next->waits = false;
			m->n_waiting--;
			if (next->is_recorded)
				write_start_deferred(w, next);
		}
	pthread_mutex_unlock(&m->lock);
}

static void count_write(struct mirror_stats *s, const struct request *r, int result)
{
	count(&s->writes_failed, result < 0);
	if (r->op == UBLK_IO_OP_FLUSH) {
		count(&s->flushes, 1);
	} else if (is_zeroing(r)) {
		count(&s->zeroed, 1);
		count(&s->zeroed_bytes, result < 0 ? 0 : r->bytes);
	} else {
		count(&s->writes, 1);
		count(&s->written_bytes, result < 0 ? 0 : r->bytes);
	}
}

void write_continue(struct worker *w, struct request *r)
{
	int error;

	pthread_mutex_lock(&w->mirror->lock);
	error = r->record_error;
	pthread_mutex_unlock(&w->mirror->lock);
	if (!error) {
		submit_replica_writes(w, r);
		return;
	}
	count_write(&w->stats, r, -EIO);
	write_end(w, r);
	commit(w, r, -EIO);
}

void state_write_complete(struct worker *w, int result)
{
	struct mirror *m = w->mirror;
	bool again = false;
	int error;

	w->n_messages--;
	pthread_mutex_lock(&m->lock);
	error = state_staged(&m->state, result);
	for (struct request *r = m->first_write; r; r = r->later) {
		if (r->is_recorded)
			continue;
		r->record_error = error;
		r->is_recorded = error || state_is_recorded(&m->state, r->start, r->bytes);
		again = again || !r->is_recorded;
		if (r->is_recorded && !r->waits)
			write_start_deferred(w, r);
	}
	if (again)
		write_state(w);
	pthread_mutex_unlock(&m->lock);
}

void replica_write_complete(struct worker *w, struct request *r, unsigned int k, int result)
{
	struct mirror *m = w->mirror;

	if (replica_write_resubmit(m, r, k, result)) {
		submit_replica_write(w, r, k);
		return;
	}
	if (r->op == UBLK_IO_OP_WRITE)
		linnos_array_write_complete(m->array, &r->attempts[k]);
	/* A result of no bytes means that the replica ends there, which the others do not. */
	if (r->op == UBLK_IO_OP_WRITE && !result)
		result = -ENOSPC;
	if (result < 0) {
		r->failed |= 1u << k;
		r->errors[k] = result;
		replica_write_failed(m, r, k);
	}
	if (--r->n_replica_writes)
		return;
	result = result_of(m, r);
	count_write(&w->stats, r, result);
	if (r->op == UBLK_IO_OP_FLUSH)
		flush_end(w, r);
	else
		write_end(w, r);
	commit(w, r, result);
}
