// SPDX-License-Identifier: MIT
/*
 * Progress of a run on stderr: see progress.h. The time comes from the engine; the clock is not
 * read again.
 */
#include "progress.h"
#include "policies/policy.h"
#include "replay.h"

#include <stdio.h>
#include <unistd.h>

#define TERMINAL_EVERY_NS 500000000ull
#define EVERY_NS 5000000000ull

static bool is_terminal(void)
{
	return isatty(STDERR_FILENO);
}

/* Return true if a line is due; the first one is due an interval after the first call. */
static bool is_due(struct replay *r)
{
	bool is_first = !r->progress_due_ns;

	if (r->o.quiet || r->ring.now_ns < r->progress_due_ns)
		return false;
	r->progress_due_ns = r->ring.now_ns + (is_terminal() ? TERMINAL_EVERY_NS : EVERY_NS);
	r->progress_is_shown |= !is_first;
	return !is_first;
}

static void print_line(const char *text)
{
	fprintf(stderr, is_terminal() ? "\r\033[K%s" : "%s\n", text);
}

void progress_show_prefill(struct replay *r, uint64_t blocks)
{
	char text[64];

	if (!is_due(r))
		return;
	snprintf(text, sizeof(text), "prefill: %llu of %llu MiB",
		 (unsigned long long)(r->c.prefill_blocks * BLOCK_BYTES >> 20),
		 (unsigned long long)(blocks * BLOCK_BYTES >> 20));
	print_line(text);
}

void progress_show_run(struct replay *r)
{
	char text[256];

	if (!is_due(r))
		return;
	snprintf(text, sizeof(text),
		 "%s: %.1f s, %llu reads, %llu writes, mean read %.1f us, %llu revoked, %llu "
		 "hedged, %llu errors",
		 r->o.policy->name, (double)(r->ring.now_ns - r->start_ns) / 1e9,
		 (unsigned long long)r->c.reads, (unsigned long long)r->c.writes,
		 latency_mean(&r->latency[READ_SERVICE]) / 1000, (unsigned long long)r->c.revoked,
		 (unsigned long long)r->c.hedged,
		 (unsigned long long)(r->c.io_errors + r->c.data_errors));
	print_line(text);
}

void progress_end(struct replay *r)
{
	if (r->progress_is_shown && is_terminal())
		fputc('\n', stderr);
	r->progress_is_shown = false;
	r->progress_due_ns = 0;
}
