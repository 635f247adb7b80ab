/* SPDX-License-Identifier: MIT */
/*
 * Which reads carry the latency-critical hint: is it worth it to be refused?
 *
 * A drive refuses a hinted read that its network calls slow, and the read goes elsewhere, whatever
 * comes of it. So of those that are refused some are sent home again, without the hint, by lot.
 * What these take from then on, and what those take in all that are read elsewhere, the refusal
 * included, tells what to be refused is worth (linnos_guard.h); reads are sorted by how long their
 * home took for its last answer.
 *
 * To be refused and to stay costs the refusal. Where fewer than half should leave, not all are
 * hinted, and of those that are refused one half stays: as many leave as the guard says, and both
 * ways go on being compared. Of a hint that is not worth it one read in 32 carries it.
 *
 * Nothing is known at first, and a network may have learnt from a few hundred reads: of those that
 * home would refuse one in six leaves until three of either sort were answered.
 *
 * Several threads may use it at once.
 */
#ifndef LINNOS_HINTS_H
#define LINNOS_HINTS_H

#include "linnos_guard.h"

#include <stdbool.h>
#include <stdint.h>

#define HINTS_DRIVES_MAX 16

struct hints {
	struct linnos_guard guard;
	uint64_t random; /* state of the lots; it may begin with any number */
	unsigned long lock;
	uint32_t last_us[HINTS_DRIVES_MAX]; /* what each drive's last answer took */
};

/* A read's, from hints_begin() to hints_answered(). */
struct hint {
	uint64_t since_ns; /* when it began; of one that stayed, when it was sent again */
	struct linnos_assignment lot;
	bool is_carried, is_refused;
};

void hints_init(struct hints *h, uint64_t random);
/* Does a new read carry the hint? */
struct hint hints_begin(struct hints *h, unsigned int home, uint64_t now_ns);
/* Its home has refused it. Does it go elsewhere? Else it is sent there again, since_ns then. */
bool hints_refused(struct hints *h, struct hint *hint);
/* A drive has answered a read that was sent to it so long ago. */
void hints_heard(struct hints *h, unsigned int drive, uint64_t took_ns);
/* A read's user has the answer. */
void hints_answered(struct hints *h, const struct hint *hint, uint64_t now_ns);

#endif
