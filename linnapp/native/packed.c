/* SPDX-License-Identifier: MIT */
/*
 * Unpack files; see packed.h.
 *
 * Readers seek, read twice, or pass a name on. So a packed file is unpacked once, into a temporary
 * file, which has no name and exists as long as this process. Each packing has a program that
 * unpacks it, so no library has to be linked. Text of block layer events is replaced in the same
 * way by the equivalent binary events.
 */
#include "packed.h"

#include "text_events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define HEAD_BYTES 262		/* up to and including tar's magic */
#define MESSAGE_BYTES 1024	/* of a program that fails */

/* Packings are recognised by the first bytes of a file, because names are unreliable. */
static const struct packing {
	const char *suffix, *magic;
	unsigned int at, n;	/* offset and length of the magic */
	const char *program;	/* unpacks its input to its output; NULL if not supported */
	const char *option;
	const char *remedy;	/* advice if it is not supported */
} packings[] = {
	{ ".gz", "\x1f\x8b", 0, 2, "gzip", "-dc", NULL },
	{ ".xz", "\xfd" "7zXZ", 0, 6, "xz", "-dc", NULL },
	/* by default, zstd refuses files that were packed with --long */
	{ ".zst", "\x28\xb5\x2f\xfd", 0, 4, "zstd", "-dcq", NULL },
	{ ".bz2", "BZh", 0, 3, "bzip2", "-dc", NULL },
	{ ".zip", "PK\x03\x04", 0, 4, NULL, NULL, "unzip" },
	{ ".7z", "7z\xbc\xaf\x27\x1c", 0, 6, NULL, NULL, "7z x" },
	{ ".lz4", "\x04\x22\x4d\x18", 0, 4, NULL, NULL, "lz4 -d" },
	{ ".Z", "\x1f\x9d", 0, 2, NULL, NULL, "uncompress" },
	{ ".tar", "ustar", 257, 5, NULL, NULL, "tar xf" },
};

#define N_PACKINGS (sizeof(packings) / sizeof(*packings))

const char *const lt_packed_suffixes[] = { ".gz", ".xz", ".zst", ".bz2", NULL };

/* A file that was unpacked or translated, with the data that show that it has not changed. */
static struct unpacked {
	struct unpacked *next;
	struct stat of;
	int fd;
} *all_unpacked;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool has_suffix(const char *path, const char *suffix)
{
	size_t n = strlen(path), m = strlen(suffix);

	return n > m && !strcmp(path + n - m, suffix);
}

static const struct packing *find_packing(const unsigned char *head, ssize_t n)
{
	for (const struct packing *p = packings; p < packings + N_PACKINGS; p++)
		if (n >= (ssize_t)(p->at + p->n) && !memcmp(head + p->at, p->magic, p->n))
			return p;
	return NULL;
}

static const char *temporary_folder(void)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : "/tmp";
}

/* Create a temporary file without a name for the contents of @of; return its descriptor or -1. */
static int create_temporary(const char *of, char *why)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/linnapp-XXXXXX", temporary_folder());
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	else
		snprintf(why, LT_PACKED_WHY, "%s: %s; the contents of %s are written to this "
					     "folder, and TMPDIR selects another one",
			 temporary_folder(), strerror(errno), of);
	return fd;
}

/*
 * Run the program from one descriptor to another. Return 0, or its status with its message in
 * @message, or a negative errno if it cannot be started.
 */
static int run(const struct packing *packing, int from, int to, char *message)
{
	char *const argv[] = { (char *)packing->program, (char *)packing->option,
			       strcmp(packing->program, "zstd") ? NULL : "--long=31", NULL };
	posix_spawn_file_actions_t actions;
	int status, spawned, log = memfd_create("message", MFD_CLOEXEC);
	ssize_t n = 0;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, from, 0);
	posix_spawn_file_actions_adddup2(&actions, to, 1);
	if (log >= 0)
		posix_spawn_file_actions_adddup2(&actions, log, 2);
	spawned = posix_spawnp(&pid, packing->program, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (spawned) {
		snprintf(message, MESSAGE_BYTES, "%s", strerror(spawned));
	} else {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (log >= 0)
			n = pread(log, message, MESSAGE_BYTES - 1, 0);
		message[n > 0 ? n : 0] = 0;
		for (char *at = message; (at = strchr(at, '\n')); at++)
			*at = at[1] ? ' ' : 0;
	}
	if (log >= 0)
		close(log);
	return spawned ? -spawned : status;
}

