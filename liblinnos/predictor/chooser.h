/* SPDX-License-Identifier: MIT */
/*
 * Choose the replica that is predicted to answer first.
 *
 * Margin: predictions usually differ by less than their error. If the smallest difference decided,
 * all reads that arrive together would needlessly go to one drive and queue there. A read therefore
 * stays at its default drive unless the prediction for another drive is lower by more than a
 * margin.
 *
 * Queueing penalty: the models were trained with reads that stayed at their default drives. They do
 * not include the load that redirected reads cause, and several reads that arrive together would
 * all be redirected to the same drive. If another drive has more reads in flight than the default
 * drive, each additional read therefore adds 1/READS_PER_MEDIAN of the recent median latency to its
 * prediction. The median is that of all drives, because the penalty is the cost of a queued read,
 * which does not depend on how slow a slow drive is. Before the first completion a fraction of the
 * drive's overdue time is added.
 *
 * Control group: it is not known in advance whether redirection reduces latency. A part of the
 * reads that would be redirected therefore stays at the default drive. The measured latencies of
 * both groups determine how many reads stay (linnos_guard.h).
 *
 * Models: reads are redirected only between drives that both have a model, unless the default drive
 * is unhealthy.
 *
 * Unhealthy drives: a drive is unhealthy if its last read failed or exceeded the time limit for a
 * healthy drive (observer.h), or if a read in flight has exceeded that limit. It ranks after all
 * other drives, regardless of predictions and models, until a read completes there normally.
 *
 * Probes: a drive without reads completes none, so its last latencies would be used forever. If a
 * drive has completed no read for probe_after_ns and has none in flight, a copy of the next read is
 * requested. The user's read goes to the drive with the best prediction, and no caller waits for
 * the copy. After each failure a drive is left alone for a longer time (observer.h). Copies are at
 * most PROBE_COPY_SHARE of all reads, and if extra I/O is capped they count against the cap.
 *
 * External predictions, for example of the kernel, replace the models' predictions for the drives
 * they cover.
 *
 * Threads: several threads choose between the same drives, each with its own chooser. They share
 * the observers, the models and struct chooser_common.
 *
 * Cost: if max_unpredicted_reads is 0, every read costs one prediction per drive. Otherwise up to
 * max_unpredicted_reads consecutive reads of a thread stay at their default drives without
 * predictions for the other drives. The condition is that the default drive is idle, and that this
 * thread's last predictions for the other drives are not lower by more than the margin. Even the
 * default drive is predicted only for every PREDICT_EVERYth read as long as its recent reads took
 * at most REUSE_TOLERANCE times the prediction.
 */
#ifndef LINNOS_CHOOSER_H
#define LINNOS_CHOOSER_H

#include "budget.h"
#include "linnos_guard.h"
#include "observer.h"

#define CHOOSER_DRIVES_MAX 16

#define PROBE_COPY_SHARE 0.01
/* If extra I/O is capped, copies may use this fraction of the cap. The rest is for hedges. */
#define PROBE_COPY_SHARE_OF_EXTRA 0.2
/* With max_unpredicted_reads, choosers look for drives to probe only this many times per
 * probe_after_ns. This delays a probe by up to an eighth of probe_after_ns. */
#define SILENCE_CHECKS 8
/* Largest number of copies that can accumulate while none is needed. */
#define PROBE_COPY_BURST 10

#define READS_PER_MEDIAN 7
/* The median has this many fractional bits, and changes by 1/2^MEDIAN_STEP_SHIFT with each read. */
#define MEDIAN_SHIFT 8
#define MEDIAN_STEP_SHIFT 7

#define PREDICT_EVERY 4
#define REUSE_TOLERANCE 2
/* chooser_answered_sampled() records one in this number of the reads that are not assigned to a
 * group of the guard. The guard needs only their mean over thousands of reads. */
#define UNASSIGNED_SAMPLE_EVERY 8

/* External predictions for the drives. Bitmaps have one bit per drive. */
struct external_predictions {
	uint32_t known; /* drives with a prediction in us, which are probed only if `probe` asks */
	uint32_t last;	/* drives that rank after all others */
	uint32_t probe; /* drives to which a copy of the next read should go */
	uint32_t us[CHOOSER_DRIVES_MAX];
};

