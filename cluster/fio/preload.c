// SPDX-License-Identifier: MIT
/*
 * fio's engine `rados`, as it is, reads where liblinnos-ceph chooses:
 *
 *	LD_PRELOAD=liblinnos-ceph-fio.so fio --ioengine=rados ...
 *
 * Of librados' functions those that fio 3.33 calls for what it sends are here, and found first. A
 * read goes to linnos_ceph_aio_read(), everything else on to librados. A completion of librados'
 * nobody else can complete, so those that fio sees are made here. When a pool is given back, a line
 * on standard error says where its reads went. With LINNOS_CEPH_AGENT_PORT agents are asked.
 *
 * liblinnos-ceph in here calls librados' own, by next_...() (Makefile).
 */
#include <dlfcn.h>
#include <errno.h>
#include <linnos_ceph.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As whom a program that has more of them than this connects is not known. */
enum { CLIENTS_MAX = 1024 };

struct completion {
	rados_callback_t complete, safe;
	void *of;
	atomic_bool is_complete;
	/* its owner, and who will complete it */
	atomic_int n_users;
};

/* fio connects each job for itself, in one process; jobs look for theirs at once. */
static struct client {
	_Atomic(rados_t) client;
	char *user, *configuration, *name;
	/* its pool, and what reads it; NULL: none does */
	_Atomic(rados_ioctx_t) pool;
	struct linnos_ceph *ceph;
	atomic_ullong n_failed;
} clients[CLIENTS_MAX];
static atomic_uint n_clients;

/* ---- librados' own ---- */

#define OWN(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

int next_rados_create(rados_t *client, const char *user);
int next_rados_conf_read_file(rados_t client, const char *path);
int next_rados_ioctx_create(rados_t client, const char *pool, rados_ioctx_t *io);
void next_rados_ioctx_destroy(rados_ioctx_t io);
void next_rados_aio_release(rados_completion_t completion);

int next_rados_create(rados_t *client, const char *user)
{
	return OWN(rados_create)(client, user);
}

int next_rados_conf_read_file(rados_t client, const char *path)
{
	return OWN(rados_conf_read_file)(client, path);
}

int next_rados_ioctx_create(rados_t client, const char *pool, rados_ioctx_t *io)
{
	return OWN(rados_ioctx_create)(client, pool, io);
}

void next_rados_ioctx_destroy(rados_ioctx_t io)
{
	OWN(rados_ioctx_destroy)(io);
}

void next_rados_aio_release(rados_completion_t completion)
{
	OWN(rados_aio_release)(completion);
}

/* ---- who connects, and to what ---- */

static void meet(rados_t client, const char *user)
{
	unsigned int k = atomic_fetch_add(&n_clients, 1);

	if (k >= CLIENTS_MAX)
		return;
	if (user && !strncmp(user, "client.", strlen("client.")))
		user += strlen("client.");
	clients[k].user = user ? strdup(user) : NULL;
	clients[k].client = client;
}

/* The last one: what was given back may come again. */
static struct client *client_of(rados_t client)
{
	for (unsigned int k = n_clients < CLIENTS_MAX ? n_clients : CLIENTS_MAX; client && k--;)
		if (clients[k].client == client)
			return &clients[k];
	return NULL;
}

static struct client *client_of_pool(rados_ioctx_t pool)
{
	for (unsigned int k = n_clients < CLIENTS_MAX ? n_clients : CLIENTS_MAX; pool && k--;)
		if (clients[k].pool == pool)
			return &clients[k];
	return NULL;
}

int rados_create(rados_t *client, const char *const user)
{
	int status = next_rados_create(client, user);

	if (!status)
		meet(*client, user);
	return status;
}

int rados_create2(rados_t *client, const char *const cluster, const char *const user,
		  uint64_t flags)
{
	int status = OWN(rados_create2)(client, cluster, user, flags);

	if (!status)
		meet(*client, user);
	return status;
}

int rados_conf_read_file(rados_t client, const char *path)
{
	struct client *c = client_of(client);

	if (c && path) {
		free(c->configuration);
		c->configuration = strdup(path);
	}
	return next_rados_conf_read_file(client, path);
}