/* Return a temporary file with the unpacked contents of @fd, or -1. */
static int unpack(int fd, const char *path, const struct packing *packing, char *why)
{
	int to = create_temporary(path, why), status;
	char message[MESSAGE_BYTES];

	if (to < 0)
		return -1;
	status = run(packing, fd, to, message);
	if (!status) {
		unsigned char head[HEAD_BYTES];
		const struct packing *inner = find_packing(head, pread(to, head, HEAD_BYTES, 0));

		if (!inner)
			return to;
		close(to);
		snprintf(why, LT_PACKED_WHY, "%s: contains a %s file; unpack it, because a trace "
					     "may be packed only once", path, inner->suffix);
		return -1;
	}
	close(to);
	if (status == -ENOENT)
		snprintf(why, LT_PACKED_WHY, "%s: packed with %s, which is not installed; install "
			 "it, or unpack the file elsewhere", path, packing->program);
	else
		snprintf(why, LT_PACKED_WHY, "%s: cannot be unpacked: it is damaged, or there is "
					     "no space for its contents in %s (TMPDIR selects "
					     "another folder): %s", path, temporary_folder(),
			 *message ? message : packing->program);
	return -1;
}

/* Return a temporary file with the events of the text in @fd, or -1. */
static int translate(int fd, const char *path, char *why)
{
	int to = create_temporary(path, why);

	if (to >= 0 && !lt_events_translate(fd, to, path, why)) {
		close(to);
		return -1;
	}
	return to;
}

static bool has_event_text(int fd)
{
	char head[LT_EVENTS_HEAD_BYTES];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	return n > 0 && lt_events_are_text(head, n);
}

/* Return the file to read instead of an open file: -2 for the file itself, -1 on an error. */
static int replacement_of(int fd, const char *path, char *why)
{
	unsigned char head[HEAD_BYTES];
	ssize_t n = pread(fd, head, sizeof(head), 0);
	const struct packing *packing = find_packing(head, n);
	int unpacked, events;

	if (packing && !packing->program) {
		snprintf(why, LT_PACKED_WHY, "%s: is a %s file, which is not supported; unpack it "
					     "with `%s`", path, packing->suffix, packing->remedy);
		return -1;
	}
	if (!packing) {
		for (const char *const *suffix = lt_packed_suffixes; *suffix; suffix++)
			if (n >= 0 && has_suffix(path, *suffix)) {
				snprintf(why, LT_PACKED_WHY, "%s: the name ends in %s, but the "
							     "contents do not have this format; "
							     "the file is damaged, or its name is "
							     "wrong", path,
					 *suffix);
				return -1;
			}
		return has_event_text(fd) ? translate(fd, path, why) : -2;
	}
	unpacked = unpack(fd, path, packing, why);
	if (unpacked < 0 || !has_event_text(unpacked))
		return unpacked;
	events = translate(unpacked, path, why);
	close(unpacked);
	return events;
}

/* Do the same as lt_packed_unpack() for an open file. */
static int find_unpacked(int fd, const char *path, char *why)
{
	struct unpacked *known;
	struct stat now;
	int found;

	/* The data of a pipe cannot be inspected without consuming it. */
	if (fstat(fd, &now) || !S_ISREG(now.st_mode))
		return -2;
	for (known = all_unpacked; known; known = known->next)
		if (is_unchanged(&known->of, &now))
			return known->fd;
	found = replacement_of(fd, path, why);
	if (found < 0)
		return found;
	known = malloc(sizeof(*known));
	if (!known) {
		close(found);
		snprintf(why, LT_PACKED_WHY, "%s: %s", path, strerror(ENOMEM));
		return -1;
	}
	*known = (struct unpacked){ .next = all_unpacked, .of = now, .fd = found };
	all_unpacked = known;
	return found;
}

int lt_packed_unpack(const char *path, char *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), found;

	if (fd < 0)
		return -2;	/* its reader will report the error */
	pthread_mutex_lock(&lock);
	found = find_unpacked(fd, path, why);
	pthread_mutex_unlock(&lock);
	close(fd);
	return found;
}

int lt_packed_open(const char *path, char *why)
{
	int found = lt_packed_unpack(path, why), fd;
	char name[64];

	if (found == -1)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", found);
	/* without waiting for the other end of a pipe */
	fd = open(found < 0 ? path : name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		snprintf(why, LT_PACKED_WHY, "%s: %s", path, strerror(errno));
	return fd;
}
