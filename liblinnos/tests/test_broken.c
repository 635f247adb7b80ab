// SPDX-License-Identifier: MIT
/* Rings that can no longer be entered, backends without room, threads that exit, and lack of
 * memory. */
#include "test.h"
#include "memfd_array.h"
#include "memory_backend.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define N 3
#define BYTES (1u << 20)

#define READS_MAX 100
static char bufs[READS_MAX][4096];

/* Submit the read of a number, of a block at this offset. */
static void submit_read(struct linnos_array *a, unsigned int number, off_t offset)
{
	static struct iovec iovs[READS_MAX];

	iovs[number] = (struct iovec){bufs[number], sizeof(bufs[number])};
	assert(!linnos_queue_submit_read(only_queue(a), &iovs[number], 1, offset, NULL,
					 bufs[number]));
}

/* --- Rings that can no longer be entered --------------------------------------------------- */

static void forbid_io_uring_enter(int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};

	assert(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	assert(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

struct effort {
	double cpu_s, wall_s;
};

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct effort effort_until_now(void)
{
	return (struct effort){seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC)};
}

/* A thread that retries without a pause would use all of the time. */
static bool has_paused_since(struct effort before)
{
	struct effort now = effort_until_now();

	return now.cpu_s - before.cpu_s < 0.1 + (now.wall_s - before.wall_s) / 2;
}

struct scenario {
	int error; /* of io_uring_enter(2); 0 to close descriptors instead */
	bool hedged, has_deadline;
	int expected; /* result of the reads */
};

static void break_rings(const struct scenario *s)
{
	if (s->error)
		forbid_io_uring_enter(s->error);
	else
		closefrom(3);
}

static struct linnos_array *opened(const struct scenario *s)
{
	return open_memfd_array(N, BYTES, &OPTIONS(.hedge_us = s->hedged ? 100 : 0));
}

/* One read is made while the ring works, and others after it is broken. */
static void read_when_broken(const struct scenario *s)
{
	/* With a deadline, so through the ring. */
	struct linnos_read_options o =
		READ_OPTIONS(.deadline_ns = s->has_deadline ? 60000 * MS : 0);
	static char buf[4096];
	struct iovec iov = {buf, sizeof(buf)};
	struct effort before;
	struct linnos_array *a = opened(s);

	assert(linnos_preadv(only_queue(a), &iov, 1, 4096, &o) == sizeof(buf));
	o.deadline_ns = s->has_deadline ? MS : 0;
	before = effort_until_now();
	break_rings(s);
	for (int i = 0; i < 3; i++) {
		ssize_t n = linnos_preadv(only_queue(a), &iov, 1, 4096, &o);

		assert(n == s->expected || (s->has_deadline && n == -ETIME));
		if (n != -ETIME && n != -EBADF)
			assert(says("io_uring cannot be used any more"));
	}
	/* No replica has caused this. */
	assert(!s->error || (replica_of(a, 0).state != LINNOS_FAILING && !stats_of(a).errors));
	assert(!linnos_queue_close(only_queue(a)));
	assert(!linnos_array_close(a));
	assert(has_paused_since(before));
}

/* More reads than the ring has entries are in flight when it breaks. */
static void wait_when_broken(const struct scenario *s)
{
	unsigned int n_returned = 0;
	struct effort before = effort_until_now();
	struct linnos_array *a = opened(s);

	for (int i = 0; i < READS_MAX; i++) {
		if (i == READS_MAX / 2)
			break_rings(s);
		submit_read(a, i, 4096 * (i % 16));
	}
	while (n_returned < READS_MAX) {
		struct linnos_completion c[16];
		int n = linnos_queue_wait(only_queue(a), c, 16, -1);

		assert(n > 0);
		for (int i = 0; i < n; i++)
			assert(c[i].result == s->expected || c[i].result == 4096);
		n_returned += (unsigned int)n;
	}
	assert(!linnos_queue_close(only_queue(a)));
	assert(!linnos_array_close(a));
	assert(has_paused_since(before));
}

/* Run each scenario in a child process, because a filter cannot be removed: all at once, because
 * most of them wait. SIGALRM ends one that hangs. */
static void run_in_children(void (*run)(const struct scenario *), const struct scenario *scenarios,
			    size_t n)
{
	pid_t children[n];

	for (size_t i = 0; i < n; i++) {
		children[i] = fork();
		assert(children[i] >= 0);
		if (children[i])
			continue;
		alarm(20);
		run(&scenarios[i]);
		_exit(0);
	}
	for (size_t i = 0; i < n; i++) {
		const struct scenario *s = &scenarios[i];
		int status;

		assert(waitpid(children[i], &status, 0) == children[i]);
		if (status)
			fprintf(stderr, "error %d, hedged %d, deadline %d: status %#x\n", s->error,
				s->hedged, s->has_deadline, (unsigned int)status);
		assert(!status);
	}
}

/* Those with deadlines first. Some errors usually pass, but not here. */
static const struct scenario broken_for_good[] = {
	{EPERM, true, true, -EPERM},	{EPERM, false, true, -EPERM},
	{0, true, true, -EBADF},	{EAGAIN, true, true, -EAGAIN},
	{EPERM, true, false, -EPERM},	{ENOSYS, true, false, -ENOSYS},
	{0, true, false, -EBADF},	{EAGAIN, true, false, -EAGAIN},
	{ENOMEM, true, false, -ENOMEM}, {EBUSY, true, false, -EBUSY},
	{EINTR, true, false, -EINTR},
};
#define N_SCENARIOS (sizeof(broken_for_good) / sizeof(*broken_for_good))
#define N_WITH_DEADLINES 4

TEST(pread_returns_an_error_when_the_ring_cannot_be_entered)
{
	run_in_children(read_when_broken, broken_for_good, N_SCENARIOS);
}

TEST(wait_returns_all_reads_when_the_ring_cannot_be_entered)
{
	run_in_children(wait_when_broken, broken_for_good + N_WITH_DEADLINES,
			N_SCENARIOS - N_WITH_DEADLINES);
}

/* A submitted read completes, although the ring cannot be entered any more. */
static void answer_when_broken(const struct scenario *s)
{
	static char full[4096] = "answer";
	struct linnos_completion c;
	int ends[2];
	struct linnos_array *a = opened(s);

	assert(!pipe(ends));
	for (int k = 0; k < N; k++)
		a->set.replicas[k].fd = ends[0];
	submit_read(a, 0, 0);
	assert(linnos_queue_wait(only_queue(a), &c, 1, 0) == 0);
	break_rings(s);
	/* The next read ends with the error, and this one is waited for. */
	assert(linnos_queue_wait(only_queue(a), &c, 1, 5 * MS) == 0);
	assert(write(ends[1], full, sizeof(full)) == sizeof(full));
	assert(linnos_queue_wait(only_queue(a), &c, 1, -1) == 1);
	assert(c.result == sizeof(full) && !strcmp(bufs[0], "answer"));
	assert(!linnos_queue_close(only_queue(a)) && !linnos_array_close(a));
}

TEST(submitted_read_is_answered_when_the_ring_cannot_be_entered)
{
	static const struct scenario forbidden = {EPERM, false, false, -EPERM};

	run_in_children(answer_when_broken, &forbidden, 1);
}

/* --- Backends without room ----------------------------------------------------------------- */

#define ROOM 2

static struct linnos_memory *memory;

static struct linnos_array *full_array(int submit_error, uint32_t hedge_us)
{
	memory = linnos_memory_create(BYTES, 50 * US);
	memory->room = ROOM;
	memory->submit_error = submit_error;
	return linnos_memory_open_array(memory, 1,
					&OPTIONS(.hedge_us = hedge_us, .max_duplicates = 100));
}

static void close_full(struct linnos_array *a)
{
	assert(!linnos_queue_close(only_queue(a)) && !linnos_array_close(a));
	linnos_memory_free(memory);
}

TEST(reads_wait_for_room_when_the_backend_is_full)
{
	for (uint32_t hedge_us = 0; hedge_us < 200; hedge_us += 120) {
		struct linnos_array *a = full_array(0, hedge_us);
		struct linnos_completion c;

		memset(memory->content, 'x', BYTES);
		for (int i = 0; i < READS_MAX; i++) {
			bufs[i][0] = 0;
			submit_read(a, i, 0);
		}
		for (int i = 0; i < READS_MAX; i++) {
			assert(linnos_queue_wait(only_queue(a), &c, 1, -1) == 1);
			assert(c.result == 4096 && *(char *)c.user == 'x');
		}
		assert(memory->n_rejected && !memory->n_unknown_cancelled);
		assert(!stats_of(a).errors && !stats_of(a).failovers);
		for (unsigned int k = 0; k < N; k++)
			assert(replica_of(a, k).state != LINNOS_FAILING);
		close_full(a);
	}
}

TEST(reads_end_with_an_error_when_the_backend_never_has_room)
{
	static const int errors[] = {-EAGAIN, -EINTR, -EIO};
	const struct iovec iov = {bufs[0], sizeof(bufs[0])};

	for (int i = 0; i < 3; i++) {
		struct linnos_array *a = full_array(errors[i], 0);

		assert(linnos_preadv(only_queue(a), &iov, 1, 0, NULL) == errors[i]);
		assert(memory->now_ns < 10000 * MS && memory->n_rejected < 100000);
		memory->now_ns = 20000 * MS;
		assert(linnos_preadv(only_queue(a), &iov, 1, 0,
				     &READ_OPTIONS(.deadline_ns = 3 * MS)) ==
		       (errors[i] == -EAGAIN ? -ETIME : errors[i]));
		/* Otherwise the read would be accessed at its deadline, on a stack that is used for
		 * something else by then. */
		assert(memory->now_ns <= 20004 * MS && !only_queue(a)->in_channel.first_timed);
		close_full(a);
	}
}

/* --- Threads that exit, and no memory ------------------------------------------------------ */

static struct {
	int result; /* returned by the kernel instead of the first results */
	unsigned int n, n_answers;
} faked;

static int fake_result(void *context, unsigned int replica, uint64_t offset, int result)
{
	(void)context, (void)replica, (void)offset;
	return faked.n_answers++ < faked.n ? faked.result : result;
}

static ssize_t read_with_results(struct linnos_array *a, const struct iovec *iov, int n_iov,
				 int result, unsigned int n)
{
	struct linnos_completion c;

	faked.result = result;
	faked.n = n;
	faked.n_answers = 0;
	assert(!linnos_queue_submit_read(only_queue(a), iov, n_iov, 8192, NULL, NULL));
	assert(linnos_queue_wait(only_queue(a), &c, 1, -1) == 1);
	return c.result;
}

TEST(reads_are_sent_again_when_the_thread_that_began_them_has_exited)
{
	static const int results[] = {-EFAULT, -ECANCELED};
	char buf[4096];
	struct iovec iov = {buf, sizeof(buf)};

	/* With one replica, and with several. */
	for (unsigned int n = 1; n <= N; n += N - 1)
		for (int i = 0; i < 2; i++) {
			struct linnos_array *a = open_memfd_array(n, BYTES, NULL);

			a->set.hooks.answer = fake_result;
			assert(read_with_results(a, &iov, 1, results[i], 1) == sizeof(buf));
			assert(is_right(buf, sizeof(buf), 8192));
			assert(!stats_of(a).errors && !stats_of(a).failovers);
			/* Invalid memory of the caller is not an error of a replica. */
			if (results[i] == -EFAULT) {
				assert(read_with_results(a, &iov, 1, -EFAULT, 2) == -EFAULT);
				assert(says("is not writable") && !stats_of(a).errors);
			}
			close_memfd_array(a);
		}
}

TEST(cancelled_pread_fails_over)
{
	char buf[4096];
	struct linnos_array *a = open_memfd_array(N, BYTES, NULL);

	a->set.hooks.answer = fake_result;
	faked.result = -ECANCELED;
	faked.n = 1;
	faked.n_answers = 0;
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), 8192) == sizeof(buf));
	assert(is_right(buf, sizeof(buf), 8192) && stats_of(a).failovers == 1);
	close_memfd_array(a);
}

