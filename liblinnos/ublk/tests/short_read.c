// SPDX-License-Identifier: MIT
/* Complete a read of which liblinnos has returned only a part, because all replicas have become
 * shorter. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

static struct request request = {.start = 8192, .bytes = 4096};

enum linnos_outcome linnos_queue_complete(uint64_t handle, int result,
					  struct linnos_completion *completion)
{
	(void)handle;
	*completion = (struct linnos_completion){.user = &request, .result = result};
	return LINNOS_READ_DONE;
}

void commit(struct worker *w, const struct request *r, int result)
{
	(void)w;
	printf("%d %llu\n", result, (unsigned long long)r->start);
}

const char *linnos_error(void)
{
	return "an earlier error";
}

/* The functions that are linked but not called. */
struct io_uring_sqe *get_sqe(struct worker *w)
{
	(void)w;
	abort();
}

int linnos_queue_prep_read(struct linnos_queue *queue, struct io_uring_sqe *sqe,
			   const struct iovec *iov, int n_iov, off_t offset,
			   const struct linnos_read_options *options, void *user)
{
	(void)queue, (void)sqe, (void)iov, (void)n_iov, (void)offset, (void)options, (void)user;
	abort();
}

int linnos_queue_prep_retry(struct linnos_read *read, struct io_uring_sqe *sqe)
{
	(void)read, (void)sqe;
	abort();
}

enum linnos_outcome linnos_queue_next_expired(struct linnos_queue *queue,
					      struct linnos_completion *completion)
{
	(void)queue, (void)completion;
	abort();
}

int main(void)
{
	static struct mirror mirror = {.device.number = 5};
	struct worker worker = {.mirror = &mirror};
	const struct io_uring_cqe cqe = {.res = 512};

	read_complete(&worker, &cqe);
	return worker.stats.reads_failed == 1 ? 0 : 1;
}
