// SPDX-License-Identifier: MIT
/* The state of a mirror's replicas after a crash: see state.h. */
#include "state.h"
#include "program/program.h"

#include "linnos_programs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Tests use another folder. */
#ifndef STATE_FOLDER
#define STATE_FOLDER "/var/lib/linnos-ublk"
#endif
#define MAGIC "LNMIRROR"
#define VERSION 1u
#define REGION_SHIFT 26
#define LOCK_WAITS 100
#define REGIONS_PER_SECTOR (8 * STATE_SECTOR_BYTES)
/* Suffix of a file that is still being written. */
#define NEW ".new"

static_assert(sizeof(struct state_head) == 512, "the head must be one sector");
static_assert(sizeof(struct state_sector) == 512, "the bits must be in whole sectors");
static_assert(512 + STATE_MEMBERS_MAX * IDENTITY_BYTES <= STATE_BITS_OFFSET,
	      "the identities must not overlap the bits");

static uint32_t checksum(const void *data, size_t bytes)
{
	return ~crc32_le(~0u, data, bytes);
}

/* --- The bits -------------------------------------------------------------------------- */

static void create_bits(struct mirror_state *s, uint64_t bytes)
{
	size_t size;

	s->n_regions = (bytes + (1u << REGION_SHIFT) - 1) >> REGION_SHIFT;
	s->n_sectors = (s->n_regions + REGIONS_PER_SECTOR - 1) / REGIONS_PER_SECTOR;
	size = s->n_sectors * STATE_SECTOR_BYTES;
	s->wanted = calloc(4, size);
	s->staged = calloc(s->n_sectors, sizeof(*s->staged));
	if (!s->wanted || !s->staged)
		die("out of memory");
	s->recorded = s->wanted + size;
	s->touched = s->recorded + size;
	s->candidates = s->touched + size;
}

static size_t bits_bytes(const struct mirror_state *s)
{
	return s->n_sectors * STATE_SECTOR_BYTES;
}

static bool has_bit(const uint8_t *bits, uint64_t region)
{
	return bits[region / 8] & 1u << region % 8;
}

static bool is_any_set(const struct mirror_state *s)
{
	for (size_t i = 0; i < bits_bytes(s); i++)
		if (s->wanted[i])
			return true;
	return false;
}

static unsigned int count_regions(const struct mirror_state *s)
{
	unsigned int n = 0;

	for (uint64_t region = 0; region < s->n_regions; region++)
		n += has_bit(s->wanted, region);
	return n;
}

uint64_t state_may_differ(const struct mirror_state *s, uint64_t *at)
{
	if (s->are_equal)
		return 0;
	for (uint64_t region = *at >> REGION_SHIFT; region < s->n_regions; region++) {
		const uint64_t start = region << REGION_SHIFT;

		if (!has_bit(s->wanted, region))
			continue;
		if (start > *at)
			*at = start;
		return start + (1u << REGION_SHIFT);
	}
	return 0;
}

bool state_is_recorded(const struct mirror_state *s, uint64_t start, uint64_t bytes)
{
	const uint64_t last = (start + bytes - 1) >> REGION_SHIFT;

	for (uint64_t region = start >> REGION_SHIFT; region <= last; region++)
		if (!has_bit(s->recorded, region))
			return false;
	return true;
}

bool state_touch(struct mirror_state *s, uint64_t start, uint64_t bytes)
{
	const uint64_t last = (start + bytes - 1) >> REGION_SHIFT;

	for (uint64_t region = start >> REGION_SHIFT; region <= last; region++) {
		s->wanted[region / 8] |= 1u << region % 8;
		s->touched[region / 8] |= 1u << region % 8;
	}
	return state_is_recorded(s, start, bytes);
}