static bool has_no_memory;
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (has_no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(address, bytes, protection, flags, fd, offset);
}

TEST(vectored_read_ends_with_enomem_when_there_is_no_memory_for_its_rest)
{
	char buf[8192];
	const struct iovec iov[2] = {{buf, 4096}, {buf + 4096, 4096}};
	struct linnos_array *a = open_memfd_array(N, BYTES, NULL);

	a->set.hooks.answer = fake_result;
	has_no_memory = true;
	assert(read_with_results(a, iov, 2, 4096, 1) == -ENOMEM);
	assert(says("out of memory") && !stats_of(a).errors);
	has_no_memory = false;
	/* Everything is read again, and only half of it the second time, too. */
	assert(read_with_results(a, iov, 2, 4096, 2) == sizeof(buf));
	assert(is_right(buf, sizeof(buf), 8192) && !stats_of(a).errors);
	close_memfd_array(a);
}

static bool has_no_aligned_memory;
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return has_no_aligned_memory ? NULL : __real_aligned_alloc(alignment, bytes);
}

/* A read that reaches the end of the file needs an attempt in memory. */
TEST(read_without_memory_for_its_attempt_is_not_in_flight_afterwards)
{
	char buf[4096];
	struct linnos_array *a = open_memfd_array(N, BYTES, &OPTIONS(.probe_after_ms = 0));

	has_no_aligned_memory = true;
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), BYTES - 10) == -ENOMEM);
	assert(says("out of memory") && stats_of(a).failed == 1 && !stats_of(a).in_flight);
	has_no_aligned_memory = false;
	for (unsigned int k = 0; k < N; k++)
		assert(!reads_in_flight(a, k));
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), BYTES - 10) == 10);
	close_memfd_array(a);
}

