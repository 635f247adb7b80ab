// SPDX-License-Identifier: MIT
/* Object placement: see placement.h. */
#include "placement.h"

#include "clock.h"
#include "counters.h"
#include "messages.h"
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A handle is a separate client, with threads and a connection to each OSD that it reads from. */
enum { HANDLES_MAX = 64 };

/*
 * The number of recently written objects of a group that are read from the primary. A replica
 * learns that a write is complete only with the second write after it (Ceph 16.2), so it redirects
 * reads of the two objects written last, and of more if several writes are in flight.
 */
enum { FRESH = 4 };

/* The time until the monitors are queried again: after no answer, and after an incomplete one. */
#define RETRY_NS UINT64_C(1000000000)
#define COMPLETE_NS UINT64_C(10000000000)

/*
 * After each new map all placements count as outdated, although most of them are still correct. At
 * most 100 groups per second are queried again.
 */
#define REFRESH_EVERY_NS UINT64_C(10000000)

/*
 * After a new map an OSD is looked up again, but at most once in this time. Unused handles are
 * searched at the same interval. A handle that is unused twice in a row is closed.
 */
#define LOOK_UP_AGAIN_NS UINT64_C(60000000000)

/* Room for OSDs that are added while a pool is open, in addition to twice the present number. */
enum { OSDS_MORE = 64 };

/* The maximum time to wait for monitors that do not answer, also when closing. */
static const char mon_timeout_s[] = "10";

struct group {
	/* the epoch of the map that the placement is from; 0 if it is unknown */
	uint32_t epoch;
	bool is_queried, is_misplaced;
	/*
	 * After no answer, do not query the monitors before retry_at_ns. After an incomplete
	 * answer, query them again at complete_at_ns even without a new map; 0 if the answer was
	 * complete.
	 */
	uint64_t retry_at_ns, complete_at_ns;
	unsigned int n_osds;
	uint32_t osds[REPLICAS_MAX];
	struct {
		uint32_t hash;
		uint64_t at_ns;
	} written[FRESH];
	unsigned int n_written;
};

/* @client is NULL if the slot is free. Only the thread changes the members, except in_flight. */
struct handle {
	char host[NAME_MAX_BYTES];
	rados_t client;
	rados_ioctx_t pool;
	uint64_t in_flight;
	bool is_idle;
};

/*
 * The time and the map of the last lookup of an OSD, and the number of its handle, counted from 1;
 * 0 if it has none.
 */
struct osd {
	uint64_t found_ns;
	uint32_t epoch, handle;
};

/* An object for whose group the monitors must be queried. */
struct wanted {
	struct wanted *next;
	char object[];
};

struct placement {
	struct login login;
	uint64_t fresh_ns;
	osd_found on_found;
	void *data;
	uint32_t n_osds;
	pthread_t thread;
	/* epoch of the map at the thread's last check for a new one */
	uint64_t seen_epoch;
	/* folder of the handles' admin sockets; "" if there is none */
	char folder[64];

	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_bool is_ending;
	bool is_used;
	uint32_t epoch, n_groups;
	struct group *groups;
	struct osd *osds;
	/* the first handle has no crush_location */
	struct handle handles[HANDLES_MAX];
	rados_ioctx_t users_pool;
	uint64_t idle_after_ns, connect_after_ns;
	/* count of closed handles; UINT64_MAX if unknown */
	uint64_t bounced;
	struct wanted *wanted, **last_wanted;
	uint64_t n_queries, refresh_after_ns;
};

/* ---- monitors ---- */

/*
 * Send the monitors a command, given as JSON without the outer braces. Return the answer, which the
 * caller frees, or NULL on failure.
 */
static char *mon_command(struct placement *p, const char *command)
{
	char line[4 * NAME_MAX_BYTES + 256], *answer = NULL, *text = NULL, *error = NULL;
	size_t bytes = 0, error_bytes;
	const char *lines = line;
	int status;

	/* closing waits for the current answer only, not for further commands */
	if (p->is_ending)
		return NULL;
	snprintf(line, sizeof(line), "{%s}", command);
	status = rados_mon_command(p->handles[0].client, &lines, 1, "", 0, &answer, &bytes, &error,
				   &error_bytes);
	/* the answer is not null-terminated, and an empty answer has no buffer */
	if (status >= 0)
		text = answer ? strndup(answer, bytes) : strdup("");
	/* the error text is in a buffer as well */
	rados_buffer_free(answer);
	rados_buffer_free(error);
	return text;
}

