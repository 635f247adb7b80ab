// SPDX-License-Identifier: MIT
/*
 * passthrough: read blocks by a command of the drive's own, past the block
 * layer's reads.
 *
 *	passthrough scsi|nvme DISK [COUNT]
 *
 * Eight blocks a command, the first block of the disk first. Prints how many
 * succeeded.
 */
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <scsi/sg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define BLOCKS 8
#define NVME_READ 0x02
#define SCSI_READ_10 0x28

static char buffer[BLOCKS * 4096] __attribute__((aligned(4096)));

static int by_scsi(int fd, uint32_t block)
{
	unsigned char sense[32];
	unsigned char command[10] = {
		SCSI_READ_10,
		[2] = block >> 24, block >> 16, block >> 8, block,
		[8] = BLOCKS,
	};
	struct sg_io_hdr io = {
		.interface_id = 'S',
		.dxfer_direction = SG_DXFER_FROM_DEV,
		.cmd_len = sizeof(command),
		.mx_sb_len = sizeof(sense),
		.dxfer_len = BLOCKS * 512,
		.dxferp = buffer,
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
		.addr = (uintptr_t)buffer,
		.data_len = BLOCKS * 512,
		.cdw10 = block,
		.cdw12 = BLOCKS - 1,
	};

	return !ioctl(fd, NVME_IOCTL_IO_CMD, &command);
}

int main(int argc, char **argv)
{
	int fd, count, i, ok = 0, scsi;

	if (argc < 3)
		return 2;
	scsi = !strcmp(argv[1], "scsi");
	count = argc > 3 ? atoi(argv[3]) : 1;
	fd = open(argv[2], O_RDONLY);
	if (fd < 0) {
		perror("passthrough");
		return 1;
	}
	for (i = 0; i < count; i++)
		ok += scsi ? by_scsi(fd, i * BLOCKS) : by_nvme(fd, i * BLOCKS);
	printf("ok=%d\n", ok);
	return 0;
}
