// SPDX-License-Identifier: MIT
/* The binary per-I/O log: see io_log.h. */
#include "io_log.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Small enough that writing one does not hold up the event loop for long. */
#define RECORDS_BUFFERED 1024

struct log_file {
	int fd;
	int error; /* errno of the write that failed */
	uint32_t n;
	char *path, *beside;
	struct log_record records[RECORDS_BUFFERED];
};

static char *unfinished; /* removed when the program dies */

static void remove_unfinished(void)
{
	if (unfinished)
		unlink(unfinished);
}

static void write_all(struct log_file *l, const void *data, size_t bytes)
{
	const char *p = data;

	while (bytes) {
		ssize_t n = write(l->fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			l->error = errno;
			return;
		}
		p += n;
		bytes -= n;
	}
}

struct log_file *log_create(const char *path, const char *policy, uint32_t n_drives, uint64_t seed)
{
	struct log_file *l = xcalloc(1, sizeof(*l));
	struct log_header header = {.version = LOG_VERSION,
				    .record_bytes = sizeof(struct log_record),
				    .n_drives = n_drives,
				    .seed = seed};

	memcpy(header.magic, LOG_MAGIC, 8);
	strncpy(header.policy, policy, sizeof(header.policy) - 1);
	l->path = xstrdup(path);
	l->beside = xasprintf("%s.new", path);
	l->fd = open(l->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (l->fd < 0)
		die("log %s: %s", l->beside, strerror(errno));
	unfinished = l->beside;
	atexit(remove_unfinished);
	write_all(l, &header, sizeof(header));
	if (l->error)
		die("log %s: %s", l->beside, strerror(l->error));
	return l;
}

static void flush(struct log_file *l)
{
	if (l->error)
		return;
	write_all(l, l->records, l->n * sizeof(*l->records));
	l->n = 0;
	if (l->error) {
		warn_user("log %s: %s; the run goes on without a log", l->beside,
			  strerror(l->error));
		unlink(l->beside);
	}
}

void log_append(struct log_file *l, const struct log_record *record)
{
	if (l->error)
		return;
	l->records[l->n++] = *record;
	if (l->n == RECORDS_BUFFERED)
		flush(l);
}

const char *log_finish(struct log_file *l)
{
	const char *why = NULL;

	flush(l);
	if (l->error) {
		close(l->fd);
		why = strerror(l->error);
	} else if (close(l->fd) || rename(l->beside, l->path)) {
		why = strerror(errno);
		warn_user("log %s: %s", l->path, why);
		unlink(l->beside);
	}
	unfinished = NULL;
	free(l->path);
	free(l->beside);
	free(l);
	return why;
}
