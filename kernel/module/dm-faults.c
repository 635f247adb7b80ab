// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-linnos-faults.ko: a device-mapper target that damages a block device by the
 * fault rules of emulated drives (flashsim/fault.c explains them).
 *
 *  dmsetup create bad --table "0 SECTORS linnos-faults DEVICE FIRST_SECTOR [SEED]"
 *  dmsetup message bad 0 add NAME [SETTING VALUE]...	a rule, not enabled
 *  dmsetup message bad 0 range NAME [FIRST SECTORS]...	where it applies
 *  dmsetup message bad 0 enable|disable|remove NAME
 *  dmsetup message bad 0 list				settings and counters
 *
 * Sectors of a rule are those of the target, not of the device below it. SEED is
 * the seed of the bits that a rule derives by itself.
 *
 * A bio without a hit goes to the device below as it is. The data that a read returns are damaged
 * when it has completed. A write never changes the memory of the writer, because others use it,
 * too: the page cache keeps it, and the mirrors of an array share it. So the data of a write with a
 * hit are copied, and written by new bios, one for each part that is not lost.
 *
 * A target under a file system or an array costs a test of nr_rules for each bio until there is a
 * rule. With rules, a bio takes the spinlock and allocates memory, as in an emulated drive.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "flashsim/fault.h"
#include "flashsim/flashsim.h"
#include "linnos_compat.h"

/* Largest bio, as of an emulated drive: it also bounds the number of hits. */
#define MAX_SECTORS 2048

#define MAX_NAME 32

/**
 * struct named_rule - a rule of a target
 * @rule: the rule
 * @name: its name
 */
struct named_rule {
	struct flashsim_rule rule;
	char name[MAX_NAME];
};

/**
 * struct faults_target - a target
 * @dev: the device below
 * @first: sector of the device where the target begins
 * @seed: seed of random bits
 * @messages: serialises messages, which alone add, change and remove rules
 * @lock: protects the rules
 * @nr_rules: number of rules; changed under @lock
 * @rules: the rules, in the order of their creation
 * @queue: submits bios that were delayed, and bios with damaged data
 */
struct faults_target {
	struct dm_dev *dev;
	sector_t first;
	u64 seed;
	struct mutex messages; /* taken before lock */
	spinlock_t lock; /* taken for each bio while there are rules */
	u32 nr_rules;
	struct list_head rules;
	struct workqueue_struct *queue;
};

/**
 * struct faults_io - private data of a bio
 * @target: the target
 * @faults: the effects of the rules on the bio
 * @iter: the data, and the sectors on the device below, before submission
 * @first: its first sector in the target
 * @parts: number of incomplete bios that write its data, plus 1 while they
 *	are submitted
 * @status: the status of these bios
 * @timer: expires at the end of the delay
 * @work: submits the bio after the delay
 */
struct faults_io {
	struct faults_target *target;
	struct flashsim_faults faults;
	struct bvec_iter iter;
	sector_t first;
	atomic_t parts;
	blk_status_t status;
	struct hrtimer timer;
	struct work_struct work;
};

static struct faults_io *bio_io(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct faults_io));
}

static struct bio *io_bio(struct faults_io *io)
{
	return dm_bio_from_per_bio_data(io, sizeof(struct faults_io));
}

/* ---- writes with damage ---- */

static void part_put(struct faults_io *io, blk_status_t status)
{
	struct bio *bio = io_bio(io);

	if (status)
		WRITE_ONCE(io->status, status);
	/* The last caller sees the status of all parts: atomic_dec_and_test() is ordered. */
	if (!atomic_dec_and_test(&io->parts))
		return;
	bio->bi_status = READ_ONCE(io->status);
	bio_endio(bio);
}

static void part_free(struct bio *part)
{
	struct bvec_iter_all iter;
	struct bio_vec *bv;

	bio_for_each_segment_all(bv, part, iter)
		__free_page(bv->bv_page);
	bio_put(part);
}

static void part_done(struct bio *part)
{
	struct faults_io *io = part->bi_private;
	blk_status_t status = part->bi_status;

	part_free(part);
	part_put(io, status);
}

