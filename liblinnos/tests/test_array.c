// SPDX-License-Identifier: MIT
/* linnos_array_open() and linnos_pread(): choice of replicas, failover, ends of files, sizes,
 * messages. */
#include "one_array.h"
#include "options.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>

/* Latencies and errors of the replicas. Every result is logged. */
static struct drives {
	uint64_t now_ns;
	uint64_t latency_us[N];
	int error[N]; /* 0 for none */
	unsigned int log[64], n_logged;
	int interrupted;  /* this number of further results */
	int at_most;	  /* largest number of bytes of a result; 0 for all */
	pthread_t reader; /* results of copies are not logged */
} drives;

static uint64_t clock_ns(void *context)
{
	(void)context;
	return drives.now_ns;
}

static int answer(void *context, unsigned int replica, uint64_t offset, int result)
{
	struct drives *d = &drives;

	(void)context;
	(void)offset;
	if (!pthread_equal(pthread_self(), d->reader))
		return result;
	d->now_ns += d->latency_us[replica] * US;
	if (d->n_logged < sizeof(d->log) / sizeof(*d->log))
		d->log[d->n_logged] = replica;
	d->n_logged++;
	if (d->interrupted) {
		d->interrupted--;
		return -EINTR;
	}
	if (d->error[replica])
		return d->error[replica];
	return d->at_most && result > d->at_most ? d->at_most : result;
}

/* Open an array on drives that behave like this. */
static void open_on(struct drives d, const struct linnos_options *o)
{
	open_array(o ? o : &OPTIONS(.probe_after_ms = 0));
	drives = d;
	drives.reader = pthread_self();
	array->set.hooks = (struct hooks){.clock_ns = clock_ns, .answer = answer};
}

/* Choose without a guard and without probes. */
#define UNGUARDED(...) OPTIONS(.flags = LINNOS_UNGUARDED, .probe_after_ms = 0, __VA_ARGS__)

/* Read repeatedly, and check that each read is complete. */
static void read_repeatedly(unsigned int times)
{
	while (times--)
		assert(reads_at(0));
}

TEST(pread_writes_only_the_requested_bytes)
{
	open_array(NULL);
	align_replicas(array, BOUNCE_ALIGN, BOUNCE_ALIGN);
	memset(buf, 'x', sizeof(buf));
	assert(linnos_pread(queue(), buf + 100, 100, 4050) == 100);
	assert(is_right(buf + 100, 100, 4050));
	for (int i = 0; i < 100; i++)
		assert(buf[i] == 'x' && buf[200 + i] == 'x');
}

/* Counters are read while other threads count, so a completion may be counted before its
 * submission. */
TEST(in_flight_is_not_negative_when_a_completion_is_counted_first)
{
	open_array(NULL);
	read_repeatedly(3);
	queue()->account.counts.in_flight--;
	assert(stats().in_flight == 0);
	queue()->account.counts.in_flight++;
}

/* The kernel rejects such a size among several buffers at any replica. */
TEST(preadv_rejects_too_large_buffer_without_reading)
{
	struct iovec iov[2] = {{.iov_base = buf, .iov_len = sizeof(buf)},
			       {.iov_base = buf, .iov_len = (size_t)SSIZE_MAX + 1}};

	open_array(NULL);
	assert(linnos_preadv(queue(), iov, 2, 0, NULL) == -EINVAL &&
	       says("iov[1].iov_len is 9223372036854775808"));
	assert(!stats().reads && !stats().errors);
	for (unsigned int k = 0; k < N; k++)
		assert(replica(k).state != LINNOS_FAILING);
}

TEST(pread_returns_short_count_at_end_of_array)
{
	for (int direct = 0; direct < 2; direct++) {
		close_array();
		array = open_memfd_array(N, 10000, NULL);
		align_replicas(array, direct ? BOUNCE_ALIGN : 1, direct ? BOUNCE_ALIGN : 1);
		assert(linnos_array_size(array) == 10000);
		assert(linnos_pread(queue(), buf, sizeof(buf), 9000) == 1000 &&
		       is_right(buf, 1000, 9000));
		assert(linnos_pread(queue(), buf, sizeof(buf), 10000) == 0);
		assert(linnos_pread(queue(), buf, sizeof(buf), 1 << 20) == 0);
		assert(linnos_pread(queue(), buf, 0, 0) == 0);
		assert(stats().errors == 0 && stats().failovers == 0);
		/* A file may grow. */
		for (unsigned int k = 0; k < N; k++)
			assert(pwrite(fd_of(array, k), "more", 4, 10000) == 4);
		assert(linnos_pread(queue(), buf, 100, 10000) == 4 && !memcmp(buf, "more", 4));
	}
}

