// SPDX-License-Identifier: MIT
/*
 * passthrough: read blocks by passthrough commands to the drive, which bypass the
 * reads of the block layer.
 *
 *	passthrough scsi|nvme|uring|poll DEVICE [COUNT]
 *
 * Eight blocks a command, the first block of the disk first. Prints how many
 * succeeded.
 *
 * scsi		SG_IO of a disk, one command after another
 * nvme		the NVMe ioctl of a disk, one after another
 * uring	IORING_OP_URING_CMD of an NVMe character device, 16 at once
 * poll		the same, and the program polls for the completions
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

/* Read n times eight blocks at once; return how many reads succeeded. */
static int by_uring(int fd, uint64_t first, int n)
{
	static int nsid;
	int i, ok = 0, ret;

	if (!nsid)
		nsid = ioctl(fd, NVME_IOCTL_ID);
	for (i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		struct nvme_uring_cmd command = {
			.opcode = NVME_READ,
			.nsid = nsid,
			.addr = (uintptr_t)buffer[i],
			.data_len = sizeof(buffer[i]),
			.cdw10 = first + i * BLOCKS,
			.cdw12 = BLOCKS - 1,
		};

		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
		sqe->cmd_op = NVME_URING_CMD_IO;
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

		ret = io_uring_wait_cqe(&ring, &cqe);
		if (ret) {
			fprintf(stderr, "passthrough: %s\n", strerror(-ret));
			exit(1);
		}
		ok += !cqe->res;
		if (cqe->res)
			fprintf(stderr, "passthrough: %d\n", cqe->res);
		io_uring_cqe_seen(&ring, cqe);
	}
	return ok;
}

int main(int argc, char **argv)
{
	int fd, count, done, ok = 0;
	const char *how;

	if (argc < 3)
		return 2;
	how = argv[1];
	count = argc > 3 ? atoi(argv[3]) : 1;
	fd = open(argv[2], O_RDONLY);
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

			ok += by_uring(fd, done * BLOCKS, n);
		}
	}
	printf("ok=%d\n", ok);
	return 0;
}
