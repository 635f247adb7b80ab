// SPDX-License-Identifier: MIT
/* The record of a mirror and its bits, on files in the working directory. */
#include "state.h"

#include "../../tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define BYTES (640 * MIB)

/* Let all replicas report the same serial number. */
static bool have_equal_serials;

void __real_identity_get(char id[IDENTITY_BYTES], const char *path, const struct stat *st);
void __wrap_identity_get(char id[IDENTITY_BYTES], const char *path, const struct stat *st);
void __real_identity_get_name(char id[IDENTITY_BYTES], const struct stat *st);
void __wrap_identity_get_name(char id[IDENTITY_BYTES], const struct stat *st);

void __wrap_identity_get(char id[IDENTITY_BYTES], const char *path, const struct stat *st)
{
	if (have_equal_serials)
		snprintf(id, IDENTITY_BYTES, "SERIAL");
	else
		__real_identity_get(id, path, st);
}

void __wrap_identity_get_name(char id[IDENTITY_BYTES], const struct stat *st)
{
	if (have_equal_serials)
		snprintf(id, IDENTITY_BYTES, "name %llu", (unsigned long long)st->st_ino);
	else
		__real_identity_get_name(id, st);
}

enum mode { ASSUME_CLEAN, COMPARE, RESYNC, DIED };

/* The mirror that a test starts. */
static struct mirror_state s;

static const char *error_text(void)
{
	static char text[4096];
	FILE *file = fopen("stderr", "r");
	size_t n;

	fflush(stderr);
	n = fread(text, 1, sizeof(text) - 1, file);

	text[n] = 0;
	fclose(file);
	return text;
}

static struct options options_of(enum mode mode, const char *paths)
{
	static char names[REPLICAS_MAX][2];
	struct options o = {.assume_clean = mode == ASSUME_CLEAN,
			    .compare = mode == COMPARE,
			    .resync = mode == RESYNC};

	for (; paths[o.n]; o.n++) {
		names[o.n][0] = paths[o.n];
		o.paths[o.n] = names[o.n];
		close(open(names[o.n], O_CREAT | O_RDWR, 0600));
	}
	return o;
}

/* Start a mirror of the files a, b, ... without serving it. */
static uint32_t open_mirror(enum mode mode, const char *paths, uint64_t bytes)
{
	struct options o = options_of(mode, paths);

	memset(&s, 0, sizeof(s));
	return state_open(&s, &o, bytes, (1u << o.n) - 1, mode == DIED);
}

static void start_mirror(enum mode mode, const char *paths)
{
	open_mirror(mode, paths, BYTES);
	assert(!state_begin(&s, (1u << strlen(paths)) - 1));
}

/* The process ends without a stop, as by SIGKILL or a power cut. */
static void crash(void)
{
	close(s.fd);
}

/* Return true if the mirror does not start, and stderr has this text. */
static bool is_refused(enum mode mode, const char *paths, const char *text)
{
	int status;
	pid_t child = fork();

	if (!child) {
		assert(freopen("stderr", "w", stderr));
		open_mirror(mode, paths, BYTES);
		exit(0);
	}
	waitpid(child, &status, 0);
	if (WEXITSTATUS(status) == 1 && strstr(error_text(), text))
		return true;
	printf("%d: %s\n", WEXITSTATUS(status), error_text());
	return false;
}

static void forget(void)
{
	assert(!system("rm -rf state [a-dz]"));
}

AFTER_EACH(forget)

/* Stop the mirror in order, with these replicas in it. */
static void stop(uint32_t replicas)
{
	assert(!state_end(&s, replicas));
	crash();
}

/* Return true if exactly the regions of 64 MiB with these numbers may differ. */
static bool may_differ(const char *regions)
{
	uint64_t at = 0, end;

	for (; (end = state_may_differ(&s, &at)); at = end, regions++)
		if (at != (uint64_t)(*regions - '0') * 64 * MIB || end != at + 64 * MIB)
			return false;
	return !*regions;
}

static void write_bits(void)
{
	size_t bytes = state_stage(&s);

	assert(pwrite(s.fd, s.staged, bytes, STATE_BITS_OFFSET) == (ssize_t)bytes);
	assert(!state_staged(&s, (int)bytes));
}

static void write_at(uint64_t start, uint64_t bytes)
{
	if (!state_touch(&s, start, bytes))
		write_bits();
	assert(state_is_recorded(&s, start, bytes));
}