int rados_ioctx_create(rados_t client, const char *pool, rados_ioctx_t *io)
{
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	const char *port = getenv("LINNOS_CEPH_AGENT_PORT");
	struct client *c = client_of(client);
	int status = next_rados_ioctx_create(client, pool, io);

	/* of one client the first pool is read so */
	if (status || !c || c->pool)
		return status;
	options.configuration = c->configuration;
	options.user = c->user;
	options.agent_port = port ? atoi(port) : 0;
	status = linnos_ceph_open(&c->ceph, pool, &options);
	if (status) {
		fprintf(stderr, "liblinnos-ceph: %s\n", linnos_ceph_error());
		next_rados_ioctx_destroy(*io);
		return status;
	}
	c->name = strdup(pool);
	c->pool = *io;
	return 0;
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
	struct client *c = client_of_pool(io);
	struct linnos_ceph_stats stats;

	if (c) {
		linnos_ceph_get_stats(c->ceph, &stats, sizeof(stats));
		fprintf(stderr,
			"liblinnos-ceph: %llu reads of pool %s, %llu of them from another OSD than "
			"the primary, %llu failed\n",
			(unsigned long long)stats.reads, c->name,
			(unsigned long long)stats.replica_reads, (unsigned long long)c->n_failed);
		c->pool = NULL;
		linnos_ceph_close(c->ceph);
		free(c->name);
	}
	next_rados_ioctx_destroy(io);
}

/* ---- completions ---- */

static void drop(struct completion *c)
{
	if (atomic_fetch_sub(&c->n_users, 1) == 1)
		free(c);
}

static void complete(struct completion *c)
{
	c->is_complete = true;
	if (c->complete)
		c->complete(c, c->of);
	if (c->safe)
		c->safe(c, c->of);
	drop(c);
}

int rados_aio_create_completion(void *of, rados_callback_t done, rados_callback_t safe,
				rados_completion_t *completion)
{
	struct completion *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->complete = done;
	c->safe = safe;
	c->of = of;
	c->n_users = 1;
	*completion = c;
	return 0;
}

int rados_aio_is_complete(rados_completion_t completion)
{
	return ((struct completion *)completion)->is_complete;
}

void rados_aio_release(rados_completion_t completion)
{
	drop(completion);
}

static void complete_by_librados(rados_completion_t own, void *of)
{
	(void)own;
	complete(of);
}

/* One of librados' that completes it. */
static int begin(struct completion *c, rados_completion_t *own)
{
	int status = rados_aio_create_completion2(c, complete_by_librados, own);

	if (!status)
		atomic_fetch_add(&c->n_users, 1);
	return status;
}

static int begun(struct completion *c, rados_completion_t own, int status)
{
	next_rados_aio_release(own);
	if (status < 0)
		drop(c);
	return status;
}

/* ---- what is sent ---- */

struct read {
	struct client *client;
	struct completion *completion;
};

static void end_read(void *of, ssize_t bytes, int osd)
{
	struct read *read = of;

	(void)osd;
	/* fio does not ask */
	if (bytes < 0)
		atomic_fetch_add(&read->client->n_failed, 1);
	complete(read->completion);
	free(read);
}

int rados_aio_read(rados_ioctx_t io, const char *object, rados_completion_t completion,
		   char *buffer, size_t bytes, uint64_t offset)
{
	struct client *client = client_of_pool(io);
	struct completion *c = completion;
	rados_completion_t own;
	struct read *read;
	int status;

	if (!client) {
		status = begin(c, &own);
		return status ? status
			      : begun(c, own,
				      OWN(rados_aio_read)(io, object, own, buffer, bytes, offset));
	}
	read = malloc(sizeof(*read));
	if (!read)
		return -ENOMEM;
	*read = (struct read){client, c};
	atomic_fetch_add(&c->n_users, 1);
	status = linnos_ceph_aio_read(client->ceph, object, buffer, bytes, offset, end_read, read);
	if (status) {
		free(read);
		drop(c);
	}
	return status;
}

static void note_write(rados_ioctx_t io, const char *object)
{
	struct client *client = client_of_pool(io);

	if (client)
		linnos_ceph_wrote(client->ceph, object);
}

int rados_write(rados_ioctx_t io, const char *object, const char *buffer, size_t bytes,
		uint64_t offset)
{
	note_write(io, object);
	return OWN(rados_write)(io, object, buffer, bytes, offset);
}

int rados_aio_write(rados_ioctx_t io, const char *object, rados_completion_t completion,
		    const char *buffer, size_t bytes, uint64_t offset)
{
	rados_completion_t own;
	int status = begin(completion, &own);

	if (status)
		return status;
	note_write(io, object);
	return begun(completion, own, OWN(rados_aio_write)(io, object, own, buffer, bytes, offset));
}

int rados_aio_write_op_operate(rados_write_op_t op, rados_ioctx_t io, rados_completion_t completion,
			       const char *object, time_t *when, int flags)
{
	rados_completion_t own;
	int status = begin(completion, &own);

	if (status)
		return status;
	note_write(io, object);
	return begun(completion, own,
		     OWN(rados_aio_write_op_operate)(op, io, own, object, when, flags));
}
