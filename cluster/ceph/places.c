// SPDX-License-Identifier: MIT
/* Where objects lie: see places.h. */
#include "places.h"

#include "clock.h"
#include "counters.h"
#include "messages.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A handle is a client of its own, with threads and a connection to each OSD that it reads from. */
enum { HANDLES_MAX = 64 };

/*
 * Objects that were written last, of a group. A replica hears that a write is complete with the
 * second one after it (Ceph 16.2), so it sends on reads of the last two, for as long as they are
 * that; and of more where several are under way at once.
 */
enum { FRESH = 4 };

/* Who cannot be asked is not asked for each read. */
#define ASK_AGAIN_NS UINT64_C(1000000000)

/* With every map all that is known is old, and most of it true: 100 groups a second are looked at.
 */
#define REFRESH_EVERY_NS UINT64_C(10000000)

/* Monitors that do not answer hold nobody for longer, who closes among them. */
static const char mon_timeout_s[] = "10";

struct group {
	/* of the map that it was asked in; 0: never */
	uint32_t epoch;
	bool is_asked, is_misplaced;
	/* nobody has said: not before then again */
	uint64_t ask_after_ns;
	unsigned int n_osds;
	uint32_t osds[REPLICAS_MAX];
	struct {
		uint32_t hash;
		uint64_t at_ns;
	} written[FRESH];
	unsigned int n_written;
};

struct handle {
	char host[NAME_MAX_BYTES];
	rados_t client;
	rados_ioctx_t pool;
};

/* An object whose group is to be asked for. */
struct wanted {
	struct wanted *next;
	char object[];
};

struct places {
	struct login login;
	uint64_t fresh_ns;
	meet_osd tell;
	void *of;
	uint32_t n_osds;
	pthread_t thread;
	/* of the map when the thread last looked for another one */
	uint64_t seen_epoch;
	/* where the handles' admin sockets are; "": nowhere */
	char folder[64];

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_ending, is_used;
	uint32_t epoch, n_groups;
	struct group *groups;
	/* by OSD, the number of its handle, counted from 1; 0: none */
	uint32_t *handle_of;
	/* the first one has no place; those up to n are never changed */
	struct handle handles[HANDLES_MAX];
	unsigned int n_handles;
	struct wanted *wanted, **last_wanted;
	uint64_t n_asked, refresh_after_ns;
};

/* ---- monitors ---- */

/* What they answer to a command of JSON without its braces, to be freed; NULL: it failed. */
static char *ask(struct places *p, const char *command)
{
	char line[4 * NAME_MAX_BYTES + 256], *answer, *text = NULL, *said;
	size_t bytes, said_bytes;
	const char *lines = line;

	snprintf(line, sizeof(line), "{%s}", command);
	if (rados_mon_command(p->handles[0].client, &lines, 1, "", 0, &answer, &bytes, &said,
			      &said_bytes) >= 0) {
		/* a string, which it is not */
		text = strndup(answer, bytes);
		rados_buffer_free(answer);
		rados_buffer_free(said);
	}
	return text;
}

static bool ask_number(struct places *p, const char *command, const char *words, uint64_t *number)
{
	char *answer = ask(p, command);
	bool is_there = answer && read_number(answer, words, number);

	free(answer);
	return is_there;
}

static bool ask_groups(struct places *p, uint64_t *n_groups)
{
	char command[2 * NAME_MAX_BYTES], pool[NAME_MAX_BYTES];

	if (!quoted(p->login.pool, pool, sizeof(pool)))
		return false;
	snprintf(command, sizeof(command),
		 "\"prefix\":\"osd pool get\",\"pool\":\"%s\",\"var\":\"pg_num\"", pool);
	return ask_number(p, command, "pg_num: ", n_groups);
}

/* ---- handles ---- */