size_t state_stage(struct mirror_state *s)
{
	for (size_t i = 0; i < s->n_sectors; i++) {
		memcpy(s->staged[i].bits, s->wanted + i * STATE_SECTOR_BYTES, STATE_SECTOR_BYTES);
		s->staged[i].crc = checksum(s->staged[i].bits, STATE_SECTOR_BYTES);
	}
	s->is_writing = true;
	return s->n_sectors * sizeof(*s->staged);
}

int state_staged(struct mirror_state *s, int result)
{
	const int written = (int)(s->n_sectors * sizeof(*s->staged));

	s->is_writing = false;
	if (result != written) {
		/* The bits in s->recorded are still in the file, because they were also set in what
		 * the failed write may have stored. */
		result = result < 0 ? result : -ENOSPC;
		if (!s->has_failed)
			warn("%s cannot be written: %s; until it can, writes to regions that are "
			     "not marked in it fail",
			     s->path, strerror(-result));
		s->has_failed = true;
		return result;
	}
	s->has_failed = false;
	/* The next write also clears a bit that was cleared while this one was in flight. */
	for (size_t i = 0; i < bits_bytes(s); i++)
		s->recorded[i] = s->wanted[i] &
				 s->staged[i / STATE_SECTOR_BYTES].bits[i % STATE_SECTOR_BYTES];
	return 0;
}

static uint32_t members_out(const struct mirror_state *s)
{
	return (uint32_t)((1ull << s->head.n_members) - 1) & ~s->head.in;
}

/* Return true if the bits are needed to copy missing data to a member that is out. */
static bool are_bits_kept(const struct mirror_state *s)
{
	return members_out(s) & ~s->head.gone;
}

bool state_sweep_begin(struct mirror_state *s, int64_t now_s)
{
	uint8_t any = 0;

	if (now_s < s->next_sweep_s || s->is_sweeping || are_bits_kept(s))
		return false;
	for (size_t i = 0; i < bits_bytes(s); i++) {
		s->candidates[i] = s->recorded[i] & ~s->touched[i];
		s->touched[i] = 0;
		any |= s->candidates[i];
	}
	s->next_sweep_s = now_s + STATE_KEEP_S;
	s->is_sweeping = any;
	return true;
}

bool state_sweep_end(struct mirror_state *s, bool has_succeeded, int64_t now_s)
{
	bool any = false;

	s->next_sweep_s = now_s + STATE_KEEP_S;
	if (!s->is_sweeping)
		return false;
	s->is_sweeping = false;
	if (!has_succeeded || are_bits_kept(s))
		return false;
	for (size_t i = 0; i < bits_bytes(s); i++) {
		const uint8_t cleared = s->candidates[i] & ~s->touched[i];

		s->wanted[i] &= ~cleared;
		s->recorded[i] &= ~cleared;
		any = any || cleared;
	}
	return any;
}

/* --- The file ---------------------------------------------------------------------------- */

static int write_all(int fd, const void *data, size_t bytes, off_t at)
{
	ssize_t n = pwrite(fd, data, bytes, at);

	return n < 0 ? -errno : (size_t)n < bytes ? -ENOSPC : 0;
}

static int write_head(struct mirror_state *s)
{
	s->head.crc = checksum(&s->head, offsetof(struct state_head, crc));
	return write_all(s->fd, &s->head, sizeof(s->head), 0);
}

static int write_bits(struct mirror_state *s)
{
	const size_t bytes = state_stage(s);

	s->is_writing = false;
	return write_all(s->fd, s->staged, bytes, STATE_BITS_OFFSET);
}

static int sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;

	if (fd < 0 || fsync(fd))
		error = -errno;
	if (fd >= 0)
		close(fd);
	return error;
}

static int write_new(struct mirror_state *s, const char *path)
{
	int error;

	s->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_DSYNC, 0600);
	if (s->fd < 0 || flock(s->fd, LOCK_EX | LOCK_NB))
		return -errno;
	error = write_head(s);
	if (!error)
		error = write_all(s->fd, s->members, sizeof(s->members), sizeof(s->head));
	if (!error)
		error = write_bits(s);
	if (!error && fsync(s->fd))
		error = -errno;
	if (!error && rename(path, s->path))
		error = -errno;
	return error;
}

