// SPDX-License-Identifier: MIT
/* The traces of a run as one stream of I/Os ordered by due time: see sources.h. */
#include "sources.h"
#include "drive/content.h"
#include "engine/buffers.h"
#include "error.h"

#include <string.h>

#define TIME_MAX_NS 1e18 /* 32 years; sums of a few such values fit 64 bits */
/* Offsets are signed in the kernel, and the end of an I/O must not overflow. */
#define OFFSET_MAX (INT64_MAX - BUFFER_BYTES_MAX - BLOCK_BYTES)

/*
 * Get the next I/O that --skip does not exclude, and set its due time; return false at the end of
 * the trace or of --duration.
 */
static bool next_due(struct sources *all, struct source *s)
{
	uint64_t skip_ns = all->o->skip_s * 1e9;

	do {
		if (!trace_next(s->trace, &s->next))
			return false;
	} while (s->next.at_ns < skip_ns);
	s->next.at_ns -= skip_ns;
	if ((double)s->next.at_ns / all->o->rerate > TIME_MAX_NS)
		die("trace %s: an I/O is due %.0f years after the start; its time stamp or "
		    "--rerate is wrong",
		    trace_path(s->trace), (double)s->next.at_ns / all->o->rerate / 31556952e9);
	if (all->o->rerate != 1)
		s->next.at_ns = (double)s->next.at_ns / all->o->rerate;
	return !all->o->duration_s || s->next.at_ns < all->o->duration_s * 1e9;
}

/*
 * Extend an I/O to 4 KiB blocks, and check that it fits every drive, because any drive may serve
 * it.
 */
static void place(struct sources *all, struct source *s)
{
	struct trace_io *io = &s->next;
	uint64_t limit = all->limit_bytes, bytes;
	uint64_t offset = io->offset_bytes - io->offset_bytes % BLOCK_BYTES;

	if (offset > OFFSET_MAX)
		die("trace %s: %s of %u bytes at %llu: no drive is so large", trace_path(s->trace),
		    io->is_write ? "write" : "read", io->size_bytes,
		    (unsigned long long)io->offset_bytes);
	bytes = io->offset_bytes + io->size_bytes - offset;
	bytes = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
	if (bytes > BUFFER_BYTES_MAX || bytes > limit)
		die("trace %s: an I/O of %llu bytes, in whole blocks, is larger than the smallest "
		    "drive or than %u MiB, the maximum of the replayer",
		    trace_path(s->trace), (unsigned long long)bytes, BUFFER_BYTES_MAX >> 20);
	all->realigned += offset != io->offset_bytes || bytes != io->size_bytes;
	io->offset_bytes = offset;
	io->size_bytes = bytes;
	if (offset + bytes <= limit)
		return;
	if (!all->o->fit)
		die("trace %s: %s of %u bytes at %llu lies beyond the smallest drive's %llu bytes; "
		    "--fit wraps such offsets, as does `linnapp convert --fit BYTES`",
		    trace_path(s->trace), io->is_write ? "write" : "read", io->size_bytes,
		    (unsigned long long)offset, (unsigned long long)limit);
	io->offset_bytes %= limit;
	if (io->offset_bytes + bytes > limit)
		io->offset_bytes = limit - bytes;
	all->folded++;
}

bool source_advance(struct sources *all, struct source *s)
{
	while ((s->have = next_due(all, s)) && s->next.is_write && all->o->readonly)
		all->writes_left_out++;
	if (!s->have)
		return false;
	if (all->o->spread)
		s->drive = s->n++ % all->n_drives;
	place(all, s);
	return true;
}

/* Recordings of several drives share a clock; time starts with the first I/O of all of them. */
static void set_zero(struct sources *all)
{
	uint64_t zero = UINT64_MAX, at;

	for (unsigned int i = 0; i < all->o->n_traces; i++)
		if (trace_clock_start(all->each[i].trace, &at) && at < zero)
			zero = at;
	for (unsigned int i = 0; i < all->o->n_traces; i++)
		if (trace_clock_start(all->each[i].trace, &at))
			trace_set_zero(all->each[i].trace, zero);
}

void sources_open(struct sources *all)
{
	for (unsigned int i = 0; i < all->o->n_traces; i++) {
		struct source *s = &all->each[i];

		trace_close(s->trace);
		memset(s, 0, sizeof(*s));
		s->drive = i;
		s->trace = trace_open(all->o->traces[i], all->o->from, all->o->volume);
	}
	set_zero(all);
	for (unsigned int i = 0; i < all->o->n_traces; i++)
		source_advance(all, &all->each[i]);
}

uint64_t sources_skipped(const struct sources *all)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < all->o->n_traces; i++)
		n += trace_skipped(all->each[i].trace);
	return n;
}

struct source *source_first(struct sources *all)
{
	struct source *first = NULL;

	for (unsigned int i = 0; i < all->o->n_traces; i++) {
		struct source *s = &all->each[i];

		if (s->have && (!first || s->next.at_ns < first->next.at_ns))
			first = s;
	}
	return first;
}

/* Exit because no I/O is left to replay, which must be a mistake. */
static void die_of_nothing(const struct sources *all)
{
	const struct options *o = all->o;
	const char *duration = "", *volume = "";

	if (all->writes_left_out)
		die("nothing to replay: with --readonly the traces' %llu writes are left out, and "
		    "there is no read",
		    (unsigned long long)all->writes_left_out);
	if (o->duration_s)
		duration = xasprintf(" in the %g s of --duration", o->duration_s);
	if (o->volume)
		volume = xasprintf(" of the volume %s (--volume)", o->volume);
	die("nothing to replay: no trace has a read or write%s%s after the first %g s (--skip)",
	    volume, duration, o->skip_s);
}

void sources_scan(struct sources *all, scan_visit *visit, void *context)
{
	bool is_empty = true;

	sources_open(all);
	for (unsigned int i = 0; i < all->o->n_traces; i++)
		for (struct source *s = &all->each[i]; s->have; source_advance(all, s)) {
			is_empty = false;
			if (visit)
				visit(context, &s->next);
		}
	if (is_empty)
		die_of_nothing(all);
	for (unsigned int i = 0; i < all->o->n_traces; i++)
		trace_warn(all->each[i].trace);
	all->realigned = all->folded = all->writes_left_out = 0;
}
