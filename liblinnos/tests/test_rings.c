// SPDX-License-Identifier: MIT
/* Rings of callers that are full, shared by two arrays, or torn down; and the requirements of
 * O_DIRECT. */
#include "one_array.h"

#include <fcntl.h>
#include <sys/syscall.h>

/* Alignment that the simulated drives require of linnos_pread(). */
static size_t required_align = 1, required_memory_align = 1;
static unsigned int n_bounced;
static const char *callers;

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
	if (((size_t)offset | bytes) % required_align || (uintptr_t)to % required_memory_align) {
		errno = EINVAL;
		return -1;
	}
	n_bounced += callers && ((char *)to < callers || (char *)to >= callers + BYTES);
	return syscall(SYS_pread64, fd, to, bytes, offset);
}

TEST(reads_are_aligned_for_each_block_size)
{
	static const struct {
		uint32_t bytes, memory;
	} drives[] = {{1, 1}, {512, 4}, {512, 512}, {4096, 512}, {16384, 4096}, {65536, 512}};
	char *aligned;
	uint64_t seed = 1;

	assert(!posix_memalign((void **)&aligned, 65536, 2 * BYTES));
	for (unsigned int d = 0; d < sizeof(drives) / sizeof(*drives); d++) {
		open_array(&OPTIONS(.probe_after_ms = 0));
		required_align = drives[d].bytes;
		required_memory_align = drives[d].memory;
		align_replicas(array, required_align, required_memory_align);
		for (int i = 0; i < 500; i++) {
			size_t bytes = chance(&seed) % (i % 10 ? 100000 : BYTES);
			uint64_t offset = chance(&seed) % (BYTES - bytes);
			char *to = aligned + chance(&seed) % 64;

			assert(linnos_pread(queue(), to, bytes, offset) == (ssize_t)bytes);
			assert(is_right(to, bytes, offset));
		}
		/* Aligned reads go directly to the caller's memory. */
		callers = aligned;
		n_bounced = 0;
		for (int i = 0; i < 100; i++)
			assert(linnos_pread(queue(), aligned + i % 16 * required_memory_align,
					    2 * required_align, i % 8 * required_align) ==
			       (ssize_t)(2 * required_align));
		assert(n_bounced == 0 && !stats().failovers);
		callers = NULL;
		required_align = required_memory_align = 1;
	}
	free(aligned);
}

TEST(direct_alignment_is_sufficient)
{
	char name[] = "/var/tmp/linnos-direct-XXXXXX", *aligned;
	uint32_t bytes = 0, memory = 0;
	int fd = mkstemp(name), direct;

	assert(fd >= 0 && !ftruncate(fd, 65536));
	direct = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
	assert(!unlink(name));
	if (direct >= 0) {
		replica_direct_alignment(direct, &bytes, &memory);
		assert(bytes && memory && !(bytes & (bytes - 1)) && !(memory & (memory - 1)));
		/* This alignment is sufficient. */
		assert(!posix_memalign((void **)&aligned, 65536, 131072));
		assert(pread(direct, aligned + memory, bytes, bytes) == bytes);
		free(aligned);
		close(direct);
	}
	/* Without O_DIRECT the requirements are unknown, so the largest of any file system is
	 * used. */
	close(fd);
	replica_direct_alignment(-1, &bytes, &memory);
	assert(bytes == 4096 && memory == 4096);
}

/* LINNOS_DEVICE has 1 MiB in blocks of LINNOS_BLOCK_BYTES: tests/unit/test_liblinnos.py. */
TEST(device_alignment_is_its_block_size)
{
	const char *path = getenv("LINNOS_DEVICE");
	struct linnos_queue *created;
	struct linnos_array *a;
	char *aligned, *content;
	uint64_t seed = 1;
	size_t block;
	int fd;

	if (!path)
		return;
	content = malloc(BYTES);
	block = strtoul(getenv("LINNOS_BLOCK_BYTES"), NULL, 10);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert(fd >= 0 && read(fd, content, BYTES) == BYTES && !close(fd));
	assert(!posix_memalign((void **)&aligned, 65536, BYTES));
	assert(!linnos_array_open(&a, 1, &path, NULL, &OPTIONS(.flags = LINNOS_QUERY_KERNEL)));
	assert(linnos_array_size(a) == BYTES);
	assert(a->set.replicas[0].align_bytes == block);
	assert(!linnos_queue_create(&created, a, NULL));
	for (int i = 0; i < 500; i++) {
		size_t bytes = chance(&seed) % 100000;
		uint64_t offset = chance(&seed) % (BYTES - bytes);

		assert(linnos_pread(created, aligned, bytes, offset) == (ssize_t)bytes);
		assert(!memcmp(aligned, content + offset, bytes));
	}
	callers = aligned;
	n_bounced = 0;
	for (size_t at = 0; at < BYTES; at += block)
		assert(linnos_pread(created, aligned + at, block, at) == (ssize_t)block);
	assert(!memcmp(aligned, content, BYTES) && n_bounced == 0);
	callers = NULL;
	assert(!stats_of(a).failovers && linnos_array_close(a) == -EBUSY);
	assert(!linnos_queue_close(created) && !linnos_array_close(a));
	free(aligned);
	free(content);
}

