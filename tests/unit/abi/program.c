// SPDX-License-Identifier: MIT
/*
 * Use each structure that may grow, as the headers define it. For the next
 * version, test_abi.py appends a member to each structure. With -DFILLED this
 * member is not zero in the structure whose number is the argument.
 */
#include <liblinnos.h>
#include <linnos_cluster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLICAS 2

static struct linnos_request request;
static int which = -1;

#ifdef FILLED
#define FILL(number, s) ((s).appended = (number) == which)
#else
#define FILL(number, s) ((void)0)
#endif

static int open_part(void *context, void **queue) {
  *queue = context;
  return 0;
}

static void close_part(void *queue) { (void)queue; }

static int submit(void *queue, const struct linnos_request *r) {
  (void)queue;
  request = *r;
  return 0;
}

static int wait_for_it(void *queue, int64_t timeout_ns) {
  (void)queue, (void)timeout_ns;
  if (!request.handle)
    return 0;
  memset(request.buf, 'x', request.bytes);
  linnos_request_complete(request.handle, (ssize_t)request.bytes);
  request.handle = 0;
  return 0;
}

static void check(int number, int error, const char *text) {
  if (!error)
    return;
  printf("%d %d %s\n", number, error, text);
  exit(1);
}

/* The library must not write beyond the structure that the program passes. */
#define GUARDED(type)                                                          \
  static struct {                                                              \
    struct type s;                                                             \
    unsigned char guard[64];                                                   \
  } type = {.guard = {[0 ... 63] = 0xa5}}
#define GUARD_HOLDS(type) (type.guard[0] == 0xa5 && type.guard[63] == 0xa5)

int main(int argc, char **argv) {
  GUARDED(linnos_stats);
  GUARDED(linnos_replica_stats);
  GUARDED(linnos_cluster_stats);
  GUARDED(linnos_cluster_node);
  struct linnos_options o = {
      .size = sizeof(o), .probe_after_ms = 20, .max_duplicates = 5};
  struct linnos_backend backend = {.size = sizeof(backend),
                                   .open = open_part,
                                   .close = close_part,
                                   .submit = submit,
                                   .wait = wait_for_it};
  struct linnos_replica replicas[REPLICAS];
  struct linnos_queue_options qo = {.size = sizeof(qo)};
  struct linnos_read_options ro = {.size = sizeof(ro), .home = 1};
  struct linnos_cluster_options co = {
      .size = sizeof(co), .mode = 1, .probe_after_ms = 20, .hedge_percent = 200};
  struct linnos_cluster *cluster;
  struct linnos_array *array;
  struct linnos_queue *queue;
  char buf[4096];
  struct iovec iov = {buf, sizeof(buf)};

  which = argc > 1 ? atoi(argv[1]) : -1;
  FILL(0, o);
  FILL(1, backend);
  for (int k = 0; k < REPLICAS; k++) {
    replicas[k] =
        (struct linnos_replica){.size = sizeof(*replicas), .bytes = 1 << 20};
    FILL(2, replicas[k]);
  }
  FILL(3, qo);
  FILL(4, ro);
  FILL(5, co);
  check(0, linnos_array_open_backend(&array, REPLICAS, replicas, &backend, NULL, &o),
        linnos_error());
  check(3, linnos_queue_create(&queue, array, &qo), linnos_error());
  check(4, linnos_preadv(queue, &iov, 1, 0, &ro) != sizeof(buf),
        linnos_error());
  linnos_array_get_stats(array, &linnos_stats.s, sizeof(linnos_stats.s));
  check(6,
        linnos_array_get_replica_stats(array, 1, &linnos_replica_stats.s,
                                 sizeof(linnos_replica_stats.s)),
        linnos_error());
  check(5, linnos_cluster_create(&cluster, 3, &co), linnos_cluster_error());
  linnos_cluster_get_stats(cluster, &linnos_cluster_stats.s,
                           sizeof(linnos_cluster_stats.s));
  check(7,
        linnos_cluster_get_node(cluster, 2, 1000000, &linnos_cluster_node.s,
                                sizeof(linnos_cluster_node.s)),
        linnos_cluster_error());
  printf("%llu reads, %llu served by 1, guards %d\n",
         (unsigned long long)linnos_stats.s.reads,
         (unsigned long long)linnos_replica_stats.s.served,
         GUARD_HOLDS(linnos_stats) && GUARD_HOLDS(linnos_replica_stats) &&
             GUARD_HOLDS(linnos_cluster_stats) &&
             GUARD_HOLDS(linnos_cluster_node));
  linnos_cluster_free(cluster);
  return linnos_queue_close(queue) || linnos_array_close(array);
}
