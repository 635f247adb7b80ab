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

enum mode { ASSUME_CLEAN, COMPARE, RESYNC, DIED };

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
static uint32_t open_mirror(struct mirror_state *s, enum mode mode, const char *paths,
			    uint64_t bytes)
{
	struct options o = options_of(mode, paths);

	memset(s, 0, sizeof(*s));
	return state_open(s, &o, bytes, (1u << o.n) - 1, mode == DIED);
}

static void start_mirror(struct mirror_state *s, enum mode mode, const char *paths)
{
	open_mirror(s, mode, paths, BYTES);
	assert(!state_begin(s, (1u << strlen(paths)) - 1));
}

/* The process ends without a stop, as by SIGKILL or a power cut. */
static void crash(struct mirror_state *s)
{
	close(s->fd);
}

/* Return true if the mirror does not start, and stderr has this text. */
static bool is_refused(enum mode mode, const char *paths, const char *text)
{
	int status;
	pid_t child = fork();

	if (!child) {
		struct mirror_state s;

		assert(freopen("stderr", "w", stderr));
		open_mirror(&s, mode, paths, BYTES);
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

static void write_bits(struct mirror_state *s)
{
	size_t bytes = state_stage(s);

	assert(pwrite(s->fd, s->staged, bytes, STATE_BITS_OFFSET) == (ssize_t)bytes);
	assert(!state_staged(s, (int)bytes));
}

static void write_at(struct mirror_state *s, uint64_t start, uint64_t bytes)
{
	if (!state_touch(s, start, bytes))
		write_bits(s);
	assert(state_is_recorded(s, start, bytes));
}

static void overwrite(const struct mirror_state *s, off_t at, const char *text)
{
	int fd = open(s->path, O_RDWR);

	assert(pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
	close(fd);
}

TEST(assume_clean_is_refused_with_the_repair_after_a_crash)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	write_at(&s, 130 * MIB, 4096);
	crash(&s);
	assert(is_refused(ASSUME_CLEAN, "ab", "Make them equal: linnos-ublk --resync a b"));
	assert(is_refused(ASSUME_CLEAN, "ba", "may differ in 1 of 10 regions of 64 MiB"));
	assert(open_mirror(&s, RESYNC, "ab", BYTES) == 3);
	assert(state_may_differ(&s, &at) == 192 * MIB && at == 128 * MIB);
	at = 192 * MIB;
	assert(!state_may_differ(&s, &at));
	assert(!state_begin(&s, 3));
	crash(&s);
	start_mirror(&s, ASSUME_CLEAN, "ab");
	forget();
}

TEST(orderly_stop_makes_the_record_clean)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "abc");
	write_at(&s, 0, BYTES);
	assert(!state_end(&s, 7));
	crash(&s);
	start_mirror(&s, ASSUME_CLEAN, "cab");
	assert(!state_may_differ(&s, &at));
	forget();
}

TEST(dropped_replica_is_copied_to_and_never_from)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "abc");
	write_at(&s, 64 * MIB, 4096);
	assert(!state_drop(&s, 0));
	write_at(&s, 600 * MIB, 4096);
	/* Stopped in order, too. */
	assert(!state_end(&s, 6));
	crash(&s);
	assert(is_refused(ASSUME_CLEAN, "abc", "a is out of date"));
	for (enum mode mode = ASSUME_CLEAN; mode <= RESYNC; mode++)
		assert(is_refused(mode, "a", "none of these replicas holds the current data"));
	/* The others are equal. */
	assert(open_mirror(&s, RESYNC, "bc", BYTES) == 3);
	assert(!state_may_differ(&s, &at));
	crash(&s);
	assert(open_mirror(&s, RESYNC, "abc", BYTES) == 6);
	assert(state_may_differ(&s, &at) == 128 * MIB && at == 64 * MIB);
	at = 128 * MIB;
	assert(state_may_differ(&s, &at) == 640 * MIB && at == 576 * MIB);
	forget();
}

