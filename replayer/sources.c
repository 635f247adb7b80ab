// SPDX-License-Identifier: MIT
/* The traces of a run as one stream of I/Os by due time: see sources.h. */
#include "sources.h"
#include "buffers.h"
#include "engine.h"
#include "error.h"

#include <string.h>

/* Offsets are signed in the kernel, and an I/O at the largest one must not wrap. */
#define TIME_MAX_NS 1e18 /* 32 years; sums of a few fit 64 bits */
#define OFFSET_MAX (INT64_MAX - BUFFER_BYTES_MAX - BLOCK_BYTES)

static void open_trace(struct source *s, const char *path)
{
	s->trace = trace_open(path);
	if (s->loop && s->have_zero)
		trace_set_zero(s->trace, s->zero_ns);
}

/* The next I/O of the trace, which begins again as often as --loops says; every time the whole
 * replay later. */
static bool next_io(struct replay *r, struct source *s)
{
	while (!trace_next(s->trace, &s->next)) {
		char *path;

		if (s->loop + 1 >= r->loops)
			return false;
		s->loop++;
		s->skipped += trace_skipped(s->trace);
		path = r->o.traces[s - r->sources];
		trace_close(s->trace);
		open_trace(s, path);
	}
	return true;
}

/* Widens to 4 KiB blocks and makes sure that every drive has them, for any may serve it; false when
 * the I/O lies beyond the run's end. */
