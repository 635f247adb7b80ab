// SPDX-License-Identifier: MIT
/* Protection against overwriting data: see guard.h. */
#include "guard.h"
#include "content.h"
#include "device.h"
#include "error.h"
#include "options.h"
#include "trace/trace.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A drive may be open for a moment: by udev if it is new, or by a program that is just ending. */
#define HOLDER_TRIES 20
#define HOLDER_PAUSE_US 50000

struct drive {
	const char *path;
	struct stat st;
};

/* ---- signatures ---- */

static bool is_forced(const struct options *o, const char *path)
{
	for (unsigned int i = 0; i < o->n_forced; i++)
		if (!strcmp(o->forced[i], path))
			return true;
	return false;
}

/* Return true if the block with libblkid's signature was written by a replay. */
static bool found_in_our_block(blkid_probe probe, int fd)
{
	char block[BLOCK_BYTES];
	const char *text;
	uint64_t at;

	if (blkid_probe_lookup_value(probe, "SBMAGIC_OFFSET", &text, NULL) &&
	    blkid_probe_lookup_value(probe, "PTMAGIC_OFFSET", &text, NULL))
		return false;
	at = strtoull(text, NULL, 10) / BLOCK_BYTES * BLOCK_BYTES;
	return pread(fd, block, sizeof(block), at) == sizeof(block) && content_is_ours(block);
}

static void refuse_signature(const char *path, blkid_probe probe)
{
	const char *type = "of an unknown type";

	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL))
		blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL);
	die("drive %s: carries a file system, partition table or other signature (%s), which a "
	    "replay would overwrite. --force %s overwrites it all the same, --readonly leaves it "
	    "as it is",
	    path, type, path);
}

/* This reads through the page cache, because libblkid reads at any offset and length. */
static void require_no_signature(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), found;
	blkid_probe probe = blkid_new_probe();

	if (fd < 0)
		die("drive %s: %s", path, strerror(errno));
	if (!probe || blkid_probe_set_device(probe, fd, 0, 0))
		die("drive %s: libblkid cannot examine it: %s", path, strerror(errno));
	/* Disable read-ahead: read only what is requested. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	blkid_probe_enable_superblocks(probe, true);
	/* Data whose superblock is damaged can still be needed. */
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_TYPE |
							 BLKID_SUBLKS_BADCSUM);
	blkid_probe_enable_partitions(probe, true);
	blkid_probe_set_partitions_flags(probe, BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT);
	while (!(found = blkid_do_probe(probe)))
		if (!found_in_our_block(probe, fd))
			refuse_signature(path, probe);
	if (found < 0)
		die("drive %s: cannot tell whether it carries a file system: %s. --force %s "
		    "overwrites it all the same",
		    path, strerror(errno), path);
	blkid_free_probe(probe);
	close(fd);
}

/* ---- holders ---- */

/* Return the disk of a partition; other devices are returned unchanged. */
static dev_t whole_disk(dev_t dev)
{
	dev_t whole;

	return blkid_devno_to_wholedisk(dev, NULL, 0, &whole) ? dev : whole;
}

/*
 * Return true if a file is the drive. A block device includes its whole disk and its partitions: if
 * one is open, all count as open.
 */
static bool is_drive(const struct drive *d, const struct stat *st)
{
	dev_t ours = d->st.st_rdev, theirs = st->st_rdev;

	if (S_ISREG(d->st.st_mode))
		return st->st_dev == d->st.st_dev && st->st_ino == d->st.st_ino;
	return S_ISBLK(st->st_mode) &&
	       (ours == theirs || whole_disk(ours) == theirs || ours == whole_disk(theirs));
}

/* Return the flags with which a process opened a file; -1 if it has closed it meanwhile. */
static int open_flags(unsigned int pid, unsigned int fd)
{
	char *path = xasprintf("/proc/%u/fdinfo/%u", pid, fd);
	FILE *f = fopen(path, "re");
	int flags;

	if (!f || fscanf(f, "pos: %*d flags: %o", (unsigned int *)&flags) != 1)
		flags = -1;
	if (f)
		fclose(f);
	free(path);
	return flags;
}