TEST(replica_that_was_missing_is_copied_to)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "abc");
	assert(!state_end(&s, 7));
	crash(&s);
	start_mirror(&s, ASSUME_CLEAN, "ac");
	write_at(&s, 320 * MIB, 4096);
	assert(!state_end(&s, 3));
	crash(&s);
	assert(is_refused(ASSUME_CLEAN, "abc", "b is out of date"));
	assert(open_mirror(&s, RESYNC, "abc", BYTES) == 5);
	assert(state_may_differ(&s, &at) == 384 * MIB && at == 320 * MIB);
	forget();
}

TEST(replica_that_was_replaced_is_copied_to_as_a_whole)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	assert(!state_drop(&s, 1));
	write_at(&s, 0, 4096);
	crash(&s);
	start_mirror(&s, COMPARE, "ac");
	write_at(&s, 64 * MIB, 4096);
	/* Bits are cleared again, although b is out. */
	assert(state_sweep_begin(&s, 100));
	state_sweep_end(&s, true, 100);
	assert(state_sweep_begin(&s, 200));
	assert(state_sweep_end(&s, true, 200));
	assert(!state_end(&s, 3));
	crash(&s);
	assert(is_refused(ASSUME_CLEAN, "abc", "b is out of date"));
	assert(open_mirror(&s, RESYNC, "abc", BYTES) == 5);
	for (; at < BYTES; at += 64 * MIB)
		assert(state_may_differ(&s, &at) == at + 64 * MIB);
	assert(!state_begin(&s, 7));
	crash(&s);
	start_mirror(&s, ASSUME_CLEAN, "bac");
	forget();
}

TEST(second_write_to_a_region_needs_no_write_of_the_record)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	assert(!state_touch(&s, 4096, 4096));
	assert(!state_touch(&s, 8192, 4096));
	write_bits(&s);
	for (uint64_t start = 0; start < 64 * MIB; start += MIB)
		assert(state_touch(&s, start, MIB));
	assert(!state_touch(&s, 63 * MIB, 2 * MIB));
	forget();
}

TEST(flush_clears_bits_after_a_time_without_writes)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	write_at(&s, 0, 4096);
	write_at(&s, 64 * MIB, 4096);
	assert(state_sweep_begin(&s, 100));
	assert(!state_sweep_end(&s, true, 100)); /* both have just been written */
	assert(!state_sweep_begin(&s, 100 + STATE_KEEP_S - 1));
	write_at(&s, 64 * MIB, 4096);
	assert(state_sweep_begin(&s, 200));
	assert(!state_sweep_end(&s, false, 200)); /* the flush has failed */
	assert(state_sweep_begin(&s, 300));
	write_at(&s, 0, 4096);
	assert(state_sweep_end(&s, true, 300));
	write_bits(&s);
	/* Not covered by the flush, and covered. */
	assert(state_is_recorded(&s, 0, 4096) && !state_is_recorded(&s, 64 * MIB, 4096));
	assert(!state_drop(&s, 1));
	assert(!state_sweep_begin(&s, 400));
	forget();
}

TEST(bit_set_during_a_write_of_the_record_needs_another_write)
{
	struct mirror_state s;
	size_t bytes;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	write_at(&s, 0, 4096);
	state_sweep_begin(&s, 100);
	state_sweep_end(&s, true, 100);
	state_sweep_begin(&s, 200);
	assert(state_sweep_end(&s, true, 200));
	bytes = state_stage(&s); /* without the bit */
	assert(!state_touch(&s, 0, 4096));
	assert(pwrite(s.fd, s.staged, bytes, STATE_BITS_OFFSET) == (ssize_t)bytes);
	assert(!state_staged(&s, (int)bytes));
	assert(!state_is_recorded(&s, 0, 4096));
	write_bits(&s);
	assert(state_is_recorded(&s, 0, 4096));
	forget();
}

TEST(record_that_cannot_be_written_is_reported)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
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
	forget();
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
	struct mirror_state s;

	for (unsigned int k = 0; k < sizeof(damages) / sizeof(*damages); k++) {
		start_mirror(&s, ASSUME_CLEAN, "ab");
		crash(&s);
		if (damages[k].at)
			overwrite(&s, damages[k].at, damages[k].bytes);
		else
			assert(!truncate(s.path, 100));
		assert(is_refused(damages[k].mode, "ab", damages[k].says));
		assert(open_mirror(&s, COMPARE, "ab", BYTES) == 3);
		forget();
	}
}