/* Data shared by the choosers of several threads. Except for the guard, each member is one word and
 * is accessed atomically. */
struct chooser_common {
	bool unguarded;	    /* follow the predictions without a control group */
	bool users_probe;   /* copies cannot be sent, so users' reads are sent in their place */
	uint32_t dropped;   /* bitmap of the drives to which no read is sent any more */
	uint32_t chooses;   /* bitmap of the drives whose models redirect reads */
	uint64_t start_ns;  /* time of the first read; drives can be stale from then on */
	uint64_t median_us; /* of recent reads, times 2^MEDIAN_SHIFT; 0 before the first one */
	struct linnos_guard guard ____cacheline_aligned_in_smp;
	unsigned long guard_lock;
};

/* The state of a drive that affects its rank in addition to its prediction. */
struct drive_state {
	uint32_t reads; /* in flight */
	bool is_idle;	/* no read or write is in flight */
	bool is_unhealthy;
};

struct chooser {
	struct chooser_common *common;
	unsigned int n_drives;
	struct observer *drives;
	struct linnos_latency **models;
	uint64_t probe_after_ns; /* 0 disables probes */
	unsigned int margin_percent;
	unsigned int max_unpredicted_reads; /* 0: predict every read for all drives */
	unsigned int n_unpredicted;	    /* reads since all drives were predicted */
	unsigned int n_unassigned;
	uint64_t next_silence_check_ns; /* with max_unpredicted_reads: time of the next check */
	struct {
		uint32_t pages; /* size of the read for which the drive was last predicted; 0 if
				   it was not idle */
		uint32_t n;	/* number of times that the prediction was used again */
	} last[CHOOSER_DRIVES_MAX];
	/* The drives that were predicted for the current read, their predictions and their
	 * state. */
	uint32_t predicted;
	uint32_t us[CHOOSER_DRIVES_MAX];
	struct drive_state state[CHOOSER_DRIVES_MAX];
	struct budget budget;
	struct budget *extra; /* for hedges and copies together; NULL without hedges */
	const struct external_predictions
		*external; /* for the next choice; NULL if there are none */
};

/* Initialize the first chooser and the data that it shares with others. */
void chooser_init(struct chooser *c, struct chooser_common *common, unsigned int n_drives,
		  struct observer *drives, struct linnos_latency **models, uint64_t probe_after_ns,
		  unsigned int margin_percent, bool guarded);
/* Initialize a chooser for another thread from one that has chosen nothing yet. */
void chooser_join(struct chooser *c, const struct chooser *first);
/* Record that a drive has a new model. Calls must be serialized by the caller. */
void chooser_model_changed(struct chooser *c, unsigned int drive);
/* Limit probe copies to the extra I/O that is allowed, the fraction @extra_share of the reads. If
 * there is a budget for @hedges, probe copies may use PROBE_COPY_SHARE_OF_EXTRA of it and count
 * against it.
 */
void chooser_set_probe_budget(struct chooser *c, double extra_share, struct budget *hedges);
/* Return the drive with the lowest prediction among those whose bit in @mask is clear; -1 if there
 * is none. Return the default drive unless it is unhealthy or another one is lower by more than the
 * margin. Of equal drives, return the first one after the default drive. */
int chooser_find_fastest(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
			 uint32_t pages, uint64_t now_ns, uint32_t mask);
/* As chooser_find_fastest(), for a hedge of the read for which a drive was just chosen. Predictions
 * that were made for this read are used again. The last predictions for idle drives are used again
 * under the same conditions as that for the default drive. */
int chooser_find_second(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
			uint32_t pages, uint64_t now_ns, uint32_t mask);

struct choice {
	unsigned int drive;
	int copy;			     /* where to send a copy as a probe; -1 for none */
	struct linnos_assignment assignment; /* argument for chooser_answered() */
};

/* Choose a drive for a new read. */
struct choice chooser_read(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
			   uint32_t pages, uint64_t now_ns);
/* Record the latency of a read whose user has the answer. */
void chooser_answered(struct chooser *c, struct linnos_assignment assignment, uint64_t latency_ns);
/* As chooser_answered(), but skip most reads without an assignment. */
void chooser_answered_sampled(struct chooser *c, struct linnos_assignment assignment,
			      uint64_t latency_ns);

#endif
