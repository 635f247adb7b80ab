// SPDX-License-Identifier: MIT
/* A mock of librados for tests: see rados.h. */
#include "rados.h"

#include "../answers.h"
#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <rados/librados.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct client {
	char host[32];
	bool is_impatient, has_socket;
};

struct io {
	struct client *client;
	char namespace[32];
};

struct completion {
	rados_callback_t done;
	void *data;
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
static unsigned int n_sent, n_patient, n_moved, n_tried, fail_each;

static uint64_t now_ns = 1000000000;

uint64_t clock_ns(void)
{
	return __atomic_load_n(&now_ns, __ATOMIC_SEQ_CST);
}

void pass_us(uint64_t us)
{
	__atomic_fetch_add(&now_ns, us * 1000, __ATOMIC_SEQ_CST);
}

void sends_fail_each(unsigned int n)
{
	fail_each = n;
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
	/* the callback may release the op */
	completion->done(completion, completion->data);
	free(completion);
}

/* ---- handles ---- */

int rados_create(rados_t *client, const char *const id)
{
	*client = calloc(1, sizeof(struct client));
	return 0;
}

int rados_conf_read_file(rados_t client, const char *path)
{
	return path && !strcmp(path, "/no/ceph.conf") ? -ENOENT : 0;
}

int rados_conf_set(rados_t client, const char *option, const char *value)
{
	if (!strcmp(option, "crush_location"))
		sscanf(value, "host=%31s", ((struct client *)client)->host);
	if (!strcmp(option, "client_mount_timeout"))
		((struct client *)client)->is_impatient = true;
	if (!strcmp(option, "admin_socket"))
		((struct client *)client)->has_socket = true;
	return 0;
}

unsigned int patient_handles(void)
{
	return __atomic_load_n(&n_patient, __ATOMIC_SEQ_CST);
}

unsigned int moved_sockets(void)
{
	return n_moved;
}

int rados_connect(rados_t cluster)
{
	struct client *client = cluster;

	if (*client->host && !client->is_impatient)
		__atomic_fetch_add(&n_patient, 1, __ATOMIC_SEQ_CST);
	n_moved += !*client->host && client->has_socket;
	return 0;
}

void rados_shutdown(rados_t client)
{
	free(client);
}

int rados_ioctx_create(rados_t client, const char *pool, rados_ioctx_t *io)
{
	struct io *created;

	if (strcmp(pool, "data"))
		return -ENOENT;
	created = calloc(1, sizeof(*created));
	created->client = client;
	*io = created;
	return 0;
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
	free(io);
}

void rados_ioctx_set_namespace(rados_ioctx_t io, const char *namespace)
{
	snprintf(((struct io *)io)->namespace, sizeof(((struct io *)io)->namespace), "%s",
		 namespace);
}

/* ---- monitors ---- */

static void answer_osd_map(const char *line, char *text, size_t room)
{
	uint32_t hash, group, *o = monitors.osds;
	char name[64], osds[64];

	assert(sscanf(strstr(line, "\"object\":"), "\"object\":\"%63[^\"]", name) == 1);
	hash = object_hash(name) + monitors.are_elsewhere;
	group = group_of(hash, monitors.n_groups);
	snprintf(osds, sizeof(osds), "([%u,%u,%u], p%u)", o[0], o[1], o[2], o[0]);
	snprintf(text, room,
		 "osdmap e%u pool 'data' (1) object '%s' -> pg 1.%x (1.%x) -> up %s acting %s\n",
		 monitors.epoch, name, hash, group, osds, osds);
}

static void answer_osd_ls_tree(uint32_t host, char *text, size_t room)
{
	size_t n = 0;

	for (unsigned int osd = 0; osd < OSDS; osd++)
		if (monitors.host[osd] == host)
			n += snprintf(text + n, room - n, "%u\n", osd);
}

/* Return a negative errno. */
static int answer(const char *line, char *text, size_t room)
{
	unsigned int number;

	if (monitors.are_silent)
		return -ETIMEDOUT;
	if (strstr(line, "\"osd map\"")) {
		monitors.n_queries++;
		answer_osd_map(line, text, room);
	} else if (strstr(line, "\"osd find\"")) {
		assert(sscanf(strstr(line, "\"id\":"), "\"id\":%u", &number) == 1);
		if (monitors.find_nothing)
			return -ETIMEDOUT;
		if (monitors.is_nowhere[number])
			snprintf(text, room, "{\"osd\":%u,\"crush_location\":{}}", number);
		else
			snprintf(text, room,
				 "{\"osd\":%u,\"addr\":\"127.0.0.1:6800\","
				 "\"crush_location\":{\"host\":\"node%u\"}}",
				 number, monitors.host[number]);
	} else if (strstr(line, "\"osd ls-tree\"")) {
		assert(sscanf(strstr(line, "\"name\":"), "\"name\":\"node%u", &number) == 1);
		answer_osd_ls_tree(number, text, room);
	} else if (strstr(line, "\"osd getmaxosd\"")) {
		snprintf(text, room, "max_osd = 3 in epoch %u\n", monitors.epoch);
	} else if (strstr(line, "\"osd stat\"")) {
		snprintf(text, room, "3 osds: 3 up (since 4s), 3 in; epoch: e%u\n", monitors.epoch);
	} else if (strstr(line, "\"pg_num\"")) {
		snprintf(text, room, "pg_num: %u\n", monitors.n_groups);
	} else if (strstr(line, "\"erasure_code_profile\"")) {
		if (!monitors.is_erasure_coded)
			return -EACCES;
		snprintf(text, room, "erasure_code_profile: default\n");
	} else {
		assert(!"no such command");
	}
	return 0;
}

void change_monitors(void (*change)(struct monitors *))
{
	pthread_mutex_lock(&lock);
	change(&monitors);
	pthread_mutex_unlock(&lock);
}

/* An error text is in a buffer as well, and an empty answer has no buffer. */
int rados_mon_command(rados_t client, const char **lines, size_t n, const char *in, size_t in_bytes,
		      char **out, size_t *out_bytes, char **error_text, size_t *error_bytes)
{
	unsigned int takes_us;
	char text[512] = "";
	int status;

	assert(n == 1);
	pthread_mutex_lock(&lock);
	monitors.n_commands++;
	takes_us = monitors.takes_us;
	status = answer(*lines, text, sizeof(text));
	pthread_mutex_unlock(&lock);
	usleep(takes_us);
	*out = status || !*text ? NULL : strdup(text);
	*out_bytes = *out ? strlen(text) : 0;
	*error_text = status ? strdup("monitors are not well") : NULL;
	*error_bytes = *error_text ? strlen(*error_text) : 0;
	return status;
}

void rados_buffer_free(char *buffer)
{
	free(buffer);
}

/* ---- reads ---- */

int rados_aio_create_completion2(void *data, rados_callback_t done, rados_completion_t *completion)
{
	struct completion *c = calloc(1, sizeof(*c));

	c->done = done;
	c->data = data;
	*completion = c;
	return 0;
}

int rados_aio_get_return_value(rados_completion_t completion)
{
	return ((struct completion *)completion)->value;
}

/* The completion exists until its callback is called. */
void rados_aio_release(rados_completion_t completion)
{
}

rados_read_op_t rados_create_read_op(void)
{
	return calloc(1, sizeof(struct op));
}

void rados_release_read_op(rados_read_op_t op)
{
	free(op);
}

void rados_read_op_read(rados_read_op_t read_op, uint64_t offset, size_t room, char *buffer,
			size_t *bytes, int *status)
{
	struct op *op = read_op;

	op->request.offset = offset;
	op->buffer = buffer;
	op->room = room;
	op->bytes = bytes;
	op->status = status;
}

int rados_aio_read_op_operate(rados_read_op_t read_op, rados_ioctx_t io,
			      rados_completion_t completion, const char *object, int flags)
{
	struct op *op = read_op;

	if (fail_each && __atomic_add_fetch(&n_tried, 1, __ATOMIC_SEQ_CST) % fail_each == 0) {
		free(completion);
		return -ENOMEM;
	}
	strcpy(op->request.host, ((struct io *)io)->client->host);
	strcpy(op->request.namespace, ((struct io *)io)->namespace);
	snprintf(op->request.object, sizeof(op->request.object), "%s", object);
	op->request.flags = flags;
	op->completion = completion;
	pthread_mutex_lock(&lock);
	assert(n_sent < 64);
	sent[n_sent++] = op;
	pthread_mutex_unlock(&lock);
	return 0;
}
