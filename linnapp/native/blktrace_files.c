/* SPDX-License-Identifier: MIT */
/*
 * The files of a recording: a merged one, or one for each CPU, each of which may be packed.
 */
#include "blktrace_parser.h"
#include "packed.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PER_CPU ".blktrace."

/* Return the length of a file name before ".blktrace.N[.PACKING]"; 0 for any other name. */
static size_t base_length(const char *name, long *cpu)
{
	const char *found = NULL, *at = name;
	char *end;

	while ((at = strstr(at, PER_CPU)))
		found = at++;
	if (!found || found == name || found[strlen(PER_CPU)] < '0' || found[strlen(PER_CPU)] > '9')
		return 0;
	*cpu = strtol(found + strlen(PER_CPU), &end, 10);
	if (*cpu >= LT_MAX_CPUS)
		return 0;
	for (const char *const *suffix = lt_packed_suffixes; *end && *suffix; suffix++)
		if (!strcmp(end, *suffix))
			return found - name;
	return *end ? 0 : found - name;
}

static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

static bool is_link(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

/* Return the path of a name in the folder of @path. */
static char *sibling_path(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	char *joined;

	if (asprintf(&joined, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name) < 0)
		return NULL;
	return joined;
}

/* Return true if @path is preferred to @than, a file of the same CPU: the named or unpacked one. */
static bool is_better(const char *path, const char *than, const char *trace)
{
	return strcmp(than, trace) && (!strcmp(path, trace) || strlen(path) < strlen(than));
}

static void add_per_cpu(struct lt_files *files, const char *trace, const char *base, size_t length)
{
	char *folder = sibling_path(trace, "."), *of_cpu[LT_MAX_CPUS] = { NULL };
	DIR *entries = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	int last = -1;
	long cpu;

	free(folder);
	while (entries && (entry = readdir(entries))) {
		char *path;

		if (base_length(entry->d_name, &cpu) != length ||
		    memcmp(entry->d_name, base, length))
			continue;
		path = sibling_path(trace, entry->d_name);
		if (path && (!of_cpu[cpu] || is_better(path, of_cpu[cpu], trace))) {
			free(of_cpu[cpu]);
			of_cpu[cpu] = path;
		} else {
			free(path);
		}
	}
	if (entries)
		closedir(entries);
	for (cpu = 0; cpu < LT_MAX_CPUS; cpu++) {
		if (!of_cpu[cpu])
			continue;
		files->names[files->n++] = of_cpu[cpu];
		files->missing += cpu - last - 1;
		last = cpu;
	}
}

/**
 * lt_find_files() - find the files of a trace
 * @trace: a merged file, one of blktrace's files for each CPU, or the part of their names before
 *	".blktrace."
 * @files: receives their names, in the order of the CPUs, to be freed with lt_free_files()
 */
void lt_find_files(const char *trace, struct lt_files *files)
{
	const char *slash = strrchr(trace, '/'), *name = slash ? slash + 1 : trace;
	long cpu;
	size_t length = base_length(name, &cpu);
	char *target;

	files->n = files->missing = 0;
	if (length || (*name && !is_file(trace)))
		add_per_cpu(files, trace, name, length ? length : strlen(name));
	else if (*name && (files->names[0] = strdup(trace)))
		files->n = 1;
	/* The files of the other CPUs may be where a link to one of them leads. */
	if (files->n == 1 && is_link(files->names[0]) &&
	    (target = realpath(files->names[0], NULL))) {
		if (base_length(strrchr(target, '/') + 1, &cpu)) {
			lt_free_files(files);
			lt_find_files(target, files);
		}
		free(target);
	}
}

void lt_free_files(struct lt_files *files)
{
	while (files->n)
		free(files->names[--files->n]);
}
