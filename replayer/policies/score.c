// SPDX-License-Identifier: MIT
/* Read the drive with the lowest score: see score.h. */
#include "score.h"
#include "engine/attempts.h"
#include "policy.h"

int score_lowest(const struct replay *r, const struct io *io, uint32_t mask)
{
	double lowest = 0;
	int best = -1;

	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = drive_after_default(r, io, i);
		double score;

		if (mask & 1u << drive)
			continue;
		score = r->o.policy->score(r, drive);
		if (best < 0 || score < lowest) {
			lowest = score;
			best = drive;
		}
	}
	return best;
}

void score_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, score_lowest(r, io, 0), SEND_PLAIN);
}
