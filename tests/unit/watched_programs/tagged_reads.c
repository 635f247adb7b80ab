// SPDX-License-Identifier: MIT
/*
 * Read a device with direct I/O, each offset once, and print a line with the sector and the tag of
 * each read, which is 0 for a read without a tag. Tags are set for a thread, and for each read of
 * io_uring and aio. Some reads set the priority in ways that give them no tag.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096
#define READS 16

enum { NO_CLASS = 0, BEST_EFFORT = 2 };
enum { THIS_THREAD = 1 };

static int device;

static int priority(int class, int tag)
{
	return class << 13 | tag << 3 | (class ? 4 : 0);
}

/* Return an offset that was not read before. It skips blocks, so that no two reads are adjacent. */
static off_t next_place(void)
{
	static unsigned int n;

	return (off_t)__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) * 2 * BLOCK;
}

static void *new_block(void)
{
	void *block = aligned_alloc(BLOCK, BLOCK);

	if (!block)
		err(1, "aligned_alloc");
	return block;
}

static void say(off_t place, int tag)
{
	printf("%lld %d\n", (long long)place / 512, tag);
}

/* Read by system calls of a thread, with the thread's tag. */
static void *read_as_thread(void *tag_of_thread)
{
	int tag = *(int *)tag_of_thread;
	void *block = new_block();

	if (tag && syscall(SYS_ioprio_set, THIS_THREAD, 0, priority(BEST_EFFORT, tag)))
		err(1, "ioprio_set");
	for (int i = 0; i < READS; i++) {
		off_t place = next_place();

		if (pread(device, block, BLOCK, place) != BLOCK)
			err(1, "pread");
		say(place, tag);
	}
	free(block);
	return NULL;
}

/* Read by one ring, all at once: with different tags, with a hint of the kernel, and without. */
static void read_by_ring(void)
{
	static const struct {
		int class, hint, tag;
	} kinds[] = {
		{ BEST_EFFORT, 200, 200 },
		{ BEST_EFFORT, 1023, 1023 },
		{ BEST_EFFORT, 8, 8 },
		{ BEST_EFFORT, 3, 0 },	/* the hint is a command duration limit */
		{ NO_CLASS, 500, 0 },	/* the priority of the thread is used */
		{ NO_CLASS, 0, 0 },
	};
	const int n_kinds = sizeof(kinds) / sizeof(kinds[0]), n = n_kinds * READS;
	struct io_uring ring;
	int error = io_uring_queue_init(n, &ring, 0);

	if (error)
		errx(1, "io_uring_queue_init: %d", error);
	for (int i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		off_t place = next_place();

		io_uring_prep_read(sqe, device, new_block(), BLOCK, place);
		sqe->ioprio = priority(kinds[i % n_kinds].class, kinds[i % n_kinds].hint);
		say(place, kinds[i % n_kinds].tag);
	}
	if (io_uring_submit(&ring) != n)
		errx(1, "io_uring_submit");
	for (int i = 0; i < n; i++) {
		struct io_uring_cqe *cqe;

		do {
			error = io_uring_wait_cqe(&ring, &cqe);
		} while (error == -EINTR);
		if (error || cqe->res != BLOCK)
			errx(1, "a read by the ring returned %d", error ?: cqe->res);
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
}

static void read_by_aio(int tag)
{
	struct iocb blocks[READS], *list[READS];
	struct io_event events[READS];
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, READS, &context))
		err(1, "io_setup");
	for (int i = 0; i < READS; i++) {
		off_t place = next_place();

		blocks[i] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = device,
			.aio_buf = (unsigned long)new_block(),
			.aio_nbytes = BLOCK,
			.aio_offset = place,
			.aio_flags = IOCB_FLAG_IOPRIO,
			.aio_reqprio = priority(BEST_EFFORT, tag),
		};
		list[i] = &blocks[i];
		say(place, tag);
	}
	if (syscall(SYS_io_submit, context, READS, list) != READS)
		err(1, "io_submit");
	for (int i = 0; i < READS;) {
		long n = syscall(SYS_io_getevents, context, 1, READS - i, events + i, NULL);

		if (n < 0 && errno != EINTR)
			err(1, "io_getevents");
		i += n < 0 ? 0 : n;
	}
	for (int i = 0; i < READS; i++) {
		if (events[i].res != BLOCK)
			errx(1, "a read by aio returned %lld", events[i].res);
	}
	syscall(SYS_io_destroy, context);
}

int main(int argc, char **argv)
{
	static int tags[] = { 100, 101, 102 };
	pthread_t threads[sizeof(tags) / sizeof(tags[0])];
	static int none;

	if (argc != 2)
		errx(2, "usage: tagged_reads DEVICE");
	device = open(argv[1], O_RDONLY | O_DIRECT);
	if (device < 0)
		err(1, "%s", argv[1]);
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		if (pthread_create(&threads[i], NULL, read_as_thread, &tags[i]))
			errx(1, "pthread_create");
	}
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		pthread_join(threads[i], NULL);
	read_as_thread(&none);
	read_by_ring();
	read_by_aio(400);
	return 0;
}
