// SPDX-License-Identifier: MIT
/*
 * heuristic: choose by queue length. A drive with more pending 4 KiB pages than the limit,
 * including this read, is assumed to be slow. The read goes to the first replica from the default
 * drive on that is not slow, or to the last one.
 *
 * The pending pages are those of this replayer, which is all that an application can know. The
 * limit is --heuristic-queue, otherwise the p95 of the queue lengths that the reads of --profile
 * met.
 */
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "profile.h"
#include "score.h"

#define QUEUE_PERCENTILE 0.95

static void queue_limit_setup(struct replay *r)
{
	if (!r->o.heuristic_queue_pages) {
		if (!r->o.profile_path)
			die("policy %s: needs to know which queue is long: --heuristic-queue "
			    "PAGES, or --profile L of a run with --policy baseline --log L",
			    r->o.policy->name);
		r->o.heuristic_queue_pages =
			profile_pending_pages(r->o.profile_path, QUEUE_PERCENTILE);
	}
}

/* Return true if the drive would have more pages pending than the limit, including this read. */
static bool queue_is_long(struct replay *r, const struct io *io, unsigned int drive)
{
	return r->pending_pages[drive] + io_pages(io) > r->o.heuristic_queue_pages;
}

/* Send to the first drive from the default drive on that is not slow, or to the last. */
static void read_where_not(struct replay *r, struct io *io,
			   bool (*is_slow)(struct replay *r, const struct io *io,
					   unsigned int drive))
{
	unsigned int drive = io->default_drive;

	for (unsigned int i = 0; i < r->n_drives; i++) {
		drive = drive_after_default(r, io, i);
		if (!is_slow(r, io, drive))
			break;
	}
	attempt_send(r, io, drive, SEND_PLAIN);
}

static void heuristic_read(struct replay *r, struct io *io)
{
	read_where_not(r, io, queue_is_long);
}

const struct policy policy_heuristic = {
	.name = "heuristic",
	.help = "avoid drives with a long queue (--heuristic-queue, or --profile)",
	.setup = queue_limit_setup,
	.read = heuristic_read,
};

/*
 * heuristic-adv: choose by queue length, the last four reads, and a busy state per drive.
 *
 *                 2 of the last 4 reads were slow
 *        idle ─────────────────────────────────────► busy
 *          ▲                                           │
 *          └───────────────────────────────────────────┘
 *           the last read was fast, or no read completed for STALE_NS
 *
 * A drive is avoided while it is busy or its queue is long. One slow read may be chance; two of
 * four indicate a slow period. An avoided drive completes no reads and would stay busy forever, so
 * it is tried again after STALE_NS. A read is slow if it takes longer than --heuristic-busy-us,
 * otherwise than the drive's inflection point if a model is uploaded, otherwise than the p95 of
 * --profile.
 */
#define HISTORY 4
#define SLOW_OF_HISTORY 2

struct drive_state {
	uint64_t slow_ns;
	uint64_t last_completion_ns;
	bool slow[HISTORY];
	unsigned int next;
	bool busy;
};

static void heuristic_adv_setup(struct replay *r)
{
	struct drive_state *states = xcalloc(r->n_drives, sizeof(*states));

	queue_limit_setup(r);
	for (unsigned int k = 0; k < r->n_drives; k++) {
		uint64_t us;

		if (r->o.heuristic_busy_us >= 0)
			states[k].slow_ns = r->o.heuristic_busy_us * 1000;
		else if (device_threshold_us(&r->devices[k], &us))
			states[k].slow_ns = us * 1000;
		else if (r->o.profile_path)
			states[k].slow_ns = profile_percentile_us(r->o.profile_path, 0.95) * 1000;
		else
			die("policy heuristic-adv: needs to know which read is slow: "
			    "--heuristic-busy-us, an uploaded model, or --profile");
	}
	r->policy_state = states;
}

static bool is_slow(struct replay *r, const struct io *io, unsigned int drive)
{
	struct drive_state *s = (struct drive_state *)r->policy_state + drive;

	if (s->busy && r->ring.now_ns - s->last_completion_ns > STALE_NS)
		*s = (struct drive_state){.slow_ns = s->slow_ns,
					  .last_completion_ns = s->last_completion_ns};
	return s->busy || queue_is_long(r, io, drive);
}

static void heuristic_adv_read(struct replay *r, struct io *io)
{
	read_where_not(r, io, is_slow);
}

static void heuristic_adv_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct drive_state *s = (struct drive_state *)r->policy_state + a->drive;
	bool slow = r->done_ns - a->submit_ns > s->slow_ns;
	unsigned int n = 0;

	s->last_completion_ns = r->ring.now_ns;
	s->slow[s->next++ % HISTORY] = slow;
	for (unsigned int i = 0; i < HISTORY; i++)
		n += s->slow[i];
	s->busy = slow && n >= SLOW_OF_HISTORY;
}

const struct policy policy_heuristic_adv = {
	.name = "heuristic-adv",
	.help = "avoid drives with a long queue or two slow reads among the last four "
		"(--heuristic-busy-us)",
	.setup = heuristic_adv_setup,
	.read = heuristic_adv_read,
	.answered = heuristic_adv_answered,
};
