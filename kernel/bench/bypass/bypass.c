// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read from or write to a drive with bios, without a system call, VFS and direct I/O.
 *
 *	insmod bypass.ko device=/dev/nullb0 bytes=4096 calls=256 [write=1]
 *	cat /sys/module/bypass/parameters/ns
 *
 * Each of CALLS times the module submits the bios of the next BYTES bytes and waits for all of
 * them. ns is the time of all calls. Loading fails if one of them fails. The pages are allocated
 * one by one, like the 4 KiB pages of a program. This needs Linux 6.9 or later.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>

static char *device;
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "path of the drive");

static uint bytes = PAGE_SIZE;
module_param(bytes, uint, 0444);
MODULE_PARM_DESC(bytes, "bytes of each call, a multiple of the page size");

static uint calls = 1;
module_param(calls, uint, 0444);
MODULE_PARM_DESC(calls, "number of calls, one after the other");

static bool write;
module_param(write, bool, 0444);
MODULE_PARM_DESC(write, "write instead of read");

static unsigned long long ns;
module_param(ns, ullong, 0444);
MODULE_PARM_DESC(ns, "time of all calls (result)");

static void bypass_end_io(struct bio *bio)
{
	complete(bio->bi_private);
}

static int bypass_transfer(struct block_device *bdev, struct page **pages,
			   unsigned int n_pages, sector_t sector)
{
	blk_opf_t op = write ? REQ_OP_WRITE | REQ_SYNC | REQ_IDLE : REQ_OP_READ;
	DECLARE_COMPLETION_ONSTACK(done);
	struct bio *bio = NULL;
	struct blk_plug plug;
	unsigned int i = 0;
	int error;

	blk_start_plug(&plug);
	while (i < n_pages) {
		/* The previous bio is chained to this one and submitted. */
		bio = blk_next_bio(bio, bdev, bio_max_segs(n_pages - i), op,
				   GFP_KERNEL);
		bio->bi_iter.bi_sector = sector + (sector_t)i * PAGE_SECTORS;
		while (i < n_pages && bio_add_page(bio, pages[i], PAGE_SIZE, 0))
			i++;
	}
	bio->bi_private = &done;
	bio->bi_end_io = bypass_end_io;
	submit_bio(bio);
	blk_finish_plug(&plug);
	wait_for_completion_io(&done);
	error = blk_status_to_errno(bio->bi_status);
	bio_put(bio);
	return error;
}

static int bypass_measure(struct block_device *bdev, struct page **pages,
			  unsigned int n_pages)
{
	sector_t per_call = (sector_t)n_pages * PAGE_SECTORS;
	ktime_t begin;
	uint i;

	if (per_call * calls > bdev_nr_sectors(bdev))
		return -ENOSPC;
	begin = ktime_get();
	for (i = 0; i < calls; i++) {
		int error = bypass_transfer(bdev, pages, n_pages, i * per_call);

		if (error)
			return error;
	}
	ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	return 0;
}

static int bypass_open_and_measure(struct page **pages, unsigned int n_pages)
{
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
	struct file *file;
	int error;

	file = bdev_file_open_by_path(device, mode, NULL, NULL);
	if (IS_ERR(file))
		return PTR_ERR(file);
	error = bypass_measure(file_bdev(file), pages, n_pages);
	bdev_fput(file);
	return error;
}

static int __init bypass_init(void)
{
	unsigned int n_pages = bytes / PAGE_SIZE, n = 0;
	struct page **pages;
	int error = -ENOMEM;

	if (!device || !n_pages || bytes % PAGE_SIZE || !calls)
		return -EINVAL;
	pages = kvcalloc(n_pages, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	while (n < n_pages) {
		pages[n] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!pages[n])
			goto free_pages;
		n++;
	}
	error = bypass_open_and_measure(pages, n_pages);
free_pages:
	while (n--)
		__free_page(pages[n]);
	kvfree(pages);
	return error;
}

static void __exit bypass_exit(void)
{
}

module_init(bypass_init);
module_exit(bypass_exit);
MODULE_DESCRIPTION("Time of reads and writes by bios");
MODULE_LICENSE("GPL");
