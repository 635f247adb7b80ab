// SPDX-License-Identifier: MIT
/* A volume's handles and files: see volume.h. */
#include "volume.h"

#include "clock.h"
#include "messages.h"
#include "thread.h"

#include <errno.h>
#include <glusterfs/api/glfs-handles.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So much is read of what a handle says of itself. */
enum { SAID_MAX = 1 << 20 };

#define LOOK_EVERY_NS UINT64_C(1000000000)

_Static_assert(GFID_BYTES == GFAPI_HANDLE_LENGTH, "a file's number");

/* ---- files ---- */

static atomic_ullong *written_ns(struct linnos_gluster_file *file)
{
	return &file->gluster->written_ns[(file->gfid[14] << 8 | file->gfid[15]) % 1024];
}

void mark_fresh(struct linnos_gluster_file *file, uint64_t now_ns)
{
	*written_ns(file) = now_ns;
}

/* By its name: then the handle asks all replicas what they have missed, which by its number it does
 * not. NULL with errno: it is not there, or has another name. */
static glfs_object_t *looked_up(struct linnos_gluster_file *file, unsigned int replica)
{
	struct stat stat;
	uint8_t gfid[GFID_BYTES];
	glfs_object_t *object =
		glfs_h_lookupat(file->gluster->replicas[replica], NULL, file->path, &stat, true);

	if (!object || (glfs_h_extract_handle(object, gfid, GFID_BYTES) == GFID_BYTES &&
			!memcmp(gfid, file->gfid, GFID_BYTES)))
		return object;
	glfs_h_close(object);
	errno = ESTALE;
	return NULL;
}

bool is_fresh(struct linnos_gluster_file *file, uint64_t now_ns)
{
	struct linnos_gluster *g = file->gluster;
	uint64_t at_ns = *written_ns(file), until_ns = at_ns + g->fresh_ns;
	unsigned long long after_ns = file->look_after_ns;
	bool have_all = true;

	if (!at_ns || file->looked_ns >= until_ns)
		return false;
	/* by one of those who read */
	if (now_ns < until_ns || now_ns < after_ns ||
	    !atomic_compare_exchange_strong(&file->look_after_ns, &after_ns,
					    now_ns + LOOK_EVERY_NS))
		return true;
	for (unsigned int k = 0; have_all && k < g->graph.n_replicas; k++) {
		glfs_object_t *object = looked_up(file, k);

		have_all = object;
		if (object)
			glfs_h_close(object);
	}
	if (!have_all)
		return true;
	g->looked++;
	file->looked_ns = now_ns;
	file->look_after_ns = 0;
	return false;
}

/* To be freed; NULL: nothing. */
static char *said(glfs_t *handle, const char *of)
{
	char path[NAME_BYTES + 64], *text = calloc(1, SAID_MAX);
	glfs_fd_t *file;

	snprintf(path, sizeof(path), "/.meta/graphs/active/%s", of);
	file = text ? glfs_open(handle, path, O_RDONLY) : NULL;
	if (file) {
		glfs_read(file, text, SAID_MAX - 1, 0);
		glfs_close(file);
	}
	return text;
}

static void find(struct linnos_gluster_file *file)
{
	struct linnos_gluster *g = file->gluster;
	char pathinfo[4096] = "", of[NAME_BYTES + 16], *private;
	int set = 0;

	if (g->graph.n_sets > 1) {
		glfs_getxattr(g->ordinary, file->path, "trusted.glusterfs.pathinfo", pathinfo,
			      sizeof(pathinfo) - 1);
		set = set_of(&g->graph, pathinfo);
	}
	file->first = set < 0 ? -1 : set * (int)g->graph.set_bricks;
	if (set < 0)
		return;
	snprintf(of, sizeof(of), "%s/private", g->graph.sets[set].text);
	private = said(g->ordinary, of);
	file->home = private ? home_of(&g->graph, private, file->gfid) : LINNOS_HOME_TURNS;
	free(private);
}

