// SPDX-License-Identifier: MIT
/* Serves the device's requests: see mirror.h. */
#include "mirror.h"
#include "die.h"
#include "record.h"
#include "ublk_abi.h"

#include <errno.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR_SHIFT 9
/* Reads that no replica could answer are each told of, up to so many. */
#define READS_TOLD 10
/* How long nothing must come before a device that can be recovered is stopped, and how often that
 * is waited for at most. */
#define PAUSE_NS 100000000
#define PAUSES_MAX 50

/* What our completions are of; those of reads are liblinnos' handles, marked by both low bits. */
enum kind {
	OF_FETCH,
	OF_LEG,
	OF_START,
	OF_PAUSE,
	OF_STOP,
	OF_SIGNAL,
};
#define READ_MARK 3u
#define KIND_SHIFT 2
#define REPLICA_SHIFT 5
#define TAG_SHIFT 16

struct request {
	struct request *earlier, *later; /* of the writes */
	unsigned int tag, op;
	bool is_fua, keeps_blocks; /* keeps_blocks: zeros are to be written, not holes made */
	bool waits;
	uint64_t start, bytes;
	unsigned int n_legs;	/* under way */
	uint32_t sent, failed;	/* replicas, by bit */
	uint32_t writes_zeroes; /* that cannot make holes after all */
	uint32_t synced;	/* FUA of zeros: the sync has been sent */
	int errors[REPLICAS_MAX];
	uint32_t written[REPLICAS_MAX];		  /* bytes */
	struct linnos_sending told[REPLICAS_MAX]; /* of writes, by which reads are predicted */
};

static uint64_t user_data(enum kind kind, unsigned int tag, unsigned int replica)
{
	return (uint64_t)tag << TAG_SHIFT | replica << REPLICA_SHIFT | kind << KIND_SHIFT;
}

static char *buffer(const struct mirror *m, unsigned int tag)
{
	return m->buffers + (size_t)tag * m->device.request_bytes_max;
}

static struct io_uring_sqe *get_sqe(struct mirror *m)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&m->ring)))
		io_uring_submit(&m->ring);
	return sqe;
}

static void commit(struct mirror *m, const struct request *r, int result)
{
	struct io_uring_sqe *sqe = get_sqe(m);

	ublk_prep_commit(&m->device, sqe, r->tag, buffer(m, r->tag), result);
	sqe->user_data = user_data(OF_FETCH, r->tag, 0);
	m->answered++;
}

/* --- Reads ------------------------------------------------------------------ */

static void read_failed(struct mirror *m)
{
	if (++m->stats.reads_failed > READS_TOLD)
		return;
	complain("/dev/ublkb%u: %s%s", m->device.number, linnos_error(),
		 m->stats.reads_failed == READS_TOLD ? "; more of them are only counted" : "");
}

static void read_done(struct mirror *m, const struct request *r, ssize_t result)
{
	/* A replica has become shorter. */
	if (result >= 0 && (uint64_t)result < r->bytes)
		result = -EIO;
	if (result < 0)
		read_failed(m);
	else
		m->stats.read_bytes += result;
	commit(m, r, (int)result);
}

static void read_begin(struct mirror *m, struct request *r)
{
	struct iovec iov = {.iov_base = buffer(m, r->tag), .iov_len = r->bytes};
	struct io_uring_sqe *sqe = get_sqe(m);
	int error = linnos_prep_read(m->queue, sqe, &iov, 1, (off_t)r->start, NULL, r);

	sqe->user_data |= READ_MARK;
	m->stats.reads++;
	if (error)
		read_done(m, r, error);
}

static void read_again(struct mirror *m, struct linnos_read *read)
{
	struct io_uring_sqe *sqe = get_sqe(m);

	linnos_prep_again(read, sqe);
	sqe->user_data |= READ_MARK;
}

static void read_heard(struct mirror *m, const struct io_uring_cqe *cqe)
{
	struct linnos_completion c;

	switch (linnos_complete(cqe->user_data, cqe->res, &c)) {
	case LINNOS_DONE:
		read_done(m, c.user, c.result);
		break;
	case LINNOS_AGAIN:
		read_again(m, c.read);
		break;
	case LINNOS_NOTHING:
		break;
	}
}

/* --- Writes, zeros and flushes: a leg to each replica -------------------------- */

static bool is_zeroing(const struct request *r)
{
	return r->op == UBLK_IO_OP_DISCARD || r->op == UBLK_IO_OP_WRITE_ZEROES;
}

/* Discarded blocks read as zeros, too: what they hold must not depend on the replica. */
static int hole_mode(const struct mirror *m, const struct request *r, unsigned int k)
{
	if (m->replicas[k].is_block && (r->keeps_blocks || r->writes_zeroes & 1u << k))
		return FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
	return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
}