static bool is_for_control_only(const struct stat *st, int flags)
{
	return (flags & O_PATH) ||
	       (S_ISBLK(st->st_mode) && (flags & O_ACCMODE) == O_RDONLY && (flags & O_NONBLOCK));
}

/* Return a drive that another process has open, and the process; NULL if there is none. */
static const struct drive *find_held(const struct drive *drives, unsigned int n, unsigned int *pid)
{
	const struct drive *held = NULL;
	unsigned int fd;
	struct stat st;
	glob_t found;

	if (glob("/proc/[0-9]*/fd/[0-9]*", GLOB_NOSORT, NULL, &found))
		die("--devices: /proc is not mounted, so the processes that have the drives open "
		    "are not known; mount it");
	for (size_t i = 0; i < found.gl_pathc && !held; i++) {
		if (sscanf(found.gl_pathv[i], "/proc/%u/fd/%u", pid, &fd) != 2 ||
		    *pid == (unsigned int)getpid() || stat(found.gl_pathv[i], &st))
			continue;
		for (unsigned int k = 0; k < n && !held; k++)
			/* If it was closed meanwhile, the flags are -1, which includes O_PATH. */
			if (is_drive(&drives[k], &st) &&
			    !is_for_control_only(&st, open_flags(*pid, fd)))
				held = &drives[k];
	}
	globfree(&found);
	return held;
}

static void require_not_held(const struct drive *drives, unsigned int n)
{
	const struct drive *held;
	char name[32];
	unsigned int pid;

	for (unsigned int i = 0; (held = find_held(drives, n, &pid)); i++) {
		if (i == HOLDER_TRIES) {
			if (!first_line(name, sizeof(name), "/proc/%u/comm", pid))
				strcpy(name, "?");
			die("drive %s: in use: process %u (%s) has it open; a replay would "
			    "overwrite it",
			    held->path, pid, name);
		}
		usleep(HOLDER_PAUSE_US);
	}
}

/* Get the file behind a loop device, given the path that sysfs has for it. */
static void stat_backing_file(const char *name, const char *file, struct stat *st)
{
	char *node = xasprintf("/dev/%s", name);
	int fd = open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct loop_info64 info;

	if (stat(file, st))
		st->st_mode = 0;
	/* The path may lead to another file by now; the device knows its own. */
	if (fd >= 0 && !ioctl(fd, LOOP_GET_STATUS64, &info)) {
		st->st_dev = info.lo_device;
		st->st_ino = info.lo_inode;
		st->st_mode = S_IFREG;
	}
	if (fd >= 0)
		close(fd);
	free(node);
}

