// SPDX-License-Identifier: MIT
/*
 * heimdall: a small network for each drive predicts whether a read would fall into one of the
 * drive's slow periods. Such a read goes to another replica (Kurniawan et al., "Heimdall:
 * Optimizing Storage I/O Admission with Extensive Machine Learning Pipeline", EuroSys 2025).
 *
 * default: slow? ──yes──► default + 1: slow? ──yes──► ... ──yes──► default
 *
 * The inputs of the network are the I/Os in flight at the drive, the size of this read, and for
 * each of the drive's last three completed reads the I/Os in flight at its submission, its latency
 * and its throughput. There is one inference per read. The paper's joint inferences are meant for
 * drives with more I/Os than there is time for inferences. In the paper a read reaches another
 * replica only after it is refused. Here neither refusal nor inference costs time.
 *
 * This is an implementation of the paper's description. eval/heimdall.py labels the reads and
 * trains the networks.
 */
#include "engine/attempts.h"
#include "error.h"
#include "heimdall_network.h"
#include "policy.h"
#include "results/io_log.h"
#include "score.h"

struct remembered {
	uint32_t met, latency_us, bytes_per_us;
};

struct watched { /* one drive */
	const struct heimdall_network *network;
	struct remembered last[HEIMDALL_HISTORY];
	uint64_t n, last_completion_ns;
};

static void heimdall_setup(struct replay *r)
{
	struct watched *drives = xcalloc(r->n_drives, sizeof(*drives));

	if (r->o.n_heimdall_networks != r->n_drives)
		die("--heimdall-network: %u networks for %u drives; give one for each, in the "
		    "order of --devices; `python -m eval.heimdall` trains them from the --log of a "
		    "baseline run",
		    r->o.n_heimdall_networks, r->n_drives);
	for (unsigned int k = 0; k < r->n_drives; k++)
		drives[k].network =
			heimdall_network_read("heimdall-network", r->o.heimdall_networks[k]);
	r->policy_state = drives;
}

static bool is_slow(const struct replay *r, const struct io *io, unsigned int drive)
{
	const struct watched *d = (const struct watched *)r->policy_state + drive;
	uint32_t features[HEIMDALL_INPUTS] = {r->in_flight[drive]};

	if (is_stale(r, drive, d->last_completion_ns))
		return false;
	/* The oldest first. */
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++) {
		const struct remembered *one = &d->last[(d->n + i) % HEIMDALL_HISTORY];

		features[1 + i] = one->met;
		features[1 + HEIMDALL_HISTORY + i] = one->latency_us;
		features[1 + 2 * HEIMDALL_HISTORY + i] = one->bytes_per_us;
	}
	features[HEIMDALL_INPUTS - 1] = io->size_bytes;
	return heimdall_network_logit(d->network, features) > 0;
}

static void heimdall_read(struct replay *r, struct io *io)
{
	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = drive_after_default(r, io, i);

		if (!is_slow(r, io, drive)) {
			attempt_send(r, io, drive, SEND_PLAIN);
			return;
		}
	}
	attempt_send(r, io, io->default_drive, SEND_PLAIN);
}

static void heimdall_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct watched *d = (struct watched *)r->policy_state + a->drive;
	uint32_t latency_us = saturate_u32((r->done_ns - a->submit_ns) / 1000);

	d->last[d->n++ % HEIMDALL_HISTORY] = (struct remembered){
		.met = a->met,
		.latency_us = latency_us,
		.bytes_per_us = io->size_bytes / (latency_us ? latency_us : 1),
	};
	d->last_completion_ns = r->ring.now_ns;
}

const struct policy policy_heimdall = {
	.name = "heimdall",
	.help = "Heimdall's network (EuroSys 2025) for each drive: a read that it predicts slow "
		"goes to another replica (--heimdall-network)",
	.setup = heimdall_setup,
	.read = heimdall_read,
	.answered = heimdall_answered,
};
