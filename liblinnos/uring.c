// SPDX-License-Identifier: MIT
/* Reads in the caller's io_uring: prepared and heard of here, submitted and waited for there. */
#include "lanes.h"
#include "reads.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

static struct linnos_read *read_new(struct linnos_array *a)
{
	struct linnos_read *r;

	array_lock(a);
	r = a->free_reads;
	if (r)
		a->free_reads = r->later;
	array_unlock(a);
	return r ? r : malloc(sizeof(*r));
}

static void read_put(struct linnos_array *a, struct linnos_read *r)
{
	r->later = a->free_reads;
	a->free_reads = r;
}

void reads_free(struct linnos_array *a)
{
	while (a->free_reads) {
		struct linnos_read *r = a->free_reads;

		a->free_reads = r->later;
		free(r);
	}
}

/*
 * Reads that may be hedged are in the order of their times. That is the order in which they began,
 * but where each has a time of its own: then one goes before those that may take longer, of which
 * there are few.
 */
static void list_add(struct linnos_array *a, struct linnos_read *r)
{
	struct linnos_read *later = NULL, *earlier;
	uint64_t at_ns = r->start_ns + r->hedge_after_ns;

	array_lock(a);
	earlier = a->newest;
	while (earlier && r->hedge_after_ns &&
	       earlier->start_ns + earlier->hedge_after_ns > at_ns) {
		later = earlier;
		earlier = earlier->earlier;
	}
	r->later = later;
	r->earlier = earlier;
	*(earlier ? &earlier->later : &a->oldest) = r;
	*(later ? &later->earlier : &a->newest) = r;
	r->is_listed = true;
	array_unlock(a);
}

static void list_remove(struct linnos_array *a, struct linnos_read *r)
{
	if (!r->is_listed)
		return;
	*(r->earlier ? &r->earlier->later : &a->oldest) = r->later;
	*(r->later ? &r->later->earlier : &a->newest) = r->earlier;
	r->is_listed = false;
}

void read_forget(struct linnos_array *a, struct linnos_read *r)
{
	list_remove(a, r);
	read_put(a, r);
}

int linnos_prep_read(struct linnos_array *a, struct io_uring_sqe *sqe, void *buf, size_t bytes,
		     off_t offset, void *user)
{
	struct linnos_read *r;
	int error;

	/* The ring is full: nothing has begun. */
	if (!sqe)
		return -EAGAIN;
	r = read_new(a);
	error = r ? read_begin(a, r, buf, bytes, offset, true) : -ENOMEM;
	if (error) {
		if (r) {
			array_lock(a);
			read_put(a, r);
			array_unlock(a);
		}
		io_uring_prep_nop(sqe);
		sqe->user_data = user_data_of_nop();
		return error;
	}
	r->user = user;
	if (r->copy)
		lanes_send_copy(a, r->copy);
	if (r->is_timed)
		list_add(a, r);
	return linnos_prep_again(a, r, sqe);
}

int linnos_prep_again(struct linnos_array *a, struct linnos_read *r, struct io_uring_sqe *sqe)
{
	(void)a;
	if (!sqe)
		return -EAGAIN;
	attempt_prepare(r->array, read_take_next(r), sqe);
	return 0;
}

int linnos_is_ours(const struct io_uring_cqe *cqe)
{
	return user_data_is_ours(cqe->user_data);
}

enum linnos_outcome linnos_complete(struct linnos_array *a, const struct io_uring_cqe *cqe,
				    struct linnos_completion *c)
{
	struct attempt *at = attempt_of_user_data(cqe->user_data);
	enum linnos_outcome outcome;
	struct linnos_read *r;

	memset(c, 0, sizeof(*c));
	if (!at)
		return LINNOS_NOTHING;
	/* The ring may have those of other arrays, too. */
	a = at->array;
	outcome = attempt_ended(a, at, cqe->res, &r);
	if (outcome == LINNOS_NOTHING)
		return outcome;
	c->user = r->user;
	if (outcome == LINNOS_AGAIN) {
		c->read = r;
		return outcome;
	}
	c->result = r->result;
	c->replica = r->replica;
	array_lock(a);
	read_forget(a, r);
	array_unlock(a);
	return outcome;
}

int64_t linnos_hedge_wait_ns(struct linnos_array *a)
{
	uint64_t clock_ns = array_clock_ns(a), now_ns, at_ns;

	array_lock(a);
	now_ns = array_time(a, clock_ns);
	at_ns = a->oldest ? read_hedge_ns(a, a->oldest) : UINT64_MAX;
	array_unlock(a);
	if (at_ns == UINT64_MAX)
		return -1;
	return at_ns > now_ns ? at_ns - now_ns : 0;
}

struct linnos_read *linnos_hedge_due(struct linnos_array *a)
{
	while (!linnos_hedge_wait_ns(a)) {
		struct linnos_read *r = a->oldest;

		array_lock(a);
		list_remove(a, r);
		array_unlock(a);
		if (read_hedge(a, r))
			return r;
		if (r->is_timed)
			list_add(a, r);
	}
	return NULL;
}

void linnos_abandon(struct linnos_array *a)
{
	attempts_forsake(a);
}