/* Write a complete new file that replaces the present one. */
static int replace_file(struct mirror_state *s)
{
	char path[sizeof(s->path) + sizeof(NEW)];
	int old_fd = s->fd, error;

	if (!mkdir(STATE_FOLDER, 0700))
		sync_folder(STATE_FOLDER "/..");
	snprintf(path, sizeof(path), "%s" NEW, s->path);
	error = write_new(s, path);
	if (error)
		unlink(path);
	if (old_fd >= 0)
		close(old_fd);
	return error ? error : sync_folder(STATE_FOLDER);
}

/* Return the reason why the file cannot be read, or NULL. */
static const char *read_head(int fd, struct state_head *head,
			     char members[STATE_MEMBERS_MAX][IDENTITY_BYTES])
{
	static char version[64];
	const size_t bytes = STATE_MEMBERS_MAX * IDENTITY_BYTES;

	if (pread(fd, head, sizeof(*head), 0) != sizeof(*head) ||
	    memcmp(head->magic, MAGIC, sizeof(head->magic)) != 0)
		return "is damaged, or is not a record of a mirror";
	snprintf(version, sizeof(version), "has version %u; this program supports version %u",
		 head->version, VERSION);
	if (head->version != VERSION)
		return version;
	if (head->crc != checksum(head, offsetof(struct state_head, crc)) ||
	    pread(fd, members, bytes, sizeof(*head)) != (ssize_t)bytes ||
	    head->members_crc != checksum(members, bytes) || head->n_members > STATE_MEMBERS_MAX)
		return "is damaged";
	return NULL;
}

/* If a sector is damaged, all of its regions may differ. */
static void read_bits(struct mirror_state *s)
{
	create_bits(s, s->head.bytes);
	for (size_t i = 0; i < s->n_sectors; i++) {
		uint8_t *bits = s->wanted + i * STATE_SECTOR_BYTES;
		struct state_sector sector;
		const off_t at = STATE_BITS_OFFSET + (off_t)(i * sizeof(sector));

		if (pread(s->fd, &sector, sizeof(sector), at) == sizeof(sector) &&
		    sector.crc == checksum(sector.bits, sizeof(sector.bits))) {
			memcpy(bits, sector.bits, sizeof(sector.bits));
			continue;
		}
		warn("%s: sector %zu of the bits is damaged; all of its regions may differ",
		     s->path, i);
		memset(bits, 0xff, STATE_SECTOR_BYTES);
		s->head.is_clean = false;
	}
}

static unsigned int find_member(const struct mirror_state *s, const char *id)
{
	unsigned int i = 0;

	while (i < s->head.n_members && strcmp(s->members[i], id) != 0)
		i++;
	return i;
}

/* --- Checks before the mirror starts ------------------------------------------------------ */

/* The opened replicas, in the order of the command line. */
struct members {
	unsigned int n;
	uint32_t opened;
	char ids[REPLICAS_MAX][IDENTITY_BYTES];
};

static void identify(struct members *g, const struct options *o, uint32_t opened)
{
	bool is_shared[REPLICAS_MAX] = {false};
	struct stat st[REPLICAS_MAX];

	*g = (struct members){.n = o->n, .opened = opened};
	for (unsigned int k = 0; k < o->n; k++)
		if (opened & 1u << k) {
			if (stat(o->paths[k], &st[k]))
				die("%s: %s", o->paths[k], strerror(errno));
			identity_get(g->ids[k], o->paths[k], &st[k]);
		}
	/* Some vendors give all their drives the same serial number. */
	for (unsigned int k = 1; k < o->n; k++)
		for (unsigned int i = 0; i < k; i++)
			if (opened & 1u << k && !strcmp(g->ids[i], g->ids[k]))
				is_shared[i] = is_shared[k] = true;
	for (unsigned int k = 0; k < o->n; k++)
		if (is_shared[k])
			identity_get_name(g->ids[k], &st[k]);
	for (unsigned int k = 0; k < o->n; k++)
		if (identity_is_name(g->ids[k])) {
			warn("%s has no serial number or other identity, so it is recognised only "
			     "until the next boot; if the machine crashes, the next start needs "
			     "--compare",
			     o->paths[k]);
			break;
		}
}

