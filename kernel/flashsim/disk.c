// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the block device. Receive requests, move data, complete requests.
 *
 * A request's data moves when it is submitted. Then the request is passed to the model, under the
 * drive's lock. The model returns the time of completion, for which the request's own hrtimer is
 * set. Only writes that wait for room in the buffer, and cache flushes, get their time later, when
 * the model has advanced far enough. While there are such requests, the drive's timer advances the
 * model at each of its events.
 *
 * All code that depends on the kernel version is in disk_limits() and the
 * ioctl's signature: before 6.9 the limits are set with blk_queue_*() calls on
 * the queue, before 6.5 an ioctl takes an fmode_t.
 */
#include <linux/blk-mq.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "drive.h"
#include "fault.h"
#include "flashsim.h"
#include "flashsim_ioctl.h"

/* Largest request: 1 MiB, in the middle of what NVMe drives accept. */
#define MAX_SECTORS		2048U

/* Longest read that the oracle accepts; this also bounds the time of the query. */
#define MAX_ORACLE_SECTORS	(64U << (20 - SECTOR_SHIFT))

/* Longest discard taken at once: bounds the time with interrupts off. */
#define MAX_DISCARD_SECTORS	(64U << (20 - SECTOR_SHIFT))

/**
 * struct disk_rq - private data of the driver in a request (its pdu)
 * @cmd: the request as the model sees it
 * @timer: expires when the request is complete
 * @status: the status for the block layer
 */
struct disk_rq {
	struct flashsim_cmd cmd;
	struct hrtimer timer;
	blk_status_t status;
};

static struct flashsim_drive *disk_drive(struct gendisk *disk)
{
	return disk->private_data;
}

