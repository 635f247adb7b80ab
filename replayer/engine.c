// SPDX-License-Identifier: MIT
/* The engine: one thread, one io_uring, one loop. See engine.h. */
#include "engine.h"
#include "buffers.h"
#include "error.h"
#include "hint.h"
#include "inject.h"
#include "io_log.h"
#include "progress.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef IORING_ENTER_ABS_TIMER
#define IORING_ENTER_ABS_TIMER (1U << 5)
#endif
#ifndef IORING_FEAT_MIN_TIMEOUT
#define IORING_FEAT_MIN_TIMEOUT (1U << 15) /* Linux 6.12, as the absolute timer of io_uring_enter */
#endif

/* The longest sleep: a signal that arrives just before it must not wait longer than this. */
#define WAIT_MAX_NS 1000000000ull
/* In a backlog the clock is read again after so many submissions, to keep their time stamps honest. */
#define ISSUE_BATCH 8
/* With --saturate the loop wakes up when this part of the depth is done: a wakeup for each completion costs more than
 * the queue gains by being full a moment earlier. */
#define WAKE_SHARE 8
#define REPORTED_ERRORS 5
#define START_GRID_NS 100000000ull
#define PREFILL_BLOCKS 256u /* 1 MiB a write */
#define PREFILL_DEPTH 16u   /* writes in flight per drive */

/* user_data of requests that are no attempt */
#define TAG_CANCEL 1

static volatile sig_atomic_t interrupted;

void engine_interrupt(void)
{
	/* A second signal does not wait for drives that never answer. */
	if (interrupted++)
		_exit(130);
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t replay_random(struct replay *r)
{
	uint64_t x = r->random_state += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

int replica_after_home(const struct replay *r, const struct user_io *io, uint32_t mask)
{
	for (unsigned int i = 1; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (!(mask & 1u << drive))
			return drive;
	}
	return -1;
}

/* Ring ------------------------------------------------------------------------------------------------------- */

static void submit(struct replay *r)
{
	while (io_uring_sq_ready(&r->ring)) {
		int n = io_uring_submit(&r->ring);

		if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY)
			die("io_uring_submit: %s", strerror(-n));
		/* EBUSY: completions must be reaped first; the caller's loop does that. */
		if (n == -EBUSY || n == -EAGAIN)
			return;
	}
}

static struct io_uring_sqe *get_sqe(struct replay *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe) {
		submit(r);
		sqe = io_uring_get_sqe(&r->ring);
	}
	if (!sqe)
		die("io_uring: submission queue of %u entries is full and does not drain; use a smaller --depth",
		    *r->ring.sq.kring_entries);
	return sqe;
}

/* Sleeps until a completion is there or the time has come, then reads the clock. */
static void wait_until(struct replay *r, uint64_t at_ns)
{
	struct __kernel_timespec ts;
	struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&ts};
	unsigned int flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
	int n;

	if (at_ns > r->now_ns + WAIT_MAX_NS)
		at_ns = r->now_ns + WAIT_MAX_NS;
	if (r->wait_is_absolute) {
		flags |= IORING_ENTER_ABS_TIMER;
	} else {
		at_ns = at_ns > r->now_ns ? at_ns - r->now_ns : 0;
	}
	ts.tv_sec = at_ns / 1000000000;
	ts.tv_nsec = at_ns % 1000000000;
	n = io_uring_enter2(r->ring.ring_fd, 0, 1, flags, (void *)&arg, sizeof(arg));
	if (n < 0 && n != -ETIME && n != -EINTR && n != -EBUSY && n != -EAGAIN)
		die("io_uring_enter: %s", strerror(-n));
	r->now_ns = clock_ns();
}

static void submit_and_wait(struct replay *r)
{
	unsigned int wanted = r->o.depth / WAKE_SHARE;
	int n;

	/* Cancelled losers and storms may leave fewer attempts than user I/Os at the kernel, never less than one each. */
	if (wanted > r->user_ios_in_flight)
		wanted = r->user_ios_in_flight;
	n = io_uring_submit_and_wait(&r->ring, wanted ? wanted : 1);

	if (n < 0 && n != -EINTR && n != -EBUSY && n != -EAGAIN)
		die("io_uring_submit_and_wait: %s", strerror(-n));
	r->now_ns = clock_ns();
}

/* Objects ---------------------------------------------------------------------------------------------------- */

static struct user_io *io_get(struct replay *r)
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

