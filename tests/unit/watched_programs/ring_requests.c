// SPDX-License-Identifier: MIT
/*
 * Read, write and sync a file with io_uring in each way that `linnapp watch` records:
 * `ring_requests FILE [sqpoll]`. Prints a line for each request: its operation, offset (-1 for the
 * file's position), bytes requested, and result.
 */
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static struct io_uring ring;

static void finish(struct io_uring_sqe *sqe, const char *name, long offset, long bytes)
{
	struct io_uring_cqe *cqe;

	(void)sqe;
	if (io_uring_submit(&ring) < 0 || io_uring_wait_cqe(&ring, &cqe))
		exit(1);
	printf("%s %ld %ld %d\n", name, offset, bytes, cqe->res);
	io_uring_cqe_seen(&ring, cqe);
}

#define DO(name, prepare, offset, bytes, ...)                                                      \
	do {                                                                                       \
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);                                \
		io_uring_prep_##prepare(sqe, __VA_ARGS__);                                         \
		finish(sqe, name, offset, bytes);                                                  \
	} while (0)

int main(int argc, char **argv)
{
	static char buffer[4096];
	struct iovec whole = {buffer, sizeof(buffer)};
	struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 400}};
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);

	if (fd < 0 || io_uring_queue_init(8, &ring, argc > 2 ? IORING_SETUP_SQPOLL : 0) ||
	    io_uring_register_buffers(&ring, &whole, 1))
		return 1;
	memset(buffer, 'x', sizeof(buffer));
	DO("io_uring_write", write, 0, 4096, fd, buffer, 4096, 0);
	DO("io_uring_writev", writev, 4096, 500, fd, parts, 2, 4096);
	DO("io_uring_write_fixed", write_fixed, 8192, 1000, fd, buffer, 1000, 8192, 0);
	DO("io_uring_fsync", fsync, 0, 0, fd, 0);
	DO("io_uring_read", read, 100, 26, fd, buffer, 26, 100);
	DO("io_uring_read", read, -1, 26, fd, buffer, 26, -1);
	DO("io_uring_readv", readv, 0, 500, fd, parts, 2, 0);
	DO("io_uring_read_fixed", read_fixed, 8192, 4096, fd, buffer, 4096, 8192, 0);
	DO("io_uring_sync_file_range", sync_file_range, 0, 0, fd, 4096, 0, SYNC_FILE_RANGE_WRITE);
	DO("io_uring_read", read, 0, 10, 999, buffer, 10, 0);
	return 0;
}