static bool mon_number(struct placement *p, const char *command, const char *words,
		       uint64_t *number)
{
	char *answer = mon_command(p, command);
	bool is_there = answer && read_number(answer, words, number);

	free(answer);
	return is_there;
}

/* Get a variable of the pool. The result does not distinguish an error from a missing variable. */
static char *mon_pool(struct placement *p, const char *variable)
{
	char command[2 * NAME_MAX_BYTES], pool[NAME_MAX_BYTES];

	if (!quoted(p->login.pool, pool, sizeof(pool)))
		return NULL;
	snprintf(command, sizeof(command),
		 "\"prefix\":\"osd pool get\",\"pool\":\"%s\",\"var\":\"%s\"", pool, variable);
	return mon_command(p, command);
}

/* Return false if the monitors do not answer or the number is invalid. */
static bool mon_groups(struct placement *p, uint64_t *n_groups)
{
	char *answer = mon_pool(p, "pg_num");
	bool is_there = answer && read_number(answer, "pg_num: ", n_groups);

	free(answer);
	return is_there && *n_groups && *n_groups <= INT32_MAX;
}

/* ---- handles ---- */

static int configure(struct placement *p, rados_t client, const char *host, unsigned int slot)
{
	char place[NAME_MAX_BYTES + 8];
	int status = rados_conf_read_file(client, p->login.configuration);

	if (status < 0)
		return format_error(status, "%s: %s; it must be the configuration of Ceph",
				    p->login.configuration ? p->login.configuration : "ceph.conf",
				    strerror(-status));
	rados_conf_set(client, "rados_mon_op_timeout", mon_timeout_s);
	if (!*host)
		return 0;
	if (p->folder[0]) {
		char path[sizeof(p->folder) + 16];

		counters_path(p->folder, slot, path, sizeof(path));
		rados_conf_set(client, "admin_socket", path);
	}
	/* the caller who opens a pool waits as long as with librados; the thread does not */
	rados_conf_set(client, "client_mount_timeout", mon_timeout_s);
	snprintf(place, sizeof(place), "host=%s", host);
	status = rados_conf_set(client, "crush_location", place);
	return status < 0 ? format_error(status, "crush_location %s: %s", place, strerror(-status))
			  : 0;
}

/* Add a handle that claims to be on a host; "" for none. */
static int add_handle(struct placement *p, const char *host, unsigned int slot)
{
	const char *user = p->login.user ? p->login.user : "admin";
	struct handle *h = &p->handles[slot];
	rados_ioctx_t pool;
	rados_t client;
	int status = rados_create(&client, p->login.user);

	if (status < 0)
		return format_error(status, "cannot create a librados handle: %s",
				    strerror(-status));
	status = configure(p, client, host, slot);
	if (status < 0)
		goto shut;
	status = rados_connect(client);
	if (status < 0) {
		format_error(status,
			     "cannot connect to the monitors as client.%s: %s; check the keyring "
			     "and the network with `ceph -s --id %s`",
			     user, strerror(-status), user);
		goto shut;
	}
	status = rados_ioctx_create(client, p->login.pool, &pool);
	if (status < 0) {
		format_error(status, "pool %s: %s; `ceph osd pool ls` lists the pools",
			     p->login.pool, strerror(-status));
		goto shut;
	}
	pthread_mutex_lock(&p->lock);
	*h = (struct handle){.client = client, .pool = pool};
	snprintf(h->host, sizeof(h->host), "%s", host);
	pthread_mutex_unlock(&p->lock);
	return 0;
shut:
	rados_shutdown(client);
	return status;
}

static void free_handle(const struct handle *h)
{
	rados_ioctx_destroy(h->pool);
	rados_shutdown(h->client);
}

/*
 * Return the number of a host's handle, counted from 1; 0 if there is no free slot; negative if it
 * cannot be created now.
 */
