// SPDX-License-Identifier: MIT
/*
 * System calls for those who count their instructions: a question about drives, a
 * hinted read, and the least there is.
 *
 *	ask_calls ask|hinted|getppid N DEVICE...
 *
 * N of them: BLKEXPECT about all devices, reads of 4 KiB of the first one with
 * RWF_LATCRIT, getppid(). Before that each device is read from a few times.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/blk-linnos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

#define BLOCK 4096
#define READ_BEFORE 8

static void die(const char *what)
{
	fprintf(stderr, "ask_calls: %s: %s\n", what, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	struct blk_expect *question;
	struct iovec block = { .iov_base = aligned_alloc(BLOCK, BLOCK), .iov_len = BLOCK };
	int n_drives = argc - 3, k, first = -1;
	long n, i;

	if (argc < 4 || n_drives > BLK_EXPECT_DRIVES_MAX || (n = atol(argv[2])) < 1) {
		fprintf(stderr, "usage: ask_calls ask|hinted|getppid N DEVICE...\n");
		return 2;
	}
	question = calloc(1, BLK_EXPECT_BYTES(n_drives));
	if (!question || !block.iov_base)
		die("memory");
	question->n_drives = n_drives;
	question->bytes = BLOCK;
	for (k = n_drives - 1; k >= 0; k--) {
		first = open(argv[3 + k], O_RDONLY | O_DIRECT);
		if (first < 0)
			die(argv[3 + k]);
		question->drives[k].fd = first;
		for (i = 0; i < READ_BEFORE; i++)
			if (pread(first, block.iov_base, BLOCK, i * BLOCK) != BLOCK)
				die(argv[3 + k]);
	}
	for (i = 0; i < n; i++) {
		if (!strcmp(argv[1], "ask")) {
			if (ioctl(first, BLKEXPECT, question))
				die("BLKEXPECT");
		} else if (!strcmp(argv[1], "hinted")) {
			if (preadv2(first, &block, 1, 0, RWF_LATCRIT) != BLOCK)
				die("hinted read");
		} else {
			syscall(SYS_getppid);
		}
	}
	return 0;
}
