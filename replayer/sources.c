// SPDX-License-Identifier: MIT
/* The traces of a run as one stream of I/Os by due time: see sources.h. */
#include "sources.h"
#include "buffers.h"
#include "engine.h"
#include "error.h"

#include <string.h>

/* Widens to 4 KiB blocks and makes sure that every drive has them, for any may serve it; false when
 * the I/O lies beyond the run's end. */
bool source_advance(struct replay *r, struct source *s)
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
			die("trace %s: %s of %u bytes at %llu lies beyond the smallest drive's "
			    "%llu bytes; --fit folds offsets into it, as does `linnapp convert "
			    "--fit BYTES`",
			    trace_path(s->trace), s->next.is_write ? "write" : "read",
			    s->next.size_bytes, (unsigned long long)s->next.offset_bytes,
			    (unsigned long long)limit);
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

/* Recordings of several drives share a clock: it starts with the first I/O of them all. */
static void set_zero(struct replay *r)
{
	uint64_t zero = UINT64_MAX, at;

	for (unsigned int i = 0; i < r->o.n_traces; i++)
		if (trace_clock_start(r->sources[i].trace, &at) && at < zero)
			zero = at;
	for (unsigned int i = 0; i < r->o.n_traces; i++)
		if (trace_clock_start(r->sources[i].trace, &at))
			trace_set_zero(r->sources[i].trace, zero);
}

void sources_open(struct replay *r)
{
	for (unsigned int i = 0; i < r->o.n_traces; i++) {
		struct source *s = &r->sources[i];

		trace_close(s->trace);
		memset(s, 0, sizeof(*s));
		s->trace = trace_open(r->o.traces[i]);
		s->drive = i;
	}
	set_zero(r);
	for (unsigned int i = 0; i < r->o.n_traces; i++)
		source_advance(r, &r->sources[i]);
}

/* The source whose I/O is due first; ties go to the first trace. */
struct source *source_first(struct replay *r)
{
	struct source *first = NULL;

	for (unsigned int i = 0; i < r->o.n_traces; i++) {
		struct source *s = &r->sources[i];

		if (s->have && (!first || s->next.at_ns < first->next.at_ns))
			first = s;
	}
	return first;
}
