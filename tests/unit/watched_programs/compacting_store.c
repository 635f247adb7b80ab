// SPDX-License-Identifier: MIT
/*
 * A key-value store whose clients wait for compactions: compacting_store FOLDER PUTS
 *
 * As in a log-structured merge tree, clients append to a log and fill a table in memory; a thread
 * flushes full tables to level 0; a pool of threads compacts the files of a level into one of the
 * next. Nothing is sorted: a compaction reads its files and writes a new one. When level 0 has too
 * many files, clients wait until a compaction has taken them away, and that one shares the drive
 * with those of the levels below, which are larger. (RocksDB's clients have their tail latency from
 * it: Balmau et al., "SILK", ATC 2019.)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CLIENTS = 4,
	COMPACTORS = 3,
	LEVELS = 4,
	VALUE = 1024,	       /* bytes of a put */
	TABLE = 256 * VALUE,   /* bytes that are flushed at once */
	STALL = 4,	       /* files of level 0 that are too many */
	UNFLUSHED = 8 * TABLE, /* bytes in memory that are too many */
	FILES = 2,	       /* of a level that are compacted */
	PART = 64 * 1024,      /* of a file that is read or written at once */
};

struct file {
	int number;
	struct file *next;
};

static struct {
	struct file *files;
	int n;
	bool is_compacted;
} levels[LEVELS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int log_fd, next_number, unflushed, clients_left = CLIENTS, puts_left;
static bool is_flushing;

static void check(bool is_right, const char *what)
{
	if (!is_right) {
		perror(what);
		exit(1);
	}
}

static int opened(int number, int flags)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "%06d.sst", number);
	fd = open(name, flags | O_CLOEXEC, 0644);
	check(fd >= 0, name);
	return fd;
}

static void write_bytes(int fd, long bytes)
{
	static const char part[PART];

	for (; bytes > 0; bytes -= PART)
		check(write(fd, part, bytes < PART ? bytes : PART) > 0, "write");
}

/* With the lock held. */
static void add_file(int level, int number)
{
	struct file *file = malloc(sizeof(*file));

	check(file, "malloc");
	file->number = number;
	file->next = levels[level].files;
	levels[level].files = file;
	levels[level].n++;
	pthread_cond_broadcast(&changed);
}

static void *client(void *unused)
{
	static const char value[VALUE];

	(void)unused;
	pthread_setname_np(pthread_self(), "client");
	pthread_mutex_lock(&lock);
	while (puts_left > 0) {
		while (levels[0].n >= STALL || unflushed >= UNFLUSHED)
			pthread_cond_wait(&changed, &lock);
		puts_left--;
		unflushed += VALUE;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		check(write(log_fd, value, VALUE) == VALUE, "log");
		pthread_mutex_lock(&lock);
	}
	clients_left--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *flusher(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "flush");
	pthread_mutex_lock(&lock);
	for (;;) {
		int number, fd;

		while (unflushed < TABLE && clients_left)
			pthread_cond_wait(&changed, &lock);
		if (unflushed < TABLE)
			break;
		number = next_number++;
		is_flushing = true;
		pthread_mutex_unlock(&lock);
		fd = opened(number, O_CREAT | O_WRONLY);
		write_bytes(fd, TABLE);
		check(!fsync(fd), "fsync");
		close(fd);
		pthread_mutex_lock(&lock);
		is_flushing = false;
		unflushed -= TABLE;
		add_file(0, number);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Copy files into a new one, and remove them. */
static void compact(struct file *files, int number)
{
	int out = opened(number, O_CREAT | O_WRONLY);
	static __thread char part[PART];
	struct file *next;
	ssize_t n;

	for (; files; files = next) {
		int in = opened(files->number, O_RDONLY);
		char name[32];

		while ((n = read(in, part, sizeof(part))) > 0)
			check(write(out, part, n) == n, "write");
		close(in);
		snprintf(name, sizeof(name), "%06d.sst", files->number);
		unlink(name);
		next = files->next;
		free(files);
	}
	check(!fsync(out), "fsync");
	close(out);
}

/* A level whose files are to be compacted now; the one that is asked first is
 * the lowest. */
static int level_to_compact(void)
{
	for (int i = LEVELS - 2; i >= 0; i--) {
		if (levels[i].n >= FILES && !levels[i].is_compacted)
			return i;
	}
	return -1;
}

static void *compactor(void *name)
{
	int level;

	pthread_setname_np(pthread_self(), name);
	pthread_mutex_lock(&lock);
	for (;;) {
		struct file *files;
		int number, n;

		while ((level = level_to_compact()) < 0 && (clients_left || is_flushing))
			pthread_cond_wait(&changed, &lock);
		if (level < 0)
			break;
		/* Files that are there are taken; level 0 counts them until they are
		 * compacted. */
		files = levels[level].files;
		levels[level].files = NULL;
		levels[level].is_compacted = true;
		n = levels[level].n;
		number = next_number++;
		pthread_mutex_unlock(&lock);
		compact(files, number);
		pthread_mutex_lock(&lock);
		levels[level].is_compacted = false;
		levels[level].n -= n;
		add_file(level + 1, number);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	static char names[COMPACTORS][16];
	pthread_t threads[CLIENTS + 1 + COMPACTORS];
	int n = 0;

	if (argc != 3 || chdir(argv[1]) || (puts_left = atoi(argv[2])) <= 0) {
		fprintf(stderr, "usage: compacting_store FOLDER PUTS\n");
		return 2;
	}
	log_fd = open("log", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
	check(log_fd >= 0, "log");
	for (int i = 0; i < CLIENTS; i++)
		check(!pthread_create(&threads[n++], NULL, client, NULL), "thread");
	check(!pthread_create(&threads[n++], NULL, flusher, NULL), "thread");
	for (int i = 0; i < COMPACTORS; i++) {
		snprintf(names[i], sizeof(names[i]), "compact%d", i);
		check(!pthread_create(&threads[n++], NULL, compactor, names[i]), "thread");
	}
	while (n)
		pthread_join(threads[--n], NULL);
	return 0;
}