static bool has_any_member(const struct mirror_state *s, const struct members *g)
{
	for (unsigned int k = 0; k < g->n; k++)
		if (g->opened & 1u << k && find_member(s, g->ids[k]) < s->head.n_members)
			return true;
	return false;
}

/* Lock the file. Another process may have replaced it before this one had the lock. */
static void lock_record(int fd, const char *path)
{
	struct stat opened, there;

	/* The lock of a killed server is released only after its last I/O, so wait for it. */
	for (unsigned int i = 0; i < LOCK_WAITS && flock(fd, LOCK_EX | LOCK_NB); i++)
		wait_a_little();
	if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &opened) || stat(path, &there) ||
	    opened.st_ino != there.st_ino)
		die("%s is in use by another linnos-ublk, which serves this mirror with other "
		    "replicas",
		    path);
}

/* Use the file as the record in @s if it names any of these replicas. */
static void use_record_if_matching(struct mirror_state *s, const char *name,
				   const struct members *g, bool compares)
{
	struct mirror_state found = {.fd = -1};
	const char *fault;

	snprintf(found.path, sizeof(found.path), STATE_FOLDER "/%s", name);
	found.fd = open(found.path, O_RDWR | O_CLOEXEC | O_DSYNC);
	if (found.fd < 0)
		die("%s: %s; it may be the record of this mirror, which must be writable",
		    found.path, strerror(errno));
	fault = read_head(found.fd, &found.head, found.members);
	if (fault && !compares)
		die("%s %s. It may be the record of this mirror. Start with --compare, which reads "
		    "all replicas; when all mirrors have been compared, remove the file: rm %s",
		    found.path, fault, found.path);
	if (fault)
		warn("%s %s. It is ignored; when all mirrors have been compared, remove it: rm %s",
		     found.path, fault, found.path);
	if (fault || !has_any_member(&found, g)) {
		close(found.fd);
		return;
	}
	if (s->fd >= 0)
		die("the replicas belong to different mirrors, recorded in %s and %s; remove the "
		    "record of the mirror that is no longer needed",
		    s->path, found.path);
	lock_record(found.fd, found.path);
	*s = found;
}

static void find_record(struct mirror_state *s, const struct members *g, bool compares)
{
	DIR *folder = opendir(STATE_FOLDER);
	const struct dirent *entry;

	s->fd = -1;
	if (!folder && errno == ENOENT)
		return;
	if (!folder)
		die(STATE_FOLDER ": %s; it may have the record of this mirror", strerror(errno));
	while (errno = 0, (entry = readdir(folder))) {
		const char *end = strchr(entry->d_name, '.');

		/* A file that was never completed is not a record. */
		if (!end && strlen(entry->d_name) < 64)
			use_record_if_matching(s, entry->d_name, g, compares);
	}
	if (errno)
		die(STATE_FOLDER ": %s; it may have the record of this mirror", strerror(errno));
	closedir(folder);
	if (s->fd >= 0)
		read_bits(s);
}

static const char *join_paths(const struct options *o)
{
	static char text[512];
	size_t length = 0;

	for (unsigned int k = 0; k < o->n && length < sizeof(text); k++)
		length += snprintf(text + length, sizeof(text) - length, " %s", o->paths[k]);
	return text;
}

static void read_boot(char boot[40])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	memset(boot, 0, 40);
	if (!file || !fgets(boot, 40, file))
		die("/proc/sys/kernel/random/boot_id cannot be read");
	fclose(file);
}

