// SPDX-License-Identifier: MIT
/*
 * A backend whose replicas are in memory, with a clock of its own. A request completes when its
 * replica's latency has passed since it was submitted; the clock advances when a caller waits.
 */
#include "memory_backend.h"
#include "messages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_NS 1000000ull

struct memory_replica {
	char *bytes;
	uint64_t latency_ns; /* UINT64_MAX if it hangs */
	int error;
};

struct pending {
	struct pending *next; /* ordered by completion time */
	struct linnos_request request;
	uint64_t start_ns, end_ns;
	int error;
};

/* The queue of one thread. */
struct part {
	struct part *next;
	struct linnos_memory *memory;
	struct pending *first;
};

struct linnos_memory {
	unsigned int n;
	size_t bytes;
	uint64_t now_ns;
	struct memory_replica *replicas;
	struct part *parts;
	struct linnos_backend backend;
};

static uint64_t now_ns(void *context)
{
	return ((struct linnos_memory *)context)->now_ns;
}

static int open_part(void *context, void **queue)
{
	struct linnos_memory *m = context;
	struct part *part = calloc(1, sizeof(*part));

	if (!part)
		return -ENOMEM;
	part->memory = m;
	part->next = m->parts;
	m->parts = part;
	*queue = part;
	return 0;
}

static void close_part(void *queue)
{
	struct part *part = queue, **at = &part->memory->parts;

	while (*at != part)
		at = &(*at)->next;
	*at = part->next;
	free(part);
}

static void insert(struct part *part, struct pending *p)
{
	struct pending **at = &part->first;

	while (*at && (*at)->end_ns <= p->end_ns)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
}

static uint64_t end_of(const struct memory_replica *r, uint64_t start_ns)
{
	return r->latency_ns < UINT64_MAX - start_ns ? start_ns + r->latency_ns : UINT64_MAX;
}

static int submit(void *queue, const struct linnos_request *request)
{
	struct part *part = queue;
	const struct memory_replica *r = &part->memory->replicas[request->replica];
	struct pending *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct pending){.request = *request,
			      .start_ns = part->memory->now_ns,
			      .end_ns = end_of(r, part->memory->now_ns),
			      .error = r->error};
	insert(part, p);
	return 0;
}

static ssize_t serve(const struct linnos_memory *m, const struct pending *p)
{
	const struct linnos_request *request = &p->request;
	size_t left = request->offset < m->bytes ? m->bytes - request->offset : 0;
	size_t bytes = request->bytes < left ? request->bytes : left;

	if (p->error)
		return p->error;
	memcpy(request->buf, m->replicas[request->replica].bytes + (bytes ? request->offset : 0),
	       bytes);
	return (ssize_t)bytes;
}

/* Complete the requests that are done by now. Return their number. */
static unsigned int end_due(struct part *part)
{
	unsigned int n = 0;

	while (part->first && part->first->end_ns <= part->memory->now_ns) {
		struct pending *p = part->first;
		uint64_t handle = p->request.handle;
		ssize_t result = serve(part->memory, p);

		part->first = p->next;
		free(p);
		linnos_request_complete(handle, result);
		n++;
	}
	return n;
}

static int wait(void *queue, int64_t timeout_ns)
{
	struct part *part = queue;
	struct linnos_memory *m = part->memory;
	uint64_t until_ns = timeout_ns < 0 ? UINT64_MAX : m->now_ns + (uint64_t)timeout_ns;

	if (end_due(part))
		return 0;
	if (part->first && part->first->end_ns < until_ns)
		until_ns = part->first->end_ns;
	/* No request will ever complete. */
	if (until_ns == UINT64_MAX)
		return -EDEADLK;
	m->now_ns = until_ns;
	end_due(part);
	return 0;
}

static void cancel(void *queue, uint64_t handle)
{
	struct part *part = queue;

	for (struct pending **at = &part->first; *at; at = &(*at)->next)
		if ((*at)->request.handle == handle) {
			struct pending *p = *at;

			*at = p->next;
			p->error = -ECANCELED;
			p->end_ns = part->memory->now_ns;
			insert(part, p);
			return;
		}
}

int linnos_memory_create(struct linnos_memory **memory, unsigned int n, size_t bytes)
{
	struct linnos_memory *m = calloc(1, sizeof(*m));
	bool is_there = m;

	*memory = NULL;
	if (m)
		m->replicas = calloc(n, sizeof(*m->replicas));
	is_there = m && m->replicas;
	if (is_there) {
		m->n = n;
		m->bytes = bytes;
		m->now_ns = BEGIN_NS;
		m->backend = (struct linnos_backend){
			.size = sizeof(m->backend),
			.context = m,
			.now_ns = now_ns,
			.open = open_part,
			.close = close_part,
			.submit = submit,
			.cancel = cancel,
			.wait = wait,
		};
	}
	for (unsigned int k = 0; is_there && k < n; k++) {
		m->replicas[k].bytes = calloc(1, bytes);
		is_there = m->replicas[k].bytes;
	}
	if (is_there) {
		*memory = m;
		return 0;
	}
	linnos_memory_free(m);
	return error_say(-ENOMEM, "%u replicas of %zu bytes in memory: out of memory", n, bytes);
}

void linnos_memory_free(struct linnos_memory *m)
{
	if (!m)
		return;
	for (unsigned int k = 0; k < m->n; k++)
		free(m->replicas[k].bytes);
	free(m->replicas);
	free(m);
}

const struct linnos_backend *linnos_memory_backend(struct linnos_memory *m)
{
	return m ? &m->backend : NULL;
}

void *linnos_memory_data(struct linnos_memory *m, unsigned int replica)
{
	return m->replicas[replica].bytes;
}

void linnos_memory_set(struct linnos_memory *m, unsigned int replica, uint64_t latency_ns,
		       int error)
{
	struct memory_replica *r = &m->replicas[replica];

	r->latency_ns = latency_ns;
	r->error = error;
	/* Requests that hung there complete now. */
	for (struct part *part = m->parts; part; part = part->next) {
		struct pending *first = part->first, *next;

		part->first = NULL;
		for (struct pending *p = first; p; p = next) {
			next = p->next;
			if (p->request.replica == replica && p->end_ns == UINT64_MAX) {
				p->end_ns = end_of(r, m->now_ns);
				p->error = error;
			}
			insert(part, p);
		}
	}
}

uint64_t linnos_memory_now_ns(const struct linnos_memory *m)
{
	return m->now_ns;
}

void linnos_memory_advance_clock(struct linnos_memory *m, uint64_t ns)
{
	m->now_ns += ns;
}
