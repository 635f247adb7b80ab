// SPDX-License-Identifier: MIT
/* A backend whose replicas are in memory: see memory_backend.h. */
#include "memory_backend.h"

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_NS 1000000ull

struct pending {
	struct pending *next; /* ordered by completion time */
	struct linnos_request request;
	uint64_t end_ns;
	int error;
};

/* The queue of one thread. */
struct memory_queue {
	struct memory_queue *next;
	struct linnos_memory *memory;
	struct pending *first;
	unsigned int n;
};

static uint64_t now_ns(void *context)
{
	return ((struct linnos_memory *)context)->now_ns;
}

static int open_queue(void *context, void **queue)
{
	struct linnos_memory *m = context;
	struct memory_queue *q = calloc(1, sizeof(*q));

	assert(q);
	q->memory = m;
	q->next = m->queues;
	m->queues = q;
	*queue = q;
	return 0;
}

static void close_queue(void *queue)
{
	struct memory_queue *q = queue, **at = &q->memory->queues;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	free(q);
}

static void insert(struct memory_queue *q, struct pending *p)
{
	struct pending **at = &q->first;

	while (*at && (*at)->end_ns <= p->end_ns)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
}

static uint64_t end_of(const struct linnos_memory *m, unsigned int replica)
{
	uint64_t latency_ns = m->replicas[replica].latency_ns;

	return latency_ns < UINT64_MAX - m->now_ns ? m->now_ns + latency_ns : UINT64_MAX;
}

static int submit(void *queue, const struct linnos_request *request)
{
	struct memory_queue *q = queue;
	struct linnos_memory *m = q->memory;
	struct pending *p;

	if (m->submit_error || (m->room && q->n == m->room)) {
		m->n_rejected++;
		return m->submit_error ? m->submit_error : -EAGAIN;
	}
	p = malloc(sizeof(*p));
	assert(p);
	*p = (struct pending){.request = *request,
			      .end_ns = end_of(m, request->replica),
			      .error = m->replicas[request->replica].error};
	insert(q, p);
	q->n++;
	m->last_buf = request->buf;
	return 0;
}

static ssize_t serve(const struct linnos_memory *m, const struct pending *p)
{
	const struct linnos_request *request = &p->request;
	size_t left = request->offset < m->bytes ? m->bytes - request->offset : 0;
	size_t bytes = request->bytes < left ? request->bytes : left;

	if (p->error)
		return p->error;
	memcpy(request->buf, m->content + (bytes ? request->offset : 0), bytes);
	return (ssize_t)bytes;
}

/* Complete the requests that are done by now. Return their number. */
static unsigned int end_due(struct memory_queue *q)
{
	unsigned int n = 0;

	while (q->first && q->first->end_ns <= q->memory->now_ns) {
		struct pending *p = q->first;
		uint64_t handle = p->request.handle;
		ssize_t result = serve(q->memory, p);

		q->first = p->next;
		free(p);
		q->n--;
		linnos_request_complete(handle, result);
		n++;
	}
	return n;
}

static int wait(void *queue, int64_t timeout_ns)
{
	struct memory_queue *q = queue;
	struct linnos_memory *m = q->memory;
	uint64_t until_ns = timeout_ns < 0 ? UINT64_MAX : m->now_ns + (uint64_t)timeout_ns;

	if (end_due(q))
		return 0;
	if (q->first && q->first->end_ns < until_ns)
		until_ns = q->first->end_ns;
	/* No request will ever complete. */
	if (until_ns == UINT64_MAX)
		return -EDEADLK;
	m->now_ns = until_ns;
	end_due(q);
	return 0;
}

static void cancel(void *queue, uint64_t handle)
{
	struct memory_queue *q = queue;

	for (struct pending **at = &q->first; *at; at = &(*at)->next)
		if ((*at)->request.handle == handle) {
			struct pending *p = *at;

			*at = p->next;
			p->error = -ECANCELED;
			p->end_ns = q->memory->now_ns;
			insert(q, p);
			return;
		}
	q->memory->n_unknown_cancelled++;
}

struct linnos_memory *linnos_memory_create(size_t bytes, uint64_t latency_ns)
{
	struct linnos_memory *m = calloc(1, sizeof(*m));

	assert(m);
	m->content = malloc(bytes);
	assert(m->content);
	m->bytes = bytes;
	m->now_ns = BEGIN_NS;
	for (unsigned int k = 0; k < MEMORY_REPLICAS_MAX; k++)
		m->replicas[k].latency_ns = latency_ns;
	m->backend = (struct linnos_backend){
		.size = sizeof(m->backend),
		.context = m,
		.now_ns = now_ns,
		.open = open_queue,
		.close = close_queue,
		.submit = submit,
		.cancel = cancel,
		.wait = wait,
	};
	return m;
}

void linnos_memory_free(struct linnos_memory *m)
{
	free(m->content);
	free(m);
}

void linnos_memory_set(struct linnos_memory *m, unsigned int replica, uint64_t latency_ns,
		       int error)
{
	m->replicas[replica].latency_ns = latency_ns;
	m->replicas[replica].error = error;
	for (struct memory_queue *q = m->queues; q; q = q->next) {
		struct pending *first = q->first, *next;

		q->first = NULL;
		for (struct pending *p = first; p; p = next) {
			next = p->next;
			if (p->request.replica == replica && p->end_ns == UINT64_MAX) {
				p->end_ns = end_of(m, replica);
				p->error = error;
			}
			insert(q, p);
		}
	}
}

struct linnos_array *linnos_memory_open_array(struct linnos_memory *m, uint32_t align,
					      const struct linnos_options *options)
{
	struct linnos_replica replicas[MEMORY_REPLICAS_MAX];
	struct linnos_queue *queue;
	struct linnos_array *array;

	for (unsigned int k = 0; k < MEMORY_REPLICAS_MAX; k++)
		replicas[k] = (struct linnos_replica){.size = sizeof(*replicas),
						      .bytes = m->bytes,
						      .align_bytes = align,
						      .memory_align_bytes = align};
	if (linnos_array_open_backend(&array, MEMORY_REPLICAS_MAX, replicas, &m->backend, NULL,
				      options) ||
	    linnos_queue_create(&queue, array, NULL))
		fprintf(stderr, "%s\n", linnos_error());
	assert(array);
	return array;
}
