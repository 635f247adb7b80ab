/* SPDX-License-Identifier: MIT */
/*
 * Chooses the replica that is predicted to answer first.
 *
 * Predictions are off by more than replicas usually differ. If the least difference counted, then
 * all reads of a moment would go to one drive for nothing, and meet there. So a read stays at its
 * home drive unless another is predicted to take less by more than a margin.
 *
 * A drive that is not read is not heard of either, and would be judged by its last words for ever.
 * So a drive that has answered no read for explore_ns, and has none in flight that would tell, gets
 * the next read that is not predicted to take longer there than the drive has been silent: however
 * bad the last words were, they are asked again after as much time, and who asks hardly waits
 * longer than that. At most EXPLORED_SHARE of all reads are spent on it.
 *
 * What somebody else knows of drives takes the place of predictions, where he knows it.
 */
#ifndef LINNOS_CHOOSER_H
#define LINNOS_CHOOSER_H

#include "budget.h"
#include "observer.h"

#define CHOOSER_DRIVES_MAX 16

#define EXPLORED_SHARE 0.01
/* What calm reads save up. */
#define EXPLORED_BURST 10

/* Of drives that are known elsewhere, by bit. */
struct told {
	uint32_t known; /* of these us is told, and when to look at them again is not ours to say */
	uint32_t last;	/* after all others */
	uint32_t to_ask; /* the next read should go there, to hear of it */
	uint32_t us[CHOOSER_DRIVES_MAX];
};

struct chooser {
	unsigned int n_drives;
	struct observer *drives;
	struct linnos_latency *const *models;
	uint64_t explore_ns; /* 0: never */
	unsigned int margin_percent;
	uint32_t gone;			 /* drives that no read goes to any more, by bit */
	uint64_t start_ns;		 /* of the first read: from then on drives are silent */
	uint32_t us[CHOOSER_DRIVES_MAX]; /* predicted by the last choice, of the drives it was
					    between */
	struct budget budget;
	const struct told *told; /* for the next choice; NULL: nobody tells */
};

void chooser_init(struct chooser *c, unsigned int n_drives, struct observer *drives,
		  struct linnos_latency *const *models, uint64_t explore_ns,
		  unsigned int margin_percent);
/* The drive with the lowest prediction of those whose bit is not in mask, -1 when all are. Home
 * itself unless another is lower by more than the margin; of equals the first after home; a drive
 * whose last read failed comes after all others. */
int chooser_lowest(struct chooser *c, unsigned int home, uint32_t pages, uint64_t now_ns,
		   uint32_t mask);
/* Where a new read goes; *explored: not to the lowest prediction, but to hear of the drive. */
unsigned int chooser_read(struct chooser *c, unsigned int home, uint32_t pages, uint64_t now_ns,
			  bool *explored);

#endif