static void send_leg(struct mirror *m, struct request *r, unsigned int k)
{
	struct io_uring_sqe *sqe = get_sqe(m);
	int fd = m->replicas[k].fd;

	if (r->op == UBLK_IO_OP_FLUSH || r->synced & 1u << k)
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	else if (is_zeroing(r))
		io_uring_prep_fallocate(sqe, fd, hole_mode(m, r, k), (off_t)r->start,
					(off_t)r->bytes);
	else
		io_uring_prep_write(sqe, fd, buffer(m, r->tag) + r->written[k],
				    r->bytes - r->written[k], r->start + r->written[k]);
	if (r->op == UBLK_IO_OP_WRITE && r->is_fua)
		sqe->rw_flags = RWF_DSYNC;
	sqe->user_data = user_data(OF_LEG, r->tag, k);
}

static void send_legs(struct mirror *m, struct request *r)
{
	r->sent = m->in;
	r->failed = r->writes_zeroes = r->synced = 0;
	memset(r->written, 0, sizeof(r->written));
	for (unsigned int k = 0; k < m->n; k++)
		if (r->sent & 1u << k) {
			r->n_legs++;
			if (r->op == UBLK_IO_OP_WRITE)
				linnos_write_begins(m->array, &r->told[k], k, r->bytes);
			send_leg(m, r, k);
		}
}

/* More is to be done there: interrupted, done in part, or in another way. */
static bool leg_goes_on(const struct mirror *m, struct request *r, unsigned int k, int result)
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

static void drop(struct mirror *m, unsigned int k, const struct request *r)
{
	int error;

	m->in &= ~(1u << k);
	linnos_drop(m->array, k);
	snprintf(m->why_dropped[k], sizeof(m->why_dropped[k]), "%s of %llu bytes at %llu: %s",
		 name_of(r), (unsigned long long)r->bytes, (unsigned long long)r->start,
		 strerror(-r->errors[k]));
	complain("/dev/ublkb%u: %s DROPPED: %s; it is not read or written any more, and out of "
		 "date: copy it anew before it is in a mirror again; %d of %u replicas left",
		 m->device.number, m->replicas[k].path, m->why_dropped[k],
		 __builtin_popcount(m->in), m->n);
	if (!m->recorded)
		return;
	error = record_write(m->device.number, m->recorded, m->n, m->in);
	if (error)
		complain("/dev/ublkb%u: that cannot be recorded: %s; it is not recovered should "
			 "this "
			 "server be killed",
			 m->device.number, strerror(-error));
}

/*
 * Done once more, a flush may succeed that has failed, without what it should have covered. So who
 * fails one is dropped before the others have answered, for we may be killed until then, and who
 * takes our place must know. The last one that is left is for judge().
 */
static void leg_failed(struct mirror *m, const struct request *r, unsigned int k)
{
	const uint32_t bit = 1u << k;
	const bool is_flush =
		r->op == UBLK_IO_OP_FLUSH || (r->is_fua && (!is_zeroing(r) || r->synced & bit));

	if (is_flush && m->in & bit && m->in & ~r->failed)
		drop(m, k, r);
}

/* All legs have ended: who is dropped, and what the device answers. */
static int judge(struct mirror *m, const struct request *r)
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
	/* None can, and nothing was done: they are as equal as before. */
	if (!kept && !changed)
		return error;
	/* The mirror is not without the last one; with others, it could answer now the old and now
	 * the new. */
	if (!kept)
		failed &= failed - 1;
	for (unsigned int k = 0; k < m->n; k++)
		if (failed & 1u << k)
			drop(m, k, r);
	return kept ? (int)r->bytes : error;
}

static bool overlaps_earlier(const struct request *r)
{
	for (const struct request *w = r->earlier; w; w = w->earlier)
		if (w->start < r->start + r->bytes && r->start < w->start + w->bytes)
			return true;
	return false;
}

static void write_begin(struct mirror *m, struct request *r)
{
	r->later = NULL;
	r->earlier = m->last_write;
	*(m->last_write ? &m->last_write->later : &m->first_write) = r;
	m->last_write = r;
	r->waits = overlaps_earlier(r);
	m->n_waiting += r->waits;
	m->stats.waited += r->waits;
	if (!r->waits)
		send_legs(m, r);
}

static void write_end(struct mirror *m, struct request *r)
{
	*(r->earlier ? &r->earlier->later : &m->first_write) = r->later;
	*(r->later ? &r->later->earlier : &m->last_write) = r->earlier;
	for (struct request *w = r->later; m->n_waiting && w; w = w->later)
		if (w->waits && !overlaps_earlier(w)) {
			w->waits = false;
			m->n_waiting--;
			send_legs(m, w);
		}
}