TEST(dropped_replica_receives_no_reads)
{
	for (int home = LINNOS_DEFAULT_ROUND_ROBIN; home < N; home++) {
		open_on((struct drives){.latency_us = {100, 100, 100}},
			&OPTIONS(.home = home, .probe_after_ms = 1));
		read_repeatedly(30);
		assert(linnos_array_drop_replica(array, N) == -EINVAL && says("between 0 and 2"));
		assert(linnos_array_drop_replica(array, 1) == 0 &&
		       linnos_array_drop_replica(array, 1) == 0);
		drives.n_logged = 0;
		for (int i = 0; i < 60; i++, drives.now_ns += 10 * MS) {
			/* Not even if the others fail. */
			drives.error[0] = i % 7 ? 0 : -EIO;
			drives.error[2] = i % 3 ? 0 : -EIO;
			assert(linnos_pread(queue(), buf, sizeof(buf), 0) ==
			       (i % 21 ? READ_BYTES : -EIO));
			settle(array);
		}
		for (unsigned int i = 0; i < drives.n_logged && i < 64; i++)
			assert(drives.log[i] != 1);
		assert(linnos_array_drop_replica(array, 0) == 0);
		assert(linnos_array_drop_replica(array, 2) == -EBUSY && says("the last one"));
		drives.error[2] = 0;
		read_repeatedly(3);
	}
}

TEST(read_fails_over_when_a_replica_was_truncated)
{
	open_array(&OPTIONS(.home = 1));
	assert(!ftruncate(fd_of(array, 1), 6000));
	assert(reads_at(3000));
	assert(replica(1).errors == 1 && stats().failovers == 1);
	assert(reads_at(100000));
	/* If the others fail, its end is still not the end of the array. */
	assert(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), fd_of(array, 0)) == fd_of(array, 0));
	assert(dup2(fd_of(array, 0), fd_of(array, 2)) == fd_of(array, 2));
	assert(linnos_pread(queue(), buf, sizeof(buf), 100000) < 0);
	assert(linnos_pread(queue(), buf, 1000, 3000) == 1000);
}

TEST(saved_us_estimate_is_predicted_default_minus_measured)
{
	open_on((struct drives){.now_ns = MS, .latency_us = {1000, 100, 100}},
		&UNGUARDED(.home = 0, .margin_percent = 0));
	/* The others have no history, so their predictions are the lowest possible. */
	assert(reads_at(0) && !stats().redirected);
	/* One of the last four reads took 1000 us, which is a mean of 250 us. At the other replica
	 * reads took 100 us. */
	assert(reads_at(0));
	assert(stats().redirected == 1 && stats().saved_us_estimate == 150);
	drives.latency_us[1] = drives.latency_us[2] = 3000;
	assert(reads_at(0));
	assert(stats().redirected == 2 && stats().saved_us_estimate == 150 - 2750);
}

TEST(failed_read_goes_to_next_best_replica)
{
	open_on((struct drives){.now_ns = MS, .latency_us = {100, 300, 200}},
		&UNGUARDED(.margin_percent = 100));
	read_repeatedly(8 * N);
	queue()->account.chooser->c.margin_percent = 0;
	drives.n_logged = 0;
	drives.error[0] = -EIO;
	assert(reads_at(4096));
	assert(drives.n_logged == 2 && drives.log[0] == 0 && drives.log[1] == 2);
	/* From now on the others are tried first. If they fail too, this one is tried last. */
	drives.error[1] = drives.error[2] = -ENODATA;
	drives.error[0] = 0;
	drives.n_logged = 0;
	assert(reads_at(8192));
	assert(drives.n_logged == 3 && drives.log[0] == 2 && drives.log[1] == 1 &&
	       drives.log[2] == 0);
	assert(stats().failovers == 3 && stats().errors == 3 && !stats().failed);
	assert(replica(0).errors == 1 && replica(2).errors == 1);
}

