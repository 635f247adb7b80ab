/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: the state of the model, for model.c and chip.c only. */
#ifndef FLASHSIM_CHIP_H
#define FLASHSIM_CHIP_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/timerqueue.h>
#include <linux/types.h>

#include "flashsim.h"
#include "ftl.h"
#include "model.h"
#include "profile.h"

/*
 * Maximum number of bookings per channel. Normally, fewer are enough, even with the largest reads.
 * If there would be more, the two bookings with the shortest gap between them are merged.
 */
#define CHANNEL_SLOTS		512

/**
 * struct fs_op - an operation of a chip that has not started, or is in progress
 * @next: next in the list, or FLASHSIM_NONE
 * @n: program: units in @lpn; 0 for a garbage collection
 * @page_type: index of the page among those that share a word line
 * @reads: collection: rows to read
 * @programs: program steps
 * @erases: collection: erase steps
 * @units_per_read: collection: units transferred for each row read
 * @seq: program: its number, for cache flushes
 * @end: when it is complete, once started
 * @lpn: program: logical units
 */
struct fs_op {
	u32 next;
	u16 n;
	u8 page_type;
	u32 reads;
	u32 programs;
	u32 erases;
	u32 units_per_read;
	u64 seq;
	u64 end;
	u32 lpn[FLASHSIM_MAX_ROW_UNITS];
};

/**
 * struct fs_chip - a chip
 * @busy_until: end of the work that it is committed to
 * @head: first operation of the backlog
 * @tail: last operation of the backlog
 * @run_head: first program committed and not complete
 * @run_tail: last such program
 * @reads: read steps left of the operation at the head of the backlog
 * @programs: program steps left of it
 * @erases: erase steps left of it
 * @overtaken: reads that went before the backlog since its last step
 * @backlog: operations in the backlog
 * @busy_ns: time committed since power on
 * @event: node in the queue of chips, ordered by the time of the next event
 */
struct fs_chip {
	u64 busy_until;
	u32 head;
	u32 tail;
	u32 run_head;
	u32 run_tail;
	u32 reads;
	u32 programs;
	u32 erases;
	u32 overtaken;
	u32 backlog;
	u64 busy_ns;
	struct timerqueue_node event;
};

/**
 * struct fs_arrival - a write whose data are on the link
 * @when: time when all data are in the buffer
 * @unit: first unit
 * @nr_units: number of units
 */
struct fs_arrival {
	u64 when;
	u32 unit;
	u32 nr_units;
};

struct fs_slot {
	u64 start;
	u64 end;
};

/* A resource with one transfer at a time: a channel, or a direction of the link. */
struct fs_channel {
	u32 n;
	struct fs_slot slot[CHANNEL_SLOTS];
};

/**
 * struct flashsim_model - the drive's time
 * @p: parameters
 * @counters: counters
 * @complete: called when the completion time of a request is known
 * @ftl: space
 * @seed: seed of the drive
 * @now: time of the last event or submission
 * @chips: chips, chip i on channel i % channels
 * @channels: channels, followed by the link to the host
 * @link_free: time until which the link to the drive is in use
 * @arrivals: ring of writes on the link, at most one per unit of the buffer
 * @arrival_head: index of the first
 * @nr_arrivals: number of writes on the link
 * @events: chips with a pending event
 * @ops: pool of operations
 * @free_op: first free operation
 * @ops_free: number of free operations
 * @unit_state: UNIT_* of every logical unit
 * @dirty_ring: dirty units in the order of arrival, at most @buffer_units
 * @ring_head: index of the oldest
 * @dirty: entries in the ring
 * @buffer_units: size of the buffer
 * @buffer_used: units reserved by writes, dirty or being programmed
 * @watermark: number of dirty units at which flushing starts
 * @flush_phase: time of the first tick of the flush interval
 * @next_flush: time of the next tick with dirty rows to flush
 * @program_steps: steps between which a program can be suspended
 * @erase_steps: steps between which an erase can be suspended
 * @seq: programs queued so far
 * @programs_out: programs not complete
 * @waiting: writes that wait for room in the buffer
 * @flushing: cache flushes that wait for programs
 * @dry: the oracle is active: change only the shadows
 * @generation: current generation of shadows
 * @shadow_chips: copies of chips that the oracle works on
 * @shadow_chip_gen: generation of each
 * @shadow_channels: copies of channels that the oracle works on
 * @shadow_channel_gen: generation of each
 */
struct flashsim_model {
	const struct flashsim_params *p;
	struct flashsim_counters *counters;
	flashsim_complete_fn complete;
	struct flashsim_ftl ftl;
	u64 seed;
	u64 now;
	struct fs_chip *chips;
	struct fs_channel *channels;
	u64 link_free;
	struct fs_arrival *arrivals;
	u32 arrival_head;
	u32 nr_arrivals;
	struct timerqueue_head events;
	struct fs_op *ops;
	u32 free_op;
	u32 ops_free;
	u16 *unit_state;
	u32 *dirty_ring;
	u32 ring_head;
	u32 dirty;
	u32 buffer_units;
	u32 buffer_used;
	u32 watermark;
	u64 flush_phase;
	u64 next_flush;
	u32 program_steps;
	u32 erase_steps;
	u64 seq;
	u32 programs_out;
	struct list_head waiting;
	struct list_head flushing;
	bool dry;
	u32 generation;
	struct fs_chip *shadow_chips;
	u32 *shadow_chip_gen;
	struct fs_channel *shadow_channels;
	u32 *shadow_channel_gen;
};

u64 flashsim_channel_book(struct flashsim_model *m, u32 channel, u64 ready,
			  u64 len);
u32 flashsim_op_alloc(struct flashsim_model *m);
void flashsim_op_free(struct flashsim_model *m, u32 i);
void flashsim_chip_requeue(struct flashsim_model *m, struct fs_chip *c);
void flashsim_chip_enqueue(struct flashsim_model *m, struct fs_chip *c, u32 i);
void flashsim_chip_enqueue_gc(struct flashsim_model *m, struct fs_chip *c,
			      const struct flashsim_gc_work *gc);
void flashsim_chip_step(struct flashsim_model *m, u32 chip, u64 t);
u64 flashsim_read_row(struct flashsim_model *m, u32 row, u32 n, u64 t0,
		      u64 hold_ns);

#endif /* FLASHSIM_CHIP_H */