static void count(struct mirror_stats *s, const struct request *r, int result)
{
	s->writes_failed += result < 0;
	if (r->op == UBLK_IO_OP_FLUSH) {
		s->flushes++;
	} else if (is_zeroing(r)) {
		s->zeroed++;
		s->zeroed_bytes += result < 0 ? 0 : r->bytes;
	} else {
		s->writes++;
		s->written_bytes += result < 0 ? 0 : r->bytes;
	}
}

static void leg_heard(struct mirror *m, struct request *r, unsigned int k, int result)
{
	if (leg_goes_on(m, r, k, result)) {
		send_leg(m, r, k);
		return;
	}
	if (r->op == UBLK_IO_OP_WRITE)
		linnos_write_ended(m->array, &r->told[k]);
	/* An answer of no bytes is an end that is not there for the others. */
	if (r->op == UBLK_IO_OP_WRITE && !result)
		result = -ENOSPC;
	if (result < 0) {
		r->failed |= 1u << k;
		r->errors[k] = result;
		leg_failed(m, r, k);
	}
	if (--r->n_legs)
		return;
	result = judge(m, r);
	count(&m->stats, r, result);
	if (r->op != UBLK_IO_OP_FLUSH)
		write_end(m, r);
	commit(m, r, result);
}

/* --- The device ------------------------------------------------------------------ */

static void serve(struct mirror *m, struct request *r)
{
	const struct ublksrv_io_desc *d = &m->device.requests[r->tag];

	r->op = ublksrv_get_op(d);
	r->is_fua = d->op_flags & UBLK_IO_F_FUA;
	r->keeps_blocks = r->op == UBLK_IO_OP_WRITE_ZEROES && d->op_flags & UBLK_IO_F_NOUNMAP;
	r->start = d->start_sector << SECTOR_SHIFT;
	r->bytes = (uint64_t)d->nr_sectors << SECTOR_SHIFT;
	switch (r->op) {
	case UBLK_IO_OP_READ:
		read_begin(m, r);
		break;
	case UBLK_IO_OP_FLUSH:
		r->start = r->bytes = 0;
		send_legs(m, r);
		break;
	case UBLK_IO_OP_WRITE:
	case UBLK_IO_OP_DISCARD:
	case UBLK_IO_OP_WRITE_ZEROES:
		write_begin(m, r);
		break;
	default:
		commit(m, r, -EOPNOTSUPP);
	}
}

static void send_command(struct mirror *m, enum ublk_command command)
{
	struct io_uring_sqe *sqe = get_sqe(m);

	ublk_prep_command(&m->device, sqe, command);
	sqe->user_data = user_data(command == UBLK_START ? OF_START : OF_STOP, 0, 0);
	m->n_commands++;
}

static void pause_before_stop(struct mirror *m)
{
	struct io_uring_sqe *sqe = get_sqe(m);

	m->given_before = m->given;
	m->pause.tv_nsec = PAUSE_NS;
	io_uring_prep_timeout(sqe, &m->pause, 0, 0);
	sqe->user_data = user_data(OF_PAUSE, 0, 0);
	m->n_commands++;
}

static void paused(struct mirror *m)
{
	m->n_commands--;
	if ((m->given != m->given_before || m->given != m->answered) && ++m->n_pauses < PAUSES_MAX)
		pause_before_stop(m);
	else
		send_command(m, UBLK_STOP);
}

/*
 * The kernel waits for what we have, which is served meanwhile, and ends every fetch. What it has
 * yet to give us it fails, if the device can be recovered: what a killed server had left, for a
 * moment after START, and what waits for a tag. So such a device is stopped when no more comes.
 */
static void stop(struct mirror *m)
{
	if (m->is_stopping)
		return;
	if (m->is_starting) {
		m->stops_when_started = true;
		return;
	}
	m->is_stopping = true;
	if (m->recorded && !m->start_error)
		pause_before_stop(m);
	else
		send_command(m, UBLK_STOP);
}

static void started(struct mirror *m, int error)
{
	m->n_commands--;
	m->is_starting = false;
	m->start_error = error;
	if (!error)
		m->report(m, "ready", m->context);
	if (error || m->stops_when_started)
		stop(m);
}

static void fetched(struct mirror *m, struct request *r, int result)
{
	if (result == UBLK_IO_RES_OK) {
		m->given++;
		serve(m, r);
		return;
	}
	m->n_fetching--;
	if (result == UBLK_IO_RES_ABORT || m->is_stopping)
		return;
	complain("/dev/ublkb%u: the kernel gives no more requests: %s", m->device.number,
		 strerror(-result));
	stop(m);
}

