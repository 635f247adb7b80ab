/* SPDX-License-Identifier: MIT */
/* The drives of the array: opening them, their size, and what their kernel says about LinnOS. */
#ifndef REPLAYER_DEVICE_H
#define REPLAYER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DRIVES 16

struct device {
	char *path;
	char *disk;	  /* the whole disk's kernel name, NULL for a plain file */
	char *linnos_dir; /* /sys/block/<disk>/linnos, NULL when the kernel has none */
	int fd;
	bool direct; /* O_DIRECT; false only for files whose file system has none */
	uint64_t size_bytes;
};

/* Kernel counters of one drive, of /sys/block/<disk>/linnos/stats. */
struct linnos_stats {
	bool present;
	uint64_t latency_critical, false_submits;
};

/* Opens for reading and writing; block devices exclusively, so that one that is mounted, whole or
 * in part, is refused. With readonly for reading, and with others. Dies on failure. */
void device_open(struct device *d, const char *path, bool readonly);
void device_close(struct device *d);

/* The first line of a small file, of the kernel's for instance; false when there is none. */
bool first_line(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The model's inflection point; false when the kernel does not tell. */
bool device_threshold_us(const struct device *d, uint64_t *threshold_us);
/* The same; dies, with the option that gives the time instead, when the kernel does not tell. */
uint64_t device_require_threshold_us(const struct device *d, const char *policy,
				     const char *option);
void device_linnos_stats(const struct device *d, struct linnos_stats *stats);
/* Dies, with the remedy, unless reads with the hint will be decided on this drive: hint known to
 * the kernel, a model uploaded, mode not off. Returns the model's id and the mode. */
void device_require_linnos(const struct device *d, char mode[16], char model_id[16]);

#endif