TEST(damaged_bits_stand_for_regions_that_may_differ)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	assert(!state_end(&s, 3));
	crash(&s);
	overwrite(&s, STATE_BITS_OFFSET + 5, "x");
	assert(is_refused(ASSUME_CLEAN, "ab", "--resync a b"));
	assert(open_mirror(&s, RESYNC, "ab", BYTES) == 3);
	for (; at < BYTES; at += 64 * MIB)
		assert(state_may_differ(&s, &at) == at + 64 * MIB);
	forget();
}

TEST(drives_of_two_mirrors_are_refused)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	crash(&s);
	start_mirror(&s, ASSUME_CLEAN, "cd");
	crash(&s);
	assert(is_refused(COMPARE, "ac", "belong to different mirrors"));
	forget();
}

TEST(new_drive_is_not_overwritten)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	assert(!state_end(&s, 3));
	crash(&s);
	assert(is_refused(RESYNC, "ac", "c is not in the record of this mirror"));
	start_mirror(&s, ASSUME_CLEAN, "ab");
	write_at(&s, 0, 4096);
	crash(&s);
	assert(is_refused(RESYNC, "ac", "c is not in the record of this mirror"));
	assert(is_refused(RESYNC, "cd", "has no record of these replicas"));
	/* All of them are read, and b is known to be missing from now on. */
	start_mirror(&s, COMPARE, "ac");
	crash(&s);
	assert(is_refused(ASSUME_CLEAN, "abc", "b is out of date"));
	forget();
}

TEST(file_with_the_name_of_a_member_is_another_member)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	write_at(&s, 0, 4096);
	crash(&s);
	assert(!rename("a", "z") && !rename("b", "a") && !rename("z", "b"));
	assert(is_refused(RESYNC, "ab", "has no record of these replicas"));
	forget();
}

TEST(mirror_of_another_size_is_not_resynced)
{
	struct mirror_state s;

	open_mirror(&s, ASSUME_CLEAN, "ab", 64 * MIB);
	assert(!state_begin(&s, 3));
	write_at(&s, 0, 4096);
	crash(&s);
	assert(is_refused(RESYNC, "ab", "start with --size 67108864 first"));
	forget();
}

TEST(record_in_use_is_refused)
{
	struct mirror_state s;

	start_mirror(&s, ASSUME_CLEAN, "ab");
	assert(is_refused(COMPARE, "bc", "is in use by another linnos-ublk"));
	crash(&s);
	forget();
}

TEST(record_needs_a_file_system_that_can_be_written)
{
	struct mirror_state s;

	/* A file where the folder should be. */
	close(open("state", O_CREAT | O_RDWR, 0600));
	assert(is_refused(ASSUME_CLEAN, "ab", "state: Not a directory"));
	assert(!unlink("state"));
	open_mirror(&s, ASSUME_CLEAN, "ab", BYTES);
	assert(!symlink("/proc", "state"));
	assert(state_begin(&s, 3) < 0);
	assert(!unlink("state"));
	forget();
}

TEST(server_of_a_killed_one_resyncs_what_was_written)
{
	struct mirror_state s;
	uint64_t at = 0;

	start_mirror(&s, ASSUME_CLEAN, "abc");
	write_at(&s, 200 * MIB, 4096);
	crash(&s);
	assert(open_mirror(&s, DIED, "abc", BYTES) == 7);
	assert(state_may_differ(&s, &at) == 256 * MIB && at == 192 * MIB);
	crash(&s);
	assert(is_refused(DIED, "abd", "d is not a drive of this device"));
	forget();
	/* Without a record everything may differ. */
	at = 0;
	assert(open_mirror(&s, DIED, "abc", BYTES) == 7);
	assert(state_may_differ(&s, &at) == 64 * MIB && at == 0);
	forget();
}
