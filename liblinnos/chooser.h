/* SPDX-License-Identifier: MIT */
/*
 * Chooses the replica that is predicted to answer first.
 *
 * Predictions are off by more than replicas usually differ. If the least difference counted, then
 * all reads of a moment would go to one drive for nothing, and meet there. So a read stays at its
 * home drive unless another is predicted to take less by more than a margin.
 *
 * What is predicted was learnt from reads that stayed at home: what those cause that leave is not
 * in it, and of several that come at once all would leave for the same drive. So each read that
 * another drive has in flight beyond those at home counts as a part of what is overdue there.
 *
 * Whether leaving is worth it nobody knows beforehand: of the reads that would leave some stay, and
 * what these and those take decides how many do (linnos_guard.h).
 *
 * A model without trees, or unguarded one of few (linnos_latency_is_validated()), moves no read:
 * none leaves such a home, and none leaves home for such a drive.
 *
 * A drive is out when its last read failed, when that took longer than any does of a drive in
 * order, or when one is in flight for so long. It comes after all others, whatever is predicted and
 * whichever models there are, until it is heard of again.
 *
 * A drive that is not read is not heard of, and would be judged by its last words for ever. So of a
 * drive that has answered no read for explore_ns, and has none in flight that would tell, a copy of
 * the next read is asked for: the user's read goes where it is predicted to be answered first, and
 * nobody waits for the copy. A drive that fails is left alone for longer each time (observer.h).
 * Copies are at most PROBE_COPY_SHARE of all reads, and of what else reads cost beside themselves
 * they take their part.
 *
 * What somebody else knows of drives takes the place of predictions, where he knows it.
 *
 * Several threads choose between the same drives, each with a chooser of its own: they share the
 * observers, the models and struct chooser_common. Where all are asked each time, a read costs a
 * prediction for each; with look_every, one whose home is idle, and predicted as low as would keep
 * it at home by what the others' predictions were when this thread last made them, stays without
 * asking them, so many times at most. Nor is home itself asked but each HOME_EVERYth time, while it
 * answers within DEFAULT_TOLERANCE what was predicted.
 */
#ifndef LINNOS_CHOOSER_H
#define LINNOS_CHOOSER_H

#include "budget.h"
#include "linnos_guard.h"
#include "observer.h"

#define CHOOSER_DRIVES_MAX 16

#define PROBE_COPY_SHARE 0.01
/* Where extra I/O is capped, of the cap: the rest is for hedges. */
#define PROBE_COPY_SHARE_OF_EXTRA 0.2
/* In explore_ns silent drives are looked for so often, with look_every: so a drive may be silent
 * for an eighth longer. */
#define LOOKS 8
/* What calm reads save up. */
#define PROBE_COPY_BURST 10

#define DEFAULT_PREDICT_EVERY 4
#define DEFAULT_TOLERANCE 2
/* Of reads that nobody wished elsewhere, what one in so many took is told to the guard by
 * chooser_answered_sampled(): their mean is that of thousands. */
#define STAYED_SAMPLE_EVERY 8

/* Of drives that are known elsewhere, by bit. */
struct told {
	uint32_t known; /* of these us is told, and when to look at them again is not ours to say */
	uint32_t last;	/* after all others */
	uint32_t to_ask; /* a copy of the next read should go there, to hear of it */
	uint32_t us[CHOOSER_DRIVES_MAX];
};

/* What choosers of several threads share: but for the guard, words of their own. */
struct chooser_common {
	bool unguarded;	    /* predictions are followed, whatever comes of it */
	bool users_explore; /* there are no copies: users' reads go where they would */
	uint32_t gone;	    /* drives that no read goes to any more, by bit */
	uint32_t chooses;   /* those whose models do */
	uint64_t start_ns;  /* of the first read: from then on drives are silent */
	struct linnos_guard guard ____cacheline_aligned_in_smp;
	unsigned long guard_lock;
};

struct chooser {
	struct chooser_common *common;
	unsigned int n_drives;
	struct observer *drives;
	struct linnos_latency **models;
	uint64_t explore_ns; /* 0: never */
	unsigned int margin_percent;
	unsigned int look_every; /* 0: all are asked each time */
	unsigned int n_unasked;	 /* reads since they were */
	unsigned int n_stayed;
	uint64_t look_for_silent_ns; /* with look_every: not before */
	struct {
		uint32_t pages; /* of the read that home was last asked for; 0: it was not */
		uint32_t n;	/* reads since */
	} at_home[CHOOSER_DRIVES_MAX];
	uint32_t us[CHOOSER_DRIVES_MAX]; /* predicted by the last choice, of the drives it was
					    between */
	struct budget budget;
	struct budget *extra;	 /* of hedges and copies together; NULL: there are no hedges */
	const struct told *told; /* for the next choice; NULL: nobody tells */
};

/* The first chooser, and all that it shares with others. */
void chooser_init(struct chooser *c, struct chooser_common *common, unsigned int n_drives,
		  struct observer *drives, struct linnos_latency **models, uint64_t explore_ns,
		  unsigned int margin_percent, bool guarded);
/* Another one, of another thread. */
void chooser_join(struct chooser *c, const struct chooser *first);
/* A drive has another model. Nobody else does so meanwhile. */
void chooser_model_changed(struct chooser *c, unsigned int drive);
/* Copies are part of the extra I/O that is allowed, a share of the reads: of which hedges have the
 * rest, if there is a budget for them. */
void chooser_set_probe_budget(struct chooser *c, double extra_share, struct budget *hedges);
/* The drive with the lowest prediction of those whose bit is not in mask, -1 when all are. Home
 * itself unless it is out, or another is lower by more than the margin; of equals the first after
 * home. */
int chooser_find_fastest(struct chooser *c, unsigned int home, uint64_t offset_bytes,
			 uint32_t pages, uint64_t now_ns, uint32_t mask);

struct choice {
	unsigned int drive;
	int copy; /* where a copy should go, to hear of the drive; -1: nowhere */
	struct linnos_assignment lot; /* to be kept for chooser_answered() */
};

/* Where a new read goes. */
struct choice chooser_read(struct chooser *c, unsigned int home, uint64_t offset_bytes,
			   uint32_t pages, uint64_t now_ns);
/* Its user has had the answer. */
void chooser_answered(struct chooser *c, struct linnos_assignment lot, uint64_t latency_ns);
/* Likewise, but for most of those for which no lot was drawn. */
void chooser_answered_sampled(struct chooser *c, struct linnos_assignment lot, uint64_t latency_ns);

#endif
