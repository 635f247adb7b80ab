/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own policy in a program: blk-linnos.c and related files, with
 * kernel_shim.h for the rest of the kernel. There is no sysfs.
 */
#ifndef _BENCH_POLICY_H
#define _BENCH_POLICY_H

#include "kernel_shim.h"
#include "linnos_drive.c"
#include "linnos_probe.c"
#include "blk-linnos-model.c"
#include "blk-linnos-expect.c"
#include "blk-linnos-query.c"
#include "blk-linnos.c"
#include "blk-linnos-latcrit.c"

const struct kobj_type {
} linnos_ktype;

/* Create a drive in observe mode. Exit if the model cannot be read. */
static inline struct gendisk *make_drive(const char *model)
{
	static unsigned char file[LINNOS_NETWORK_BYTES + 1];
	struct gendisk *disk = calloc(1, sizeof(*disk));
	FILE *f = fopen(model, "rb");
	size_t bytes;

	if (!f) {
		perror(model);
		exit(1);
	}
	bytes = fread(file, 1, sizeof(file), f);
	fclose(f);
	disk->queue = calloc(1, sizeof(*disk->queue));
	disk->queue->disk = disk;
	disk->disk_name = "drive";
	disk->linnos = linnos_alloc(disk);
	if (linnos_set_model(disk->linnos, file, bytes) ||
	    linnos_set_mode(disk->linnos, LINNOS_OBSERVE)) {
		fprintf(stderr, "%s: not a model, or no memory\n", model);
		exit(1);
	}
	return disk;
}

/* An I/O with one request. */
struct io {
	struct block_device bdev;
	struct bio bio;
	struct request rq;
};

/* Start an I/O as the block layer does. Return false if it is refused. */
static inline bool io_begin(struct io *io, struct gendisk *disk, int op, bool hint,
			    u32 bytes)
{
	struct rq_qos *rqos = &disk->linnos->rqos;

	io->bdev.bd_disk = disk;
	io->bio = (struct bio){ .bi_bdev = &io->bdev, .op = op, .bi_opf = hint ? REQ_LATCRIT : 0 };
	io->bio.bi_iter.bi_size = bytes;
	io->rq = (struct request){ .q = disk->queue };
	if (hint && blk_linnos_decide(&io->bio))
		return false;
	blk_linnos_ops.track(rqos, &io->rq, &io->bio);
	blk_linnos_ops.issue(rqos, &io->rq);
	return true;
}

static inline void io_end(struct io *io)
{
	blk_linnos_answer(&io->rq, BLK_STS_OK);
	blk_linnos_ops.done(&io->bdev.bd_disk->linnos->rqos, &io->rq);
}

/* Exit unless all I/Os that were started have completed. */
static inline void check_idle(const struct gendisk *disk)
{
	if (!atomic64_read(&disk->linnos->drive.load) &&
	    !atomic64_read(&disk->linnos->drive.write_pages))
		return;
	fprintf(stderr, "%s: pages are still in flight\n", disk->disk_name);
	exit(1);
}

#endif
