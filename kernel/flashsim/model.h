/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: time, and the clock. */
#ifndef FLASHSIM_MODEL_H
#define FLASHSIM_MODEL_H

#include <linux/blk_types.h>
#include <linux/list.h>
#include <linux/types.h>

struct flashsim_counters;
struct flashsim_params;
struct seq_file;

/**
 * struct flashsim_clock - the time of a model
 * @latest: the latest value, ns
 */
struct flashsim_clock {
	u64 latest;
};

u64 flashsim_now(struct flashsim_clock *clock);

/**
 * struct flashsim_model - the drive's time, see model.c
 */
struct flashsim_model;

/**
 * struct flashsim_cmd - a request, as the model sees it
 * @op: REQ_OP_READ, REQ_OP_WRITE, REQ_OP_DISCARD or REQ_OP_FLUSH
 * @unit: first unit touched
 * @nr_units: units touched
 * @extra_ns: latency added to the completion only
 * @hold_ns: latency added to the use of what serves the request: for a read the
 *	chip of its first row on flash, or the link if it has none; for a write the
 *	link
 * @wait: node in the queue of writes waiting for the buffer, or of flushes
 * @flush_seq: flush: last program in progress when it was submitted
 * @flush_left: flush: number of these programs that are not complete
 */
struct flashsim_cmd {
	enum req_op op;
	u32 unit;
	u32 nr_units;
	u64 extra_ns;
	u64 hold_ns;
	struct list_head wait;
	u64 flush_seq;
	u32 flush_left;
};

/**
 * typedef flashsim_complete_fn - called when a completion time is known
 * @cmd: the request; the model no longer uses it
 * @when: the time, ns; complete at once if it is past
 *
 * Context: that of the call that advanced the model, with its locks held.
 */
typedef void (*flashsim_complete_fn)(struct flashsim_cmd *cmd, u64 when);

struct flashsim_model *flashsim_model_create(const struct flashsim_params *p,
					     struct flashsim_counters *counters,
					     u32 nr_units, u64 seed, u64 now,
					     flashsim_complete_fn complete);
void flashsim_model_destroy(struct flashsim_model *m);
void flashsim_model_precondition(struct flashsim_model *m);
void flashsim_model_submit(struct flashsim_model *m, struct flashsim_cmd *cmd,
			   u64 now);
void flashsim_model_oracle_begin(struct flashsim_model *m, u64 now);
u64 flashsim_model_oracle_read(struct flashsim_model *m, u32 unit,
			       u32 nr_units, u64 hold_ns);
void flashsim_model_oracle_end(struct flashsim_model *m);
void flashsim_model_advance(struct flashsim_model *m, u64 now);
u64 flashsim_model_next_event(struct flashsim_model *m);
void flashsim_model_show(struct flashsim_model *m, struct seq_file *s);

#endif /* FLASHSIM_MODEL_H */