static void wait_for_signal(struct mirror *m)
{
	struct io_uring_sqe *sqe = get_sqe(m);

	io_uring_prep_read(sqe, m->signals, &m->signal, sizeof(m->signal), 0);
	sqe->user_data = user_data(OF_SIGNAL, 0, 0);
}

static void signalled(struct mirror *m, int result)
{
	if (result == sizeof(m->signal)) {
		if (m->signal.ssi_signo == SIGUSR1)
			m->report(m, m->is_stopping ? "stopping" : "running", m->context);
		else
			stop(m);
	}
	wait_for_signal(m);
}

static void hear(struct mirror *m, const struct io_uring_cqe *cqe)
{
	struct request *r = &m->requests[cqe->user_data >> TAG_SHIFT];

	if ((cqe->user_data & READ_MARK) == READ_MARK) {
		read_heard(m, cqe);
		return;
	}
	switch ((enum kind)(cqe->user_data >> KIND_SHIFT & 7)) {
	case OF_FETCH:
		fetched(m, r, cqe->res);
		break;
	case OF_LEG:
		leg_heard(m, r, cqe->user_data >> REPLICA_SHIFT & (REPLICAS_MAX - 1), cqe->res);
		break;
	case OF_START:
		started(m, cqe->res);
		break;
	case OF_PAUSE:
		paused(m);
		break;
	case OF_STOP:
		m->n_commands--;
		break;
	case OF_SIGNAL:
		signalled(m, cqe->res);
		break;
	}
}

static void wait_for_more(struct mirror *m)
{
	int64_t wait_ns = m->hedges ? linnos_due_ns(m->queue) : -1;
	struct __kernel_timespec t = {wait_ns / 1000000000, wait_ns % 1000000000};
	struct io_uring_cqe *cqe;

	if (wait_ns < 0)
		io_uring_submit_and_wait(&m->ring, 1);
	else
		io_uring_submit_and_wait_timeout(&m->ring, &cqe, 1, &t, NULL);
}

static uint64_t reads_in_flight(const struct mirror *m)
{
	struct linnos_stats stats;

	linnos_get_stats(m->array, &stats, sizeof(stats));
	return stats.in_flight;
}

void mirror_prepare(struct mirror *m)
{
	struct ublk_device *d = &m->device;
	const unsigned int always = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE;
	/* A tag has a command under way, or legs, or attempts of which one may have lost. */
	const unsigned int entries = 2 * d->depth + 8, completions = d->depth * (m->n + 4) + 16;
	struct io_uring_params p = {
		.flags = always | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER,
		.cq_entries = completions,
	};
	sigset_t set;
	int error;

	/* A kernel of the first version has no SINGLE_ISSUER. */
	error = io_uring_queue_init_params(entries, &m->ring, &p);
	if (error == -EINVAL) {
		p = (struct io_uring_params){.flags = always, .cq_entries = completions};
		error = io_uring_queue_init_params(entries, &m->ring, &p);
	}
	m->requests = calloc(d->depth, sizeof(*m->requests));
	m->buffers = mmap(NULL, (size_t)d->depth * d->request_bytes_max, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Nobody may be there to read what is said, and it goes on. */
	signal(SIGPIPE, SIG_IGN);
	m->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (!error && (!m->requests || m->buffers == MAP_FAILED || m->signals < 0))
		error = -ENOMEM;
	if (error) {
		ublk_give_up(d);
		die("/dev/ublkb%u cannot be served: %s", d->number, strerror(-error));
	}
}

int mirror_serve(struct mirror *m)
{
	for (unsigned int tag = 0; tag < m->device.depth; tag++) {
		struct io_uring_sqe *sqe = get_sqe(m);

		m->requests[tag].tag = tag;
		ublk_prep_fetch(&m->device, sqe, tag, buffer(m, tag));
		sqe->user_data = user_data(OF_FETCH, tag, 0);
		m->n_fetching++;
	}
	wait_for_signal(m);
	m->is_starting = true;
	send_command(m, UBLK_START);
	while (m->n_fetching || m->n_commands || reads_in_flight(m)) {
		struct io_uring_cqe *cqe;
		struct linnos_completion due;
		unsigned int head, n = 0;

		wait_for_more(m);
		io_uring_for_each_cqe(&m->ring, head, cqe)
		{
			hear(m, cqe);
			n++;
		}
		io_uring_cq_advance(&m->ring, n);
		while (m->hedges && linnos_due(m->queue, &due) == LINNOS_AGAIN)
			read_again(m, due.read);
	}
	return m->start_error;
}