TEST(read_fails_with_error_text_when_all_replicas_fail)
{
	char name[64];

	open_on((struct drives){.now_ns = MS, .error = {-EIO, -EIO, -EIO}}, NULL);
	assert(linnos_pread(queue(), buf, sizeof(buf), 12288) == -EIO);
	assert(drives.n_logged == N && stats().failed == 1 && stats().errors == N);
	assert(stats().in_flight == 0 && stats().bytes == 0);
	snprintf(name, sizeof(name), "descriptor %d: Input/output error",
		 fd_of(array, drives.log[2]));
	assert(says("read of 4096 bytes at 12288: all 3 replicas have failed") && says(name));
	memset(drives.error, 0, sizeof(drives.error));
	assert(reads_at(12288));
}

TEST(partial_and_interrupted_attempts_are_continued)
{
	for (int direct = 0; direct < 2; direct++) {
		char large[20000];

		open_on((struct drives){.now_ns = MS, .at_most = 5000, .interrupted = 2}, NULL);
		align_replicas(array, direct ? BOUNCE_ALIGN : 1, direct ? BOUNCE_ALIGN : 1);
		assert(linnos_pread(queue(), large, sizeof(large), 100) == sizeof(large));
		assert(is_right(large, sizeof(large), 100));
		/* In whole blocks, 4096 of 5000 bytes can be used. */
		assert(drives.n_logged == (direct ? 2 + 5 : 2 + 4));
		assert(stats().errors == 0 && stats().failovers == 0);
	}
}

TEST(attempt_without_progress_is_the_end_of_the_replica)
{
	/* A drive returns at least one block. */
	open_on((struct drives){.now_ns = MS, .at_most = 1000}, NULL);
	align_replicas(array, BOUNCE_ALIGN, BOUNCE_ALIGN);
	assert(linnos_pread(queue(), buf, sizeof(buf), 0) == -EIO);
	assert(says("it ends before the others do"));
}

TEST(pread_returns_efault_when_memory_is_not_writable)
{
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	open_array(NULL);
	assert(linnos_pread(queue(), none, 4096, 0) == -EFAULT);
	assert(stats().errors == 0 && stats().failovers == 0 && stats().failed == 1);
	assert(linnos_pread(queue(), buf, 4096, -1) == -EINVAL &&
	       says("at -1: the offset is out of range"));
	assert(linnos_pread(queue(), buf, 4096, INT64_MAX - 10) == -EINVAL);
	assert(linnos_pread(queue(), buf, 4096, 0) == 4096);
	munmap(none, 4096);
}

TEST(open_names_invalid_options)
{
	static const char exclude[] = "exclude each other; set one of them";
	const struct {
		struct linnos_options o;
		const char *text;
	} cases[] = {
		{OPTIONS(.size = 0), "struct linnos_options: size is 0"},
		{OPTIONS(.flags = 1u << 20), "flags is 0x100000"},
		{OPTIONS(.home = N), "home is 3; it must be between 0 and 2"},
		{OPTIONS(.margin_percent = 101), "margin_percent is 101"},
		{OPTIONS(.max_duplicates = 101), "max_duplicates is 101"},
		{OPTIONS(.max_duplicates = NAN), "max_duplicates"},
		{OPTIONS(.hedge_percentile = 100), "hedge_percentile is 100"},
		{OPTIONS(.hedge_percentile = 0.95), "is 0.95; it is in percent"},
		{OPTIONS(.hedge_us = 100, .hedge_percentile = 95), exclude},
		{OPTIONS(.hedge_us = 100, .flags = LINNOS_DUPLICATES), exclude},
	};
	struct {
		struct linnos_options o;
		uint64_t new_member;
	} newer = {.o = OPTIONS(.size = sizeof(newer)), .new_member = 1};
	int fds[N] = {0};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert(linnos_array_open_fds(&array, N, fds, NULL, &cases[i].o) == -EINVAL &&
		       says(cases[i].text) && !array);
	/* A program with a newer header: members that are zero have no effect. */
	assert(linnos_array_open_fds(&array, N, fds, NULL, &newer.o) == -E2BIG);
	assert(says("older than the program's header") && !array);
	newer.new_member = 0;
	open_array(&newer.o);
}