/* Return true if names in the record may belong to other drives by now. */
static bool names_may_have_changed(const struct mirror_state *s)
{
	bool any = false;
	char boot[40];

	read_boot(boot);
	for (unsigned int i = 0; i < s->head.n_members; i++)
		any = any || identity_is_name(s->members[i]);
	return any && memcmp(boot, s->head.boot, sizeof(boot)) != 0;
}

/* Die if the record says that the replicas may differ, because --assume-clean does not repair
 * them. */
static void check_equal(const struct mirror_state *s, const struct options *o, uint32_t current)
{
	for (unsigned int k = 0; k < o->n; k++)
		if (!(current & 1u << k) && s->member_of[k] < s->head.n_members)
			die("--assume-clean: %s is out of date, because a write failed on it or "
			    "the mirror was used without it (%s). Copy the missing data to "
			    "it: " PROGRAM " --resync%s",
			    o->paths[k], s->path, join_paths(o));
	if (!s->head.is_clean && is_any_set(s))
		die("--assume-clean: the last server was killed or the machine crashed, and the "
		    "replicas may differ in %u of %zu regions of 64 MiB (%s). Make them "
		    "equal: " PROGRAM " --resync%s",
		    count_regions(s), s->n_regions, s->path, join_paths(o));
}

/* Die if these replicas cannot be made equal with the record. */
static void check_repairable(const struct mirror_state *s, const struct options *o, uint32_t opened,
			     uint64_t bytes, bool is_needed)
{
	for (unsigned int k = 0; k < o->n; k++)
		if (opened & 1u << k && s->member_of[k] == s->head.n_members)
			die("--resync: %s is not in the record of this mirror (%s). To add it, "
			    "copy a replica to it (dd if=REPLICA of=%s bs=1M oflag=direct) while "
			    "the mirror is stopped, and start with --compare",
			    o->paths[k], s->path, o->paths[k]);
	if (is_needed && s->head.bytes != bytes)
		die("--resync: the record of the mirror is for %llu bytes (%s), not %llu; start "
		    "with --size %llu first",
		    (unsigned long long)s->head.bytes, s->path, (unsigned long long)bytes,
		    (unsigned long long)s->head.bytes);
}

static void check_record(const struct mirror_state *s, const struct options *o, uint32_t opened,
			 uint32_t current, uint64_t bytes, bool has_died)
{
	const bool is_needed = members_out(s) || (!s->head.is_clean && is_any_set(s));
	const char *option = o->assume_clean ? "--assume-clean"
			     : o->compare    ? "--compare"
					     : "--resync";

	if (!current)
		die("%s: none of these replicas holds the current data. Add one that does. If all "
		    "of them are lost, remove the record (rm %s) and start with --compare",
		    option, s->path);
	if (o->compare && !has_died)
		return;
	if (is_needed && !has_died && names_may_have_changed(s))
		die("%s: the replicas may differ, and a drive without a serial number may have "
		    "changed its name since the last boot (%s); start with --compare",
		    option, s->path);
	if (has_died)
		return;
	if (o->assume_clean)
		check_equal(s, o, current);
	else
		check_repairable(s, o, opened, bytes, is_needed);
}

/* Add a drive that the record does not name. Nothing is known about it. */
static void add_member(struct mirror_state *s, const struct options *o, unsigned int k,
		       const char *id, bool has_died)
{
	if (has_died && s->fd >= 0)
		die("--recover: %s is not a drive of this device (%s). If the original drive is "
		    "lost, delete the device with --remove %u, and start with --resync and the "
		    "other replicas",
		    o->paths[k], s->path, o->device);
	if (s->head.n_members == STATE_MEMBERS_MAX)
		die("%s cannot be added, because the record of this mirror is full: it names %d "
		    "drives. Remove it (rm %s), and start with --compare",
		    o->paths[k], STATE_MEMBERS_MAX, s->path);
	s->member_of[k] = s->head.n_members;
	memcpy(s->members[s->head.n_members++], id, IDENTITY_BYTES);
}

