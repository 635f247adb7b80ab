// SPDX-License-Identifier: MIT
/*
 * fio's engine `rados`, as it is, reads where liblinnos-ceph chooses:
 *
 *	LD_PRELOAD=liblinnos-ceph-fio.so fio --ioengine=rados ...
 *
 * Of librados' functions those that fio 3.33 calls for what it sends are here, and found first. A
 * read goes to linnos_ceph_aio_read(), everything else on to librados. Completions are librados',
 * and any of its functions takes them; but no other can complete one, so what is asked of that of a
 * read is answered here. When a pool is given back, a line on standard error says where its reads
 * went. With LINNOS_CEPH_AGENT_PORT agents are asked.
 *
 * liblinnos-ceph in here calls librados' own, by next_...() (Makefile).
 */
#include <dlfcn.h>
#include <errno.h>
#include <linnos_ceph.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As whom a program that has more of them than this connects is not known. */
enum { CLIENTS_MAX = 1024, SHELVES = 1024 };

/* How far a read has come that librados knows nothing of. */
enum reached { NOT_SENT, SENT, COMPLETE, TOLD };

/* What librados does not tell of a completion. What changes does so with its shelf's lock held. */
struct completion {
	struct completion *next;
	rados_completion_t own;
	rados_callback_t complete, safe;
	void *of;
	struct client *client; /* whose read it is */
	enum reached state;
	int result;
	/* its owner, and who will complete it */
	int n_users;
};

/* By their addresses: few are on one shelf. */
static struct shelf {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct completion *first;
} shelves[SHELVES] = {
	[0 ... SHELVES - 1] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL},
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

