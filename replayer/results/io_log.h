/* SPDX-License-Identifier: MIT */
/*
 * The binary per-I/O log of replayer(1). It is written to a temporary file next to its final name
 * and renamed when it is complete.
 */
#ifndef REPLAYER_IO_LOG_H
#define REPLAYER_IO_LOG_H

#include <stdint.h>

struct log_record {
	uint64_t due_ns;
	uint64_t latency_ns; /* service time; the sum with lag_ns is the response time */
	uint64_t lag_ns;     /* submission time minus due time */
	uint64_t offset_bytes;
	uint32_t size_bytes, device_latency_us;
	uint8_t home, op, served_by, flags;
	uint16_t revocations, extra_ios;
};

struct log_header {
	char magic[8];
	uint32_t version, record_bytes, n_drives, reserved;
	uint64_t seed;
	char policy[16];
	uint8_t zero[16];
};

#define LOG_MAGIC "LINNOSRL"
#define LOG_VERSION 2
#define SERVED_BY_NONE 255

_Static_assert(sizeof(struct log_record) == 48, "replayer(1)");
_Static_assert(sizeof(struct log_header) == 64, "replayer(1)");

/* Convert to the 32-bit times of the log; larger values become the maximum. */
static inline uint32_t saturate_u32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : v;
}

struct log_file;

struct log_file *log_create(const char *path, const char *policy, uint32_t n_drives, uint64_t seed);
void log_append(struct log_file *l, const struct log_record *record);
/*
 * Complete the file and rename it. Return NULL, or the reason of a failure: an incomplete log is
 * removed, and the run continues without it.
 */
const char *log_finish(struct log_file *l);

#endif