static void io_put(struct replay *r, struct user_io *io)
{
	timer_disarm(&r->timers, &io->timer);
	io->next_free = r->free_ios;
	r->free_ios = io;
	if (io->storm)
		r->background_in_flight--;
	else
		r->user_ios_in_flight--;
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
	a->submit_ns = r->now_ns;
	a->drive = drive;
	a->hinted = false;
	a->hedge = false;
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
	r->pending_pages[a->drive] -= io_pages(a->io);
	r->in_flight[a->drive]--;
}

static void attempt_free(struct replay *r, struct attempt *a)
{
	buffer_put(r->buffers, a->buffer);
	a->next = r->free_attempts;
	r->free_attempts = a;
}

/* Sending ---------------------------------------------------------------------------------------------------- */

void attempt_send(struct replay *r, struct user_io *io, unsigned int drive, unsigned int flags)
{
	struct attempt *a = attempt_new(r, io, drive);
	struct io_uring_sqe *sqe = get_sqe(r);

	a->hinted = flags & SEND_HINT;
	a->hedge = flags & SEND_HEDGE;
	content_note(&r->contents[drive], io->offset_bytes / BLOCK_BYTES, io_pages(io),
		     a->buffer->data, a->buffer->low);
	io_uring_prep_read(sqe, drive, a->buffer->data, io->size_bytes, io->offset_bytes);
	sqe->flags |= IOSQE_FIXED_FILE;
	if (a->hinted)
		sqe->rw_flags = RWF_LATCRIT;
	io_uring_sqe_set_data(sqe, a);
	if (a->hedge) {
		io->flags |= IO_HEDGED;
		r->hedges_sent++;
	}
}

static void write_send(struct replay *r, struct user_io *io, unsigned int drive)
{
	struct attempt *a = attempt_new(r, io, drive);
	struct io_uring_sqe *sqe = get_sqe(r);

	content_issue(&r->contents[drive], io->offset_bytes / BLOCK_BYTES, io_pages(io),
		      a->buffer->data);
	io_uring_prep_write(sqe, drive, a->buffer->data, io->size_bytes, io->offset_bytes);
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, a);
}

void background_write(struct replay *r, struct storm *s, unsigned int drive, uint64_t offset_bytes,
		      uint32_t size_bytes)
{
	struct user_io *io = io_get(r);

	io->storm = s;
	io->offset_bytes = offset_bytes;
	io->size_bytes = size_bytes;
	io->is_write = true;
	io->home = drive;
	io->submit_ns = r->now_ns;
	r->background_in_flight++;
	write_send(r, io, drive);
}

static void cancel_losers(struct replay *r, struct user_io *io)
{
	for (struct attempt *a = io->in_flight; a; a = a->next) {
		struct io_uring_sqe *sqe = get_sqe(r);

		io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)a, 0);
		sqe->user_data = TAG_CANCEL;
		r->c.cancels_tried++;
	}
}

/* Answers ---------------------------------------------------------------------------------------------------- */

static uint32_t saturate_u32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : v;
}

/* The user has the answer: counted here and nowhere else. `by` is NULL when every drive failed. */
static void answer(struct replay *r, struct user_io *io, struct attempt *by)
{
	uint64_t latency = r->now_ns - io->submit_ns;
	uint32_t extra = 0;

	io->answered = true;
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
		if (by)
			latency_add(&r->write_latency, latency);
	} else {
		r->c.reads++;
		r->c.read_bytes += io->size_bytes;
		r->c.reads_failed += !by;
		if (by) {
			latency_add(&r->read_latency, latency);
			r->c.served_by[by->drive]++;
		}
		r->c.revoked += io->revocations > 0;
		r->c.revocations += io->revocations;
		r->c.hedged += !!(io->flags & IO_HEDGED);
		r->c.hedges_won += !!(io->flags & IO_HEDGE_WON);
		r->c.extra_ios += extra;
	}
	latency_add(&r->lag, io->lag_ns);
	if (r->log) {
		struct log_record record = {
			.due_ns = io->due_ns,
			.latency_ns = latency,
			.offset_bytes = io->offset_bytes,
			.size_bytes = io->size_bytes,
			.lag_ns = io->lag_ns,
			.home = io->home,
			.op = io->is_write,
			.served_by = io->served_by,
			.flags = io->flags | (io->revocations ? IO_REVOKED : 0),
			.revocations = io->revocations,
			.extra_ios = extra,
			.device_latency_us =
				by ? saturate_u32((r->now_ns - by->submit_ns) / 1000) : 0,
		};

		log_append(r->log, &record);
	}
}

