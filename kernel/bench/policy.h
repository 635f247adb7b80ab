/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own policy in a program: blk-linnos.c and its like, with
 * kernel_shim.h for the rest of the kernel. No sysfs, and no drive has peers.
 */
#ifndef _BENCH_POLICY_H
#define _BENCH_POLICY_H

#include "kernel_shim.h"
#include "blk-linnos-watch.c"
#include "blk-linnos-model.c"
#include "blk-linnos.c"

__thread int shim_cpu;
const struct kobj_type {
	int unused;
} linnos_ktype;

void linnos_join(struct blk_linnos *linnos)
{
}

void linnos_leave(struct blk_linnos *linnos)
{
}

/* These two end the program if there is no such model. */
static inline size_t read_model(const char *path, void *file, size_t room)
{
	FILE *f = fopen(path, "rb");
	size_t bytes;

	if (!f) {
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path,
			strerror(errno));
		exit(1);
	}
	bytes = fread(file, 1, room, f);
	fclose(f);
	return bytes;
}

static inline struct gendisk *make_drive(const void *model, size_t bytes,
					 enum linnos_mode mode)
{
	struct gendisk *disk = calloc(1, sizeof(*disk));
	const char *why = "out of memory";

	disk->queue = calloc(1, sizeof(*disk->queue));
	disk->queue->disk = disk;
	disk->disk_name = "drive";
	disk->linnos = linnos_alloc(disk);
	if (linnos_set_model(disk->linnos, model, bytes, &why) ||
	    linnos_set_mode(disk->linnos, mode)) {
		fprintf(stderr, "%s: the model: %s\n", program_invocation_short_name,
			why);
		exit(1);
	}
	return disk;
}

#endif
