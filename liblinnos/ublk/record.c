// SPDX-License-Identifier: MIT
/* Record the replicas of a device's mirror: see record.h. */
#include "record.h"
#include "program/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/run/linnos-ublk"
#define IN "in "
#define DROPPED "dropped "

static const char *path_of(uint32_t number, const char *suffix)
{
	static char path[64];

	snprintf(path, sizeof(path), FOLDER "/%" PRIu32 "%s", number, suffix);
	return path;
}

static int write_new(uint32_t number, const char *const *paths, unsigned int n, uint32_t in)
{
	FILE *file;
	int error = 0;

	if (mkdir(FOLDER, 0755) && errno != EEXIST)
		return -errno;
	file = fopen(path_of(number, ".new"), "we");
	if (!file)
		return -errno;
	for (unsigned int k = 0; k < n; k++)
		if (fprintf(file, "%s%s\n", in & 1u << k ? IN : DROPPED, paths[k]) < 0)
			error = -errno;
	if (fclose(file) && !error)
		error = -errno;
	return error;
}

int record_write(uint32_t number, const char *const *paths, unsigned int n, uint32_t in)
{
	char new[64];
	int error = write_new(number, paths, n, in);

	snprintf(new, sizeof(new), "%s", path_of(number, ".new"));
	if (!error && rename(new, path_of(number, "")))
		error = -errno;
	if (error) {
		unlink(new);
		record_remove(number);
	}
	return error;
}

static void refuse(uint32_t number, const char *why)
{
	die("--recover: %s: %s; name the replicas of /dev/ublkb%" PRIu32
	    " in their original order, or delete the device with --remove %" PRIu32,
	    path_of(number, ""), why, number, number);
}

uint32_t record_read(uint32_t number, const char *const *paths, unsigned int n)
{
	FILE *file = fopen(path_of(number, ""), "re");
	uint32_t in = 0;
	char *line = NULL;
	size_t size = 0;
	unsigned int k = 0;
	ssize_t length;

	if (!file)
		refuse(number, strerror(errno));
	while ((length = getline(&line, &size, file)) > 0) {
		const bool is_in = !strncmp(line, IN, strlen(IN));

		line[length - 1] = 0;
		if (k == n || strcmp(line + strlen(is_in ? IN : DROPPED), paths[k]) != 0)
			refuse(number, "the device has other replicas");
		in |= (uint32_t)is_in << k++;
	}
	if (k < n || !in)
		refuse(number, "the device has other replicas");
	free(line);
	fclose(file);
	return in;
}

void record_remove(uint32_t number)
{
	unlink(path_of(number, ""));
}
