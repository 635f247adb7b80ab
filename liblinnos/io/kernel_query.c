// SPDX-License-Identifier: MIT
/* linnos_kernel_best_drives(): query the kernel, which knows all I/O of its drives. */
#include "kernel_query.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blk-linnos.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(CHOOSER_DRIVES_MAX == BLK_EXPECT_DRIVES_MAX,
	       "the limits of the library and of the kernel differ");

/* A query followed by its drives, in the layout that the kernel expects. */
union query {
	struct blk_expect header;
	char room[BLK_EXPECT_BYTES(BLK_EXPECT_DRIVES_MAX)];
};

/*
 * The block devices of an unpatched kernel do not support the query, but linnos.ko provides a
 * device that does. It stays open because it is queried before each read.
 */
static int query_module(struct blk_expect *query)
{
	static atomic_int device_fd = -1;
	int fd = atomic_load(&device_fd), other = -1;

	if (fd < 0) {
		fd = open("/dev/linnos", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -ENOTTY;
		if (!atomic_compare_exchange_strong(&device_fd, &other, fd)) {
			close(fd);
			fd = other;
		}
	}
	return ioctl(fd, BLKEXPECT, query) ? -errno : 0;
}

static bool is_block_device(int fd)
{
	struct stat s;

	return !fstat(fd, &s) && S_ISBLK(s.st_mode);
}

/* The offset is used only if @flags contains BLK_EXPECT_HAS_PAGE. */
static int query_kernel(union query *q, const int *fds, unsigned int n_drives,
			uint64_t offset_bytes, size_t bytes, uint32_t flags)
{
	int error;

	q->header = (struct blk_expect){
		.flags = flags,
		.n_drives = n_drives,
		.bytes = bytes < UINT32_MAX ? bytes : UINT32_MAX,
	};
	for (unsigned int k = 0; k < n_drives; k++)
		q->header.drives[k] = (struct blk_expect_drive){
			.fd = fds[k],
			.page = offset_bytes / LINNOS_PAGE_BYTES,
		};
	if (!ioctl(fds[0], BLKEXPECT, &q->header))
		return 0;
	error = errno;
	/* Some SCSI hosts return EINVAL for an unknown ioctl, and the arguments of this query are
	 * valid. */
	if ((error == ENOTTY || error == EINVAL) && is_block_device(fds[0]))
		return query_module(&q->header);
	return -error;
}

static uint32_t latency_of(const struct blk_expect_drive *drive)
{
	return drive->known == BLK_EXPECT_GONE ? UINT32_MAX : drive->latency_us;
}

int linnos_kernel_best_drives(unsigned int n_drives, const int *fds, size_t bytes,
			      uint32_t *latency_us)
{
	union query q;
	int error;

	if (!n_drives || n_drives > BLK_EXPECT_DRIVES_MAX || !bytes)
		return -EINVAL;
	error = query_kernel(&q, fds, n_drives, 0, bytes, 0);
	if (error)
		return error;
	for (unsigned int k = 0; latency_us && k < n_drives; k++)
		latency_us[k] = latency_of(&q.header.drives[k]);
	return q.header.best;
}

static int query_set(union query *q, const struct replica_set *set, uint64_t offset_bytes,
		     size_t bytes, uint32_t flags)
{
	unsigned int present = (unsigned int)__builtin_ctz(~set->missing);
	int fds[BLK_EXPECT_DRIVES_MAX];

	/* For an absent replica query any other one, because the answer is not used. */
	for (unsigned int k = 0; k < set->n; k++)
		fds[k] = set->replicas[set->missing & 1u << k ? present : k].fd;
	return query_kernel(q, fds, set->n, offset_bytes, bytes, flags | BLK_EXPECT_HAS_PAGE);
}

bool kernel_can_predict(const struct replica_set *set)
{
	union query q;

	return !query_set(&q, set, 0, 1, BLK_EXPECT_QUERY_ONLY);
}

bool kernel_predict(const struct replica_set *set, uint64_t offset_bytes, size_t bytes,
		    struct external_predictions *external)
{
	union query q;

	*external = (struct external_predictions){0};
	if (!bytes || query_set(&q, set, offset_bytes, bytes, 0))
		return false;
	for (unsigned int k = 0; k < set->n; k++) {
		const struct blk_expect_drive *drive = &q.header.drives[k];

		if (drive->known == BLK_EXPECT_LATENCY) {
			external->known |= 1u << k;
			external->us[k] = drive->latency_us;
		}
		if (latency_of(drive) == UINT32_MAX)
			external->last |= 1u << k;
		if (drive->flags & BLK_EXPECT_PROBE)
			external->probe |= 1u << k;
	}
	/* A drive that is gone or needs a probe matters even if no model predicts a latency. */
	return external->known | external->last | external->probe;
}
