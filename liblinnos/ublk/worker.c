// SPDX-License-Identifier: MIT
/* What all that a worker does goes through: see worker.h. */
#include "worker.h"

#define KIND_SHIFT 2
#define REPLICA_SHIFT 6
#define TAG_SHIFT 16
#define TOLD_SHIFT 32
#define TO_SHIFT 40
#define KIND_MASK 15
#define TAG_MASK 0xffff

uint64_t subject_pack(const struct subject *s)
{
	return (uint64_t)s->to << TO_SHIFT | (uint64_t)s->told << TOLD_SHIFT |
	       (uint64_t)s->tag << TAG_SHIFT | s->replica << REPLICA_SHIFT | s->kind << KIND_SHIFT;
}

struct subject subject_unpack(uint64_t user_data)
{
	return (struct subject){
		.kind = user_data >> KIND_SHIFT & KIND_MASK,
		.replica = user_data >> REPLICA_SHIFT & (REPLICAS_MAX - 1),
		.tag = user_data >> TAG_SHIFT & TAG_MASK,
		.told = user_data >> TOLD_SHIFT & KIND_MASK,
		.to = user_data >> TO_SHIFT,
	};
}

struct io_uring_sqe *get_sqe(struct worker *w)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&w->ring)))
		io_uring_submit(&w->ring);
	return sqe;
}

void commit(struct worker *w, const struct request *r, int result)
{
	struct io_uring_sqe *sqe = get_sqe(w);

	ublk_prep_commit(&w->mirror->device, sqe, w->queue, r->tag, buffer(w, r->tag), result);
	sqe->user_data = subject_pack(&(struct subject){.kind = OF_FETCH, .tag = r->tag});
	count(&w->stats.answered, 1);
}

void tell(struct worker *w, const struct worker *to, enum kind kind, unsigned int tag)
{
	const struct subject heard = {.kind = kind, .tag = tag};
	struct io_uring_sqe *sqe = get_sqe(w);

	io_uring_prep_msg_ring(sqe, to->ring.ring_fd, 0, subject_pack(&heard), 0);
	sqe->user_data = subject_pack(
		&(struct subject){.kind = OF_MESSAGE, .told = kind, .to = to->queue, .tag = tag});
	w->n_messages++;
}
