// SPDX-License-Identifier: MIT
/*
 * passthrough: read blocks by a command of the drive's own, past the block
 * layer's reads; or append them to a zone.
 *
 *	passthrough scsi|nvme|uring|poll|append DEVICE [COUNT]
 *
 * Eight blocks a command, the first block of the disk first. Prints how many
 * succeeded.
 *
 * scsi		SG_IO of a disk, one command after another
 * nvme		the NVMe ioctl of a disk, one after another
 * uring	IORING_OP_URING_CMD of an NVMe character device, 16 at once
 * poll		the same, and the completions polled for
 * append	as uring, but Zone Append to the first zone; one that succeeded
 *		is read back from where the drive says it is, and is compared
 */
#include <fcntl.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <scsi/sg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define BLOCKS 8
#define BLOCK_BYTES 512
#define DEPTH 16
#define NVME_READ 0x02
#define NVME_ZONE_APPEND 0x7d
#define SCSI_READ_10 0x28

static char buffer[DEPTH][BLOCKS * BLOCK_BYTES] __attribute__((aligned(4096)));

static int by_scsi(int fd, uint32_t block)
{
	unsigned char sense[32];
	unsigned char command[10] = {
		SCSI_READ_10, [2] = block >> 24, block >> 16, block >> 8,
		block,	      [8] = BLOCKS,
	};
	struct sg_io_hdr io = {
		.interface_id = 'S',
		.dxfer_direction = SG_DXFER_FROM_DEV,
		.cmd_len = sizeof(command),
		.mx_sb_len = sizeof(sense),
		.dxfer_len = sizeof(buffer[0]),
		.dxferp = buffer[0],
		.cmdp = command,
		.sbp = sense,
		.timeout = 60000,
	};

	return !ioctl(fd, SG_IO, &io) && !io.status && !io.host_status;
}

static int by_nvme(int fd, uint32_t block)
{
	struct nvme_passthru_cmd command = {
		.opcode = NVME_READ,
		.nsid = ioctl(fd, NVME_IOCTL_ID),
		.addr = (uintptr_t)buffer[0],
		.data_len = sizeof(buffer[0]),
		.cdw10 = block,
		.cdw12 = BLOCKS - 1,
	};

	return !ioctl(fd, NVME_IOCTL_IO_CMD, &command);
}

static struct io_uring ring;

static void open_ring(unsigned int flags)
{
	int ret = io_uring_queue_init(
		DEPTH, &ring, flags | IORING_SETUP_SQE128 | IORING_SETUP_CQE32);

	if (ret) {
		fprintf(stderr, "passthrough: io_uring: %s\n", strerror(-ret));
		exit(1);
	}
}

/*
 * n commands at once, buffer[i] of the ith, from block[i] on. Says of each
 * whether it succeeded, and in block[] what the drive answered. Returns how
 * many succeeded.
 */
static int by_uring(int fd, int opcode, uint64_t *block, int n, int *succeeded)
{
	static int nsid;
	int i, ok = 0, ret;

	if (!nsid)
		nsid = ioctl(fd, NVME_IOCTL_ID);
	for (i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		struct nvme_uring_cmd command = {
			.opcode = opcode,
			.nsid = nsid,
			.addr = (uintptr_t)buffer[i],
			.data_len = sizeof(buffer[i]),
			.cdw10 = block[i],
			.cdw11 = block[i] >> 32,
			.cdw12 = BLOCKS - 1,
		};

		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
		sqe->cmd_op = NVME_URING_CMD_IO;
		sqe->user_data = i;
		/* the second half of a double entry */
		memcpy((char *)sqe + offsetof(struct io_uring_sqe, cmd),
		       &command, sizeof(command));
	}
	ret = io_uring_submit(&ring);
	if (ret != n) {
		fprintf(stderr, "passthrough: io_uring_submit: %d\n", ret);
		exit(1);
	}
	for (i = 0; i < n; i++) {
		struct io_uring_cqe *cqe;
		int which;

		ret = io_uring_wait_cqe(&ring, &cqe);
		if (ret) {
			fprintf(stderr, "passthrough: %s\n", strerror(-ret));
			exit(1);
		}
		which = cqe->user_data;
		succeeded[which] = !cqe->res;
		ok += !cqe->res;
		if (cqe->res)
			fprintf(stderr, "passthrough: command %d: %d\n", which,
				cqe->res);
		block[which] = cqe->big_cqe[0];
		io_uring_cqe_seen(&ring, cqe);
	}
	return ok;
}

static int read_many(int fd, uint64_t first, int n)
{
	uint64_t block[DEPTH];
	int succeeded[DEPTH], i;

	for (i = 0; i < n; i++)
		block[i] = first + i * BLOCKS;
	return by_uring(fd, NVME_READ, block, n, succeeded);
}

/* To each its own content: a command's number, which is never 0. */
static int append_many(int fd, int number, int n)
{
	uint64_t block[DEPTH] = {};
	int succeeded[DEPTH], read_back[DEPTH], i, same = 0;

	for (i = 0; i < n; i++)
		memset(buffer[i], 1 + (number + i) % 251, sizeof(buffer[i]));
	by_uring(fd, NVME_ZONE_APPEND, block, n, succeeded);
	for (i = 0; i < n; i++) {
		int content = 1 + (number + i) % 251;
		size_t k = 0;

		if (!succeeded[i])
			continue;
		memset(buffer[0], 0, sizeof(buffer[0]));
		if (!by_uring(fd, NVME_READ, &block[i], 1, read_back))
			continue;
		while (k < sizeof(buffer[0]) && buffer[0][k] == (char)content)
			k++;
		same += k == sizeof(buffer[0]);
	}
	return same;
}

int main(int argc, char **argv)
{
	int fd, count, done, ok = 0;
	const char *how;

	if (argc < 3)
		return 2;
	how = argv[1];
	count = argc > 3 ? atoi(argv[3]) : 1;
	fd = open(argv[2], strcmp(how, "append") ? O_RDONLY : O_RDWR);
	if (fd < 0) {
		perror("passthrough");
		return 1;
	}
	if (!strcmp(how, "scsi") || !strcmp(how, "nvme")) {
		for (done = 0; done < count; done++)
			ok += how[0] == 's' ? by_scsi(fd, done * BLOCKS) :
					      by_nvme(fd, done * BLOCKS);
	} else {
		open_ring(strcmp(how, "poll") ? 0 : IORING_SETUP_IOPOLL);
		for (done = 0; done < count; done += DEPTH) {
			int n = count - done < DEPTH ? count - done : DEPTH;

			ok += strcmp(how, "append") ?
				      read_many(fd, done * BLOCKS, n) :
				      append_many(fd, done, n);
		}
	}
	printf("ok=%d\n", ok);
	return 0;
}