/* One that claims to be on a host; "": nowhere. The caller's thread is the only one that adds. */
static int add_handle(struct places *p, const char *host)
{
	struct handle *h = &p->handles[p->n_handles];
	char place[NAME_MAX_BYTES + 8];
	int status;

	if (p->n_handles == HANDLES_MAX)
		return -EMFILE;
	status = rados_create(&h->client, p->login.user);
	if (status < 0)
		return error_say(status, "a handle of librados: %s", strerror(-status));
	status = rados_conf_read_file(h->client, p->login.configuration);
	if (status < 0) {
		error_say(status, "%s: %s; it is Ceph's configuration that is wanted",
			  p->login.configuration ? p->login.configuration : "ceph.conf",
			  strerror(-status));
		goto shut;
	}
	snprintf(place, sizeof(place), "host=%s", host);
	if (*host)
		rados_conf_set(h->client, "crush_location", place);
	rados_conf_set(h->client, "rados_mon_op_timeout", mon_timeout_s);
	if (p->folder[0]) {
		char path[sizeof(p->folder) + 16];

		counters_path(p->folder, p->n_handles, path, sizeof(path));
		rados_conf_set(h->client, "admin_socket", path);
	}
	status = rados_connect(h->client);
	if (status < 0) {
		error_say(status, "the monitors: %s; `ceph -s` says whether they can be reached",
			  strerror(-status));
		goto shut;
	}
	status = rados_ioctx_create(h->client, p->login.pool, &h->pool);
	if (status < 0) {
		error_say(status, "pool %s: %s; `ceph osd pool ls` lists them", p->login.pool,
			  strerror(-status));
		goto shut;
	}
	snprintf(h->host, sizeof(h->host), "%s", host);
	pthread_mutex_lock(&p->lock);
	p->n_handles++;
	pthread_mutex_unlock(&p->lock);
	return 0;
shut:
	rados_shutdown(h->client);
	return status;
}

/* The number of a host's handle, counted from 1; 0: it cannot be had. */
static uint32_t handle_at(struct places *p, const char *host)
{
	for (unsigned int k = 1; k < p->n_handles; k++)
		if (!strcmp(p->handles[k].host, host))
			return k + 1;
	return add_handle(p, host) ? 0 : p->n_handles;
}

/* Which of its host's OSDs it is, in the order of their numbers. */
static unsigned int rank_of(struct places *p, uint32_t osd, const char *host)
{
	char command[2 * NAME_MAX_BYTES], name[NAME_MAX_BYTES], *answer, *at, *end;
	unsigned int rank = 0;

	if (!quoted(host, name, sizeof(name)))
		return 0;
	snprintf(command, sizeof(command), "\"prefix\":\"osd ls-tree\",\"name\":\"%s\"", name);
	answer = ask(p, command);
	for (at = answer; at && *at; at = end) {
		unsigned long other = strtoul(at, &end, 10);

		if (end == at)
			break;
		rank += other < osd;
	}
	free(answer);
	return rank;
}

static void meet(struct places *p, uint32_t osd)
{
	struct found found;
	char command[64], *answer;
	uint32_t handle = 0;

	snprintf(command, sizeof(command), "\"prefix\":\"osd find\",\"id\":%u", osd);
	answer = ask(p, command);
	if (answer && read_found(answer, &found))
		handle = handle_at(p, found.host);
	free(answer);
	if (!handle)
		return;
	if (p->tell)
		p->tell(p->of, osd, found.address, rank_of(p, osd, found.host));
	pthread_mutex_lock(&p->lock);
	p->handle_of[osd] = handle;
	pthread_mutex_unlock(&p->lock);
}

/* ---- the thread ---- */

static void ask_for(struct places *p, const char *object)
{
	char command[3 * NAME_MAX_BYTES], pool[NAME_MAX_BYTES], name[NAME_MAX_BYTES], *answer;
	uint32_t hash = object_hash(object), number;
	struct mapped mapped;
	bool is_known = false;

	if (quoted(object, name, sizeof(name)) && quoted(p->login.pool, pool, sizeof(pool))) {
		snprintf(command, sizeof(command),
			 "\"prefix\":\"osd map\",\"pool\":\"%s\",\"object\":\"%s\"", pool, name);
		answer = ask(p, command);
		is_known = answer && read_mapped(answer, &mapped);
		free(answer);
	}
	for (unsigned int k = 0; is_known && k < mapped.n_osds; k++)
		if (mapped.osds[k] < p->n_osds && !p->handle_of[mapped.osds[k]])
			meet(p, mapped.osds[k]);
	pthread_mutex_lock(&p->lock);
	p->n_asked++;
	number = group_of(hash, p->n_groups);
	p->groups[number].is_asked = false;
	p->groups[number].ask_after_ns = is_known ? 0 : clock_ns() + ASK_AGAIN_NS;
	if (is_known && mapped.epoch >= p->epoch) {
		struct group *g = &p->groups[number];

		p->epoch = mapped.epoch;
		g->epoch = mapped.epoch;
		g->is_misplaced = mapped.hash != hash || mapped.group != number ||
				  mapped.osds[0] >= p->n_osds;
		g->osds[0] = mapped.osds[0];
		g->n_osds = 1;
		for (unsigned int k = 1; k < mapped.n_osds; k++)
			if (mapped.osds[k] < p->n_osds && p->handle_of[mapped.osds[k]])
				g->osds[g->n_osds++] = mapped.osds[k];
	}
	pthread_mutex_unlock(&p->lock);
}