/* Looked for once. */
#define OWN(name)                                                                                  \
	({                                                                                         \
		static _Atomic(void *) found;                                                      \
                                                                                                   \
		if (!found)                                                                        \
			found = dlsym(RTLD_NEXT, #name);                                           \
		(__typeof__(&(name)))found;                                                        \
	})

int next_rados_create(rados_t *client, const char *user);
int next_rados_conf_read_file(rados_t client, const char *path);
int next_rados_ioctx_create(rados_t client, const char *pool, rados_ioctx_t *io);
void next_rados_ioctx_destroy(rados_ioctx_t io);

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

static struct shelf *shelf_of(rados_completion_t own)
{
	return &shelves[(uintptr_t)own / 64 % SHELVES];
}

/* Where it is, or NULL for one that was not made here; its shelf's lock is held. */
static struct completion *find(rados_completion_t own)
{
	struct completion *c = shelf_of(own)->first;

	while (c && c->own != own)
		c = c->next;
	return c;
}

/* One user less; the last one's gives it back. */
static void drop(struct completion *c)
{
	struct shelf *shelf = shelf_of(c->own);
	struct completion **at = &shelf->first;
	int n_left;

	pthread_mutex_lock(&shelf->lock);
	n_left = --c->n_users;
	if (!n_left) {
		while (*at != c)
			at = &(*at)->next;
		*at = c->next;
	}
	pthread_mutex_unlock(&shelf->lock);
	if (n_left)
		return;
	OWN(rados_aio_release)(c->own);
	free(c);
}

static void advance(struct completion *c, enum reached state, int result)
{
	struct shelf *shelf = shelf_of(c->own);

	pthread_mutex_lock(&shelf->lock);
	c->state = state;
	c->result = result;
	pthread_cond_broadcast(&shelf->changed);
	pthread_mutex_unlock(&shelf->lock);
}

static void complete(struct completion *c, int result)
{
	advance(c, COMPLETE, result);
	if (c->complete)
		c->complete(c->own, c->of);
	if (c->safe)
		c->safe(c->own, c->of);
	advance(c, TOLD, result);
	drop(c);
}

/*
 * Of a read that librados knows nothing of: what it has come to, once it is as far as it is waited
 * for. False: of any other completion, which librados is to be asked for.
 */
static bool ask(rados_completion_t own, enum reached wait_for, enum reached *state, int *result)
{
	struct shelf *shelf = shelf_of(own);
	struct completion *c;
	bool is_known;

	pthread_mutex_lock(&shelf->lock);
	c = find(own);
	is_known = c && c->state != NOT_SENT;
	if (is_known) {
		while (c->state < wait_for)
			pthread_cond_wait(&shelf->changed, &shelf->lock);
		*state = c->state;
		*result = c->result;
	}
	pthread_mutex_unlock(&shelf->lock);
	return is_known;
}

int rados_aio_create_completion(void *of, rados_callback_t done, rados_callback_t safe,
				rados_completion_t *completion)
{
	struct completion *c = calloc(1, sizeof(*c));
	struct shelf *shelf;
	int status;

	if (!c)
		return -ENOMEM;
	status = OWN(rados_aio_create_completion)(of, done, safe, &c->own);
	if (status) {
		free(c);
		return status;
	}
	c->complete = done;
	c->safe = safe;
	c->of = of;
	c->n_users = 1;
	*completion = c->own;
	shelf = shelf_of(c->own);
	pthread_mutex_lock(&shelf->lock);
	c->next = shelf->first;
	shelf->first = c;
	pthread_mutex_unlock(&shelf->lock);
	return 0;
}

void rados_aio_release(rados_completion_t completion)
{
	struct shelf *shelf = shelf_of(completion);
	struct completion *c;

	pthread_mutex_lock(&shelf->lock);
	c = find(completion);
	pthread_mutex_unlock(&shelf->lock);
	if (c)
		drop(c);
	else
		OWN(rados_aio_release)(completion);
}

/* What a completion is asked: ours answer when they have come so far. */
#define ASKED(function, from, answer)                                                              \
	int function(rados_completion_t completion)                                                \
	{                                                                                          \
		enum reached state;                                                                \
		int result;                                                                        \
                                                                                                   \
		return ask(completion, from, &state, &result) ? (answer)                           \
							      : OWN(function)(completion);         \
	}

/* librados tells "safe" from "complete" no more, but has the names. */
ASKED(rados_aio_is_complete, SENT, state >= COMPLETE)
ASKED(rados_aio_is_safe, SENT, state >= COMPLETE)
ASKED(rados_aio_is_complete_and_cb, SENT, state >= TOLD)
ASKED(rados_aio_is_safe_and_cb, SENT, state >= TOLD)
ASKED(rados_aio_wait_for_complete, COMPLETE, 0)
ASKED(rados_aio_wait_for_complete_and_cb, TOLD, 0)
ASKED(rados_aio_get_return_value, SENT, result)

int rados_aio_wait_for_safe(rados_completion_t completion)
{
	return rados_aio_wait_for_complete(completion);
}

int rados_aio_wait_for_safe_and_cb(rados_completion_t completion)
{
	return rados_aio_wait_for_complete_and_cb(completion);
}

/* ---- what is sent ---- */

static void end_read(void *of, ssize_t bytes, int osd)
{
	struct completion *c = of;

	(void)osd;
	/* fio does not ask */
	if (bytes < 0)
		atomic_fetch_add(&c->client->n_failed, 1);
	complete(c, bytes);
}

int rados_aio_read(rados_ioctx_t io, const char *object, rados_completion_t completion,
		   char *buffer, size_t bytes, uint64_t offset)
{
	struct client *client = client_of_pool(io);
	struct shelf *shelf = shelf_of(completion);
	struct completion *c = NULL;
	int status;

	if (client) {
		pthread_mutex_lock(&shelf->lock);
		c = find(completion);
		if (c) {
			c->client = client;
			c->state = SENT;
			c->n_users++;
		}
		pthread_mutex_unlock(&shelf->lock);
	}
	if (!c)
		return OWN(rados_aio_read)(io, object, completion, buffer, bytes, offset);
	status = linnos_ceph_aio_read(client->ceph, object, buffer, bytes, offset, end_read, c);
	if (status) {
		advance(c, NOT_SENT, 0);
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
	note_write(io, object);
	return OWN(rados_aio_write)(io, object, completion, buffer, bytes, offset);
}

int rados_aio_write_op_operate(rados_write_op_t op, rados_ioctx_t io, rados_completion_t completion,
			       const char *object, time_t *when, int flags)
{
	note_write(io, object);
	return OWN(rados_aio_write_op_operate)(op, io, completion, object, when, flags);
}
