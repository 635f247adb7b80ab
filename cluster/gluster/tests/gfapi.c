// SPDX-License-Identifier: MIT
/* A gfapi for tests: see gfapi.h. */
#include "gfapi.h"

#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <glusterfs/api/glfs-handles.h>
#include <glusterfs/api/glfs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct glfs {
	int replica;
};

struct glfs_object {
	char unused;
};

struct glfs_fd {
	int replica;
	const char *text;
};

struct sent {
	struct request request;
	glfs_fd_t *fd;
	void *buffer;
	size_t room;
	glfs_io_cbk done;
	void *of;
};

struct volume volume;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sent sent[64];
static unsigned int n_sent, fail_each;
static atomic_uint n_tried;
static atomic_ullong now_ns = 1000000000;

uint64_t clock_ns(void)
{
	return now_ns;
}

void pass_us(uint64_t us)
{
	now_ns += us * 1000;
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
	found = sent[k].request;
	pthread_mutex_unlock(&lock);
	return found;
}

void end_request(unsigned int k, long bytes, char letter)
{
	struct sent ended;

	pthread_mutex_lock(&lock);
	assert(k < n_sent);
	ended = sent[k];
	n_sent--;
	memmove(sent + k, sent + k + 1, (n_sent - k) * sizeof(*sent));
	pthread_mutex_unlock(&lock);
	assert(bytes <= (long)ended.room);
	if (bytes > 0)
		memset(ended.buffer, letter, bytes);
	errno = bytes < 0 ? -bytes : 0;
	ended.done(ended.fd, bytes < 0 ? -1 : bytes, NULL, NULL, ended.of);
}

static void count(int by)
{
	pthread_mutex_lock(&lock);
	volume.n_left += by;
	pthread_mutex_unlock(&lock);
}

/* ---- handles ---- */

glfs_t *glfs_new(const char *name)
{
	glfs_t *handle;

	if (strcmp(name, "data")) {
		errno = ENOENT;
		return NULL;
	}
	handle = malloc(sizeof(*handle));
	handle->replica = ORDINARY;
	volume.n_handles++;
	count(1);
	return handle;
}

int glfs_set_xlator_option(glfs_t *handle, const char *xlator, const char *key, const char *value)
{
	if (!strcmp(key, "read-subvolume-index")) {
		assert(!strncmp(xlator, "data-replicate-", strlen("data-replicate-")));
		volume.n_preferring += handle->replica == ORDINARY;
		handle->replica = atoi(value);
	}
	volume.n_passing += !strcmp(key, "pass-through") && !strcmp(xlator, "*-io-cache");
	return 0;
}

int glfs_init(glfs_t *handle)
{
	errno = handle->replica == ORDINARY ? 0 : volume.init_fails;
	return errno ? -1 : 0;
}

int glfs_fini(glfs_t *handle)
{
	free(handle);
	count(-1);
	return 0;
}

/* ---- files ---- */

static glfs_fd_t *opened(int replica, const char *text)
{
	glfs_fd_t *fd = malloc(sizeof(*fd));

	*fd = (glfs_fd_t){replica, text};
	count(1);
	return fd;
}

glfs_fd_t *glfs_open(glfs_t *handle, const char *path, int flags)
{
	assert(flags == O_RDONLY && !strncmp(path, "/.meta/graphs/active/", 21));
	if (!strcmp(path + 21, "volfile"))
		return opened(handle->replica, volume.volfile);
	assert(strstr(path, "/private"));
	return opened(handle->replica, volume.private);
}

ssize_t glfs_read(glfs_fd_t *fd, void *buffer, size_t bytes, int flags)
{
	size_t n = strlen(fd->text);

	(void)flags;
	assert(n < bytes);
	memcpy(buffer, fd->text, n);
	return n;
}

int glfs_close(glfs_fd_t *fd)
{
	free(fd);
	count(-1);
	return 0;
}

ssize_t glfs_getxattr(glfs_t *handle, const char *path, const char *name, void *value, size_t bytes)
{
	(void)path;
	assert(handle->replica == ORDINARY && !strcmp(name, "trusted.glusterfs.pathinfo"));
	strncpy(value, volume.pathinfo, bytes);
	return strlen(volume.pathinfo);
}

static glfs_object_t *found(void)
{
	count(1);
	return malloc(sizeof(glfs_object_t));
}

glfs_object_t *glfs_h_lookupat(glfs_t *handle, glfs_object_t *parent, const char *path,
			       struct stat *stat, int follow)
{
	assert(!parent && follow && stat);
	volume.n_looks += handle->replica != ORDINARY;
	errno = !strcmp(path, "/none")	      ? ENOENT
		: handle->replica != ORDINARY ? volume.look_fails
					      : 0;
	return errno ? NULL : found();
}

ssize_t glfs_h_extract_handle(glfs_object_t *object, unsigned char *gfid, int bytes)
{
	(void)object;
	assert(bytes == GFAPI_HANDLE_LENGTH);
	memset(gfid, 0, bytes);
	memcpy(gfid + 14, volume.gfid, 2);
	return bytes;
}

glfs_fd_t *glfs_h_open(glfs_t *handle, glfs_object_t *object, int flags)
{
	(void)object;
	assert(handle->replica == ORDINARY || (flags & O_ACCMODE) == O_RDONLY);
	return opened(handle->replica, NULL);
}

int glfs_h_close(glfs_object_t *object)
{
	free(object);
	count(-1);
	return 0;
}

int glfs_pread_async(glfs_fd_t *fd, void *buffer, size_t bytes, off_t offset, int flags,
		     glfs_io_cbk done, void *of)
{
	(void)flags;
	if (fail_each && ++n_tried % fail_each == 0) {
		errno = ENOMEM;
		return -1;
	}
	pthread_mutex_lock(&lock);
	assert(n_sent < 64);
	sent[n_sent++] = (struct sent){{fd->replica, offset}, fd, buffer, bytes, done, of};
	pthread_mutex_unlock(&lock);
	return 0;
}
