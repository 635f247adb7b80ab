// SPDX-License-Identifier: MIT
/* A librados for tests: see rados.h. */
#include "rados.h"

#include "../answers.h"
#include "../clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <rados/librados.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct client {
	char host[32];
};

struct completion {
	rados_callback_t done;
	void *of;
	int value;
};

struct op {
	struct request request;
	void *buffer;
	size_t room, *bytes;
	int *status;
	struct completion *completion;
};

struct monitors monitors;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct op *sent[64];
static unsigned int n_sent;

static uint64_t now_ns = 1000000000;

uint64_t clock_ns(void)
{
	return __atomic_load_n(&now_ns, __ATOMIC_SEQ_CST);
}

void pass_us(uint64_t us)
{
	__atomic_fetch_add(&now_ns, us * 1000, __ATOMIC_SEQ_CST);
}

unsigned int requests(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = n_sent;
	pthread_mutex_unlock(&lock);
	return n;
}

struct request request(unsigned int k)
{
	struct request found;

	pthread_mutex_lock(&lock);
	assert(k < n_sent);
	found = sent[k]->request;
	pthread_mutex_unlock(&lock);
	return found;
}

void end_request(unsigned int k, long bytes, char letter)
{
	struct completion *completion;
	struct op *op;

	pthread_mutex_lock(&lock);
	assert(k < n_sent);
	op = sent[k];
	n_sent--;
	memmove(sent + k, sent + k + 1, (n_sent - k) * sizeof(*sent));
	pthread_mutex_unlock(&lock);
	if (bytes > 0) {
		assert((size_t)bytes <= op->room);
		memset(op->buffer, letter, bytes);
	}
	*op->bytes = bytes > 0 ? bytes : 0;
	*op->status = bytes < 0 ? bytes : 0;
	completion = op->completion;
	completion->value = bytes < 0 ? bytes : 0;
	/* who is called may give the op back */
	completion->done(completion, completion->of);
	free(completion);
}

/* ---- handles ---- */

int rados_create(rados_t *client, const char *const id)
{
	(void)id;
	*client = calloc(1, sizeof(struct client));
	return 0;
}

int rados_conf_read_file(rados_t client, const char *path)
{
	(void)client;
	return path && !strcmp(path, "/no/ceph.conf") ? -ENOENT : 0;
}

int rados_conf_set(rados_t client, const char *option, const char *value)
{
	if (!strcmp(option, "crush_location"))
		sscanf(value, "host=%31s", ((struct client *)client)->host);
	return 0;
}

int rados_connect(rados_t client)
{
	(void)client;
	return 0;
}

void rados_shutdown(rados_t client)
{
	free(client);
}

int rados_ioctx_create(rados_t client, const char *pool, rados_ioctx_t *io)
{
	*io = client;
	return strcmp(pool, "data") ? -ENOENT : 0;
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
	(void)io;
}

/* ---- monitors ---- */

static int say_where(const char *line, char *text, size_t room)
{
	uint32_t p, hash, group;
	char name[64];

	assert(sscanf(strstr(line, "\"object\":"), "\"object\":\"%63[^\"]", name) == 1);
	pthread_mutex_lock(&lock);
	p = monitors.primary;
	hash = object_hash(name) + monitors.are_elsewhere;
	group = group_of(hash, monitors.n_groups);
	pthread_mutex_unlock(&lock);
	snprintf(text, room,
		 "osdmap e%u pool 'data' (1) object '%s' -> pg 1.%x (1.%x) -> up ([%u,%u,%u], p%u) "
		 "acting ([%u,%u,%u], p%u)\n",
		 monitors.epoch, name, hash, group, p, (p + 1) % 3, (p + 2) % 3, p, p, (p + 1) % 3,
		 (p + 2) % 3, p);
	return 0;
}

int rados_mon_command(rados_t client, const char **lines, size_t n, const char *in, size_t in_bytes,
		      char **out, size_t *out_bytes, char **said, size_t *said_bytes)
{
	char text[512] = "";
	int osd;

	(void)client;
	(void)in;
	(void)in_bytes;
	assert(n == 1);
	if (__atomic_load_n(&monitors.are_silent, __ATOMIC_SEQ_CST))
		return -ETIMEDOUT;
	if (strstr(*lines, "\"osd map\"")) {
		__atomic_fetch_add(&monitors.n_asked, 1, __ATOMIC_SEQ_CST);
		say_where(*lines, text, sizeof(text));
	} else if (strstr(*lines, "\"osd find\"")) {
		assert(sscanf(strstr(*lines, "\"id\":"), "\"id\":%d", &osd) == 1);
		snprintf(text, sizeof(text),
			 "{\"osd\":%d,\"addr\":\"127.0.0.1:6800\",\"crush_location\":{\"host\":"
			 "\"node%d\"}}",
			 osd, osd);
	} else if (strstr(*lines, "\"osd ls-tree\"")) {
		/* it is its host's second one, if that is the last */
		assert(sscanf(strstr(*lines, "\"name\":"), "\"name\":\"node%d", &osd) == 1);
		snprintf(text, sizeof(text), osd == 2 ? "1\n%d\n" : "%d\n7\n", osd);
	} else if (strstr(*lines, "\"osd getmaxosd\"")) {
		snprintf(text, sizeof(text), "max_osd = 3 in epoch %u\n", monitors.epoch);
	} else if (strstr(*lines, "\"osd stat\"")) {
		snprintf(text, sizeof(text), "3 osds: 3 up (since 4s), 3 in; epoch: e%u\n",
			 __atomic_load_n(&monitors.epoch, __ATOMIC_SEQ_CST));
	} else if (strstr(*lines, "\"osd pool get\"")) {
		snprintf(text, sizeof(text), "pg_num: %u\n", monitors.n_groups);
	} else {
		assert(!"no such command");
	}
	*out = strdup(text);
	*out_bytes = strlen(text);
	*said = NULL;
	*said_bytes = 0;
	return 0;
}

void rados_buffer_free(char *buffer)
{
	free(buffer);
}

/* ---- reads ---- */

int rados_aio_create_completion2(void *of, rados_callback_t done, rados_completion_t *completion)
{
	struct completion *c = calloc(1, sizeof(*c));

	c->done = done;
	c->of = of;
	*completion = c;
	return 0;
}

int rados_aio_get_return_value(rados_completion_t completion)
{
	return ((struct completion *)completion)->value;
}

/* It lives until it is called. */
void rados_aio_release(rados_completion_t completion)
{
	(void)completion;
}

rados_read_op_t rados_create_read_op(void)
{
	return calloc(1, sizeof(struct op));
}

void rados_release_read_op(rados_read_op_t op)
{
	free(op);
}

void rados_read_op_read(rados_read_op_t of, uint64_t offset, size_t room, char *buffer,
			size_t *bytes, int *status)
{
	struct op *op = of;

	op->request.offset = offset;
	op->buffer = buffer;
	op->room = room;
	op->bytes = bytes;
	op->status = status;
}

int rados_aio_read_op_operate(rados_read_op_t of, rados_ioctx_t io, rados_completion_t completion,
			      const char *object, int flags)
{
	struct op *op = of;

	strcpy(op->request.host, ((struct client *)io)->host);
	snprintf(op->request.object, sizeof(op->request.object), "%s", object);
	op->request.flags = flags;
	op->completion = completion;
	pthread_mutex_lock(&lock);
	assert(n_sent < 64);
	sent[n_sent++] = op;
	pthread_mutex_unlock(&lock);
	return 0;
}
