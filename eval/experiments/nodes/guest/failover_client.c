/* SPDX-License-Identifier: MIT */
/*
 * failover_client POLICY TIMEOUT_US VALUES RATE SECONDS SEED REPORT {FOLDER DRIVE}...
 *
 * Reads values from three nodes of WiredTiger with the same data, each on its own drive. POLICY is
 * home (each key has a node that serves it), hedge (also from the next node after the timeout),
 * refuse (from the next node if a read is refused) or ask (from the node that the kernel calls
 * best). REPORT has when each read was due and its latency. The number of reads that were sent to
 * another node than their key's is printed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <liblinnos.h>
#include "../../apps/guest/wiredtiger_values.h"

#define RWF_LATCRIT 0x00008000
#define NODES 3
#define FAILOVER_NS 15000 /* as in the replayer */

/* A thread that reads, and one that hedges its reads. */
struct reader {
	WT_CURSOR *at[NODES], *hedge_at[NODES];
	sem_t begin, end;
	long i;
	int64_t timeout_ns;
	_Atomic int64_t answered_ns;
};

static const char *policy;
static int drives[NODES];
static int64_t timeout_ns;
static struct reads reads;
static _Atomic long turn, elsewhere;
static _Thread_local bool may_refuse;

/* The engine's reads for a search of this thread have the hint while it is set. */
ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	struct iovec part = {buffer, bytes};

	return preadv2(fd, &part, 1, offset, may_refuse ? RWF_LATCRIT : 0);
}

/* A refused read is no error. */
static int show_error(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *text)
{
	(void)handler, (void)session;
	return !(may_refuse && error == EBUSY) && fprintf(stderr, "%s\n", text) < 0;
}

/* Read a value. Return false if the read had the hint and was refused. */
static bool read_at(struct reader *reader, WT_CURSOR *cursor, bool hinted)
{
	int64_t none = 0;
	int error;

	cursor->set_key(cursor, reads.keys[reader->i]);
	may_refuse = hinted;
	error = cursor->search(cursor);
	may_refuse = false;
	if (hinted && error == EBUSY)
		return false;
	must(error, "search");
	atomic_compare_exchange_strong(&reader->answered_ns, &none, now_ns());
	must(differs(cursor, reads.keys[reader->i]) ? EINVAL : 0, "value");
	must(cursor->reset(cursor), "reset");
	return true;
}

static void *hedge(void *of)
{
	struct reader *reader = of;

	for (; !sem_wait(&reader->begin) && reader->i < reads.n; sem_post(&reader->end)) {
		sleep_until(reader->timeout_ns);
		if (!reader->answered_ns && ++elsewhere)
			read_at(reader, reader->hedge_at[(reads.keys[reader->i] + 1) % NODES], false);
	}
	return NULL;
}

static void *read_in_turn(void *of)
{
	bool hedges = !strcmp(policy, "hedge"), hinted = !strcmp(policy, "refuse");
	struct reader *reader = of;

	while ((reader->i = turn++) < reads.n) {
		int home = reads.keys[reader->i] % NODES, node = home, left = NODES, best = 0;

		sleep_until(due_ns(&reads, reader->i));
		reader->answered_ns = 0;
		reader->timeout_ns = now_ns() + timeout_ns;
		if (hedges)
			sem_post(&reader->begin);
		if (!strcmp(policy, "ask"))
			best = linnos_kernel_best_drives(NODES, drives, LEAF_BYTES, NULL);
		must(best < 0 ? -best : 0, "asking the kernel");
		if (best && !(best & 1 << home))
			node = __builtin_ctz(best);
		while (!read_at(reader, reader->at[node], hinted && --left)) {
			node = (node + 1) % NODES;
			sleep_until(now_ns() + FAILOVER_NS);
		}
		elsewhere += node != home;
		if (hedges)
			sem_wait(&reader->end);
		answered(&reads, reader->i, reader->answered_ns);
	}
	sem_post(&reader->begin);
	return NULL;
}

int main(int argc, char **argv)
{
	static WT_EVENT_HANDLER handler = {.handle_error = show_error};
	static struct reader readers[THREADS];
	pthread_t threads[THREADS][2];

	must(argc != 8 + 2 * NODES ? EINVAL : 0, "arguments");
	sleep_exactly();
	policy = argv[1];
	timeout_ns = atol(argv[2]) * 1000;
	for (int node = 0; node < NODES; node++) {
		const char *folder = argv[8 + 2 * node], *drive = argv[9 + 2 * node];
		WT_CONNECTION *connection;

		must(wiredtiger_open(folder, &handler, READ_CONFIG, &connection), folder);
		drives[node] = open(drive, O_RDONLY);
		must(drives[node] < 0 ? errno : 0, drive);
		for (int k = 0; k < THREADS; k++) {
			readers[k].at[node] = cursor_of(connection, NULL);
			readers[k].hedge_at[node] = cursor_of(connection, NULL);
		}
	}
	reads_draw(&reads, argv + 3);
	for (int k = 0; k < THREADS; k++) {
		sem_init(&readers[k].begin, 0, 0);
		sem_init(&readers[k].end, 0, 0);
		must(pthread_create(&threads[k][0], NULL, read_in_turn, &readers[k]), "thread");
		must(pthread_create(&threads[k][1], NULL, hedge, &readers[k]), "thread");
	}
	for (int k = 0; k < 2 * THREADS; k++)
		pthread_join(threads[k / 2][k % 2], NULL);
	reads_report(&reads, argv[7]);
	printf("%ld\n", (long)elsewhere);
	return 0;
}
