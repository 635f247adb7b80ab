// SPDX-License-Identifier: MIT
/*
 * lcread: read or write with or without the latency-critical hint, one I/O after
 * another, and print the result of each.
 *
 *	lcread [-b | -t] [-e INTERFACE] [-f FLAGS] [-k BYTES] [-n COUNT] [-N]
 *		[-o OFFSET] [-p] [-r] [-s BYTES] [-u] [-w] FILE
 *
 * -b	buffered, not direct
 * -t	opened buffered, made direct by fcntl()
 * -e	interface: preadv2 (the default), uring, fixed (io_uring, a
 *	registered file), poll (io_uring, the reader polls for completions), aio
 * -f	flags instead of RWF_LATCRIT, as a number
 * -k	use buffers of 4096 bytes with this offset in their pages: a device with a
 *	virt_boundary gets a request for each. Only with preadv2
 * -n	number of reads, each at the next offset (1)
 * -N	in the nth read the nth allocation of the kernel fails: needs fault
 *	injection. The last line has the number of failures: failed=N
 * -p	print nothing but a summary: ok=N busy=N other=N
 * -r	all at the same offset
 * -s	bytes a read (4096)
 * -o	offset of the first (0)
 * -u	unhinted
 * -w	zeros are written, not with -e fixed or poll
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define RWF_LATCRIT 0x00008000

#define PIECES_MAX 256

static int flags = RWF_LATCRIT;
static int writes;
static long skew = -1;

static ssize_t by_preadv2(int fd, void *buffer, size_t bytes, off_t offset)
{
	struct iovec iov[PIECES_MAX] = { { .iov_base = buffer, .iov_len = bytes } };
	int n = skew < 0 ? 1 : bytes / 4096;
	ssize_t got;

	for (int i = 0; skew >= 0 && i < n; i++)
		iov[i] = (struct iovec){ (char *)buffer + i * 8192L + skew, 4096 };
	got = writes ? pwritev2(fd, iov, n, offset, flags) :
		       preadv2(fd, iov, n, offset, flags);

	return got < 0 ? -errno : got;
}

static unsigned int ring_flags;
static int registered;

static ssize_t by_uring(int fd, void *buffer, size_t bytes, off_t offset)
{
	static struct io_uring ring;
	static int ready;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	ssize_t got;

	if (!ready) {
		got = io_uring_queue_init(8, &ring, ring_flags);
		if (got)
			return got;
		if (registered) {
			got = io_uring_register_files(&ring, &fd, 1);
			if (got)
				return got;
		}
		ready = 1;
	}
	sqe = io_uring_get_sqe(&ring);
	if (writes)
		io_uring_prep_write(sqe, fd, buffer, bytes, offset);
	else
		io_uring_prep_read(sqe, registered ? 0 : fd, buffer, bytes, offset);
	if (registered)
		sqe->flags |= IOSQE_FIXED_FILE;
	sqe->rw_flags = flags;
	got = io_uring_submit_and_wait(&ring, 1);
	if (got < 0) {
		/* the entry that was not submitted must not be sent as the next read */
		io_uring_queue_exit(&ring);
		ready = 0;
		return got;
	}
	got = io_uring_wait_cqe(&ring, &cqe);
	if (got)
		return got;
	got = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return got;
}

static ssize_t by_aio(int fd, void *buffer, size_t bytes, off_t offset)
{
	static io_context_t context;
	struct iocb iocb, *list = &iocb;
	struct io_event event;
	int ret;

	if (!context) {
		ret = io_setup(8, &context);
		if (ret)
			return ret;
	}
	if (writes)
		io_prep_pwrite(&iocb, fd, buffer, bytes, offset);
	else
		io_prep_pread(&iocb, fd, buffer, bytes, offset);
	iocb.aio_rw_flags = flags;
	ret = io_submit(context, 1, &list);
	if (ret < 0)
		return ret;
	ret = io_getevents(context, 1, 1, &event, NULL);
	if (ret < 0)
		return ret;
	return (long)event.res;
}

