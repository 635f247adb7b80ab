/* SPDX-License-Identifier: MIT */
/*
 * Decide which reads carry the latency-critical hint, depending on whether reads benefit from being
 * refused.
 *
 * A drive refuses a hinted read that its network classifies as slow, and the read then goes to
 * another drive, even if that takes longer. To measure the benefit, some of the refused reads,
 * chosen at random, are sent to their default drive again without the hint. The guard
 * (linnos_guard.h) compares the latency of these reads, from the second submission on, with the
 * total latency of the redirected reads, including the refusal. Reads are classified by the last
 * latency of their default drive.
 *
 * A refused read that stays has lost the time of the refusal. If fewer than half of the refused
 * reads should be redirected, only some reads carry the hint, and half of the refused ones stay. As
 * many reads are then redirected as the guard asks for, and it still measures both groups. If the
 * hint is of no benefit, one read in 32 carries it.
 *
 * At first there are no samples, and the network may have been trained on only a few hundred reads.
 * One in six of the reads that would be refused is redirected until three reads of each group have
 * completed.
 *
 * Several threads may call these functions at the same time.
 */
#ifndef REPLAYER_HINT_GUARD_H
#define REPLAYER_HINT_GUARD_H

#include "linnos_guard.h"

#include <stdbool.h>
#include <stdint.h>

#define HINTS_DRIVES_MAX 16

struct hints {
	struct linnos_guard guard;
	uint64_t random; /* state of the random generator */
	unsigned long lock;
	uint32_t last_us[HINTS_DRIVES_MAX]; /* latency of each drive's last answer */
};

/* The state of one read from hints_begin() to hints_answered(). */
struct hint {
	uint64_t since_ns; /* start time, or the time of the second submission to the drive that
			      refused it */
	struct linnos_assignment assignment;
	bool is_carried, is_refused;
};

/* The seed may be any number. */
void hints_init(struct hints *h, uint64_t random);
/* Decide whether a new read carries the hint. */
struct hint hints_begin(struct hints *h, unsigned int home, uint64_t now_ns);
/*
 * The default drive has refused the read. Return true if it goes to another drive; otherwise the
 * caller sets since_ns and sends it there again.
 */
bool hints_refused(struct hints *h, struct hint *hint);
/* Record that a drive has completed a read took_ns after its submission. */
void hints_heard(struct hints *h, unsigned int drive, uint64_t took_ns);
/* The read is complete. */
void hints_answered(struct hints *h, const struct hint *hint, uint64_t now_ns);

#endif