static int handle_at(struct placement *p, const char *host)
{
	unsigned int slot = 0;

	for (unsigned int k = HANDLES_MAX; --k;) {
		if (!p->handles[k].client)
			slot = k;
		else if (!strcmp(p->handles[k].host, host))
			return k + 1;
	}
	if (!slot)
		return 0;
	/* after a failed connection, do not try again for each group */
	if (clock_ns() < p->connect_after_ns || p->is_ending)
		return -1;
	if (!add_handle(p, host, slot))
		return slot + 1;
	p->connect_after_ns = clock_ns() + RETRY_NS;
	return -1;
}

/*
 * Return the index of an OSD among those of its host, in the order of their numbers; -1 if unknown.
 */
static int rank_of(struct placement *p, uint32_t osd, const char *host)
{
	char command[2 * NAME_MAX_BYTES], name[NAME_MAX_BYTES], *answer, *end;
	bool is_there = false;
	int rank = 0;

	if (!quoted(host, name, sizeof(name)))
		return -1;
	snprintf(command, sizeof(command), "\"prefix\":\"osd ls-tree\",\"name\":\"%s\"", name);
	answer = mon_command(p, command);
	for (char *at = answer; at && *at; at = end) {
		unsigned long other = strtoul(at, &end, 10);

		if (end == at)
			break;
		rank += other < osd;
		is_there |= other == osd;
	}
	free(answer);
	return is_there ? rank : -1;
}

/*
 * Look up the host of an OSD and the handle for it, unless this was done recently. Return false if
 * the answers of the monitors are incomplete.
 */
static bool look_up_osd(struct placement *p, uint32_t osd, uint32_t epoch)
{
	const struct osd *known = &p->osds[osd];
	uint64_t now_ns = clock_ns();
	struct found found;
	char command[64], *answer;
	int handle = 0, rank;
	bool is_placed;

	if (known->epoch && (known->epoch == epoch || now_ns < known->found_ns + LOOK_UP_AGAIN_NS))
		return true;
	snprintf(command, sizeof(command), "\"prefix\":\"osd find\",\"id\":%u", osd);
	answer = mon_command(p, command);
	if (!answer)
		return false;
	/* an OSD may be on no host */
	is_placed = read_found(answer, &found);
	free(answer);
	if (is_placed) {
		handle = handle_at(p, found.host);
		rank = rank_of(p, osd, found.host);
		if (handle < 0 || rank < 0)
			return false;
		if (p->on_found)
			p->on_found(p->data, osd, found.address, rank);
	}
	pthread_mutex_lock(&p->lock);
	p->osds[osd] = (struct osd){now_ns, epoch, handle};
	pthread_mutex_unlock(&p->lock);
	return true;
}

/* Return true if a handle was unused in this and the previous check. */
static bool is_unused(struct placement *p, const bool used[HANDLES_MAX], unsigned int k)
{
	struct handle *h = &p->handles[k];
	bool was_idle = h->is_idle;

	h->is_idle = h->client && !used[k] && !h->in_flight;
	return h->is_idle && was_idle;
}

/* Close a handle and keep its counters. */
static void close_handle(struct placement *p, unsigned int k)
{
	struct handle gone = p->handles[k];
	uint64_t bounced;

	for (uint32_t osd = 0; osd < p->n_osds; osd++)
		if (p->osds[osd].handle == k + 1)
			p->osds[osd] = (struct osd){0};
	p->handles[k].client = NULL;
	pthread_mutex_unlock(&p->lock);
	if (!counters_unanswered(p->folder, k, &bounced))
		bounced = UINT64_MAX;
	free_handle(&gone);
	pthread_mutex_lock(&p->lock);
	p->bounced = bounced < UINT64_MAX - p->bounced ? p->bounced + bounced : UINT64_MAX;
}

/* Close the handles of hosts that are no longer used, because each has threads and connections. */
static void close_unused_handles(struct placement *p)
{
	bool used[HANDLES_MAX] = {true};
	uint64_t now_ns = clock_ns();

	pthread_mutex_lock(&p->lock);
	if (now_ns < p->idle_after_ns)
		goto out;
	p->idle_after_ns = now_ns + LOOK_UP_AGAIN_NS;
	for (uint32_t number = 0; number < p->n_groups; number++) {
		const struct group *g = &p->groups[number];

		for (unsigned int k = 0; k < g->n_osds; k++)
			if (g->osds[k] < p->n_osds && p->osds[g->osds[k]].handle)
				used[p->osds[g->osds[k]].handle - 1] = true;
	}
	for (unsigned int k = 1; k < HANDLES_MAX; k++)
		if (is_unused(p, used, k))
			close_handle(p, k);
out:
	pthread_mutex_unlock(&p->lock);
}

