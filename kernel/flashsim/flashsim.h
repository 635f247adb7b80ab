/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the flash drive emulator share.
 *
 *   main.c     the module
 *   disk.c     the block device: requests in, data moved, completions out
 *   config.c   configfs: makes drives, sets their parameters
 *   profile.c  the drives that ship with the emulator, with their sources
 *   model.c    time: chips, channels, the write buffer, and when an I/O is done;
 *              and the clock
 *   ftl.c      space: where each page lives, garbage collection, wear
 *   inject.c   slowness put on top, by pattern
 *   fault.c    faults, by rule
 *   rules.c    configfs of the fault rules
 *   store.c    the data itself
 *   stats.c    debugfs
 *
 * Only model.c and ftl.c know how a drive works inside; they move no data. Only
 * store.c holds data; it knows no time.
 */
#ifndef FLASHSIM_H
#define FLASHSIM_H

#include <linux/blk-mq.h>
#include <linux/configfs.h>
#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>
#include <linux/xarray.h>

/* The FTL maps units of 4 KiB, as nearly all drives do. */
#define FLASHSIM_UNIT_SHIFT	12
#define FLASHSIM_UNIT_SECTORS	(1U << (FLASHSIM_UNIT_SHIFT - SECTOR_SHIFT))
#define FLASHSIM_NONE		U32_MAX

/* Largest request: 1 MiB, in the middle of what NVMe drives accept. */
#define FLASHSIM_MAX_SECTORS	2048U
#define FLASHSIM_MAX_UNITS	(FLASHSIM_MAX_SECTORS / FLASHSIM_UNIT_SECTORS + 1)

/* Most units programmed at once on one chip: 4 planes of 16 KiB. */
#define FLASHSIM_MAX_ROW_UNITS	16U

#define FLASHSIM_MAX_CHANNELS	32U

/**
 * struct flashsim_params - the parameters of a drive, each a file in configfs
 * @channels: channels
 * @chips_per_channel: chips (dies) on each
 * @planes: pages programmed at once on a chip, one on each plane
 * @page_kb: size of a flash page
 * @pages_per_block: pages of a plane's share of an emulated block
 * @block_slices: emulated blocks to a physical block: one in so many erases takes
 *	chip time
 * @page_read_ns: sensing a page (tR), mean over the pages of a word line
 * @page_program_ns: programming a page (tPROG), likewise
 * @block_erase_ns: erasing a block (tBERS)
 * @page_spread_pct: first and last page of a word line: so much faster and slower
 * @program_suspend_ns: a read can interrupt a program every so often; 0: never
 * @erase_suspend_ns: likewise an erase
 * @channel_transfer_ns: 4 KiB across a channel
 * @controller_ns: the controller's own time for a command
 * @buffer_ns: moving data into or out of the buffer
 * @host_transfer_ns: 4 KiB between host and drive
 * @buffer_mb: size of the write buffer
 * @buffer_watermark_pct: dirty share of the buffer at which it is flushed
 * @flush_interval_us: it is also flushed every so often
 * @volatile_cache: the buffer needs cache flush commands (no capacitors)
 * @overprovision_pct: spare flash, in percent of the exported size
 * @gc_low_blocks: collect garbage on a chip with so few free blocks
 * @gc_high_blocks: until it has so many
 * @gc_policy: victims: 0 greedy, 1 cost-benefit
 * @wear_delta: empty a block that was erased so many times less than another
 * @reads_ahead: reads that may overtake a chip's backlog in a row
 * @queue_depth: commands the drive takes at once, per hardware queue
 *
 * Values and sources are in profile.c.
 */
struct flashsim_params {
	u32 channels;
	u32 chips_per_channel;
	u32 planes;
	u32 page_kb;
	u32 pages_per_block;
	u32 block_slices;
	u32 page_read_ns;
	u32 page_program_ns;
	u32 block_erase_ns;
	u32 page_spread_pct;
	u32 program_suspend_ns;
	u32 erase_suspend_ns;
	u32 channel_transfer_ns;
	u32 controller_ns;
	u32 buffer_ns;
	u32 host_transfer_ns;
	u32 buffer_mb;
	u32 buffer_watermark_pct;
	u32 flush_interval_us;
	u32 volatile_cache;
	u32 overprovision_pct;
	u32 gc_low_blocks;
	u32 gc_high_blocks;
	u32 gc_policy;
	u32 wear_delta;
	u32 reads_ahead;
	u32 queue_depth;
};

#define FLASHSIM_PROFILE_NAME	16