/* What is open when it fails is closed by who called. */
static bool open_all(struct linnos_gluster_file *file, int flags)
{
	struct linnos_gluster *g = file->gluster;
	struct stat stat;
	glfs_object_t *object = glfs_h_lookupat(g->ordinary, NULL, file->path, &stat, true);
	int error;

	if (!object)
		return false;
	glfs_h_extract_handle(object, file->gfid, GFID_BYTES);
	file->ordinary = glfs_h_open(g->ordinary, object, flags);
	error = errno;
	glfs_h_close(object);
	if (!file->ordinary) {
		errno = error;
		return false;
	}
	find(file);
	flags = O_RDONLY | (flags & ~(O_ACCMODE | O_APPEND));
	for (unsigned int k = 0; k < g->graph.n_replicas; k++) {
		object = looked_up(file, k);
		file->replicas[k] = object ? glfs_h_open(g->replicas[k], object, flags) : NULL;
		error = errno;
		if (object)
			glfs_h_close(object);
		if (!file->replicas[k]) {
			errno = error;
			return false;
		}
	}
	return true;
}

static void close_all(struct linnos_gluster_file *file)
{
	for (unsigned int k = 0; k < REPLICAS_MAX; k++)
		if (file->replicas[k])
			glfs_close(file->replicas[k]);
	if (file->ordinary)
		glfs_close(file->ordinary);
	free(file);
}

int linnos_gluster_open_file(struct linnos_gluster *g, const char *path, int flags,
			     struct linnos_gluster_file **file)
{
	struct linnos_gluster_file *f;
	int status;

	*file = NULL;
	if (!g || !path)
		return error_null(!g ? "volume" : "path");
	if (flags & (O_CREAT | O_TRUNC))
		return error_say(-EINVAL, "%.256s: O_CREAT or O_TRUNC; glfs_creat() does that",
				 path);
	f = calloc(1, sizeof(*f) + strlen(path) + 1);
	if (!f)
		return error_say(-ENOMEM, "%.256s: no memory", path);
	f->gluster = g;
	strcpy(f->path, path);
	f->looked_ns = clock_ns();
	if (!open_all(f, flags)) {
		status = errno ? -errno : -EIO;
		close_all(f);
		return error_say(status, "%.256s: %s", path, strerror(-status));
	}
	*file = f;
	return 0;
}

void linnos_gluster_close_file(struct linnos_gluster_file *file)
{
	if (!file)
		return;
	pthread_mutex_lock(&file->gluster->lock);
	while (file->in_flight)
		pthread_cond_wait(&file->gluster->changed, &file->gluster->lock);
	pthread_mutex_unlock(&file->gluster->lock);
	close_all(file);
}

glfs_fd_t *linnos_gluster_fd(struct linnos_gluster_file *file)
{
	if (!file)
		error_null("file");
	return file ? file->ordinary : NULL;
}

void linnos_gluster_wrote(struct linnos_gluster_file *file)
{
	if (file)
		mark_fresh(file, clock_ns());
	else
		error_null("file");
}

/* ---- begin and end ---- */

/* It prefers the how many-th of each set, and keeps nothing for itself. */
static int prefer(glfs_t *handle, const struct graph *graph, unsigned int replica)
{
	static const char *const caches[] = {"*-io-cache",    "*-quick-read",	"*-read-ahead",
					     "*-open-behind", "*-write-behind", "*-md-cache",
					     "*-nl-cache"};
	char number[16];
	int status = 0;

	snprintf(number, sizeof(number), "%u", replica);
	for (unsigned int k = 0; k < graph->n_sets; k++) {
		const char *set = graph->sets[k].text;

		status |= glfs_set_xlator_option(handle, set, "read-subvolume-index", number);
		status |= glfs_set_xlator_option(handle, set, "choose-local", "off");
	}
	for (unsigned int k = 0; k < sizeof(caches) / sizeof(*caches); k++)
		status |= glfs_set_xlator_option(handle, caches[k], "pass-through", "true");
	return status;
}

static int add_handle(glfs_t **handle, const char *name, linnos_gluster_set_up set_up, void *of,
		      const struct graph *graph, unsigned int replica)
{
	*handle = glfs_new(name);
	if (*handle && !set_up(*handle, of) && (!graph || !prefer(*handle, graph, replica)) &&
	    !glfs_init(*handle))
		return 0;
	return error_say(errno ? -errno : -EIO,
			 "volume %.128s: %s; `gluster volume status` says whether it is started, "
			 "gfapi's log why it cannot be reached",
			 name, strerror(errno ? errno : EIO));
}

static int read_graph(struct linnos_gluster *g, const char *name)
{
	char *text = said(g->ordinary, "volfile");
	int status = text ? graph_read(&g->graph, text) : -ENOMEM;

	free(text);
	if (status)
		error_say(status, "volume %.128s: %s; it must be replicated, and not sharded", name,
			  strerror(-status));
	return status;
}

