// SPDX-License-Identifier: MIT
/*
 * Reads a pool of a real Ceph by liblinnos-ceph: each object from each OSD that
 *may be chosen, then for so long any object, wherever the library would have it
 *read.
 *
 *	reads CONF USER POOL OBJECTS SECONDS
 *
 * Object k, from 1, has 16 KiB of the letter '@' + k. Prints `osds A B ...` for
 * each, and at last `done READS WRONG ERROR HANDLES`; ERROR is the last error,
 * 0 if there was none.
 */
#include <linnos_ceph.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 4, PRIMARY = -1 };

static struct linnos_ceph *ceph;
static unsigned long n_reads, n_wrong;
static long error;

static void check(unsigned int object, const char *data, ssize_t bytes) {
  n_reads++;
  n_wrong += bytes != BLOCK || data[0] != (char)('@' + object) ||
             data[BLOCK - 1] != (char)('@' + object);
  if (bytes < 0)
    error = bytes;
}

static void note(void *of, ssize_t bytes, int osd) {
  (void)osd;
  __atomic_store_n((ssize_t *)of, bytes, __ATOMIC_RELEASE);
}

static void read_from(int osd, unsigned int object, const char *name) {
  ssize_t bytes = INT32_MIN;
  char data[BLOCK];

  if (linnos_ceph_aio_read_from(ceph, osd, name, data, BLOCK, BLOCK, note,
                                &bytes)) {
    puts(linnos_ceph_error());
    exit(1);
  }
  while (__atomic_load_n(&bytes, __ATOMIC_ACQUIRE) == INT32_MIN)
    usleep(1000);
  check(object, data, bytes);
}

static void read_from_each(unsigned int object) {
  int osds[LINNOS_CLUSTER_CANDIDATES];
  char name[32];
  unsigned int n;

  snprintf(name, sizeof(name), "object%u", object);
  while (!(n = linnos_ceph_osds(ceph, name, osds)))
    usleep(10000);
  printf("osds");
  for (unsigned int k = 0; k < n; k++) {
    printf(" %d", osds[k]);
    read_from(k ? osds[k] : PRIMARY, object, name);
  }
  puts("");
}

int main(int argc, char **argv) {
  struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
  struct linnos_ceph_stats stats;
  unsigned int n_objects;
  char name[32], data[BLOCK];
  time_t end;

  if (argc != 6)
    return 2;
  options.configuration = argv[1];
  options.user = argv[2];
  n_objects = atoi(argv[4]);
  if (linnos_ceph_open(&ceph, argv[3], &options)) {
    puts(linnos_ceph_error());
    return 1;
  }
  for (unsigned int object = 1; object <= n_objects; object++)
    read_from_each(object);
  fflush(stdout);
  end = time(NULL) + atoi(argv[5]);
  while (time(NULL) < end) {
    unsigned int object = 1 + rand() % n_objects;

    snprintf(name, sizeof(name), "object%u", object);
    check(object, data,
          linnos_ceph_read(ceph, name, data, BLOCK, BLOCK * (rand() % BLOCKS)));
    usleep(2000);
  }
  linnos_ceph_get_stats(ceph, &stats, sizeof(stats));
  linnos_ceph_close(ceph);
  printf("done %lu %lu %ld %lu\n", n_reads, n_wrong, error, stats.handles);
  return 0;
}