/**
 * struct flashsim_profile - a named set of parameters
 * @name: as written to the attribute profile
 * @params: its values
 */
struct flashsim_profile {
	char name[FLASHSIM_PROFILE_NAME];
	struct flashsim_params params;
};

const struct flashsim_profile *flashsim_find_profile(const char *name);

/**
 * struct flashsim_counters - what a drive did since it was switched on
 *
 * Reads and writes are requests that reached the drive, after merging and
 * splitting by the block layer. Page counts are in 4 KiB units, erases count
 * emulated blocks (a physical erase happens every block_slices of them).
 */
struct flashsim_counters {
	u64 reads;
	u64 writes;
	u64 discards;
	u64 cache_flushes;
	u64 read_sectors;
	u64 write_sectors;
	u64 discard_sectors;
	u64 injected_reads;
	u64 injected_writes;
	u64 faulted_reads;
	u64 faulted_writes;
	u64 buffer_hits;
	u64 unmapped_reads;
	u64 page_reads;
	u64 page_programs;
	u64 flushes;
	u64 buffer_full_writes;
	u64 gc_runs;
	u64 gc_pages_moved;
	u64 erases;
	u64 block_erases;
	u64 wear_moves;
};

/* Which I/Os injection hits, see inject.c. */
enum flashsim_pattern {
	FLASHSIM_INJECT_NONE,
	FLASHSIM_INJECT_RANDOM,
	FLASHSIM_INJECT_CONTINUOUS,
	FLASHSIM_INJECT_INTERVAL,
};

#define FLASHSIM_OP_READ	BIT(0)
#define FLASHSIM_OP_WRITE	BIT(1)

/**
 * struct flashsim_inject - slowness put on top of the drive's own, see inject.c
 * @pattern: which I/Os are hit
 * @ops: mask of FLASHSIM_OP_*
 * @ratio_ppm: share of matching I/Os hit
 * @period_ios: length of the cycle of the continuous pattern
 * @interval: distance between hits of the interval pattern
 * @latency_us: time added to an I/O that is hit
 * @window_start_us: start of the active window in each cycle of the clock
 * @window_us: its length; 0: always active
 * @window_every_us: length of the cycle; 0: one cycle without end
 * @armed: injection is on
 * @armed_ns: when it was armed, the zero of the window clock
 * @matched: matching I/Os seen since then
 */
struct flashsim_inject {
	enum flashsim_pattern pattern;
	u32 ops;
	u64 ratio_ppm;
	u64 period_ios;
	u64 interval;
	u64 latency_us;
	u64 window_start_us;
	u64 window_us;
	u64 window_every_us;
	bool armed;
	u64 armed_ns;
	u64 matched;
};

void flashsim_inject_init(struct flashsim_inject *inj);
void flashsim_inject_arm(struct flashsim_inject *inj, bool on, u64 now);
u64 flashsim_inject_peek(const struct flashsim_inject *inj, u64 seed, u32 op,
			 u64 now);
u64 flashsim_inject_next(struct flashsim_inject *inj, u64 seed, u32 op,
			 u64 now);

enum flashsim_fault {
	FLASHSIM_FAULT_DELAY,
	FLASHSIM_FAULT_BIT_FLIP,
	FLASHSIM_FAULT_ZEROS,
	FLASHSIM_FAULT_ONES,
	FLASHSIM_FAULT_MEDIUM_ERROR,
	FLASHSIM_FAULT_LOST_WRITE,
};

enum flashsim_frequency {
	FLASHSIM_FREQ_ALL,
	FLASHSIM_FREQ_ALL_AFTER,
	FLASHSIM_FREQ_INTERVAL,
};

#define FLASHSIM_MAX_RULES	16
#define FLASHSIM_MAX_RANGES	65536

/**
 * struct flashsim_range - sectors from @start to before @end
 * @start: first sector
 * @end: the one after the last
 */
struct flashsim_range {
	u64 start;
	u64 end;
};

/**
 * struct flashsim_rule_knobs - what a rule does; each a file in configfs
 * @op: mask of FLASHSIM_OP_*
 * @tag: I/O tag that matches; -1: any
 * @count: count requests (0) or 4 KiB blocks (1)
 * @frequency: which matches are hit: enum flashsim_frequency
 * @n: parameter of @frequency
 * @fault: what happens to them: enum flashsim_fault
 * @latency_us: for a delay
 * @offset: for a bit flip: which byte; -1: from the seed
 * @bit: for a bit flip: which bit; -1: from the seed
 */