/* Have the nth allocation from here on fail; says whether the last one did. */
static int fail_nth(int fd, long n)
{
	char text[24] = "";
	int struck;

	struck = pread(fd, text, sizeof(text) - 1, 0) > 0 && !atol(text);
	snprintf(text, sizeof(text), "%ld", n);
	if (pwrite(fd, text, strlen(text), 0) < 0) {
		perror("lcread: fail-nth");
		exit(1);
	}
	return struck;
}

int main(int argc, char **argv)
{
	ssize_t (*read_by)(int, void *, size_t, off_t) = by_preadv2;
	long count = 1, ok = 0, busy = 0, other = 0, failed = 0, i;
	int option, direct = O_DIRECT, quiet = 0, toggle = 0, faults = -1, same = 0, fd;
	size_t bytes = 4096, step;
	off_t offset = 0;
	void *buffer;

	while ((option = getopt(argc, argv, "be:f:k:n:No:prs:tuw")) != -1) {
		switch (option) {
		case 'b':
			direct = 0;
			break;
		case 'e':
			if (!strcmp(optarg, "uring"))
				read_by = by_uring;
			else if (!strcmp(optarg, "fixed"))
				read_by = by_uring, registered = 1;
			else if (!strcmp(optarg, "poll"))
				read_by = by_uring, ring_flags = IORING_SETUP_IOPOLL;
			else if (!strcmp(optarg, "aio"))
				read_by = by_aio;
			else if (strcmp(optarg, "preadv2"))
				return 2;
			break;
		case 'f':
			flags = strtol(optarg, NULL, 0);
			break;
		case 'k':
			skew = atol(optarg);
			break;
		case 'n':
			count = atol(optarg);
			break;
		case 'N':
			faults = open("/proc/thread-self/fail-nth", O_RDWR);
			if (faults < 0) {
				perror("lcread: fail-nth");
				return 1;
			}
			break;
		case 'o':
			offset = atoll(optarg);
			break;
		case 'p':
			quiet = 1;
			break;
		case 'r':
			same = 1;
			break;
		case 's':
			bytes = atol(optarg);
			break;
		case 't':
			toggle = 1;
			break;
		case 'u':
			flags = 0;
			break;
		case 'w':
			writes = 1;
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc)
		return 2;
	fd = open(argv[optind], (writes ? O_RDWR : O_RDONLY) | (toggle ? 0 : direct));
	if (fd < 0 || (toggle && fcntl(fd, F_SETFL, O_DIRECT))) {
		fprintf(stderr, "lcread: %s: %s\n", argv[optind],
			strerror(errno));
		return 1;
	}
	if (skew >= 0 && (skew > 4096 || bytes % 4096 || bytes / 4096 > PIECES_MAX))
		return 2;
	if (posix_memalign(&buffer, 4096, skew < 0 ? bytes : 2 * bytes))
		return 1;
	/* even pages first: neighbours are apart in memory, a bio holds 256 pages */
	for (step = 0; step < 8192; step += 4096)
		for (size_t at = step; at < bytes; at += 8192)
			((volatile char *)buffer)[at] = 0;
	if (faults >= 0)
		read_by(fd, buffer, bytes, offset); /* opens the ring */
	for (i = 0; i < count; i++, offset += same ? 0 : bytes) {
		ssize_t got;

		if (faults >= 0)
			fail_nth(faults, i + 1);
		got = read_by(fd, buffer, bytes, offset);
		if (faults >= 0)
			failed += fail_nth(faults, 0);

		ok += got == (ssize_t)bytes;
		busy += got == -EBUSY;
		other += got != (ssize_t)bytes && got != -EBUSY;
		if (!quiet)
			puts(got < 0 ? strerrorname_np(-got) : "ok");
	}
	if (quiet)
		printf("ok=%ld busy=%ld other=%ld\n", ok, busy, other);
	if (faults >= 0)
		printf("failed=%ld\n", failed);
	return 0;
}