static unsigned int failing_calloc; /* counted from 1; 0 if all succeed */
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_calloc(size_t n, size_t bytes)
{
	return failing_calloc && !--failing_calloc ? NULL : __real_calloc(n, bytes);
}

/* LeakSanitizer checks that the other allocation is freed. */
TEST(chooser_create_frees_everything_without_memory)
{
	struct linnos_predictor *predictor;
	struct linnos_chooser *chooser;

	assert(!linnos_predictor_create(&predictor, N, NULL, &OPTIONS(.flags = LINNOS_DUPLICATES)));
	for (unsigned int k = 1; k <= 2; k++) {
		failing_calloc = k;
		assert(linnos_chooser_create(&chooser, predictor) == -ENOMEM && !chooser);
		assert(!failing_calloc);
	}
	linnos_predictor_free(predictor);
}

TEST(each_completion_has_an_error_text_of_its_own)
{
	enum { READS = 3 };
	struct linnos_completion c[READS];
	struct linnos_array *a = full_array(-EIO, 0);
	char text[160];

	for (int i = 0; i < READS; i++)
		submit_read(a, i, 4096 * i);
	assert(linnos_queue_wait(only_queue(a), c, READS, 0) == READS);
	for (int i = 0; i < READS; i++) {
		/* The read, the replica, what has failed, and the errno. */
		snprintf(text, sizeof(text),
			 "read of 4096 bytes at %d: all 3 replicas have failed; the last one, "
			 "replica %u: Input/output error",
			 4096 * i, c[i].replica);
		assert(c[i].user == bufs[i] && c[i].result == -EIO);
		assert(!strncmp(c[i].error_text, text, strlen(text)));
	}
	/* A read that succeeds has no message. */
	memory->submit_error = 0;
	submit_read(a, 0, 0);
	assert(linnos_queue_wait(only_queue(a), c, 1, -1) == 1 && c[0].result == 4096 &&
	       !c[0].error_text);
	close_full(a);
}

TEST(library_has_the_version_of_its_header)
{
	assert(linnos_version() == LIBLINNOS_VERSION);
}
