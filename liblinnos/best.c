// SPDX-License-Identifier: MIT
/* linnos_best(): the kernel is asked, which sees all that its drives have to do. */
#include "liblinnos.h"

#include <errno.h>
#include <linux/blk-linnos.h>
#include <sys/ioctl.h>

_Static_assert(LINNOS_REPLICAS_MAX == BLK_EXPECT_DRIVES_MAX, "the kernel is asked for as many");

static uint32_t latency_of(const struct blk_expect_drive *drive)
{
	if (drive->known == BLK_EXPECT_GONE || drive->flags & BLK_EXPECT_STALLED)
		return UINT32_MAX;
	return drive->latency_us;
}

int linnos_best(unsigned int n_drives, const int *fds, size_t bytes, uint32_t *latency_us)
{
	/* A question and its drives, one behind the other as the kernel has them. */
	union {
		struct blk_expect ask;
		char room[BLK_EXPECT_BYTES(LINNOS_REPLICAS_MAX)];
	} u;

	if (!n_drives || n_drives > LINNOS_REPLICAS_MAX || !bytes)
		return -EINVAL;
	u.ask = (struct blk_expect){
		.n_drives = n_drives,
		.bytes = bytes < UINT32_MAX ? bytes : UINT32_MAX,
	};
	for (unsigned int k = 0; k < n_drives; k++)
		u.ask.drives[k] = (struct blk_expect_drive){.fd = fds[k]};
	if (ioctl(fds[0], BLKEXPECT, &u.ask))
		return -errno;
	for (unsigned int k = 0; latency_us && k < n_drives; k++)
		latency_us[k] = latency_of(&u.ask.drives[k]);
	return u.ask.best;
}