struct flashsim_rule_knobs {
	s64 op;
	s64 tag;
	s64 count;
	s64 frequency;
	s64 n;
	s64 fault;
	s64 latency_us;
	s64 offset;
	s64 bit;
};

/**
 * struct flashsim_rule - a fault rule: a directory in configfs, see fault.c
 * @item: the directory
 * @list: place among the drive's rules, in the order they were made
 * @drive: the drive
 * @enabled: it looks at I/Os
 * @knobs: what it does
 * @ranges_mutex: serialises those who replace @ranges
 * @nr_ranges: ranges; 0: the whole disk
 * @ranges: sorted, and none touches the next
 * @matched: matches since the rule was enabled
 * @injected: hits among them
 */
struct flashsim_rule {
	struct config_item item;
	struct list_head list;
	struct flashsim_drive *drive;
	bool enabled;
	struct flashsim_rule_knobs knobs;
	struct mutex ranges_mutex; /* of writers; @drive->lock for readers */
	u32 nr_ranges;
	struct flashsim_range *ranges;
	u64 matched;
	u64 injected;
};

/**
 * struct flashsim_hit - damage to a part of a request
 * @sector: where the part begins
 * @offset: byte in the part where the damage begins
 * @len: bytes damaged
 * @mask: for a bit flip
 * @fault: which damage
 */
struct flashsim_hit {
	u64 sector;
	u32 offset;
	u32 len;
	u8 mask;
	u8 fault;
};

/**
 * struct flashsim_faults - what the rules decided about a request
 * @extra_ns: delay
 * @medium_error: it fails
 * @nr_hits: damaged parts
 * @max_hits: room for them
 * @hits: the parts
 */
struct flashsim_faults {
	u64 extra_ns;
	bool medium_error;
	u32 nr_hits;
	u32 max_hits;
	struct flashsim_hit *hits;
};

bool flashsim_faults_alloc(struct flashsim_faults *faults, u32 nr_rules,
			   u32 nr_units);
void flashsim_faults_free(struct flashsim_faults *faults);
void flashsim_faults_decide(struct list_head *rules, u64 seed,
			    struct request *rq, struct flashsim_faults *faults);
bool flashsim_faults_lost(const struct flashsim_faults *faults, u64 sector);
void flashsim_faults_damage(const struct flashsim_faults *faults, u8 *data,
			    u64 sector, u32 len);
extern const struct config_item_type flashsim_rules_type;

/**
 * struct flashsim_ftl - the mapping of a drive, see ftl.c
 * @p: the drive's parameters
 * @counters: the drive's counters
 * @nr_units: exported size in units
 * @nr_chips: channels * chips_per_channel
 * @row_units: units programmed at once on one chip (one page of each plane)
 * @block_units: units in a block
 * @chip_blocks: blocks of a chip, spare ones included
 * @chip_valid_max: most valid units a chip may hold, so that collecting
 *	garbage can always make progress
 * @next_chip: chip that receives the next row, round robin
 * @l2p: physical unit of each logical unit, or FLASHSIM_NONE
 * @p2l: logical unit last written to each physical unit
 * @blocks: nr_chips * chip_blocks blocks
 * @chips: per chip state
 */
struct flashsim_ftl {
	const struct flashsim_params *p;
	struct flashsim_counters *counters;
	u32 nr_units;
	u32 nr_chips;
	u32 row_units;
	u32 block_units;
	u32 chip_blocks;
	u32 chip_valid_max;
	u32 next_chip;
	u32 *l2p;
	u32 *p2l;
	struct flashsim_block *blocks;
	struct flashsim_ftl_chip *chips;
};

/**
 * struct flashsim_gc_work - chip time that garbage collection asks for
 * @rows_read: rows read
 * @rows_programmed: rows programmed
 * @units_moved: units that crossed the channel, each way
 * @erases: physical erases
 */
struct flashsim_gc_work {
	u32 rows_read;
	u32 rows_programmed;
	u32 units_moved;
	u32 erases;
};

int flashsim_ftl_init(struct flashsim_ftl *ftl, const struct flashsim_params *p,
		      struct flashsim_counters *counters, u32 nr_units);
void flashsim_ftl_destroy(struct flashsim_ftl *ftl);
u32 flashsim_ftl_write_row(struct flashsim_ftl *ftl, const u32 *lpn, u32 n,
			   u32 *row, struct flashsim_gc_work *gc);
