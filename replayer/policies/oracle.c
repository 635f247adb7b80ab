// SPDX-License-Identifier: MIT
/*
 * oracle: asks the emulator which replica would answer first, injection included, and reads there.
 *
 * A bound for policies that see the drives from outside and send a read once: for each read by
 * itself nothing better can be chosen. It does not know which reads come later. It is no bound
 * where injection hits reads by count or by chance: there a drive that is passed over keeps its
 * slow reads for later, and a policy that takes them at once may fare better.
 */
#include "engine/attempts.h"
#include "oracle_query.h"
#include "policy.h"

static void oracle_read(struct replay *r, struct io *io)
{
	uint64_t best_ns = UINT64_MAX, ns;
	unsigned int best = io->home;

	/* From the home drive on, so that a tie stays at home. */
	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (oracle_ask(&r->devices[drive], io, &ns) && ns < best_ns) {
			best_ns = ns;
			best = drive;
		}
	}
	attempt_send(r, io, best, SEND_PLAIN);
}

const struct policy policy_oracle = {
	.name = "oracle",
	.help = "the replica that the emulator says would answer the whole read first: a bound, "
		"but "
		"not where injection counts reads or hits them by chance; flashsim drives only",
	.is_bound = true,
	.setup = oracle_require,
	.read = oracle_read,
};