/* Return a bio with new pages for @nr_sectors, or NULL if out of memory. */
static struct bio *part_alloc(struct faults_io *io, u32 nr_sectors)
{
	u32 left = nr_sectors << SECTOR_SHIFT;
	struct bio *part;

	part = bio_alloc(io->target->dev->bdev, DIV_ROUND_UP(left, PAGE_SIZE),
			 io_bio(io)->bi_opf, GFP_NOIO);
	while (part && left) {
		struct page *page = alloc_page(GFP_NOIO);
		u32 len = min_t(u32, left, PAGE_SIZE);

		if (!page) {
			part_free(part);
			return NULL;
		}
		/* There is room for all pages. */
		__bio_add_page(part, page, len, 0);
		left -= len;
	}
	return part;
}

static void part_damage(struct faults_io *io, struct bio *part, u64 pos)
{
	struct bvec_iter_all iter;
	struct bio_vec *bv;

	bio_for_each_segment_all(bv, part, iter) {
		u8 *data = bvec_kmap_local(bv);

		flashsim_faults_damage(&io->faults, data, pos, bv->bv_len);
		kunmap_local(data);
		pos += bv->bv_len;
	}
}

/* Write the sectors from @start to @end - 1, relative to the first one of the bio. */
static void part_submit(struct faults_io *io, u32 start, u32 end)
{
	struct bio *part = part_alloc(io, end - start);
	struct bio *bio = io_bio(io);

	if (!part) {
		WRITE_ONCE(io->status, BLK_STS_RESOURCE);
		return;
	}
	/* The bio itself is not submitted, and io->iter still describes it. */
	bio->bi_iter = io->iter;
	bio_advance_iter(bio, &bio->bi_iter, start << SECTOR_SHIFT);
	bio_copy_data(part, bio);
	part_damage(io, part, (u64)(io->first + start) << SECTOR_SHIFT);
	part->bi_iter.bi_sector = io->iter.bi_sector + start;
	part->bi_ioprio = bio->bi_ioprio;
	part->bi_private = io;
	part->bi_end_io = part_done;
	atomic_inc(&io->parts);
	submit_bio_noacct(part);
}

static void write_parts(struct faults_io *io)
{
	u32 nr_sectors = io->iter.bi_size >> SECTOR_SHIFT;
	u32 start = 0, end;

	io->status = BLK_STS_OK;
	atomic_set(&io->parts, 1);
	while (start < nr_sectors) {
		bool lost =
			flashsim_faults_lost(&io->faults, io->first + start);

		for (end = start + 1; end < nr_sectors; end++)
			if (flashsim_faults_lost(&io->faults,
						 io->first + end) != lost)
				break;
		if (!lost)
			part_submit(io, start, end);
		start = end;
	}
	part_put(io, BLK_STS_OK);
}

/* ---- bios ---- */

/*
 * Submit a bio that was delayed, or that is damaged. faults_map() must not do
 * this: bios that it submits are sent only after it returns, so if it allocated
 * several, it could wait for memory that only their completion frees.
 */
static void io_work(struct work_struct *work)
{
	struct faults_io *io = container_of(work, struct faults_io, work);
	struct bio *bio = io_bio(io);

	if (io->faults.medium_error) {
		bio->bi_status = BLK_STS_MEDIUM;
		bio_endio(bio);
	} else if (op_is_write(bio_op(bio)) && io->faults.nr_hits) {
		write_parts(io);
	} else {
		submit_bio_noacct(bio);
	}
}

static enum hrtimer_restart io_timer(struct hrtimer *timer)
{
	struct faults_io *io = container_of(timer, struct faults_io, timer);

	queue_work(io->target->queue, &io->work);
	return HRTIMER_NORESTART;
}

/*
 * Apply the rules. Return false if out of memory. The hits are copied to memory from kmalloc(),
 * because reads may complete in atomic context, where vfree() might sleep.
 */
