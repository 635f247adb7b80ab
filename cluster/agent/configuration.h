/* SPDX-License-Identifier: MIT */
/*
 * /etc/linnos/agent.conf, with one directive per line: drives, listening addresses, allowed
 * sources.
 */
#ifndef LINNOS_AGENT_CONFIGURATION_H
#define LINNOS_AGENT_CONFIGURATION_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>

#include "agent.h"
#include "allowed.h"

#define DRIVES_MAX 64
#define NETWORKS_MAX 64
#define LISTENERS_MAX 8
#define PATH_BYTES 256
#define KEY_BYTES_MIN 16

#define DEFAULT_PORT 7316
#define DEFAULT_RATE 100000

struct configuration {
	unsigned int n_drives, n_networks, n_listeners;
	char drives[DRIVES_MAX][PATH_BYTES];
	struct network networks[NETWORKS_MAX];
	struct sockaddr_in6 listeners[LISTENERS_MAX];
	unsigned int n_keys;
	char keys[KEYS_MAX][PATH_BYTES];
};

/* Return NULL, or an error text with file name and line, which stays valid until the next call. */
const char *configuration_read(struct configuration *c, FILE *file, const char *name);

#endif