static void overwrite(off_t at, const char *text)
{
	int fd = open(s.path, O_RDWR);

	assert(pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
	close(fd);
}

TEST(assume_clean_is_refused_with_the_repair_after_a_crash)
{
	start_mirror(ASSUME_CLEAN, "ab");
	write_at(130 * MIB, 4096);
	crash();
	assert(is_refused(ASSUME_CLEAN, "ab", "Make them equal: linnos-ublk --resync a b"));
	assert(is_refused(ASSUME_CLEAN, "ba", "may differ in 1 of 10 regions of 64 MiB"));
	assert(open_mirror(RESYNC, "ab", BYTES) == 3);
	assert(may_differ("2"));
	assert(!state_begin(&s, 3));
	crash();
	start_mirror(ASSUME_CLEAN, "ab");
}

TEST(orderly_stop_makes_the_record_clean)
{
	start_mirror(ASSUME_CLEAN, "abc");
	write_at(0, BYTES);
	stop(7);
	start_mirror(ASSUME_CLEAN, "cab");
	assert(may_differ(""));
}

TEST(dropped_replica_is_copied_to_and_never_from)
{
	start_mirror(ASSUME_CLEAN, "abc");
	write_at(64 * MIB, 4096);
	assert(!state_drop(&s, 0));
	write_at(600 * MIB, 4096);
	/* Stopped in order, too. */
	stop(6);
	assert(is_refused(ASSUME_CLEAN, "abc", "a is out of date"));
	for (enum mode mode = ASSUME_CLEAN; mode <= RESYNC; mode++)
		assert(is_refused(mode, "a", "none of these replicas holds the current data"));
	/* The others are equal. */
	assert(open_mirror(RESYNC, "bc", BYTES) == 3);
	assert(may_differ(""));
	crash();
	assert(open_mirror(RESYNC, "abc", BYTES) == 6);
	assert(may_differ("19"));
}

TEST(replica_that_was_missing_is_copied_to)
{
	start_mirror(ASSUME_CLEAN, "abc");
	stop(7);
	start_mirror(ASSUME_CLEAN, "ac");
	write_at(320 * MIB, 4096);
	stop(3);
	assert(is_refused(ASSUME_CLEAN, "abc", "b is out of date"));
	assert(open_mirror(RESYNC, "abc", BYTES) == 5);
	assert(may_differ("5"));
}

TEST(replica_that_was_replaced_is_copied_to_as_a_whole)
{
	start_mirror(ASSUME_CLEAN, "ab");
	assert(!state_drop(&s, 1));
	write_at(0, 4096);
	crash();
	start_mirror(COMPARE, "ac");
	write_at(64 * MIB, 4096);
	/* Bits are cleared again, although b is out. */
	assert(state_sweep_begin(&s, 100));
	state_sweep_end(&s, true, 100);
	assert(state_sweep_begin(&s, 200));
	assert(state_sweep_end(&s, true, 200));
	stop(3);
	assert(is_refused(ASSUME_CLEAN, "abc", "b is out of date"));
	assert(open_mirror(RESYNC, "abc", BYTES) == 5);
	assert(may_differ("0123456789"));
	assert(!state_begin(&s, 7));
	crash();
	start_mirror(ASSUME_CLEAN, "bac");
}

TEST(second_write_to_a_region_needs_no_write_of_the_record)
{
	start_mirror(ASSUME_CLEAN, "ab");
	assert(!state_touch(&s, 4096, 4096));
	assert(!state_touch(&s, 8192, 4096));
	write_bits();
	for (uint64_t start = 0; start < 64 * MIB; start += MIB)
		assert(state_touch(&s, start, MIB));
	assert(!state_touch(&s, 63 * MIB, 2 * MIB));
}

TEST(flush_clears_bits_after_a_time_without_writes)
{
	start_mirror(ASSUME_CLEAN, "ab");
	write_at(0, 4096);
	write_at(64 * MIB, 4096);
	assert(state_sweep_begin(&s, 100));
	assert(!state_sweep_end(&s, true, 100)); /* both have just been written */
	assert(!state_sweep_begin(&s, 100 + STATE_KEEP_S - 1));
	write_at(64 * MIB, 4096);
	assert(state_sweep_begin(&s, 200));
	assert(!state_sweep_end(&s, false, 200)); /* the flush has failed */
	assert(state_sweep_begin(&s, 300));
	write_at(0, 4096);
	assert(state_sweep_end(&s, true, 300));
	write_bits();
	/* Not covered by the flush, and covered. */
	assert(state_is_recorded(&s, 0, 4096) && !state_is_recorded(&s, 64 * MIB, 4096));
	assert(!state_drop(&s, 1));
	assert(!state_sweep_begin(&s, 400));
}

TEST(bit_set_during_a_write_of_the_record_needs_another_write)
{
	size_t bytes;

	start_mirror(ASSUME_CLEAN, "ab");
	write_at(0, 4096);
	state_sweep_begin(&s, 100);
	state_sweep_end(&s, true, 100);
	state_sweep_begin(&s, 200);
	assert(state_sweep_end(&s, true, 200));
	bytes = state_stage(&s); /* without the bit */
	assert(!state_touch(&s, 0, 4096));
	assert(pwrite(s.fd, s.staged, bytes, STATE_BITS_OFFSET) == (ssize_t)bytes);
	assert(!state_staged(&s, (int)bytes));
	assert(!state_is_recorded(&s, 0, 4096));
	write_bits();
	assert(state_is_recorded(&s, 0, 4096));
}

TEST(record_that_cannot_be_written_is_reported)
{
	start_mirror(ASSUME_CLEAN, "ab");
	close(s.fd);
	s.fd = open(s.path, O_RDONLY);
	assert(!state_touch(&s, 0, 4096));
	state_stage(&s);
	assert(freopen("stderr", "w", stderr));
	assert(state_staged(&s, -EROFS) == -EROFS);
	assert(strstr(error_text(), "cannot be written: Read-only file system"));
	assert(freopen("/dev/stdout", "w", stderr));
	assert(!state_is_recorded(&s, 0, 4096));
	assert(state_drop(&s, 1) == -EBADF && s.is_lost);
}

TEST(damaged_record_is_refused_with_its_remedy)
{
	static const struct {
		off_t at; /* 0 to truncate the file */
		const char *bytes;
		enum mode mode;
		const char *says;
	} damages[] = {
		{30, "x", ASSUME_CLEAN, "is damaged"},
		{30, "x", RESYNC, "Start with --compare, which reads"},
		{600, "x", RESYNC, "is damaged"},
		{0, NULL, ASSUME_CLEAN, "is damaged, or is not a record of a mirror"},
		{8, "\2", ASSUME_CLEAN, "has version 2; this program supports version 1"},
	};

	for (unsigned int k = 0; k < sizeof(damages) / sizeof(*damages); k++) {
		start_mirror(ASSUME_CLEAN, "ab");
		crash();
		if (damages[k].at)
			overwrite(damages[k].at, damages[k].bytes);
		else
			assert(!truncate(s.path, 100));
		assert(is_refused(damages[k].mode, "ab", damages[k].says));
		assert(open_mirror(COMPARE, "ab", BYTES) == 3);
		forget();
	}
}

TEST(damaged_bits_stand_for_regions_that_may_differ)
{
	start_mirror(ASSUME_CLEAN, "ab");
	stop(3);
	overwrite(STATE_BITS_OFFSET + 5, "x");
	assert(is_refused(ASSUME_CLEAN, "ab", "--resync a b"));
	assert(open_mirror(RESYNC, "ab", BYTES) == 3);
	assert(may_differ("0123456789"));
}

TEST(drives_of_two_mirrors_are_refused)
{
	start_mirror(ASSUME_CLEAN, "ab");
	crash();
	start_mirror(ASSUME_CLEAN, "cd");
	crash();
	assert(is_refused(COMPARE, "ac", "belong to different mirrors"));
}

TEST(new_drive_is_not_overwritten)
{
	start_mirror(ASSUME_CLEAN, "ab");
	stop(3);
	assert(is_refused(RESYNC, "ac", "c is not in the record of this mirror"));
	start_mirror(ASSUME_CLEAN, "ab");
	write_at(0, 4096);
	crash();
	assert(is_refused(RESYNC, "ac", "c is not in the record of this mirror"));
	assert(is_refused(RESYNC, "cd", "has no record of these replicas"));
	/* All of them are read, and b is known to be missing from now on. */
	start_mirror(COMPARE, "ac");
	crash();
	assert(is_refused(ASSUME_CLEAN, "abc", "b is out of date"));
}

TEST(file_with_the_name_of_a_member_is_another_member)
{
	start_mirror(ASSUME_CLEAN, "ab");
	write_at(0, 4096);
	crash();
	assert(!rename("a", "z") && !rename("b", "a") && !rename("z", "b"));
	assert(is_refused(RESYNC, "ab", "has no record of these replicas"));
}

TEST(drives_with_equal_serials_are_recognised_in_any_order)
{
	have_equal_serials = true;
	start_mirror(ASSUME_CLEAN, "abc");
	write_at(0, 4096);
	crash();
	assert(open_mirror(RESYNC, "cba", BYTES) == 7);
	assert(may_differ("0"));
	have_equal_serials = false;
}

TEST(mirror_of_another_size_is_not_resynced)
{
	open_mirror(ASSUME_CLEAN, "ab", 64 * MIB);
	assert(!state_begin(&s, 3));
	write_at(0, 4096);
	crash();
	assert(is_refused(RESYNC, "ab", "start with --size 67108864 first"));
}

TEST(record_in_use_is_refused)
{
	start_mirror(ASSUME_CLEAN, "ab");
	assert(is_refused(COMPARE, "bc", "is in use by another linnos-ublk"));
	crash();
}

TEST(record_needs_a_file_system_that_can_be_written)
{
	/* A file where the folder should be. */
	close(open("state", O_CREAT | O_RDWR, 0600));
	assert(is_refused(ASSUME_CLEAN, "ab", "state: Not a directory"));
	assert(!unlink("state"));
	open_mirror(ASSUME_CLEAN, "ab", BYTES);
	assert(!symlink("/proc", "state"));
	assert(state_begin(&s, 3) < 0);
	assert(!unlink("state"));
}

TEST(server_of_a_killed_one_resyncs_what_was_written)
{
	start_mirror(ASSUME_CLEAN, "abc");
	write_at(200 * MIB, 4096);
	crash();
	assert(open_mirror(DIED, "abc", BYTES) == 7);
	assert(may_differ("3"));
	crash();
	assert(is_refused(DIED, "abd", "d is not a drive of this device"));
	forget();
	/* Without a record everything may differ. */
	assert(open_mirror(DIED, "abc", BYTES) == 7);
	assert(may_differ("0123456789"));
}
