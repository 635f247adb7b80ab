// SPDX-License-Identifier: MIT
/* Identify drives across reboots: see identity.h. */
#include "identity.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NAME "name "
/* Only the end of a longer path is kept. The inode distinguishes files with the same end. */
#define PATH_KEPT 150

/* Read an attribute in sysfs into value, without spaces at either end. */
static bool read_attribute(const struct stat *st, const char *name, char *value, int bytes)
{
	size_t length, spaces;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(st->st_rdev),
		 minor(st->st_rdev), name);
	*value = 0;
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(value, bytes, file))
		*value = 0;
	fclose(file);
	for (length = strlen(value); length && strchr(" \n", value[length - 1]); length--)
		value[length - 1] = 0;
	spaces = strspn(value, " ");
	memmove(value, value + spaces, length + 1 - spaces);
	return *value;
}

void identity_get_name(char id[IDENTITY_BYTES], const struct stat *st)
{
	char link[64], target[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st->st_rdev),
		 minor(st->st_rdev));
	length = readlink(link, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = 0;
	snprintf(id, IDENTITY_BYTES, NAME "%.*s", IDENTITY_BYTES - 8,
		 length < 0 ? link : strrchr(target, '/') + 1);
}

static void get_file(char id[IDENTITY_BYTES], const char *path, const struct stat *st)
{
	char *whole = realpath(path, NULL);
	const char *end = whole ? whole : path;

	if (strlen(end) > PATH_KEPT)
		end += strlen(end) - PATH_KEPT;
	snprintf(id, IDENTITY_BYTES, "file %s, inode %llu", end, (unsigned long long)st->st_ino);
	free(whole);
}

void identity_get(char id[IDENTITY_BYTES], const char *path, const struct stat *st)
{
	static const char *const names[] = {"wwid",    "device/wwid", "serial", "device/cid",
					    "dm/uuid", "dm/name",     "md/uuid"};
	char value[IDENTITY_BYTES - 40], start[24];
	/* A partition has the attributes of its drive one folder up. */
	const bool is_partition = read_attribute(st, "partition", value, sizeof(value));

	if (!S_ISBLK(st->st_mode)) {
		get_file(id, path, st);
		return;
	}
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s%s", is_partition ? "../" : "", names[i]);
		if (!read_attribute(st, name, value, sizeof(value)))
			continue;
		snprintf(id, IDENTITY_BYTES, "%s", value);
		if (is_partition && read_attribute(st, "start", start, sizeof(start)))
			snprintf(id, IDENTITY_BYTES, "%s, from sector %s", value, start);
		return;
	}
	identity_get_name(id, st);
}

bool identity_is_name(const char *id)
{
	return !strncmp(id, NAME, strlen(NAME));
}
