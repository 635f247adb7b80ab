// SPDX-License-Identifier: MIT
/* The binary per-I/O log: see io_log.h. */
#include "io_log.h"
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Small enough that a write does not delay the event loop for long. */
#define BUFFER_BYTES (1024 * sizeof(struct log_record))

struct log_file {
	FILE *file;
	int error; /* errno of the failed write */
	char *path, *temporary_path;
};

static char *unfinished; /* removed if the program exits on an error */

static void remove_unfinished(void)
{
	if (unfinished)
		unlink(unfinished);
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
	l->temporary_path = xasprintf("%s.new", path);
	l->file = fopen(l->temporary_path, "we");
	if (!l->file)
		die("log %s: %s", l->temporary_path, strerror(errno));
	setvbuf(l->file, NULL, _IOFBF, BUFFER_BYTES);
	unfinished = l->temporary_path;
	atexit(remove_unfinished);
	if (fwrite(&header, sizeof(header), 1, l->file) != 1 || fflush(l->file))
		die("log %s: %s", l->temporary_path, strerror(errno));
	return l;
}

static void give_up(struct log_file *l)
{
	l->error = errno;
	warn_user("log %s: %s; the run goes on without a log", l->temporary_path,
		  strerror(l->error));
	unlink(l->temporary_path);
}

void log_append(struct log_file *l, const struct log_record *record)
{
	if (!l->error && fwrite(record, sizeof(*record), 1, l->file) != 1)
		give_up(l);
}

const char *log_finish(struct log_file *l)
{
	if (!l->error && fflush(l->file))
		give_up(l);
	if ((fclose(l->file) || rename(l->temporary_path, l->path)) && !l->error) {
		l->error = errno;
		warn_user("log %s: %s", l->path, strerror(l->error));
		unlink(l->temporary_path);
	}
	unfinished = NULL;
	free(l->path);
	free(l->temporary_path);
	return l->error ? strerror(l->error) : NULL;
}