static void look_for_another_map(struct places *p)
{
	uint64_t epoch, n_groups;
	struct group *groups;

	if (!ask_number(p, "\"prefix\":\"osd stat\"", "epoch: e", &epoch) ||
	    epoch == p->seen_epoch || !ask_groups(p, &n_groups))
		return;
	groups = n_groups == p->n_groups ? NULL : calloc(n_groups, sizeof(*groups));
	pthread_mutex_lock(&p->lock);
	p->seen_epoch = epoch;
	if (epoch > p->epoch)
		p->epoch = epoch;
	if (groups) {
		free(p->groups);
		p->groups = groups;
		p->n_groups = n_groups;
	}
	pthread_mutex_unlock(&p->lock);
}

static void *ask_monitors(void *of)
{
	struct places *p = of;

	pthread_mutex_lock(&p->lock);
	while (!p->is_ending) {
		struct wanted *one = p->wanted;
		struct timespec until;

		if (one) {
			p->wanted = one->next;
			if (!p->wanted)
				p->last_wanted = &p->wanted;
			pthread_mutex_unlock(&p->lock);
			ask_for(p, one->object);
			free(one);
			pthread_mutex_lock(&p->lock);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		if (pthread_cond_timedwait(&p->changed, &p->lock, &until) == ETIMEDOUT &&
		    p->is_used) {
			p->is_used = false;
			pthread_mutex_unlock(&p->lock);
			look_for_another_map(p);
			pthread_mutex_lock(&p->lock);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- who reads ---- */

static void want(struct places *p, struct group *g, const char *object)
{
	struct wanted *one = malloc(sizeof(*one) + strlen(object) + 1);

	if (!one)
		return;
	one->next = NULL;
	strcpy(one->object, object);
	*p->last_wanted = one;
	p->last_wanted = &one->next;
	g->is_asked = true;
	pthread_cond_signal(&p->changed);
}

static bool is_worth_asking(struct places *p, const struct group *g, uint64_t now_ns)
{
	if (g->is_asked || now_ns < g->ask_after_ns || (g->epoch && g->epoch == p->epoch))
		return false;
	if (g->epoch) {
		if (now_ns < p->refresh_after_ns)
			return false;
		p->refresh_after_ns = now_ns + REFRESH_EVERY_NS;
	}
	return true;
}

static bool is_fresh(const struct places *p, const struct group *g, uint32_t hash, uint64_t now_ns)
{
	for (unsigned int k = 0; k < FRESH && k < g->n_written; k++)
		if (g->written[k].hash == hash && now_ns < g->written[k].at_ns + p->fresh_ns)
			return true;
	return false;
}

enum place place_of(struct places *p, const char *object, uint64_t now_ns,
		    uint32_t osds[REPLICAS_MAX], unsigned int *n)
{
	uint32_t hash = object_hash(object);
	enum place place = PLACE_UNKNOWN;
	struct group *g;

	pthread_mutex_lock(&p->lock);
	p->is_used = true;
	g = &p->groups[group_of(hash, p->n_groups)];
	if (is_worth_asking(p, g, now_ns))
		want(p, g, object);
	if (g->epoch && !g->is_misplaced) {
		place = is_fresh(p, g, hash, now_ns) ? PLACE_FRESH : PLACE_KNOWN;
		*n = g->n_osds;
		memcpy(osds, g->osds, sizeof(g->osds));
	}
	pthread_mutex_unlock(&p->lock);
	return place;
}

void place_written(struct places *p, const char *object, uint64_t now_ns)
{
	uint32_t hash = object_hash(object);
	struct group *g;

	pthread_mutex_lock(&p->lock);
	g = &p->groups[group_of(hash, p->n_groups)];
	g->written[g->n_written % FRESH].hash = hash;
	g->written[g->n_written++ % FRESH].at_ns = now_ns;
	pthread_mutex_unlock(&p->lock);
}

rados_ioctx_t place_handle(struct places *p, uint32_t osd)
{
	rados_ioctx_t pool = NULL;

	pthread_mutex_lock(&p->lock);
	if (osd < p->n_osds && p->handle_of[osd])
		pool = p->handles[p->handle_of[osd] - 1].pool;
	pthread_mutex_unlock(&p->lock);
	return pool;
}

uint32_t places_osds(const struct places *p)
{
	return p->n_osds;
}

void places_count(struct places *p, struct place_counts *counts)
{
	unsigned int n_handles;

	pthread_mutex_lock(&p->lock);
	*counts = (struct place_counts){.asked = p->n_asked, .handles = p->n_handles};
	for (uint32_t k = 0; k < p->n_groups; k++)
		counts->misplaced += p->groups[k].is_misplaced;
	n_handles = p->n_handles;
	pthread_mutex_unlock(&p->lock);
	/* by the handle without a place nothing is asked of a replica */
	for (unsigned int k = 1; k < n_handles && counts->unanswered < UINT64_MAX; k++) {
		uint64_t unanswered;

		if (counters_unanswered(p->folder, k, &unanswered))
			counts->unanswered += unanswered;
		else
			counts->unanswered = UINT64_MAX;
	}
}

/* ---- begin and end ---- */

static void free_all(struct places *p)
{
	for (unsigned int k = p->n_handles; k--;) {
		rados_ioctx_destroy(p->handles[k].pool);
		rados_shutdown(p->handles[k].client);
	}
	for (struct wanted *one; (one = p->wanted);) {
		p->wanted = one->next;
		free(one);
	}
	if (p->folder[0])
		rmdir(p->folder);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p->groups);
	free(p->handle_of);
	free(p);
}

int places_create(struct places **places, const struct login *login, uint64_t fresh_ns,
		  meet_osd tell, void *of, rados_ioctx_t *main)
{
	struct places *p = calloc(1, sizeof(*p));
	uint64_t n_osds, n_groups;
	pthread_condattr_t clock;
	int status;

	if (!p)
		return error_say(-ENOMEM, "where objects lie: no memory");
	p->login = *login;
	p->fresh_ns = fresh_ns;
	p->tell = tell;
	p->of = of;
	p->last_wanted = &p->wanted;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &clock);
	pthread_condattr_destroy(&clock);
	counters_folder(p->folder, sizeof(p->folder));
	status = add_handle(p, "");
	if (status)
		goto fail;
	if (!ask_number(p, "\"prefix\":\"osd getmaxosd\"", "max_osd = ", &n_osds) ||
	    !ask_groups(p, &n_groups) || !n_groups) {
		status = error_say(-EPROTO, "the monitors do not say how many OSDs and groups "
					    "there are; the user wants `mon 'allow r'`");
		goto fail;
	}
	p->n_osds = n_osds;
	p->n_groups = n_groups;
	p->groups = calloc(n_groups, sizeof(*p->groups));
	p->handle_of = calloc(n_osds + 1, sizeof(*p->handle_of));
	if (!p->groups || !p->handle_of) {
		status = error_say(-ENOMEM, "%lu groups: no memory", (unsigned long)n_groups);
		goto fail;
	}
	status = -pthread_create(&p->thread, NULL, ask_monitors, p);
	if (status) {
		error_say(status, "a thread: %s", strerror(-status));
		goto fail;
	}
	*main = p->handles[0].pool;
	*places = p;
	return 0;
fail:
	free_all(p);
	return status;
}

void places_free(struct places *p)
{
	pthread_mutex_lock(&p->lock);
	p->is_ending = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	free_all(p);
}
