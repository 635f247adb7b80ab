/* SPDX-License-Identifier: MIT */
/*
 * The structures of the first version of liblinnos and liblinnos-cluster, as
 * programs were built with them. This copy never changes: test_abi.py links it
 * against today's libraries.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct linnos_array;
struct linnos_queue;
struct linnos_cluster;

struct linnos_options {
  size_t size;
  uint32_t flags;
  int32_t home;
  uint32_t margin_percent;
  uint32_t probe_after_ms;
  uint32_t hedge_us;
  uint32_t duplicates_burst;
  double hedge_percentile;
  double max_duplicates;
  const char *const *hedge_tables;
};

struct linnos_replica_stats {
  uint32_t state;
  uint32_t chooses;
  uint64_t served;
  uint64_t errors;
  uint64_t answered;
  uint64_t in_flight;
  uint64_t predicted_us;
  uint64_t took_us;
  uint64_t near;
  uint32_t model_id;
  uint32_t reserved;
};

struct linnos_replica {
  size_t size;
  const char *name;
  uint64_t bytes;
  uint32_t align_bytes;
  uint32_t memory_align_bytes;
};

struct linnos_stats {
  uint64_t reads;
  uint64_t bytes;
  uint64_t moved;
  uint64_t probes;
  uint64_t hedges;
  uint64_t hedges_won;
  uint64_t hedges_denied;
  uint64_t failovers;
  uint64_t errors;
  uint64_t failed;
  uint64_t in_flight;
  int64_t saved_us_estimate;
  uint64_t hedges_saved_us;
  uint64_t asked;
  uint64_t without_ring;
  uint64_t not_choosing;
  uint64_t stayed;
  uint64_t late;
  uint64_t cancelled;
};

struct linnos_queue_options {
  size_t size;
  uint32_t n_buffers;
  uint32_t first_buffer;
  const struct iovec *buffers;
  uint32_t register_files;
  uint32_t reserved;
  const int *fixed_files;
};

struct linnos_read_options {
  size_t size;
  uint32_t flags;
  int32_t home;
  uint64_t deadline_ns;
  uint32_t sqe_flags;
  uint32_t ioprio;
};

struct linnos_request {
  uint64_t handle;
  uint64_t offset;
  size_t bytes;
  void *buf;
  uint32_t replica;
  uint32_t reserved;
};

struct linnos_backend {
  size_t size;
  void *context;
  uint64_t (*now_ns)(void *context);
  int (*open)(void *context, void **queue);
  void (*close)(void *queue);
  int (*submit)(void *queue, const struct linnos_request *request);
  void (*cancel)(void *queue, uint64_t handle);
  int (*wait)(void *queue, int64_t timeout_ns);
  int (*fd)(void *queue);
};

struct linnos_cluster_options {
  size_t size;
  uint32_t mode;
  uint32_t flags;
  uint32_t margin_percent;
  uint32_t report_ttl_ms;
  uint32_t report_max_uses;
  uint32_t probe_after_ms;
  uint32_t hedge_percent;
  double probe_percent;
  double max_duplicates;
  double query_percent;
  uint64_t seed;
  const void *key;
  size_t key_bytes;
};

struct linnos_cluster_stats {
  uint64_t reads;
  uint64_t would_move;
  uint64_t moved;
  uint64_t stayed;
  uint64_t copies;
  uint64_t hedges;
  uint64_t hedges_won;
  uint64_t hedges_denied;
  uint64_t failovers;
  uint64_t sent;
  uint64_t ended;
  uint64_t errors;
  uint64_t asked_first;
  uint64_t questions;
  uint64_t answers;
  uint64_t refused;
  int64_t saved_us;
  int64_t would_save_us;
};

struct linnos_cluster_node {
  uint32_t state;
  uint32_t expected_us;
  uint64_t in_flight;
  uint64_t answered;
  uint64_t errors;
  uint64_t report_age_us;
  uint32_t is_trusted;
  uint32_t reserved;
};

const char *linnos_error(void);
int linnos_array_open_backend(struct linnos_array **array, unsigned int n_replicas,
                        const struct linnos_replica *replicas,
                        const struct linnos_backend *backend,
                        const char *const *models,
                        const struct linnos_options *options);
int linnos_array_close(struct linnos_array *array);
int linnos_queue_create(struct linnos_queue **queue, struct linnos_array *array,
                        const struct linnos_queue_options *options);
int linnos_queue_close(struct linnos_queue *queue);
ssize_t linnos_preadv(struct linnos_queue *queue, const struct iovec *iov,
                      int n_iov, off_t offset,
                      const struct linnos_read_options *options);
void linnos_array_get_stats(struct linnos_array *array, struct linnos_stats *stats,
                      size_t bytes);
int linnos_array_get_replica_stats(struct linnos_array *array, unsigned int replica,
                             struct linnos_replica_stats *stats, size_t bytes);
void linnos_request_complete(uint64_t handle, ssize_t result);
const char *linnos_cluster_error(void);
int linnos_cluster_create(struct linnos_cluster **cluster, uint32_t n_nodes,
                          const struct linnos_cluster_options *options);
void linnos_cluster_free(struct linnos_cluster *cluster);
void linnos_cluster_get_stats(struct linnos_cluster *cluster,
                              struct linnos_cluster_stats *stats, size_t bytes);
int linnos_cluster_get_node(struct linnos_cluster *cluster, uint32_t node,
                            uint64_t now_ns, struct linnos_cluster_node *stats,
                            size_t bytes);