static void report_io_error(struct replay *r, const struct attempt *a, int error)
{
	if (r->c.io_errors++ >= REPORTED_ERRORS)
		return;
	fprintf(stderr, "replayer: %s: %s of %u bytes at %llu: %s%s\n", r->devices[a->drive].path,
		a->io->is_write ? "write" : "read", a->io->size_bytes,
		(unsigned long long)a->io->offset_bytes, strerror(error),
		r->c.io_errors == REPORTED_ERRORS ? " (further I/O errors are counted, not printed)" : "");
}

static void report_data_error(struct replay *r, const struct attempt *a, const struct content_error *e,
			      uint32_t blocks)
{
	if (r->c.data_errors++ >= REPORTED_ERRORS)
		return;
	fprintf(stderr,
		"replayer: DATA ERROR %s block %llu (byte %llu): word %u is %016llx, expected %016llx; "
		"generations %u to %u would do, ",
		r->devices[a->drive].path, (unsigned long long)e->block,
		(unsigned long long)e->block * BLOCK_BYTES, e->word, (unsigned long long)e->found,
		(unsigned long long)e->expected, e->low, e->high);
	if (e->found_known)
		fprintf(stderr, "the block claims %u", e->found_generation);
	else
		fprintf(stderr, "the block claims none");
	fprintf(stderr, "; %u of %u blocks wrong%s\n", blocks, io_pages(a->io),
		r->c.data_errors == REPORTED_ERRORS ? " (further data errors are counted, not printed)" : "");
}

static void write_completed(struct replay *r, struct attempt *a, int result)
{
	struct user_io *io = a->io;
	bool ok = result == (int)io->size_bytes;

	content_done(&r->contents[a->drive], io->offset_bytes / BLOCK_BYTES, io_pages(io), ok);
	if (ok) {
		/* A replicated write is done when its last copy is; it then counts as served by the home drive's. */
		if (io->served_by == SERVED_BY_NONE || a->drive == io->home)
			io->served_by = a->drive;
	} else {
		io->flags |= IO_ERROR;
		report_io_error(r, a, result < 0 ? -result : EIO);
	}
	if (io->storm) {
		io->answered = true;
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
		die("drive %s: the kernel refused a read with RWF_LATCRIT; it lacks the LinnOS patch",
		    r->devices[a->drive].path);
	if (result != (int)io->size_bytes) {
		io->failed |= 1u << a->drive;
		io->flags |= IO_ERROR;
		report_io_error(r, a, result < 0 ? -result : EIO);
		if (!io->answered)
			failover_on_error(r, io);
		return;
	}
	wrong = content_check(&r->contents[a->drive], io->offset_bytes / BLOCK_BYTES, io_pages(io),
			      a->buffer->data, a->buffer->low, &e, &r->c.torn_blocks,
			      &r->c.unverified_blocks);
	r->c.blocks_checked += io_pages(io);
	if (wrong) {
		report_data_error(r, a, &e, wrong);
		if (!io->answered)
			io->flags |= IO_DATA_ERROR;
	}
	if (r->o.policy->answered)
		r->o.policy->answered(r, io, a);
	if (!io->answered) {
		answer(r, io, a);
		cancel_losers(r, io);
	}
}

static void reap(struct replay *r)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n;

	do {
		n = 0;
		io_uring_for_each_cqe(&r->ring, head, cqe)
		{
			struct attempt *a = io_uring_cqe_get_data(cqe);
			struct user_io *io;

			n++;
			if (cqe->user_data == TAG_CANCEL)
				continue;
			io = a->io;
			attempt_done(r, a);
			if (io->is_write)
				write_completed(r, a, cqe->res);
			else
				read_completed(r, a, cqe->res);
			attempt_free(r, a);
			if (io->answered && !io->in_flight)
				io_put(r, io);
		}
		io_uring_cq_advance(&r->ring, n);
	} while (n);
}

/* Taking from the traces ---------------------------------------------------------------------------------------- */