static bool io_decide(struct faults_io *io, u32 nr_rules)
{
	struct faults_target *target = io->target;
	struct bio *bio = io_bio(io);
	struct flashsim_fault_io access = {
		.op = op_is_write(bio_op(bio)) ? FLASHSIM_OP_WRITE :
						 FLASHSIM_OP_READ,
		.prio = bio->bi_ioprio,
		.start = io->first,
		.end = io->first + bio_sectors(bio),
	};
	struct flashsim_faults found;
	unsigned long flags;
	u32 nr_units;

	/* The first and the last unit may be covered in part. */
	nr_units = bio_sectors(bio) / FLASHSIM_UNIT_SECTORS + 2;
	if (!flashsim_faults_alloc(&found, nr_rules, nr_units))
		return false;
	spin_lock_irqsave(&target->lock, flags);
	flashsim_faults_decide(&target->rules, target->seed, &access, &found);
	spin_unlock_irqrestore(&target->lock, flags);
	io->faults = found;
	io->faults.hits = NULL;
	if (found.nr_hits) {
		io->faults.hits = kmemdup(found.hits,
					  found.nr_hits * sizeof(*found.hits),
					  GFP_NOIO);
		if (!io->faults.hits)
			io->faults.nr_hits = 0;
	}
	flashsim_faults_free(&found);
	return !found.nr_hits || io->faults.hits;
}