bool source_advance(struct replay *r, struct source *s)
{
	uint64_t limit = r->smallest_bytes;
	uint64_t skip_ns = r->o.skip_s * 1e9, offset, end;

	do {
		s->have = next_io(r, s);
		if (s->have && s->next.at_ns >= skip_ns && s->next.is_write && r->o.readonly)
			r->c.writes_left_out++;
	} while (s->have && (s->next.at_ns < skip_ns || (s->next.is_write && r->o.readonly)));
	if (!s->have)
		return false;
	s->next.at_ns -= skip_ns;
	if ((double)s->next.at_ns / r->o.rerate > TIME_MAX_NS)
		die("trace %s: an I/O is due %.0f years after the start; its time stamp is wrong, "
		    "or "
		    "--rerate is",
		    trace_path(s->trace), (double)s->next.at_ns / r->o.rerate / 31556952e9);
	if (r->o.rerate != 1)
		s->next.at_ns = (double)s->next.at_ns / r->o.rerate;
	s->next.at_ns += s->loop * r->loop_ns;
	if (!r->o.saturate && r->o.duration_s && s->next.at_ns >= r->o.duration_s * 1e9)
		return s->have = false;
	offset = s->next.offset_bytes;
	if (s->next.size_bytes > BUFFER_BYTES_MAX || s->next.size_bytes > limit)
		die("trace %s: an I/O of %u bytes is more than the replayer or the drive takes",
		    trace_path(s->trace), s->next.size_bytes);
	if (offset > OFFSET_MAX)
		die("trace %s: %s of %u bytes at %llu: no drive is so large", trace_path(s->trace),
		    s->next.is_write ? "write" : "read", s->next.size_bytes,
		    (unsigned long long)offset);
	end = offset + s->next.size_bytes;
	if ((offset | s->next.size_bytes) % BLOCK_BYTES) {
		offset &= ~(uint64_t)(BLOCK_BYTES - 1);
		end = (end + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
		s->next.offset_bytes = offset;
		s->next.size_bytes = end - offset;
		r->c.realigned++;
		if (s->next.size_bytes > BUFFER_BYTES_MAX || s->next.size_bytes > limit)
			die("trace %s: an I/O of %u bytes, widened to whole blocks, is more than "
			    "the replayer or the drive takes",
			    trace_path(s->trace), s->next.size_bytes);
	}
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
		if (trace_clock_start(r->sources[i].trace, &at)) {
			r->sources[i].zero_ns = zero;
			r->sources[i].have_zero = true;
			trace_set_zero(r->sources[i].trace, zero);
		}
}

void sources_open(struct replay *r)
{
	for (unsigned int i = 0; i < r->o.n_traces; i++) {
		struct source *s = &r->sources[i];

		trace_close(s->trace);
		memset(s, 0, sizeof(*s));
		s->drive = i;
		open_trace(s, r->o.traces[i]);
	}
	set_zero(r);
	for (unsigned int i = 0; i < r->o.n_traces; i++)
		source_advance(r, &r->sources[i]);
}

uint64_t source_skipped(const struct source *s)
{
	return s->skipped + trace_skipped(s->trace);
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

/* Whether one pass's I/O is due after the warm-up and before the end, in this pass or a later one.
 */
static bool counts(const struct replay *r, uint64_t at_ns)
{
	uint64_t warmup_ns = r->o.warmup_s * 1e9, loop = 0;

	if (r->o.saturate)
		return true;
	if (at_ns < warmup_ns && r->loop_ns)
		loop = (warmup_ns - at_ns + r->loop_ns - 1) / r->loop_ns;
	at_ns += loop * r->loop_ns;
	return loop < r->o.loops && at_ns >= warmup_ns &&
	       (!r->o.duration_s || at_ns < r->o.duration_s * 1e9);
}

/* A --skip or --warmup that leaves nothing is a mistake, not a result. */
static void die_of_nothing(const struct replay *r, uint64_t ios)
{
	if (ios)
		die("no I/O would be counted: all %llu are due in the first %g s (--warmup)%s",
		    (unsigned long long)ios, r->o.warmup_s,
		    r->o.duration_s ? " or after the run's end (--duration)" : "");
	if (r->c.writes_left_out)
		die("nothing to replay: with --readonly the traces' %llu writes are left out, and "
		    "there is no read",
		    (unsigned long long)r->c.writes_left_out);
	if (r->o.duration_s)
		die("nothing to replay: no trace has a read or write in the %g s of --duration "
		    "after the first %g s (--skip)",
		    r->o.duration_s, r->o.skip_s);
	die("nothing to replay: no trace has a read or write after the first %g s (--skip)",
	    r->o.skip_s);
}

/* One pass over all traces, as they stand in the first loop; how many I/Os, and whether one of them
 * counts. */
static uint64_t scan_pass(struct replay *r, scan_visit *visit, void *context, uint64_t *last_ns,
			  bool *any_counts)
{
	uint64_t ios = 0;

	sources_open(r);
	for (unsigned int i = 0; i < r->o.n_traces; i++) {
		buffers_expect_trace(r->buffers);
		for (struct source *s = &r->sources[i]; s->have; source_advance(r, s)) {
			ios++;
			/* Without the traces' times all may come at once, up to --depth. */
			buffers_expect(r->buffers, r->o.saturate ? 0 : s->next.at_ns,
				       s->next.size_bytes);
			if (s->next.at_ns > *last_ns)
				*last_ns = s->next.at_ns;
			*any_counts |= counts(r, s->next.at_ns);
			if (visit)
				visit(context, &s->next);
		}
	}
	return ios;
}

void sources_scan(struct replay *r, scan_visit *visit, void *context)
{
	double duration_s = r->o.duration_s;
	uint64_t last_ns = 0, ios;
	bool any_counts = false;

	r->loops = 1;
	r->loop_ns = 0;
	if (r->o.loops > 1) {
		/* The whole traces, however long the run: they begin again where they end. */
		r->o.duration_s = 0;
		scan_pass(r, NULL, NULL, &last_ns, &any_counts);
		r->o.duration_s = duration_s;
		r->loop_ns = last_ns;
		any_counts = false;
		memset(&r->c, 0, sizeof(r->c));
	}
	ios = scan_pass(r, visit, context, &last_ns, &any_counts);
	if (!any_counts)
		die_of_nothing(r, ios);
	memset(&r->c, 0, sizeof(r->c));
	r->loops = r->o.loops;
}
