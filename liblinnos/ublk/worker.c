// SPDX-License-Identifier: MIT
/* What all that a worker does goes through: see worker.h. */
#include "worker.h"

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