static int faults_map(struct dm_target *ti, struct bio *bio)
{
	struct faults_target *target = ti->private;
	struct faults_io *io = bio_io(bio);
	u32 nr_rules = READ_ONCE(target->nr_rules);

	bio_set_dev(bio, target->dev->bdev);
	/* faults_end_io() tests this for each bio. */
	io->faults.hits = NULL;
	io->first = dm_target_offset(ti, bio->bi_iter.bi_sector);
	bio->bi_iter.bi_sector = target->first + io->first;
	if (!nr_rules || !bio_has_data(bio) ||
	    (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE))
		return DM_MAPIO_REMAPPED;

	io->target = target;
	io->iter = bio->bi_iter;
	if (!io_decide(io, nr_rules)) {
		bio->bi_status = BLK_STS_RESOURCE;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (!io->faults.extra_ns && !io->faults.medium_error &&
	    !(op_is_write(bio_op(bio)) && io->faults.nr_hits))
		return DM_MAPIO_REMAPPED;
	INIT_WORK(&io->work, io_work);
	if (!io->faults.extra_ns) {
		queue_work(target->queue, &io->work);
		return DM_MAPIO_SUBMITTED;
	}
	hrtimer_setup(&io->timer, io_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&io->timer, ns_to_ktime(io->faults.extra_ns),
		      HRTIMER_MODE_REL);
	return DM_MAPIO_SUBMITTED;
}

static int faults_end_io(struct dm_target *ti, struct bio *bio,
			 blk_status_t *error)
{
	struct faults_io *io = bio_io(bio);
	struct bvec_iter iter;
	struct bio_vec bv;
	u64 pos;

	if (!io->faults.hits)
		return DM_ENDIO_DONE;
	if (bio_op(bio) == REQ_OP_READ && !*error) {
		pos = (u64)io->first << SECTOR_SHIFT;
		__bio_for_each_segment(bv, bio, iter, io->iter) {
			u8 *data = bvec_kmap_local(&bv);

			flashsim_faults_damage(&io->faults, data, pos,
					       bv.bv_len);
			kunmap_local(data);
			pos += bv.bv_len;
		}
	}
	kfree(io->faults.hits);
	return DM_ENDIO_DONE;
}

/* ---- messages ---- */

static struct named_rule *find_rule(struct faults_target *target,
				    const char *name)
{
	struct named_rule *named;

	list_for_each_entry(named, &target->rules, rule.list)
		if (!strcmp(named->name, name))
			return named;
	return NULL;
}

static void free_rule(struct named_rule *named)
{
	kvfree(named->rule.ranges);
	kfree(named);
}

static int set_setting(struct flashsim_rule *rule, const char *name,
		       const char *text)
{
	const struct flashsim_setting *s = flashsim_rule_table;
	int i, err;
	u64 value;

	for (i = 0; i < FLASHSIM_NR_RULE_SETTINGS; i++, s++) {
		if (strcmp(s->name + strlen("rule/"), name))
			continue;
		err = flashsim_setting_parse(s, text, &value);
		if (!err)
			flashsim_setting_assign(s, &rule->settings, value);
		return err;
	}
	pr_err("rule/%s: no such setting\n", name);
	return -EINVAL;
}

static int add_rule(struct faults_target *target, const char *name, int argc,
		    char **argv)
{
	struct named_rule *named;
	int i, err = 0;

	if (argc % 2 || strlen(name) >= MAX_NAME)
		return -EINVAL;
	if (find_rule(target, name))
		return -EEXIST;
	if (target->nr_rules == FLASHSIM_MAX_RULES)
		return -ENOSPC;
	named = kzalloc(sizeof(*named), GFP_KERNEL);
	if (!named)
		return -ENOMEM;
	strscpy(named->name, name, MAX_NAME);
	flashsim_rule_init(&named->rule);
	for (i = 0; i < argc && !err; i += 2)
		err = set_setting(&named->rule, argv[i], argv[i + 1]);
	if (err) {
		free_rule(named);
		return err;
	}
	spin_lock_irq(&target->lock);
	list_add_tail(&named->rule.list, &target->rules);
	WRITE_ONCE(target->nr_rules, target->nr_rules + 1);
	spin_unlock_irq(&target->lock);
	return 0;
}

static int add_ranges(struct faults_target *target, struct flashsim_rule *rule,
		      int argc, char **argv)
{
	struct flashsim_range *ranges;
	u32 n = rule->nr_ranges;
	u64 start, len;
	int i;

	if (argc % 2)
		return -EINVAL;
	if (rule->enabled)
		return -EBUSY;
	if (n + argc / 2 > FLASHSIM_MAX_RANGES)
		return -E2BIG;
	ranges = kvmalloc_array(n + argc / 2, sizeof(*ranges), GFP_KERNEL);
	if (!ranges)
		return -ENOMEM;
	if (n)
		memcpy(ranges, rule->ranges, n * sizeof(*ranges));
	for (i = 0; i < argc; i += 2) {
		if (kstrtou64(argv[i], 10, &start) ||
		    kstrtou64(argv[i + 1], 10, &len) || !len ||
		    start > U64_MAX - len) {
			kvfree(ranges);
			return -EINVAL;
		}
		n = flashsim_ranges_insert(ranges, n, start, start + len);
	}
	spin_lock_irq(&target->lock);
	swap(rule->ranges, ranges);
	rule->nr_ranges = n;
	spin_unlock_irq(&target->lock);
	kvfree(ranges);
	return 0;
}

static void remove_rule(struct faults_target *target, struct named_rule *named)
{
	spin_lock_irq(&target->lock);
	list_del(&named->rule.list);
	WRITE_ONCE(target->nr_rules, target->nr_rules - 1);
	spin_unlock_irq(&target->lock);
	free_rule(named);
}

/* Print a line "NAME SETTING VALUE... matched N injected N" for each rule. */
static int list_rules(struct faults_target *target, char *result,
		      unsigned int maxlen)
{
	struct named_rule *named;
	unsigned int sz = 0;
	char value[24];
	int i;

	result[0] = '\0';
	list_for_each_entry(named, &target->rules, rule.list) {
		const struct flashsim_rule *rule = &named->rule;

		DMEMIT("%s enabled %d", named->name, rule->enabled);
		for (i = 0; i < FLASHSIM_NR_RULE_SETTINGS; i++) {
			const struct flashsim_setting *s =
				&flashsim_rule_table[i];

			flashsim_setting_print(s, &rule->settings, value,
					       sizeof(value));
			DMEMIT(" %s %s", s->name + strlen("rule/"), value);
		}
		DMEMIT(" matched %llu injected %llu\n",
		       READ_ONCE(rule->matched), READ_ONCE(rule->injected));
	}
	return 1;
}

static int do_message(struct faults_target *target, unsigned int argc,
		      char **argv, char *result, unsigned int maxlen)
{
	struct named_rule *named;
	bool on;

	if (argc == 1 && !strcasecmp(argv[0], "list"))
		return list_rules(target, result, maxlen);
	if (argc < 2)
		return -EINVAL;
	if (!strcasecmp(argv[0], "add"))
		return add_rule(target, argv[1], argc - 2, argv + 2);
	named = find_rule(target, argv[1]);
	if (!named)
		return -ENOENT;
	if (!strcasecmp(argv[0], "range"))
		return add_ranges(target, &named->rule, argc - 2, argv + 2);
	if (argc != 2)
		return -EINVAL;
	if (!strcasecmp(argv[0], "remove")) {
		remove_rule(target, named);
		return 0;
	}
	on = !strcasecmp(argv[0], "enable");
	if (!on && strcasecmp(argv[0], "disable"))
		return -EINVAL;
	spin_lock_irq(&target->lock);
	flashsim_rule_enable(&named->rule, on);
	spin_unlock_irq(&target->lock);
	return 0;
}

static int faults_message(struct dm_target *ti, unsigned int argc, char **argv,
			  char *result, unsigned int maxlen)
{
	struct faults_target *target = ti->private;
	int ret;

	mutex_lock(&target->messages);
	ret = do_message(target, argc, argv, result, maxlen);
	mutex_unlock(&target->messages);
	return ret;
}

/* ---- the target ---- */

static void faults_free(struct dm_target *ti, struct faults_target *target)
{
	struct named_rule *named, *next;

	list_for_each_entry_safe(named, next, &target->rules, rule.list)
		free_rule(named);
	if (target->queue)
		destroy_workqueue(target->queue);
	if (target->dev)
		dm_put_device(ti, target->dev);
	kfree(target);
}

static int faults_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct faults_target *target;
	u64 first;
	int err;

	if (argc != 2 && argc != 3) {
		ti->error = "arguments are DEVICE FIRST_SECTOR [SEED]";
		return -EINVAL;
	}
	target = kzalloc(sizeof(*target), GFP_KERNEL);
	if (!target) {
		ti->error = "out of memory";
		return -ENOMEM;
	}
	mutex_init(&target->messages);
	spin_lock_init(&target->lock);
	INIT_LIST_HEAD(&target->rules);
	err = -EINVAL;
	if (kstrtou64(argv[1], 10, &first)) {
		ti->error = "FIRST_SECTOR must be a number";
		goto out;
	}
	target->first = first;
	if (argc == 3 && kstrtou64(argv[2], 10, &target->seed)) {
		ti->error = "SEED must be a number";
		goto out;
	}
	err = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table),
			    &target->dev);
	if (err) {
		ti->error =
			"cannot open the device below; is it mounted, or in an array?";
		goto out;
	}
	err = -ENOMEM;
	target->queue = alloc_workqueue("linnos-faults", WQ_MEM_RECLAIM, 0);
	if (!target->queue) {
		ti->error = "out of memory";
		goto out;
	}
	err = dm_set_target_max_io_len(ti, MAX_SECTORS);
	if (err)
		goto out;
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_secure_erase_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->per_io_data_size = sizeof(struct faults_io);
	ti->private = target;
	return 0;

