/* SPDX-License-Identifier: MIT */
/*
 * Decides which reads carry the latency-critical hint, by whether reads gain from being refused.
 *
 * A drive refuses a hinted read that its network calls slow, and the read then goes to another
 * drive, even if that takes longer. To find out, some of the refused reads, chosen at random, are
 * sent to their default drive again without the hint. The guard (linnos_guard.h) compares what
 * these take from then on with what the reads that left take in all, the refusal included. Reads
 * are sorted by how long their default drive took for its last answer.
 *
 * A read that is refused and stays has paid for the refusal. Where fewer than half of the refused
 * reads should leave, only some reads carry the hint and half of the refused ones stay: as many
 * leave as the guard asks for, and it still sees both outcomes. Where the hint gains nothing, one
 * read in 32 carries it.
 *
 * At first nothing is known, and the network may have been trained on only a few hundred reads: one
 * in six of the reads that would be refused leaves until three of each kind have been answered.
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
	uint64_t since_ns; /* when it began, or was sent again to the drive that refused it */
	struct linnos_assignment lot;
	bool is_carried, is_refused;
};

/* The seed may be any number. */
void hints_init(struct hints *h, uint64_t random);
/* Decides whether a new read carries the hint. */
struct hint hints_begin(struct hints *h, unsigned int home, uint64_t now_ns);
/* Its default drive has refused the read. Returns whether it goes to another drive; otherwise the
 * caller sets since_ns and sends it there again. */
bool hints_refused(struct hints *h, struct hint *hint);
/* A drive has answered a read took_ns after it was sent there. */
void hints_heard(struct hints *h, unsigned int drive, uint64_t took_ns);
/* The read is complete. */
void hints_answered(struct hints *h, const struct hint *hint, uint64_t now_ns);

#endif