/* ---- the thread ---- */

/*
 * Set the replicas that can serve reads. librados sends a read of a handle to the first OSD of the
 * group that is on the handle's host. If several OSDs of a group are on one host, because the
 * failure domain is the rack or the drive, only the first of them can therefore serve reads.
 */
static void set_replicas(struct placement *p, struct group *g, const struct mapped *mapped)
{
	g->osds[0] = mapped->osds[0];
	g->n_osds = 1;
	for (unsigned int k = 1; k < mapped->n_osds; k++) {
		uint32_t osd = mapped->osds[k], handle;
		bool is_second = false;

		handle = osd < p->n_osds ? p->osds[osd].handle : 0;
		for (unsigned int j = 0; j < k; j++)
			is_second |= mapped->osds[j] < p->n_osds &&
				     p->osds[mapped->osds[j]].handle == handle;
		if (handle && !is_second)
			g->osds[g->n_osds++] = osd;
	}
}

static void look_up_object(struct placement *p, const char *object)
{
	char command[3 * NAME_MAX_BYTES], pool[NAME_MAX_BYTES], name[NAME_MAX_BYTES], *answer;
	uint32_t hash = object_hash(object), number;
	bool is_known = false, are_found = true, are_current = true;
	struct mapped mapped;
	struct group *g;

	if (quoted(object, name, sizeof(name)) && quoted(p->login.pool, pool, sizeof(pool))) {
		snprintf(command, sizeof(command),
			 "\"prefix\":\"osd map\",\"pool\":\"%s\",\"object\":\"%s\"", pool, name);
		answer = mon_command(p, command);
		is_known = answer && read_mapped(answer, &mapped);
		free(answer);
	}
	for (unsigned int k = 0; is_known && k < mapped.n_osds; k++) {
		if (mapped.osds[k] >= p->n_osds)
			continue;
		are_found &= look_up_osd(p, mapped.osds[k], mapped.epoch);
		are_current &= p->osds[mapped.osds[k]].epoch == mapped.epoch;
	}
	pthread_mutex_lock(&p->lock);
	p->n_queries++;
	number = group_of(hash, p->n_groups);
	g = &p->groups[number];
	g->is_queried = false;
	g->retry_at_ns = is_known ? 0 : clock_ns() + RETRY_NS;
	g->complete_at_ns =
		are_current ? 0 : clock_ns() + (are_found ? LOOK_UP_AGAIN_NS : COMPLETE_NS);
	/* a monitor may have an older map than another */
	if (is_known && mapped.epoch >= g->epoch) {
		if (mapped.epoch > p->epoch)
			p->epoch = mapped.epoch;
		g->epoch = mapped.epoch;
		g->is_misplaced = mapped.hash != hash || mapped.group != number ||
				  mapped.osds[0] >= p->n_osds;
		/* an OSD with an unknown host may share a host with another one */
		if (!are_found)
			mapped.n_osds = 1;
		set_replicas(p, g, &mapped);
	}
	pthread_mutex_unlock(&p->lock);
}

