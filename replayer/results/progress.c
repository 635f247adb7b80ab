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

void progress_start(struct progress *p, const struct replay *r, uint64_t now_ns)
{
	p->quiet = r->o.quiet;
	p->tty = isatty(STDERR_FILENO);
	p->every_ns = p->tty ? 500000000ull : 5000000000ull;
	p->next_ns = now_ns + p->every_ns;
	p->shown = false;
}

static bool is_time(struct progress *p, const struct replay *r)
{
	if (p->quiet || r->ring.now_ns < p->next_ns)
		return false;
	p->next_ns = r->ring.now_ns + p->every_ns;
	p->shown = true;
	return true;
}

void progress_show_prefill(struct progress *p, const struct replay *r, uint64_t blocks)
{
	if (!is_time(p, r))
		return;
	fprintf(stderr, "%sprefill: %llu of %llu MiB%s", p->tty ? "\r\033[K" : "",
		(unsigned long long)(r->c.prefill_blocks * BLOCK_BYTES >> 20),
		(unsigned long long)(blocks * BLOCK_BYTES >> 20), p->tty ? "" : "\n");
}

void progress_show(struct progress *p, const struct replay *r)
{
	if (!is_time(p, r))
		return;
	fprintf(stderr,
		"%s%s: %.1f s, %llu reads, %llu writes, mean read %.1f us, %llu revoked, %llu "
		"hedged, %llu errors%s",
		p->tty ? "\r\033[K" : "", r->o.policy->name,
		(double)(r->ring.now_ns - r->start_ns) / 1e9, (unsigned long long)r->c.reads,
		(unsigned long long)r->c.writes, latency_mean(&r->latency[READ_SERVICE]) / 1000,
		(unsigned long long)r->c.revoked, (unsigned long long)r->c.hedged,
		(unsigned long long)(r->c.io_errors + r->c.data_errors), p->tty ? "" : "\n");
}

void progress_end(struct progress *p)
{
	if (p->tty && p->shown)
		fputc('\n', stderr);
}