/* The kernel holds the file of a loop device open, which is not visible in any process. */
static void require_no_loop(const struct drive *drives, unsigned int n)
{
	char name[32], file[PATH_MAX];
	struct stat st;
	glob_t found;

	if (glob("/sys/block/*/loop/backing_file", GLOB_NOSORT, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (sscanf(found.gl_pathv[i], "/sys/block/%31[^/]", name) != 1 ||
		    !first_line(file, sizeof(file), "%s", found.gl_pathv[i]))
			continue;
		stat_backing_file(name, file, &st);
		for (unsigned int k = 0; k < n; k++)
			if (S_ISREG(st.st_mode) && is_drive(&drives[k], &st))
				die("drive %s: in use: it is the backing file of /dev/%s; a replay "
				    "would overwrite it",
				    drives[k].path, name);
	}
	globfree(&found);
}

static void stat_drive(struct drive *d, const char *path)
{
	d->path = path;
	if (stat(path, &d->st))
		die("drive %s: %s", path, strerror(errno));
	if (!S_ISBLK(d->st.st_mode) && !S_ISREG(d->st.st_mode))
		die("drive %s: neither a block device nor a regular file", path);
}

/* ---- outputs ---- */

/* Return the option that reads this file, other than --trace; NULL if there is none. */
static const char *read_by(const struct options *o, const struct stat *file)
{
	/* There is at most one of each per drive; trace_is_file() is false for NULL. */
	for (unsigned int k = 0; k < MAX_DRIVES; k++) {
		if (trace_is_file(o->latency_models[k], file))
			return "--latency-model";
		if (trace_is_file(o->heimdall_networks[k], file))
			return "--heimdall-network";
	}
	return trace_is_file(o->profile_path, file) ? "--profile" : NULL;
}

static void require_replaceable(const struct options *o, const char *option, const char *path)
{
	struct stat st;

	if (lstat(path, &st)) {
		if (errno == ENOENT)
			return;
		die("--%s %s: %s", option, path, strerror(errno));
	}
	if (!S_ISREG(st.st_mode))
		die("--%s %s: it is %s; only a new or a regular file can be written", option, path,
		    S_ISLNK(st.st_mode)	  ? "a symbolic link"
		    : S_ISDIR(st.st_mode) ? "a folder"
					  : "a device node, pipe or socket");
	for (unsigned int k = 0; k < o->n_devices; k++) {
		struct drive d = {0};

		stat_drive(&d, o->devices[k]);
		if (is_drive(&d, &st))
			die("--%s %s: it is the drive %s", option, path, o->devices[k]);
	}
	for (unsigned int i = 0; i < o->n_traces; i++)
		if (trace_has_file(o->traces[i], &st))
			die("--%s %s: it is the trace %s", option, path, o->traces[i]);
	if (read_by(o, &st))
		die("--%s %s: it is the %s", option, path, read_by(o, &st));
}

/* Check an output, and return its path without symbolic links in its folder. It need not exist. */
static char *check_output(const struct options *o, const char *option, const char *path)
{
	char *copy = xstrdup(path), *temporary = xasprintf("%s.new", path), *folder, *resolved;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!*name)
		die("--%s \"%s\": not a file's name", option, path);
	require_replaceable(o, option, path);
	require_replaceable(o, option, temporary);
	folder = realpath(dirname(copy), NULL);
	if (!folder)
		die("--%s %s: %s", option, path, strerror(errno));
	resolved = xasprintf("%s/%s", folder, name);
	free(folder);
	free(temporary);
	free(copy);
	return resolved;
}

/* Return true if b is the temporary file that a is written to before it is renamed. */
static bool is_temporary_of(const char *a, const char *b)
{
	size_t n = strlen(a);

	return !strncmp(a, b, n) && !strcmp(b + n, ".new");
}

static void require_outputs(const struct options *o)
{
	char *json = o->json_path ? check_output(o, "json", o->json_path) : NULL;
	char *log = o->log_path ? check_output(o, "log", o->log_path) : NULL;
	struct stat st;

	if (json && log &&
	    (!strcmp(json, log) || is_temporary_of(json, log) || is_temporary_of(log, json) ||
	     (!stat(json, &st) && trace_is_file(log, &st))))
		die("--json %s and --log %s are the same file, or one is the temporary file (.new) "
		    "of the other",
		    o->json_path, o->log_path);
	free(json);
	free(log);
}

/* ---- interface ---- */

void guard_names(const struct options *o)
{
	struct drive drives[2];

	for (unsigned int k = 0; k < o->n_devices; k++) {
		stat_drive(&drives[0], o->devices[k]);
		for (unsigned int i = 0; i < k; i++) {
			stat_drive(&drives[1], o->devices[i]);
			if (is_drive(&drives[1], &drives[0].st))
				die("--devices: %s and %s are the same drive, or one is a part of "
				    "the other",
				    o->devices[i], o->devices[k]);
		}
		for (unsigned int i = 0; i < o->n_traces; i++)
			if (trace_has_file(o->traces[i], &drives[0].st))
				die("drive %s: it is the trace %s", o->devices[k], o->traces[i]);
		if (read_by(o, &drives[0].st))
			die("drive %s: it is the %s", o->devices[k], read_by(o, &drives[0].st));
	}
	require_outputs(o);
}

void guard_drives(const struct options *o)
{
	struct drive drives[MAX_DRIVES];

	for (unsigned int k = 0; k < o->n_devices; k++)
		stat_drive(&drives[k], o->devices[k]);
	require_no_loop(drives, o->n_devices);
	require_not_held(drives, o->n_devices);
	for (unsigned int k = 0; k < o->n_devices; k++)
		if (!is_forced(o, o->devices[k]))
			require_no_signature(o->devices[k]);
}