/* --- Rings --------------------------------------------------------------------------- */

static void open_hedged(uint32_t hedge_us)
{
	open_array(&OPTIONS(.probe_after_ms = 0, .hedge_us = hedge_us, .max_duplicates = 100));
}

TEST(two_arrays_can_share_a_ring)
{
	enum { READS = 16 };
	static char bufs[2 * READS][READ_BYTES];
	struct linnos_array *a[2];
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned int n_done[2] = {0};

	assert(!io_uring_queue_init(2 * READS, &ring, 0));
	for (unsigned int k = 0; k < 2; k++)
		a[k] = open_memfd_array(N, BYTES, &OPTIONS(.probe_after_ms = 0));
	/* One of the second array's replicas fails, and its reads continue at another one. */
	close(fd_of(a[1], 0));
	for (unsigned int i = 0; i < 2 * READS; i++)
		assert(!prep_read(a[i % 2], io_uring_get_sqe(&ring), bufs[i], READ_BYTES, 1000 * i,
				  a[i % 2]));
	while (n_done[0] + n_done[1] < 2 * READS) {
		assert(io_uring_submit_and_wait(&ring, 1) >= 0);
		while (!io_uring_peek_cqe(&ring, &cqe)) {
			/* The handle alone identifies the queue. */
			enum linnos_outcome outcome =
				linnos_queue_complete(cqe->user_data, cqe->res, &completion);

			io_uring_cqe_seen(&ring, cqe);
			if (outcome == LINNOS_READ_RESUBMIT)
				assert(!linnos_queue_prep_retry(completion.read,
								io_uring_get_sqe(&ring)));
			if (outcome != LINNOS_READ_DONE)
				continue;
			assert(completion.result == READ_BYTES);
			n_done[completion.user == a[1]]++;
		}
	}
	for (unsigned int i = 0; i < 2 * READS; i++)
		assert(is_right(bufs[i], READ_BYTES, 1000 * i));
	assert(n_done[0] == READS && n_done[1] == READS);
	for (unsigned int k = 0; k < 2; k++)
		assert(stats_of(a[k]).in_flight == 0 && stats_of(a[k]).reads == READS);
	assert(stats_of(a[0]).failovers == 0 && stats_of(a[1]).failovers > 0);
	io_uring_queue_exit(&ring);
	for (unsigned int k = 0; k < 2; k++)
		close_memfd_array(a[k]);
}

TEST(full_ring_returns_eagain_and_loses_nothing)
{
	struct io_uring_sqe sqe;
	int result;

	open_hedged(0);
	assert(prep_read(array, NULL, buf, sizeof(buf), 0, NULL) == -EAGAIN);
	assert(stats().reads == 0 && stats().in_flight == 0);
	assert(!prep_read(array, &sqe, buf, sizeof(buf), 0, NULL));
	assert(linnos_queue_complete(sqe.user_data, -EIO, &completion) == LINNOS_READ_RESUBMIT);
	assert(linnos_queue_prep_retry(completion.read, NULL) == -EAGAIN);
	assert(linnos_queue_prep_retry(completion.read, NULL) == -EAGAIN);
	/* A read that has not been prepared yet is in flight, too. */
	assert(linnos_queue_close(queue()) == -EBUSY);
	assert(!linnos_queue_prep_retry(completion.read, &sqe));
	result = pread(sqe.fd, (void *)(uintptr_t)sqe.addr, sqe.len, sqe.off);
	assert(linnos_queue_complete(sqe.user_data, result, &completion) == LINNOS_READ_DONE &&
	       completion.result == READ_BYTES);
}

/* Return a read whose hedge is due while the ring is full, so that it has not been prepared yet. */
static struct linnos_read *hedge_of_a_full_ring(void)
{
	struct linnos_read *due;

	while (!(due = hedge_due(array)))
		usleep(100);
	assert(linnos_queue_prep_retry(due, NULL) == -EAGAIN);
	return due;
}