/* Widens to 4 KiB blocks and makes sure that every drive has them, for any may serve it; false when the I/O lies beyond the run's end. */
static bool source_advance(struct replay *r, struct source *s)
{
	uint64_t limit = r->smallest_bytes;
	uint64_t skip_ns = r->o.skip_s * 1e9, end;

	do {
		s->have = trace_next(s->trace, &s->next);
	} while (s->have && s->next.at_ns < skip_ns);
	if (!s->have)
		return false;
	s->next.at_ns -= skip_ns;
	if (r->o.rerate != 1)
		s->next.at_ns = (double)s->next.at_ns / r->o.rerate;
	if (!r->o.saturate && r->o.duration_s && s->next.at_ns >= r->o.duration_s * 1e9)
		return s->have = false;
	end = s->next.offset_bytes + s->next.size_bytes;
	if ((s->next.offset_bytes | s->next.size_bytes) % BLOCK_BYTES) {
		s->next.offset_bytes &= ~(uint64_t)(BLOCK_BYTES - 1);
		end = (end + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
		s->next.size_bytes = end - s->next.offset_bytes;
		r->c.realigned++;
	}
	if (s->next.size_bytes > BUFFER_BYTES_MAX || s->next.size_bytes > limit)
		die("trace %s: an I/O of %u bytes is more than the replayer or the drive takes",
		    trace_path(s->trace), s->next.size_bytes);
	if (end > limit) {
		if (!r->o.fit)
			die("trace %s: %s of %u bytes at %llu lies beyond the smallest drive's %llu bytes; --fit folds "
			    "offsets into it, or use `linnapp convert --fit BYTES`",
			    trace_path(s->trace), s->next.is_write ? "write" : "read", s->next.size_bytes,
			    (unsigned long long)s->next.offset_bytes, (unsigned long long)limit);
		s->next.offset_bytes %= limit;
		if (s->next.offset_bytes + s->next.size_bytes > limit)
			s->next.offset_bytes = limit - s->next.size_bytes;
		r->c.wrapped++;
	}
	if (r->o.spread)
		s->drive = s->n % r->n_drives;
	s->n++;
	return true;
}

static void sources_open(struct replay *r)
{
	for (unsigned int i = 0; i < r->o.n_traces; i++) {
		struct source *s = &r->sources[i];

		trace_close(s->trace);
		memset(s, 0, sizeof(*s));
		s->trace = trace_open(r->o.traces[i]);
		s->drive = i;
		source_advance(r, s);
	}
}

/* The source whose I/O is due first; ties go to the first trace. */
static struct source *source_first(struct replay *r)
{
	struct source *first = NULL;

	for (unsigned int i = 0; i < r->o.n_traces; i++) {
		struct source *s = &r->sources[i];

		if (s->have && (!first || s->next.at_ns < first->next.at_ns))
			first = s;
	}
	return first;
}

static void issue(struct replay *r, struct source *s)
{
	struct user_io *io = io_get(r);
	uint64_t elapsed = r->now_ns - r->start_ns;

	io->due_ns = r->o.saturate ? elapsed : s->next.at_ns;
	io->offset_bytes = s->next.offset_bytes;
	io->size_bytes = s->next.size_bytes;
	io->is_write = s->next.is_write;
	io->home = s->drive;
	io->submit_ns = r->now_ns;
	io->lag_ns = saturate_u32(elapsed - io->due_ns);
	io->warmup = io->due_ns < r->o.warmup_s * 1e9;
	r->user_ios_in_flight++;
	source_advance(r, s);
	if (!io->is_write) {
		r->reads_started++;
		r->o.policy->read(r, io);
	} else if (r->o.replicate_writes) {
		for (unsigned int k = 0; k < r->n_drives; k++)
			write_send(r, io, k);
	} else {
		write_send(r, io, io->home);
	}
}

static void fire_timers(struct replay *r)
{
	struct timer *t;

	while ((t = timer_expired(&r->timers, r->now_ns))) {
		if (t->kind == TIMER_STORM)
			storm_slot(r, (struct storm *)((char *)t - offsetof(struct storm, timer)));
		else
			r->o.policy->timer(r, (struct user_io *)((char *)t -
								 offsetof(struct user_io, timer)));
	}
}

/* Phases ----------------------------------------------------------------------------------------------------- */

static unsigned int power_of_two(unsigned int v, unsigned int max)
{
	unsigned int p = 64;

	while (p < v && p < max)
		p *= 2;
	return p;
}

void engine_setup(struct replay *r)
{
	/* The most the kernel has is used: completions handled by this thread only, when it waits for them. */
	static const unsigned int flags[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
					     IORING_SETUP_COOP_TASKRUN, 0};
	int fds[MAX_DRIVES], n = -1;
	struct io_uring_params p;

	/* Timers of a waiting thread may otherwise be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	for (unsigned int i = 0; n < 0 && i < sizeof(flags) / sizeof(*flags); i++) {
		memset(&p, 0, sizeof(p));
		p.flags = flags[i] | IORING_SETUP_CQSIZE;
		p.cq_entries = power_of_two(r->o.depth * 4, 65536);
		n = io_uring_queue_init_params(power_of_two(r->o.depth, 4096), &r->ring, &p);
	}
	if (n < 0)
		die("io_uring: %s; the kernel needs io_uring (Linux 5.11 or later, not switched off by "
		    "kernel.io_uring_disabled)",
		    strerror(-n));
	if (!(p.features & IORING_FEAT_EXT_ARG))
		die("io_uring: this kernel cannot wait with a timeout; Linux 5.11 or later is needed");
	r->wait_is_absolute = p.features & IORING_FEAT_MIN_TIMEOUT;
	for (unsigned int k = 0; k < r->n_drives; k++)
		fds[k] = r->devices[k].fd;
	n = io_uring_register_files(&r->ring, fds, r->n_drives);
	if (n)
		die("io_uring: registering the drives: %s", strerror(-n));
	r->buffers = buffers_new();
	r->smallest_bytes = UINT64_MAX;
	for (unsigned int k = 0; k < r->n_drives; k++)
		if (r->devices[k].size_bytes < r->smallest_bytes)
			r->smallest_bytes = r->devices[k].size_bytes;
	r->smallest_bytes -= r->smallest_bytes % BLOCK_BYTES;
	for (unsigned int k = 0; k < r->n_drives; k++)
		content_init(&r->contents[k], r->o.seed, r->o.replicate_writes ? 0 : k,
			     r->devices[k].size_bytes / BLOCK_BYTES, !r->o.unwritten_any);
	r->random_state = r->o.seed;
	latency_init(&r->read_latency, LATENCY_EXACT_MAX);
	latency_init(&r->write_latency, LATENCY_EXACT_MAX);
	latency_init(&r->lag, LATENCY_EXACT_MAX);
}

/* Sleeps to a round time, so that a run's place among the kernel's periodic timers does not depend on what came
 * before it: in the lab's virtual time equal runs then are equal. */
static uint64_t wait_for_round_time(struct replay *r)
{
	uint64_t at;

	r->now_ns = clock_ns();
	at = (r->now_ns / START_GRID_NS + 1) * START_GRID_NS;
	while (r->now_ns < at && !interrupted)
		wait_until(r, at);
	return at < r->now_ns ? at : r->now_ns;
}

static void prefill_write(struct replay *r, unsigned int drive, uint64_t block, uint32_t n)
{
	struct user_io *io = io_get(r);

	io->offset_bytes = block * BLOCK_BYTES;
	io->size_bytes = n * BLOCK_BYTES;
	io->is_write = true;
	io->home = drive;
	io->submit_ns = r->now_ns;
	io->warmup = true;
	r->user_ios_in_flight++;
	write_send(r, io, drive);
	r->c.prefill_blocks += n;
}

/* The next run of set bits at or after *from, at most PREFILL_BLOCKS long; its length, 0 at the end. */
static uint32_t next_run(const uint64_t *bits, uint64_t n_blocks, uint64_t *from)
{
	uint64_t at = *from;
	uint32_t n = 0;

	while (at < n_blocks && !(bits[at / 64] >> (at % 64) & 1))
		at = bits[at / 64] >> (at % 64) ? at + 1 : (at / 64 + 1) * 64;
	*from = at;
	while (at + n < n_blocks && n < PREFILL_BLOCKS && (bits[(at + n) / 64] >> ((at + n) % 64) & 1))
		n++;
	return n;
}

/*
 * Every block that a read of any trace touches is written on every drive, since any of them may serve it; under
 * every policy alike, so that the drives are in the same state. Blocks no read touches stay as they are.
 */
void engine_prefill(struct replay *r)
{
	uint64_t n_blocks = r->smallest_bytes / BLOCK_BYTES, at[MAX_DRIVES] = {0};
	uint32_t writing;
	uint64_t *bits;

	bits = xcalloc(n_blocks / 64 + 1, sizeof(*bits));
	sources_open(r);
	for (unsigned int i = 0; i < r->o.n_traces; i++)
		for (struct source *s = &r->sources[i]; s->have; source_advance(r, s)) {
			uint64_t block = s->next.offset_bytes / BLOCK_BYTES;

			if (s->next.is_write)
				continue;
			for (uint32_t b = 0; b < s->next.size_bytes / BLOCK_BYTES; b++)
				bits[(block + b) / 64] |= 1ull << ((block + b) % 64);
		}
	wait_for_round_time(r);
	do {
		writing = 0;
		for (unsigned int k = 0; k < r->n_drives && !interrupted; k++)
			while (r->in_flight[k] < PREFILL_DEPTH) {
				uint32_t n = next_run(bits, n_blocks, &at[k]);

				if (!n)
					break;
				prefill_write(r, k, at[k], n);
				at[k] += n;
			}
		submit(r);
		if (r->user_ios_in_flight) {
			wait_until(r, r->now_ns + WAIT_MAX_NS);
			reap(r);
			writing = 1;
		}
	} while (writing);
	free(bits);
	if (r->c.io_errors)
		die("prefill: %llu writes failed; a drive is unusable (or use --prefill none)",
		    (unsigned long long)r->c.io_errors);
	/* Lets the drives put away what they buffered, so that the run does not start inside it. */
	if (r->c.prefill_blocks) {
		uint64_t until = r->now_ns + r->o.settle_ms * 1000000ull;

		while (r->now_ns < until && !interrupted)
			wait_until(r, until);
	}
	/* Only the prefill's own block count outlives it. */
	memset(&r->c, 0, offsetof(struct counters, prefill_blocks));
}

void engine_run(struct replay *r)
{
	struct progress progress;
	bool stalled = false;

	sources_open(r);
	r->start_ns = wait_for_round_time(r);
	inject_arm(r->inject);
	storms_start(r);
	progress_start(&progress, r);
	for (;;) {
		struct source *s;
		uint64_t wake;
		unsigned int issued = 0;

		if (interrupted && !r->draining) {
			r->stop_reason = "interrupted";
			r->draining = true;
		}
		if (r->o.saturate && r->o.duration_s &&
		    r->now_ns - r->start_ns >= r->o.duration_s * 1e9)
			r->draining = true;
		reap(r);
		fire_timers(r);
		s = r->draining ? NULL : source_first(r);
		while (s && r->user_ios_in_flight < r->o.depth &&
		       (issued < ISSUE_BATCH || r->o.saturate) &&
		       (r->o.saturate || r->start_ns + s->next.at_ns <= r->now_ns)) {
			r->c.depth_stalls += stalled;
			stalled = false;
			issue(r, s);
			issued++;
			s = source_first(r);
		}
		/* Nothing to be on time for: one system call submits and waits. */
		if (r->o.saturate && !r->timers.count && r->user_ios_in_flight) {
			submit_and_wait(r);
			progress_show(&progress, r);
			continue;
		}
		submit(r);
		if (issued == ISSUE_BATCH) {
			/* More may be due: no sleep, but a new look at the clock and at completions. */
			wait_until(r, 0);
			continue;
		}
		if (!s && !r->user_ios_in_flight) {
			/* Storms end with the replay. */
			r->draining = true;
			if (!r->background_in_flight)
				break;
		}
		wake = timer_next(&r->timers);
		if (s && r->user_ios_in_flight >= r->o.depth) {
			stalled = !r->o.saturate && r->start_ns + s->next.at_ns <= r->now_ns;
		} else if (s && r->start_ns + s->next.at_ns < wake) {
			wake = r->start_ns + s->next.at_ns;
		}
		progress_show(&progress, r);
		wait_until(r, wake);
	}
	r->end_ns = r->now_ns;
	progress_end(&progress);
	inject_disarm(r->inject);
}

void engine_close(struct replay *r)
{
	/* The kernel takes a ring apart in its own time; the drives must be free when this program has ended. */
	io_uring_unregister_files(&r->ring);
	io_uring_queue_exit(&r->ring);
	for (unsigned int i = 0; i < r->o.n_traces; i++)
		trace_close(r->sources[i].trace);
	for (unsigned int k = 0; k < r->n_drives; k++) {
		content_free(&r->contents[k]);
		device_close(&r->devices[k]);
	}
	latency_free(&r->read_latency);
	latency_free(&r->write_latency);
	latency_free(&r->lag);
}