static void check_for_new_map(struct placement *p)
{
	uint64_t epoch, n_groups;
	struct group *groups = NULL;

	if (!mon_number(p, "\"prefix\":\"osd stat\"", "epoch: e", &epoch) ||
	    epoch == p->seen_epoch || !mon_groups(p, &n_groups))
		return;
	if (n_groups != p->n_groups) {
		groups = calloc(n_groups, sizeof(*groups));
		/* try again in a second */
		if (!groups)
			return;
	}
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

static bool has_passed(const struct timespec *until)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > until->tv_sec ||
	       (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

static void *monitor_thread(void *data)
{
	struct placement *p = data;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	pthread_mutex_lock(&p->lock);
	while (!p->is_ending) {
		struct wanted *one = p->wanted;

		/* check even if many objects are queued */
		if (has_passed(&until)) {
			bool is_used = p->is_used;

			clock_gettime(CLOCK_MONOTONIC, &until);
			until.tv_sec++;
			p->is_used = false;
			pthread_mutex_unlock(&p->lock);
			if (is_used) {
				check_for_new_map(p);
				close_unused_handles(p);
			}
			pthread_mutex_lock(&p->lock);
		} else if (one) {
			p->wanted = one->next;
			if (!p->wanted)
				p->last_wanted = &p->wanted;
			pthread_mutex_unlock(&p->lock);
			look_up_object(p, one->object);
			free(one);
			pthread_mutex_lock(&p->lock);
		} else {
			pthread_cond_timedwait(&p->changed, &p->lock, &until);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- calls of readers ---- */

static void queue_object(struct placement *p, struct group *g, const char *object)
{
	struct wanted *one = malloc(sizeof(*one) + strlen(object) + 1);

	if (!one)
		return;
	one->next = NULL;
	strcpy(one->object, object);
	*p->last_wanted = one;
	p->last_wanted = &one->next;
	g->is_queried = true;
	pthread_cond_signal(&p->changed);
}

static bool needs_refresh(struct placement *p, const struct group *g, uint64_t now_ns)
{
	bool has_more = g->complete_at_ns && now_ns >= g->complete_at_ns;

	if (g->is_queried || now_ns < g->retry_at_ns ||
	    (g->epoch && g->epoch == p->epoch && !has_more))
		return false;
	if (g->epoch) {
		if (now_ns < p->refresh_after_ns)
			return false;
		p->refresh_after_ns = now_ns + REFRESH_EVERY_NS;
	}
	return true;
}

static bool is_fresh(const struct placement *p, const struct group *g, uint32_t hash,
		     uint64_t now_ns)
{
	for (unsigned int k = 0; k < FRESH && k < g->n_written; k++)
		if (g->written[k].hash == hash && now_ns < g->written[k].at_ns + p->fresh_ns)
			return true;
	return false;
}

enum place placement_find(struct placement *p, const char *object, uint64_t now_ns,
			  uint32_t osds[REPLICAS_MAX], unsigned int *n)
{
	uint32_t hash = object_hash(object);
	enum place place = PLACE_UNKNOWN;
	struct group *g;

	pthread_mutex_lock(&p->lock);
	p->is_used = true;
	g = &p->groups[group_of(hash, p->n_groups)];
	if (needs_refresh(p, g, now_ns))
		queue_object(p, g, object);
	if (g->epoch && !g->is_misplaced) {
		place = is_fresh(p, g, hash, now_ns) ? PLACE_FRESH : PLACE_KNOWN;
		*n = 0;
		/* skip an OSD whose handle has been closed since */
		for (unsigned int k = 0; k < g->n_osds; k++)
			if (!k || p->osds[g->osds[k]].handle)
				osds[(*n)++] = g->osds[k];
	}
	pthread_mutex_unlock(&p->lock);
	return place;
}

void placement_wrote(struct placement *p, const char *object, uint64_t now_ns)
{
	uint32_t hash = object_hash(object);
	struct group *g;

	pthread_mutex_lock(&p->lock);
	g = &p->groups[group_of(hash, p->n_groups)];
	g->written[g->n_written % FRESH].hash = hash;
	g->written[g->n_written++ % FRESH].at_ns = now_ns;
	pthread_mutex_unlock(&p->lock);
}

struct handle *handle_enter(struct placement *p, uint32_t osd)
{
	struct handle *h = NULL;

	pthread_mutex_lock(&p->lock);
	if (osd < p->n_osds && p->osds[osd].handle) {
		h = &p->handles[p->osds[osd].handle - 1];
		h->in_flight++;
	}
	pthread_mutex_unlock(&p->lock);
	return h;
}

void handle_leave(struct placement *p, struct handle *h)
{
	pthread_mutex_lock(&p->lock);
	h->in_flight--;
	pthread_mutex_unlock(&p->lock);
}

rados_ioctx_t handle_pool(const struct handle *h)
{
	return h->pool;
}

uint32_t placement_osds(const struct placement *p)
{
	return p->n_osds;
}

void placement_count(struct placement *p, struct placement_counts *counts)
{
	bool is_counted[HANDLES_MAX] = {false};
	uint64_t under_way = 0, unanswered;

	pthread_mutex_lock(&p->lock);
	*counts = (struct placement_counts){
		.queries = p->n_queries, .bounced = p->bounced, .handles = 1};
	for (uint32_t k = 0; k < p->n_groups; k++)
		counts->misplaced += p->groups[k].is_misplaced;
	/*
	 * the handle without a crush_location never reads from a replica; in_flight keeps the other
	 * handles open meanwhile
	 */
	for (unsigned int k = 1; k < HANDLES_MAX; k++) {
		is_counted[k] = p->handles[k].client;
		counts->handles += is_counted[k];
		under_way += p->handles[k].in_flight;
		p->handles[k].in_flight += is_counted[k];
	}
	pthread_mutex_unlock(&p->lock);
	for (unsigned int k = 1; k < HANDLES_MAX; k++) {
		if (!is_counted[k] || counts->bounced == UINT64_MAX)
			continue;
		if (counters_unanswered(p->folder, k, &unanswered))
			counts->bounced += unanswered;
		else
			counts->bounced = UINT64_MAX;
	}
	for (unsigned int k = 1; k < HANDLES_MAX; k++)
		if (is_counted[k])
			handle_leave(p, &p->handles[k]);
	if (counts->bounced < UINT64_MAX)
		counts->bounced -= counts->bounced < under_way ? counts->bounced : under_way;
}

/* ---- creation and destruction ---- */

static void free_placement(struct placement *p)
{
	if (p->users_pool)
		rados_ioctx_destroy(p->users_pool);
	for (unsigned int k = 0; k < HANDLES_MAX; k++)
		if (p->handles[k].client)
			free_handle(&p->handles[k]);
	for (struct wanted *one; (one = p->wanted);) {
		p->wanted = one->next;
		free(one);
	}
	if (p->folder[0])
		rmdir(p->folder);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p->groups);
	free(p->osds);
	free(p);
}

int placement_create(struct placement **placement, const struct login *login, uint64_t fresh_ns,
		     osd_found on_found, void *data, rados_ioctx_t *main, rados_ioctx_t *users)
{
	struct placement *p = calloc(1, sizeof(*p));
	uint64_t n_osds, n_groups;
	char *erasure;
	pthread_condattr_t clock;
	int status;

	if (!p)
		return format_error(-ENOMEM, "cannot allocate the object placement table");
	p->login = *login;
	p->fresh_ns = fresh_ns;
	p->on_found = on_found;
	p->data = data;
	p->last_wanted = &p->wanted;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &clock);
	pthread_condattr_destroy(&clock);
	counters_folder(p->folder, sizeof(p->folder));
	status = add_handle(p, "", 0);
	if (status)
		goto fail;
	if (!mon_number(p, "\"prefix\":\"osd getmaxosd\"", "max_osd = ", &n_osds) ||
	    n_osds > INT32_MAX / 2 - OSDS_MORE || !mon_groups(p, &n_groups)) {
		status = format_error(-EPROTO, "the monitors do not report the numbers of OSDs and "
					       "placement groups; the user needs `mon 'allow r'`");
		goto fail;
	}
	erasure = mon_pool(p, "erasure_code_profile");
	if (erasure) {
		free(erasure);
		status = format_error(-ENOTSUP,
				      "pool %s is erasure-coded, so that no OSD holds whole "
				      "objects; it must be replicated",
				      p->login.pool);
		goto fail;
	}
	status = rados_ioctx_create(p->handles[0].client, p->login.pool, &p->users_pool);
	if (status < 0) {
		p->users_pool = NULL;
		format_error(status, "pool %s: %s", p->login.pool, strerror(-status));
		goto fail;
	}
	p->n_osds = 2 * n_osds + OSDS_MORE;
	p->n_groups = n_groups;
	p->groups = calloc(n_groups, sizeof(*p->groups));
	p->osds = calloc(p->n_osds, sizeof(*p->osds));
	if (!p->groups || !p->osds) {
		status = format_error(-ENOMEM, "cannot allocate memory for %lu placement groups",
				      (unsigned long)n_groups);
		goto fail;
	}
	status = thread_begin(&p->thread, monitor_thread, p);
	if (status) {
		format_error(status, "cannot start the thread that queries the monitors: %s",
			     strerror(-status));
		goto fail;
	}
	*main = p->handles[0].pool;
	*users = p->users_pool;
	*placement = p;
	return 0;
fail:
	free_placement(p);
	return status;
}

void placement_free(struct placement *p)
{
	pthread_mutex_lock(&p->lock);
	p->is_ending = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	free_placement(p);
}
