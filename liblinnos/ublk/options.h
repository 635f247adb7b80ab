/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef LINNOS_UBLK_OPTIONS_H
#define LINNOS_UBLK_OPTIONS_H

#include <liblinnos.h>

#include <stdbool.h>
#include <stdint.h>

#define NO_DEVICE UINT32_MAX
#define REPLICAS_MAX 16
#define QUEUES_MAX 32

struct options {
	unsigned int n; /* number of replicas */
	const char *paths[REPLICAS_MAX];
	const char *models[REPLICAS_MAX];   /* NULL if there is none */
	bool assume_clean, compare, resync; /* exactly one */
	bool recover;
	bool json;
	uint32_t device; /* N of /dev/ublkbN; NO_DEVICE for the first free one */
	uint32_t remove; /* N of /dev/ublkbN; NO_DEVICE to remove none */
	uint64_t bytes;	 /* of the mirror; 0 for the size of the replicas */
	unsigned int queues, queue_depth;
	struct linnos_options reads;
};

/* Parse the command line. Exits after --help and --version, and with EXIT_USAGE if it is invalid.
 * */
void options_parse(struct options *o, int argc, char **argv);

#endif