TEST(open_names_replicas_and_models_that_cannot_be_opened)
{
	static const char self[] = "/proc/self/exe", none[] = "/nowhere/replica";
	static const struct {
		unsigned int n;
		const char *paths[3], *model;
		int error;
		const char *text, *more;
	} cases[] = {
		{1, {none}, NULL, -ENOENT, "replica /nowhere/replica: No such file", ""},
		{2, {self, none}, NULL, -ENOENT, "/nowhere/replica: No such", "pass NULL"},
		{1, {"/tmp"}, NULL, -EINVAL, "/tmp: neither a block device nor a regular file", ""},
		{1, {"/dev/null"}, NULL, -EINVAL, "neither a block device", ""},
		{0, {none}, NULL, -EINVAL, "n_replicas is 0; it must be between 1 and 16", ""},
		{17, {none}, NULL, -EINVAL, "n_replicas is 17", ""},
		{1,
		 {self},
		 "/nowhere/model",
		 -ENOENT,
		 "/nowhere/model: No such file",
		 "linnapp train --kind latency"},
		{1, {self}, self, -EINVAL, "model of replica 0: /proc/self/exe: bad magic", ""},
		{3, {NULL}, NULL, -EINVAL, "all 3 replicas are absent", ""},
		{3,
		 {self, NULL, self},
		 NULL,
		 -EINVAL,
		 "replica /proc/self/exe: the same file or device as replica /proc/self/exe",
		 ""},
	};
	int fds[2] = {create_replica(BYTES), create_replica(0)};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *models[] = {cases[i].model, NULL, NULL};

		assert(linnos_array_open(&array, cases[i].n, cases[i].paths, models, NULL) ==
			       cases[i].error &&
		       !array);
		assert(says(cases[i].text) && says(cases[i].more));
	}
	assert(linnos_array_open_fds(&array, 1, (int[]){-2}, NULL, NULL) == -EBADF);
	assert(says("descriptor -2: Bad file descriptor"));
	assert(linnos_array_open_fds(&array, 2, fds, NULL, NULL) == -EINVAL);
	assert(says("it is empty, but another replica holds 1048576 bytes") && !array);
	/* Files that are still empty. */
	assert(!linnos_array_open_fds(&array, 1, fds + 1, NULL, NULL));
	assert(!linnos_array_close(array));
	array = NULL;
	close_fds(2, fds);
}

TEST(stats_have_the_size_of_the_callers_structure)
{
	uint64_t few[3] = {7, 7, 7}, many[200];

	open_array(NULL);
	assert(reads_at(0));
	linnos_array_get_stats(array, (struct linnos_stats *)few, 2 * sizeof(*few));
	assert(few[0] == 1 && few[1] == sizeof(buf) && few[2] == 7);
	memset(many, 7, sizeof(many));
	linnos_array_get_stats(array, (struct linnos_stats *)many, sizeof(many));
	assert(many[0] == 1 && many[199] == 0);
}

/* The call that creates it has failed, and its caller has ignored the error. */
TEST(functions_reject_null_objects_by_name)
{
	struct linnos_attempt write;
	struct linnos_replica_stats one;
	struct linnos_completion c;
	struct io_uring_sqe sqe;
	struct linnos_chooser *ch;
	struct linnos_stats stats;
	struct linnos_array *a;
	struct linnos_queue *q;
	struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};

	assert(linnos_array_open(&a, 1, NULL, NULL, NULL) == -EINVAL &&
	       says("the list of replicas is NULL"));
	assert(linnos_array_open_fds(&a, 1, NULL, NULL, NULL) == -EINVAL && !a);
	assert(linnos_array_open_backend(
		       &a, 1, &(struct linnos_replica){.size = sizeof(struct linnos_replica)}, NULL,
		       NULL, NULL) == -EINVAL);
	assert(says("the backend is NULL") && !a);
	assert(linnos_queue_create(&q, a, NULL) == -EINVAL && says("the array is NULL") && !q);
	assert(linnos_array_drop_replica(a, 0) == -EINVAL &&
	       says("the array or predictor is NULL"));
	assert(linnos_array_restore_replica(a, 0) == -EINVAL &&
	       linnos_set_model(a, 0, NULL) == -EINVAL);
	assert(linnos_array_write_start(a, &write, 0, 1) == -EINVAL);
	linnos_array_write_complete(a, &write);
	memset(&stats, 7, sizeof(stats));
	linnos_array_get_stats(a, &stats, sizeof(stats));
	assert(!stats.reads && !stats.cancelled);
	assert(linnos_array_get_replica_stats(a, 0, &one, sizeof(one)) == -EINVAL);
	assert(!linnos_array_size(a) && !linnos_array_queries_kernel(a));
	assert(!linnos_array_predictor(a));
	assert(linnos_predictor_get_replica_stats(NULL, 0, 1, &one, sizeof(one)) == -EINVAL);
	assert(linnos_predictor_get_histogram(NULL, 0, NULL, 0) == -EINVAL);
	assert(linnos_chooser_create(&ch, NULL) == -EINVAL && !ch);
	assert(linnos_pread(q, buf, 1, 0) == -EINVAL && says("the queue is NULL"));
	assert(linnos_preadv(q, &iov, 1, 0, NULL) == -EINVAL);
	assert(linnos_queue_submit_read(q, &iov, 1, 0, NULL, NULL) == -EINVAL);
	assert(linnos_queue_wait(q, &c, 1, -1) == -EINVAL);
	assert(linnos_queue_prep_read(q, &sqe, &iov, 1, 0, NULL, NULL) == -EINVAL &&
	       !sqe.user_data);
	assert(linnos_queue_prep_retry(NULL, &sqe) == -EINVAL && !sqe.user_data);
	assert(linnos_queue_next_timeout_ns(q) == -1 &&
	       linnos_queue_next_expired(q, &c) == LINNOS_READ_PENDING &&
	       !linnos_queue_next_orphan(q));
	linnos_queue_abandon_reads(q);
	assert(!linnos_queue_close(q) && !linnos_array_close(a));
}