/* Set the timer to the model's next event if requests wait for it. */
static void drive_set_timer(struct flashsim_drive *drive)
{
	u64 t = flashsim_model_next_event(drive->model);

	if (t != U64_MAX)
		hrtimer_start(&drive->timer, ns_to_ktime(t), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart drive_timer_fn(struct hrtimer *timer)
{
	struct flashsim_drive *drive = container_of(timer, struct flashsim_drive,
						    timer);
	unsigned long flags;

	spin_lock_irqsave(&drive->lock, flags);
	flashsim_model_advance(drive->model, flashsim_now(&drive->clock));
	drive_set_timer(drive);
	spin_unlock_irqrestore(&drive->lock, flags);
	return HRTIMER_NORESTART;
}

/* Called by the model when the completion time of a request is known. */
static void disk_complete_at(struct flashsim_cmd *cmd, u64 when)
{
	struct disk_rq *drq = container_of(cmd, struct disk_rq, cmd);

	hrtimer_start(&drq->timer, ns_to_ktime(when), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart disk_rq_timer_fn(struct hrtimer *timer)
{
	struct disk_rq *drq = container_of(timer, struct disk_rq, timer);
	struct request *rq = blk_mq_rq_from_pdu(drq);
	struct flashsim_drive *drive = rq->q->queuedata;

	atomic_dec(&drive->in_flight);
	blk_mq_complete_request(rq);
	return HRTIMER_NORESTART;
}

static void disk_complete_rq(struct request *rq)
{
	struct disk_rq *drq = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, drq->status);
}

/* Set the units that the request touches; a discard affects only whole units. */
static void cmd_set_range(struct flashsim_cmd *cmd, struct request *rq)
{
	u64 start = blk_rq_pos(rq);
	u64 end = start + blk_rq_sectors(rq);

	if (cmd->op == REQ_OP_DISCARD)
		start = round_up(start, FLASHSIM_UNIT_SECTORS);
	else
		end = round_up(end, FLASHSIM_UNIT_SECTORS);
	start /= FLASHSIM_UNIT_SECTORS;
	end /= FLASHSIM_UNIT_SECTORS;
	cmd->unit = start;
	cmd->nr_units = end > start ? end - start : 0;
}

static void drive_count(struct flashsim_drive *drive, struct flashsim_cmd *cmd,
			struct request *rq)
{
	struct flashsim_counters *c = &drive->counters;

	switch (cmd->op) {
	case REQ_OP_READ:
		c->reads++;
		c->read_sectors += blk_rq_sectors(rq);
		break;
	case REQ_OP_WRITE:
		c->writes++;
		c->write_sectors += blk_rq_sectors(rq);
		break;
	case REQ_OP_DISCARD:
		c->discards++;
		c->discard_sectors += blk_rq_sectors(rq);
		break;
	default:
		c->cache_flushes++;
		break;
	}
}

static void drive_inject(struct flashsim_drive *drive, struct flashsim_cmd *cmd,
			 struct request *rq, u64 now)
{
	bool read = cmd->op == REQ_OP_READ;
	struct flashsim_inject_io io = {
		.op = read ? FLASHSIM_OP_READ : FLASHSIM_OP_WRITE,
		.sector = blk_rq_pos(rq),
		.nr_sectors = blk_rq_sectors(rq),
		.in_flight = atomic_read(&drive->in_flight),
	};
	u64 extra;

	if (!read && cmd->op != REQ_OP_WRITE)
		return;
	extra = flashsim_inject_next(&drive->inject, drive->seed, &io, now);
	if (!extra)
		return;
	if (drive->inject.occupy)
		cmd->hold_ns = extra;
	else
		cmd->extra_ns += extra;
	if (read)
		drive->counters.injected_reads++;
	else
		drive->counters.injected_writes++;
}

/* Move the data of a read or write, subject to the fault rules. */
static void disk_transfer(struct flashsim_drive *drive, struct disk_rq *drq,
			  struct request *rq)
{
	struct flashsim_cmd *cmd = &drq->cmd;
	struct flashsim_faults faults;
	unsigned long flags;

	if (!flashsim_faults_alloc(&faults, READ_ONCE(drive->nr_rules),
				   cmd->nr_units)) {
		drq->status = BLK_STS_RESOURCE;
		return;
	}
	if (faults.max_hits) {
		struct flashsim_fault_io io = {
			.op = cmd->op == REQ_OP_READ ? FLASHSIM_OP_READ :
						       FLASHSIM_OP_WRITE,
			.prio = req_get_ioprio(rq),
			.start = blk_rq_pos(rq),
			.end = blk_rq_pos(rq) + blk_rq_sectors(rq),
		};

		spin_lock_irqsave(&drive->lock, flags);
		flashsim_faults_decide(&drive->rules, drive->seed, &io,
				       &faults);
		if (faults.extra_ns || faults.medium_error || faults.nr_hits) {
			if (cmd->op == REQ_OP_READ)
				drive->counters.faulted_reads++;
			else
				drive->counters.faulted_writes++;
		}
		spin_unlock_irqrestore(&drive->lock, flags);
	}
	cmd->extra_ns = faults.extra_ns;
	if (faults.medium_error)
		drq->status = BLK_STS_MEDIUM;
	else
		drq->status = flashsim_store_copy(&drive->store, rq, &faults);
	flashsim_faults_free(&faults);
}

static blk_status_t disk_queue_rq(struct blk_mq_hw_ctx *hctx,
				  const struct blk_mq_queue_data *bd)
{
	struct flashsim_drive *drive = hctx->queue->queuedata;
	struct request *rq = bd->rq;
	struct disk_rq *drq = blk_mq_rq_to_pdu(rq);
	struct flashsim_cmd *cmd = &drq->cmd;
	unsigned long flags;
	u64 now;

	blk_mq_start_request(rq);
	drq->status = BLK_STS_OK;
	cmd->op = req_op(rq);
	cmd->extra_ns = 0;
	cmd->hold_ns = 0;
	cmd->unit = 0;
	cmd->nr_units = 0;

	switch (cmd->op) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		cmd_set_range(cmd, rq);
		disk_transfer(drive, drq, rq);
		break;
	case REQ_OP_DISCARD:
		cmd_set_range(cmd, rq);
		drq->status = flashsim_store_discard(&drive->store,
						     blk_rq_pos(rq),
						     blk_rq_sectors(rq));
		break;
	case REQ_OP_FLUSH:
		break;
	default:
		return BLK_STS_NOTSUPP;
	}

	spin_lock_irqsave(&drive->lock, flags);
	now = flashsim_now(&drive->clock);
	drive_count(drive, cmd, rq);
	drive_inject(drive, cmd, rq, now);
	atomic_inc(&drive->in_flight);
	flashsim_model_submit(drive->model, cmd, now);
	drive_set_timer(drive);
	spin_unlock_irqrestore(&drive->lock, flags);
	return BLK_STS_OK;
}

static int disk_init_request(struct blk_mq_tag_set *set, struct request *rq,
			     unsigned int hctx_idx, unsigned int numa_node)
{
	struct disk_rq *drq = blk_mq_rq_to_pdu(rq);

	hrtimer_init(&drq->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	drq->timer.function = disk_rq_timer_fn;
	return 0;
}

/* A request has its timer or waits in the model: it may be slow, but is never lost. */
static enum blk_eh_timer_return disk_timeout(struct request *rq)
{
	return BLK_EH_RESET_TIMER;
}

static const struct blk_mq_ops disk_mq_ops = {
	.queue_rq	= disk_queue_rq,
	.complete	= disk_complete_rq,
	.init_request	= disk_init_request,
	.timeout	= disk_timeout,
};

/* Return the number of sectors of a read that the block layer puts into its first request. */
static u32 oracle_part(struct gendisk *disk, u64 sector, u32 nr_sectors)
{
	u32 max_sectors = queue_max_sectors(disk->queue);
	u32 start = sector % FLASHSIM_UNIT_SECTORS;
	u32 end = round_down(start + max_sectors, FLASHSIM_UNIT_SECTORS);

	return min(nr_sectors, end > start ? end - start : max_sectors);
}

/* Return the completion time of the last request of a read; all of them are submitted at once. */
static u64 oracle_read(struct flashsim_drive *drive, struct gendisk *disk,
		       u64 sector, u32 nr_sectors, u64 now)
{
	/* Use a copy, because these requests would be counted. */
	struct flashsim_inject inject = drive->inject;
	struct flashsim_inject_io io = {
		.op = FLASHSIM_OP_READ,
		.in_flight = atomic_read(&drive->in_flight),
	};
	u64 done = 0;

	flashsim_model_oracle_begin(drive->model, now);
	while (nr_sectors) {
		u32 n = oracle_part(disk, sector, nr_sectors);
		u32 first = sector / FLASHSIM_UNIT_SECTORS;
		u32 last = (sector + n - 1) / FLASHSIM_UNIT_SECTORS;
		u64 extra, part;

		io.sector = sector;
		io.nr_sectors = n;
		extra = flashsim_inject_next(&inject, drive->seed, &io, now);
		part = flashsim_model_oracle_read(drive->model, first,
						  last - first + 1,
						  inject.occupy ? extra : 0);
		part += inject.occupy ? 0 : extra;
		io.in_flight++;
		done = max(done, part);
		sector += n;
		nr_sectors -= n;
	}
	flashsim_model_oracle_end(drive->model);
	return done;
}

static int oracle_query(struct flashsim_drive *drive, struct gendisk *disk,
			struct flashsim_oracle *q)
{
	u64 capacity = get_capacity(disk);
	unsigned long flags;
	u64 now;

	lockdep_assert_held(&drive->model_mutex);
	/* Since the disk was opened, it may have been switched off, or on again as another disk. */
	if (drive->disk != disk || !drive->model)
		return -ENODEV;
	if (q->op != FLASHSIM_ORACLE_READ || !q->nr_sectors ||
	    q->nr_sectors > MAX_ORACLE_SECTORS || q->sector >= capacity ||
	    q->nr_sectors > capacity - q->sector)
		return -EINVAL;

	spin_lock_irqsave(&drive->lock, flags);
	now = flashsim_now(&drive->clock);
	q->latency_ns = oracle_read(drive, disk, q->sector, q->nr_sectors,
				    now) - now;
	drive_set_timer(drive);
	spin_unlock_irqrestore(&drive->lock, flags);
	return 0;
}

static int disk_oracle(struct gendisk *disk, void __user *arg)
{
	struct flashsim_drive *drive = disk_drive(disk);
	struct flashsim_oracle q;
	int err;

	if (copy_from_user(&q, arg, sizeof(q)))
		return -EFAULT;
	mutex_lock(&drive->model_mutex);
	err = oracle_query(drive, disk, &q);
	mutex_unlock(&drive->model_mutex);
	if (err)
		return err;
	return copy_to_user(arg, &q, sizeof(q)) ? -EFAULT : 0;
}

static int disk_ioctl(struct block_device *bdev, blk_mode_t mode,
		      unsigned int cmd, unsigned long arg)
{
	if (cmd == FLASHSIM_IOC_ORACLE)
		return disk_oracle(bdev->bd_disk, (void __user *)arg);
	return -ENOTTY;
}

static void disk_free(struct gendisk *disk)
{
	config_item_put(&disk_drive(disk)->group.cg_item);
}

static const struct block_device_operations disk_fops = {
	.owner		= THIS_MODULE,
	.ioctl		= disk_ioctl,
	.compat_ioctl	= blkdev_compat_ptr_ioctl,
	.free_disk	= disk_free,
};

static void disk_limits(const struct flashsim_drive *drive,
			struct queue_limits *lim)
{
	*lim = (struct queue_limits) {
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = 1U << FLASHSIM_UNIT_SHIFT,
		.io_min = 1U << FLASHSIM_UNIT_SHIFT,
		.max_hw_sectors = MAX_SECTORS,
		.max_segments = USHRT_MAX,
		.max_hw_discard_sectors = MAX_DISCARD_SECTORS,
		.discard_granularity = 1U << FLASHSIM_UNIT_SHIFT,
		/* A memory segment consists of whole sectors, as faults require. */
		.dma_alignment = SECTOR_SIZE - 1,
		.features = drive->params.volatile_cache ?
			    BLK_FEAT_WRITE_CACHE : 0,
	};
}

/**
 * flashsim_power_on() - create the drive's disk
 * @drive: the drive, switched off; the caller holds config_mutex
 *
 * Return: 0 or a negative error.
 */
int flashsim_power_on(struct flashsim_drive *drive)
{
	u64 sectors = (u64)drive->size_mb << (20 - SECTOR_SHIFT);
	struct blk_mq_tag_set *set = &drive->tag_set;
	struct queue_limits lim;
	struct gendisk *disk;
	u64 now;
	int err;

	spin_lock_irq(&drive->lock);
	now = flashsim_now(&drive->clock);
	spin_unlock_irq(&drive->lock);
	drive->model = flashsim_model_create(&drive->params, &drive->counters,
					     sectors / FLASHSIM_UNIT_SECTORS,
					     drive->seed, now, disk_complete_at);
	if (IS_ERR(drive->model))
		return PTR_ERR(drive->model);
	flashsim_store_init(&drive->store);
	hrtimer_init(&drive->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	drive->timer.function = drive_timer_fn;

	*set = (struct blk_mq_tag_set) {
		.ops = &disk_mq_ops,
		.nr_hw_queues = num_online_cpus(),
		.queue_depth = drive->params.queue_depth,
		.numa_node = NUMA_NO_NODE,
		.cmd_size = sizeof(struct disk_rq),
		/* Like nvme: merge, but no scheduler unless asked for. */
		.flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_BLOCKING |
			 BLK_MQ_F_NO_SCHED_BY_DEFAULT,
	};
	err = blk_mq_alloc_tag_set(set);
	if (err)
		goto err_model;

	disk_limits(drive, &lim);
	disk = blk_mq_alloc_disk(set, &lim, drive);
	if (IS_ERR(disk)) {
		err = PTR_ERR(disk);
		goto err_tags;
	}
	drive->disk = disk;
	disk->fops = &disk_fops;
	disk->private_data = drive;
	strscpy(disk->disk_name, config_item_name(&drive->group.cg_item),
		DISK_NAME_LEN);
	set_capacity(disk, sectors);
	err = add_disk(disk);
	if (err)
		goto err_disk;
	/* A process with an open disk can query the drive: put in disk_free(). */
	config_item_get(&drive->group.cg_item);
	flashsim_stats_add(drive);
	return 0;

err_disk:
	put_disk(disk);
err_tags:
	blk_mq_free_tag_set(set);
err_model:
	flashsim_model_destroy(drive->model);
	drive->disk = NULL;
	drive->model = NULL;
	return err;
}

/**
 * flashsim_power_off() - remove the drive's disk, and its data
 * @drive: the drive, switched on; the caller holds config_mutex
 */
void flashsim_power_off(struct flashsim_drive *drive)
{
	flashsim_stats_remove(drive);
	del_gendisk(drive->disk);
	hrtimer_cancel(&drive->timer);
	mutex_lock(&drive->model_mutex);
	flashsim_model_destroy(drive->model);
	drive->model = NULL;
	mutex_unlock(&drive->model_mutex);
	put_disk(drive->disk);
	drive->disk = NULL;
	blk_mq_free_tag_set(&drive->tag_set);
	flashsim_store_destroy(&drive->store);
}

/**
 * flashsim_precondition() - age the drive
 * @drive: the drive, switched on; waits until its requests are complete
 */
void flashsim_precondition(struct flashsim_drive *drive)
{
	/*
	 * This takes seconds on a large drive, too long for the spinlock. A
	 * frozen queue submits nothing, so no request waits for the model's
	 * timer either. The mutex excludes the oracle and debugfs.
	 */
	blk_mq_freeze_queue(drive->disk->queue);
	mutex_lock(&drive->model_mutex);
	hrtimer_cancel(&drive->timer);
	flashsim_model_precondition(drive->model);
	mutex_unlock(&drive->model_mutex);
	blk_mq_unfreeze_queue(drive->disk->queue);
}