out:
	faults_free(ti, target);
	return err;
}

/* dm has waited for all bios, delayed ones, too. */
static void faults_dtr(struct dm_target *ti)
{
	faults_free(ti, ti->private);
}

static void faults_status(struct dm_target *ti, status_type_t type,
			  unsigned int flags, char *result, unsigned int maxlen)
{
	struct faults_target *target = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		DMEMIT("%u rules", READ_ONCE(target->nr_rules));
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %llu %llu", target->dev->name,
		       (unsigned long long)target->first, target->seed);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

static int faults_iterate_devices(struct dm_target *ti,
				  iterate_devices_callout_fn fn, void *data)
{
	struct faults_target *target = ti->private;

	return fn(ti, target->dev, target->first, ti->len, data);
}

static struct target_type faults_target_type = {
	.name = "linnos-faults",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = faults_ctr,
	.dtr = faults_dtr,
	.map = faults_map,
	.end_io = faults_end_io,
	.message = faults_message,
	.status = faults_status,
	.iterate_devices = faults_iterate_devices,
};

static int __init faults_init(void)
{
	return dm_register_target(&faults_target_type);
}

static void __exit faults_exit(void)
{
	dm_unregister_target(&faults_target_type);
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_DESCRIPTION("Device-mapper target that damages a device by fault rules");
MODULE_LICENSE("GPL");
