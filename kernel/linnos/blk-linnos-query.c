// SPDX-License-Identifier: GPL-2.0-only
/* LinnOS: answers with details, for programs (blk-linnos-ioctl.c). */
#include <linux/blkdev.h>

#include "blk-linnos-policy.h"
#include "blk-linnos-query.h"

/* Answer a query, with details in @drive. See linnos_expect_read() for @will_send. */
enum blk_linnos_expected linnos_query_read(struct blk_linnos *linnos, u8 region,
					   unsigned int bytes, u64 now_ns,
					   bool will_send,
					   struct blk_expect_drive *drive)
{
	struct linnos_prediction found __uninitialized;
	enum blk_linnos_expected expected;

	expected = linnos_expect_read(linnos, region, bytes, now_ns, will_send,
				      &found);
	drive->flags = 0;
	drive->latency_us = linnos_predicted_us(&found);
	drive->known = BLK_EXPECT_NO_MODEL;
	if (found.reason == LINNOS_NO_MODEL)
		return expected;
	drive->known = found.n_features ? BLK_EXPECT_LATENCY :
					  BLK_EXPECT_FAST_OR_SLOW;
	if (linnos_is_slow(&found))
		drive->flags |= BLK_EXPECT_SLOW;
	if (linnos_history_is_stale(&linnos->drive, found.size, now_ns))
		drive->flags |= BLK_EXPECT_STALE;
	if (expected == BLK_LINNOS_PROBE)
		drive->flags |= BLK_EXPECT_PROBE;
	return expected;
}

/**
 * blk_linnos_query() - blk_linnos_expect() with details of the prediction
 * @bdev: the drive, or a partition of it, held open by the caller
 * @sector: first sector of the read on @bdev, or %LINNOS_SECTOR_UNKNOWN
 * @bytes: size of the read
 * @now_ns: current time, the same for all drives that may serve the read
 * @will_send: true if the read may be sent to this drive, see linnos_expect_read()
 * @drive: filled with the details
 *
 * Context: Any. Takes no lock, does not sleep, allocates nothing.
 */
enum blk_linnos_expected blk_linnos_query(struct block_device *bdev,
					  sector_t sector, unsigned int bytes,
					  u64 now_ns, bool will_send,
					  struct blk_expect_drive *drive)
{
	struct gendisk *disk = bdev->bd_disk;
	bool gone = test_bit(GD_DEAD, &disk->state);
	enum blk_linnos_expected expected = gone ? BLK_LINNOS_NOT_QUERIED :
						   BLK_LINNOS_UNKNOWN;
	u8 region = sector == LINNOS_SECTOR_UNKNOWN ?
			    LINNOS_REGION_UNKNOWN :
			    linnos_region_at(bdev->bd_start_sect + sector);
	struct blk_linnos *linnos;

	/* the module may stop observing the drive at any time */
	guard(rcu)();
	linnos = linnos_of_disk(disk);
	if (!gone && linnos && linnos_is_on(linnos))
		expected = linnos_query_read(linnos, region, bytes, now_ns,
					     will_send, drive);
	else
		*drive = (struct blk_expect_drive){
			.fd = drive->fd,
			.known = gone	? BLK_EXPECT_GONE :
				 linnos ? BLK_EXPECT_OFF :
					  BLK_EXPECT_NO_POLICY,
		};
	return expected;
}
