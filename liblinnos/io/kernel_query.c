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

_Static_assert(CHOOSER_DRIVES_MAX == BLK_EXPECT_DRIVES_MAX, "the kernel is asked for as many");

/* A query followed by its drives, in the layout that the kernel expects. */
union question {
	struct blk_expect ask;
	char room[BLK_EXPECT_BYTES(BLK_EXPECT_DRIVES_MAX)];
};

/*
 * The block devices of an unpatched kernel do not support the query, but linnos.ko provides a
 * device that does. It stays open because it is queried before each read.
 */
static int ask_module(struct blk_expect *ask)
{
	static atomic_int kept = -1;
	int fd = atomic_load(&kept), other = -1;

	if (fd < 0) {
		fd = open("/dev/linnos", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -ENOTTY;
		if (!atomic_compare_exchange_strong(&kept, &other, fd)) {
			close(fd);
			fd = other;
		}
	}
	return ioctl(fd, BLKEXPECT, ask) ? -errno : 0;
}

static bool is_block_device(int fd)
{
	struct stat s;

	return !fstat(fd, &s) && S_ISBLK(s.st_mode);
}

/* The offset is used only if @flags contains BLK_EXPECT_HAS_PAGE. */
static int ask_kernel(union question *q, const int *fds, unsigned int n_drives,
		      uint64_t offset_bytes, size_t bytes, uint32_t flags)
{
	int error;

	q->ask = (struct blk_expect){
		.flags = flags,
		.n_drives = n_drives,
		.bytes = bytes < UINT32_MAX ? bytes : UINT32_MAX,
	};
	for (unsigned int k = 0; k < n_drives; k++)
		q->ask.drives[k] = (struct blk_expect_drive){
			.fd = fds[k],
			.page = offset_bytes / LINNOS_PAGE_BYTES,
		};
	if (!ioctl(fds[0], BLKEXPECT, &q->ask))
		return 0;
	error = errno;
	/* Some SCSI hosts return EINVAL for an unknown ioctl, and the arguments of this query are
	 * valid. */
	if ((error == ENOTTY || error == EINVAL) && is_block_device(fds[0]))
		return ask_module(&q->ask);
	return -error;
}

static uint32_t latency_of(const struct blk_expect_drive *drive)
{
	return drive->known == BLK_EXPECT_GONE ? UINT32_MAX : drive->latency_us;
}

int linnos_kernel_best_drives(unsigned int n_drives, const int *fds, size_t bytes,
			      uint32_t *latency_us)
{
	union question q;
	int error;

	if (!n_drives || n_drives > BLK_EXPECT_DRIVES_MAX || !bytes)
		return -EINVAL;
	error = ask_kernel(&q, fds, n_drives, 0, bytes, 0);
	if (error)
		return error;
	for (unsigned int k = 0; latency_us && k < n_drives; k++)
		latency_us[k] = latency_of(&q.ask.drives[k]);
	return q.ask.best;
}

static int ask_of_array(union question *q, const struct linnos_array *a, uint64_t offset_bytes,
			size_t bytes, uint32_t flags)
{
	unsigned int there = (unsigned int)__builtin_ctz(~a->known->missing);
	int fds[BLK_EXPECT_DRIVES_MAX];

	/* For an absent replica query any other one: the answer is not used. */
	for (unsigned int k = 0; k < a->n; k++)
		fds[k] = a->replicas[a->known->missing & 1u << k ? there : k].fd;
	return ask_kernel(q, fds, a->n, offset_bytes, bytes, flags | BLK_EXPECT_HAS_PAGE);
}

bool best_is_known(const struct linnos_array *a)
{
	union question q;

	return !ask_of_array(&q, a, 0, 1, BLK_EXPECT_QUERY_ONLY);
}

bool best_tell(const struct linnos_array *a, uint64_t offset_bytes, size_t bytes, struct told *told)
{
	union question q;

	*told = (struct told){0};
	if (!bytes || ask_of_array(&q, a, offset_bytes, bytes, 0))
		return false;
	for (unsigned int k = 0; k < a->n; k++) {
		const struct blk_expect_drive *drive = &q.ask.drives[k];

		if (drive->known == BLK_EXPECT_LATENCY) {
			told->known |= 1u << k;
			told->us[k] = drive->latency_us;
		}
		if (latency_of(drive) == UINT32_MAX)
			told->last |= 1u << k;
		if (drive->flags & BLK_EXPECT_PROBE)
			told->to_ask |= 1u << k;
	}
	return told->known;
}
