/* SPDX-License-Identifier: MIT */
/* Drives of the array: open them, get their size, and read what the kernel reports about LinnOS. */
#ifndef REPLAYER_DEVICE_H
#define REPLAYER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DRIVES 16

/*
 * The latency-critical hint of a patched kernel (docs/formats.md), a flag of preadv2(2) and
 * io_uring. An unpatched kernel returns EOPNOTSUPP.
 */
#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

struct device {
	char *path;
	char *disk; /* kernel name of the whole disk, NULL for a regular file */
	int fd;
	bool direct; /* O_DIRECT; false only for files on a file system without it */
	uint64_t size_bytes;
};

/* Kernel counters of one drive, from /sys/block/<disk>/linnos/stats. */
struct linnos_stats {
	bool present;
	uint64_t latency_critical, false_submits;
};

/*
 * Open a drive for reading and writing. Block devices are opened exclusively, so that one that is
 * mounted, as a whole or in part, is refused. With readonly, open for reading only and not
 * exclusively. Exit on failure.
 */
void device_open(struct device *d, const char *path, bool readonly);

/*
 * Read the first line of a small file, such as one of the kernel's; return false if there is none.
 */
bool first_line(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Get the model's inflection point; return false if the kernel does not report it. */
bool device_threshold_us(const struct device *d, uint64_t *threshold_us);
/*
 * Like device_threshold_us(), but exit if the kernel does not report it; the message names the
 * option that sets it.
 */
uint64_t device_require_threshold_us(const struct device *d, const char *policy,
				     const char *option);
void device_linnos_stats(const struct device *d, struct linnos_stats *stats);
/*
 * Exit, with the remedy, unless the drive decides on hinted reads: the kernel knows the hint, a
 * model is uploaded, and the mode is not off. Return the id of the model and the mode.
 */
void device_require_linnos(const struct device *d, char mode[16], char model_id[16]);

#endif