TEST(complete_read_is_kept_until_its_hedge_is_prepared)
{
	struct io_uring_sqe first, hedge, next;
	struct linnos_read *due;
	char other[READ_BYTES];

	open_hedged(1000);
	assert(!prep_read(array, &first, buf, sizeof(buf), 0, buf));
	due = hedge_of_a_full_ring();
	assert(linnos_queue_complete(first.user_data, READ_BYTES, &completion) ==
		       LINNOS_READ_DONE &&
	       completion.user == buf);
	/* There is no attempt to cancel, and the next read has its own. */
	assert(!linnos_queue_next_orphan(queue()));
	assert(!prep_read(array, &next, other, sizeof(other), 0, other));
	assert(linnos_queue_close(queue()) == -EBUSY);
	assert(!linnos_queue_prep_retry(due, &hedge));
	assert(hedge.opcode == IORING_OP_NOP && !hedge.user_data);
	assert(linnos_queue_complete(hedge.user_data, 0, &completion) == LINNOS_READ_PENDING);
	assert(linnos_queue_complete(next.user_data, READ_BYTES, &completion) == LINNOS_READ_DONE &&
	       completion.user == other);
	assert(linnos_queue_next_timeout_ns(queue()) == -1 && stats().in_flight == 0);
}

TEST(remainder_and_hedge_are_prepared_once_each)
{
	struct io_uring_sqe first, sqe[2];
	struct linnos_read *due;
	unsigned int rest;

	open_hedged(1000);
	assert(!prep_read(array, &first, buf, sizeof(buf), 0, buf));
	due = hedge_of_a_full_ring();
	assert(linnos_queue_complete(first.user_data, 512, &completion) == LINNOS_READ_RESUBMIT &&
	       completion.read == due);
	for (int i = 0; i < 2; i++)
		assert(!linnos_queue_prep_retry(due, &sqe[i]));
	rest = sqe[0].user_data == first.user_data ? 0 : 1;
	assert(sqe[rest].user_data == first.user_data);
	assert(sqe[rest].off == 512 && sqe[rest].len == READ_BYTES - 512);
	assert(sqe[!rest].fd != first.fd && sqe[!rest].len == READ_BYTES);
	assert(linnos_queue_complete(sqe[rest].user_data, READ_BYTES - 512, &completion) ==
	       LINNOS_READ_DONE);
	assert(completion.user == buf && completion.result == READ_BYTES);
	assert(linnos_queue_next_orphan(queue()) == sqe[!rest].user_data);
	assert(linnos_queue_complete(sqe[!rest].user_data, -ECANCELED, &completion) ==
	       LINNOS_READ_PENDING);
}

/* Reads, hedges, orphans, and a read that was not prepared again are all discarded with the
 * ring. */
TEST(abandon_discards_all_reads_of_a_ring)
{
	enum { READS = 12 };
	static char bufs[READS][READ_BYTES];
	struct io_uring_sqe sqes[2 * READS];
	unsigned int n = 0;

	open_hedged(1);
	for (unsigned int i = 0; i < READS; i++)
		assert(!prep_read(array, &sqes[n++], bufs[i], READ_BYTES, 0, NULL));
	usleep(1000);
	for (unsigned int i = 0; i < READS; i++) {
		struct linnos_read *due = hedge_due(array);

		assert(due);
		if (i)
			assert(!linnos_queue_prep_retry(due, &sqes[n++]));
	}
	/* The first read is done, and its hedge was not prepared. The next two are done, and their
	 * hedges are orphans. The fourth one waits for its hedge, which fails. */
	for (unsigned int i = 0; i < 3; i++)
		linnos_queue_complete(sqes[i].user_data, READ_BYTES, &completion);
	linnos_queue_complete(sqes[3].user_data, -EIO, &completion);
	assert(linnos_queue_complete(sqes[READS + 2].user_data, -EIO, &completion) ==
	       LINNOS_READ_RESUBMIT);
	assert(linnos_queue_close(queue()) == -EBUSY &&
	       says("linnos_queue_abandon_reads() after their ring was torn down"));
	linnos_queue_abandon_reads(queue());
	assert(stats().in_flight == 0);
	for (unsigned int k = 0; k < N; k++)
		assert(!atomic64_read(&array->predictor->drives[k].drive.load));
	/* The queue can still read, until it is closed. */
	assert(linnos_queue_next_timeout_ns(queue()) == -1);
	assert(linnos_pread(queue(), buf, sizeof(buf), 4096) == sizeof(buf));
	assert(is_right(buf, sizeof(buf), 4096));
	settle(array);
}

/* The kernel may still write to the memory of hedged reads, so new reads must get other memory. */
TEST(abandoned_memory_is_not_reused)
{
	struct io_uring ring;
	int ends[2];
	char *late;

	assert(!pipe(ends) && !io_uring_queue_init(8, &ring, 0));
	open_hedged(1000000);
	assert(!prep_read(array, io_uring_get_sqe(&ring), buf, READ_BYTES, 0, NULL));
	late = queue()->in_callers_ring.attempts.first->bounce->data;
	linnos_queue_abandon_reads(queue());
	/* Any number of new reads. */
	for (int i = 0; i < 64; i++)
		assert(linnos_pread(queue(), buf, READ_BYTES, 0) == READ_BYTES);
	assert(write(ends[1], "late", 4) == 4);
	assert(read(ends[0], late, 4) == -1 && errno == EFAULT);
	io_uring_queue_exit(&ring);
	close(ends[0]);
	close(ends[1]);
}