void flashsim_ftl_trim(struct flashsim_ftl *ftl, u32 lpn);
void flashsim_ftl_precondition(struct flashsim_ftl *ftl, u64 seed);
void flashsim_ftl_wear(const struct flashsim_ftl *ftl, u32 chip, u32 *free,
		       u32 *valid, u32 *min_erases, u32 *max_erases);

/**
 * struct flashsim_clock - the time that a model is shown
 * @latest: the latest, ns
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
 * @extra_ns: injected time
 * @wait: place in the queue of writes waiting for the buffer, or of flushes
 * @flush_seq: flush: last program that was under way when it came
 * @flush_left: flush: how many of them are not finished
 */
struct flashsim_cmd {
	enum req_op op;
	u32 unit;
	u32 nr_units;
	u64 extra_ns;
	struct list_head wait;
	u64 flush_seq;
	u32 flush_left;
};

/**
 * typedef flashsim_complete_fn - a request's time of completion is known
 * @cmd: the request; the model has forgotten it
 * @when: the time, ns; at once if that is past
 *
 * Context: that of the call that made the model advance, its locks held.
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
u64 flashsim_model_oracle(struct flashsim_model *m, u64 unit, u32 nr_units,
			  u64 now);
void flashsim_model_advance(struct flashsim_model *m, u64 now);
u64 flashsim_model_next_event(struct flashsim_model *m);
void flashsim_model_show(struct flashsim_model *m, struct seq_file *s);

/**
 * struct flashsim_store - sparse memory that holds a drive's data
 * @pages: pages written, by unit number
 * @lock: taken for writing by discards, which free pages
 */
struct flashsim_store {
	struct xarray pages;
	struct rw_semaphore lock;
};

void flashsim_store_init(struct flashsim_store *store);
void flashsim_store_destroy(struct flashsim_store *store);
blk_status_t flashsim_store_copy(struct flashsim_store *store,
				 struct request *rq,
				 const struct flashsim_faults *faults);
void flashsim_store_discard(struct flashsim_store *store, u64 sector,
			    u64 nr_sectors);

/**
 * struct flashsim_drive - one drive: a directory in configfs, and its disk
 * @group: the directory
 * @inject_group: its subdirectory inject
 * @rules_group: its subdirectory rules
 * @profile: name of the profile last chosen
 * @params: parameters, fixed while powered
 * @size_mb: exported size
 * @seed: seed of all that is random in the drive
 * @power: the disk exists; changes under flashsim_mutex
 * @lock: protects all below that changes while I/O runs
 * @model_mutex: held over work on the model that is too long for @lock
 * @clock: the drive's clock
 * @inject: injection
 * @rules: fault rules
 * @nr_rules: how many
 * @counters: counters
 * @model: time and space of the drive
 * @timer: wakes the model while requests wait for it
 * @store: data
 * @tag_set: block layer tags
 * @disk: the disk
 * @debugfs: its directory in debugfs
 */
struct flashsim_drive {
	struct config_group group;
	struct config_group inject_group;
	struct config_group rules_group;
	char profile[FLASHSIM_PROFILE_NAME];
	struct flashsim_params params;
	u32 size_mb;
	u64 seed;
	bool power;

	/* Taken in interrupts: the model, injection, counters. */
	spinlock_t lock;
	/* Taken before lock, around work on the model too long for it. */
	struct mutex model_mutex;
	struct flashsim_clock clock;
	struct flashsim_inject inject;
	struct list_head rules;
	u32 nr_rules;
	struct flashsim_counters counters;
	struct flashsim_model *model;
	struct hrtimer timer;
	struct flashsim_store store;
	struct blk_mq_tag_set tag_set;
	struct gendisk *disk;
	struct dentry *debugfs;
};

int flashsim_power_on(struct flashsim_drive *drive);
void flashsim_power_off(struct flashsim_drive *drive);
void flashsim_precondition(struct flashsim_drive *drive);

int flashsim_config_init(void);
void flashsim_config_exit(void);

void flashsim_stats_init(void);
void flashsim_stats_exit(void);
void flashsim_stats_add(struct flashsim_drive *drive);
void flashsim_stats_remove(struct flashsim_drive *drive);

/**
 * flashsim_hash() - a number that looks random, the same on every run
 * @seed: which sequence
 * @n: which member of it
 *
 * Return: 64 well-mixed bits (the finaliser of SplitMix64).
 */
static inline u64 flashsim_hash(u64 seed, u64 n)
{
	u64 z = seed + (n + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

#endif /* FLASHSIM_H */