/* A mirror that has lost a drive is opened without it. */
TEST(absent_replica_is_dropped_when_the_array_is_opened)
{
	int fds[N] = {create_replica(BYTES), -1, create_replica(BYTES)};
	struct linnos_replica_stats one;
	struct linnos_array *a;
	struct linnos_queue *q;

	assert(!linnos_array_open_fds(&a, N, fds, NULL,
				      &OPTIONS(.home = 1, .hedge_us = 1, .max_duplicates = 100,
					       .flags = LINNOS_QUERY_KERNEL)));
	assert(linnos_array_size(a) == BYTES);
	assert(!linnos_queue_create(&q, a, &QUEUE_OPTIONS(.register_files = 1)));
	for (int i = 0; i < 50; i++)
		assert(linnos_pread(q, buf, sizeof(buf), 4096) == sizeof(buf) &&
		       is_right(buf, sizeof(buf), 4096));
	assert(!linnos_array_get_replica_stats(a, 1, &one, sizeof(one)));
	assert(one.state == LINNOS_DROPPED && !one.answered && !one.errors);
	assert(linnos_array_restore_replica(a, 1) == -ENODEV);
	assert(says("replica 1 was absent when the array was opened"));
	assert(!linnos_array_drop_replica(a, 0) && linnos_array_drop_replica(a, 2) == -EBUSY &&
	       !linnos_array_restore_replica(a, 0));
	assert(!linnos_queue_close(q) && !linnos_array_close(a));
	close(fds[0]);
	close(fds[2]);
}

TEST(arrays_with_default_options_choose_differently)
{
	uint64_t previous = 0;
	uint32_t homes = 0;

	random_is_fixed = false;
	for (int i = 0; i < 64; i++) {
		struct linnos_choice c = {.bytes = 4096, .home = LINNOS_DEFAULT_ROUND_ROBIN};
		struct linnos_chooser *chooser;
		struct linnos_predictor *predictor;

		assert(!linnos_predictor_create(&predictor, 3, NULL, NULL));
		assert(!linnos_chooser_create(&chooser, predictor));
		assert(predictor->common.guard.random != previous);
		previous = predictor->common.guard.random;
		linnos_choose(chooser, &c, MS);
		homes |= 1u << c.replica;
		linnos_chooser_free(chooser);
		linnos_predictor_free(predictor);
	}
	random_is_fixed = true;
	assert(homes == 7);
}

TEST(duplicates_have_no_limit_by_default_and_timed_hedges_have_one)
{
	struct linnos_options given = OPTIONS(), taken;

	given.flags = LINNOS_DUPLICATES;
	assert(!options_copy_in(&taken, &given, N) && isinf(taken.max_duplicates));
	given.max_duplicates = 7;
	assert(!options_copy_in(&taken, &given, N) && taken.max_duplicates == 7);
	assert(!options_copy_in(&taken, NULL, N) && taken.max_duplicates == 5);
}