/* Names are looked for now: later a read would wait. */
static void meet_agents(struct linnos_gluster *g)
{
	for (unsigned int k = 0; k < g->graph.n_bricks; k++) {
		const struct name *hosts = g->graph.hosts;
		struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found;
		unsigned int rank = 0;
		char address[64];

		for (unsigned int other = 0; other < k; other++)
			rank += !strcmp(hosts[other].text, hosts[k].text);
		if (getaddrinfo(hosts[k].text, NULL, &hints, &found))
			continue;
		if (!getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address), NULL,
				 0, NI_NUMERICHOST))
			agents_meet(g->agents, k, address, rank);
		freeaddrinfo(found);
	}
}

static int begin(struct linnos_gluster *g, const char *name, linnos_gluster_set_up set_up, void *of,
		 const struct linnos_gluster_options *o)
{
	int status = add_handle(&g->ordinary, name, set_up, of, NULL, 0);

	status = status ? status : read_graph(g, name);
	for (unsigned int k = 0; !status && k < g->graph.n_replicas; k++)
		status = add_handle(&g->replicas[k], name, set_up, of, &g->graph, k);
	if (status)
		return status;
	status = linnos_cluster_create(&g->cluster, g->graph.n_bricks, o->choosing);
	if (status)
		return error_say(status, "%s", linnos_cluster_error());
	if (o->agent_port)
		status = agents_create(&g->agents, g->cluster, g->graph.n_bricks, o->agent_port);
	if (status)
		return status;
	if (g->agents)
		meet_agents(g);
	if (o->choosing && o->choosing->mode == LINNOS_CLUSTER_HEDGE) {
		status = thread_begin(&g->thread, send_late, g);
		g->hedges = !status;
	}
	return status ? error_say(status, "a thread: %s", strerror(-status)) : 0;
}

int linnos_gluster_open(struct linnos_gluster **gluster, const char *name,
			linnos_gluster_set_up set_up, void *of,
			const struct linnos_gluster_options *options)
{
	struct linnos_gluster_options o = LINNOS_GLUSTER_OPTIONS_INIT;
	pthread_condattr_t clock;
	struct linnos_gluster *g;
	int status;

	*gluster = NULL;
	if (!name || !set_up)
		return error_null(!name ? "name of a volume" : "function that sets it up");
	if (options && (options->size < sizeof(options->size) || options->size > sizeof(o)))
		return error_say(-EINVAL, "options of %zu bytes; this library knows %zu",
				 options->size, sizeof(o));
	if (options)
		memcpy(&o, options, options->size);
	if (o.agent_port > UINT16_MAX)
		return error_say(-EINVAL, "agent_port %u; 65535 at most", o.agent_port);
	g = calloc(1, sizeof(*g));
	if (!g)
		return error_say(-ENOMEM, "a volume: no memory");
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &clock);
	pthread_condattr_destroy(&clock);
	g->fresh_ns = o.fresh_ms * UINT64_C(1000000);
	status = begin(g, name, set_up, of, &o);
	if (status)
		linnos_gluster_close(g);
	else
		*gluster = g;
	return status;
}

static void *give_back(void *handle)
{
	glfs_fini(handle);
	return NULL;
}

void linnos_gluster_close(struct linnos_gluster *g)
{
	pthread_t threads[REPLICAS_MAX];
	bool is_begun[REPLICAS_MAX];

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->is_ending = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	if (g->hedges)
		pthread_join(g->thread, NULL);
	if (g->agents)
		agents_free(g->agents);
	linnos_cluster_free(g->cluster);
	/* each takes ten seconds */
	for (unsigned int k = 0; k < REPLICAS_MAX; k++)
		is_begun[k] =
			g->replicas[k] && !thread_begin(&threads[k], give_back, g->replicas[k]);
	if (g->ordinary)
		glfs_fini(g->ordinary);
	for (unsigned int k = 0; k < REPLICAS_MAX; k++)
		if (is_begun[k])
			pthread_join(threads[k], NULL);
		else if (g->replicas[k])
			glfs_fini(g->replicas[k]);
	graph_free(&g->graph);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

glfs_t *linnos_gluster_volume(struct linnos_gluster *g)
{
	if (!g)
		error_null("volume");
	return g ? g->ordinary : NULL;
}

struct linnos_cluster *linnos_gluster_cluster(struct linnos_gluster *g)
{
	if (!g)
		error_null("volume");
	return g ? g->cluster : NULL;
}