/* Choose a name that no file has, because existing files may belong to other mirrors or be damaged.
 * */
static void name_file(struct mirror_state *s)
{
	uint32_t number = checksum(s->members, sizeof(s->members));

	do
		snprintf(s->path, sizeof(s->path), STATE_FOLDER "/%08x", number++);
	while (!access(s->path, F_OK));
}

uint32_t state_open(struct mirror_state *s, const struct options *o, uint64_t bytes,
		    uint32_t opened, bool has_died)
{
	const bool by_record = has_died || o->resync;
	unsigned int n_known;
	uint32_t current = 0;
	struct members g;

	identify(&g, o, opened);
	find_record(s, &g, o->compare && !has_died);
	if (s->fd < 0 && by_record && !has_died)
		die("--resync: " STATE_FOLDER " has no record of these replicas, so they may "
		    "differ anywhere; start with --compare");
	for (unsigned int k = 0; k < o->n; k++) {
		s->member_of[k] = opened & 1u << k ? find_member(s, g.ids[k]) : STATE_MEMBERS_MAX;
		if (s->member_of[k] < s->head.n_members && s->head.in & 1u << s->member_of[k])
			current |= 1u << k;
	}
	if (s->fd >= 0)
		check_record(s, o, opened, current, bytes, has_died);
	if (s->fd < 0 || !by_record)
		current = opened;
	s->are_equal = !by_record ||
		       (s->fd >= 0 && current == opened && (s->head.is_clean || !is_any_set(s)));
	s->forgets = o->compare && !has_died;
	if (s->fd < 0 || (s->head.bytes != bytes && !has_died)) {
		free(s->wanted);
		free(s->staged);
		create_bits(s, bytes);
		s->head.bytes = bytes;
		s->forgets = true;
	}
	if (s->fd < 0)
		memset(s->wanted, 0xff, bits_bytes(s));
	for (unsigned int k = 0; k < o->n; k++)
		if (s->member_of[k] < s->head.n_members && s->head.gone & 1u << s->member_of[k])
			memset(s->wanted, 0xff, bits_bytes(s));
	n_known = s->head.n_members;
	for (unsigned int k = 0; k < o->n; k++)
		if (opened & 1u << k && s->member_of[k] == n_known)
			add_member(s, o, k, g.ids[k], has_died);
	if (s->fd < 0)
		name_file(s);
	return current;
}

static void set_in(struct mirror_state *s, uint32_t in)
{
	s->head.in = 0;
	for (unsigned int k = 0; k < REPLICAS_MAX; k++)
		if (in & 1u << k)
			s->head.in |= 1u << s->member_of[k];
	s->head.gone &= ~s->head.in;
}

int state_begin(struct mirror_state *s, uint32_t in)
{
	set_in(s, in);
	if (s->forgets)
		s->head.gone = members_out(s);
	if (!are_bits_kept(s))
		memset(s->wanted, 0, bits_bytes(s));
	memcpy(s->recorded, s->wanted, bits_bytes(s));
	memcpy(s->head.magic, MAGIC, sizeof(s->head.magic));
	s->head.version = VERSION;
	s->head.is_clean = false;
	s->head.members_crc = checksum(s->members, sizeof(s->members));
	read_boot(s->head.boot);
	return replace_file(s);
}

int state_drop(struct mirror_state *s, unsigned int replica)
{
	int error;

	s->head.in &= ~(1u << s->member_of[replica]);
	error = write_head(s);
	if (error)
		__atomic_store_n(&s->is_lost, true, __ATOMIC_RELEASE);
	return error;
}

int state_end(struct mirror_state *s, uint32_t in)
{
	int error;

	set_in(s, in);
	s->head.is_clean = true;
	if (!are_bits_kept(s))
		memset(s->wanted, 0, bits_bytes(s));
	error = write_bits(s);
	return error ? error : write_head(s);
}
