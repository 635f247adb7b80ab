/* SPDX-License-Identifier: MIT */
/* What flashsim drives know of themselves, for the policies that are bounds. */
#ifndef REPLAYER_ORACLE_QUERY_H
#define REPLAYER_ORACLE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct io;
struct replay;

/* How long the drive would take for all of this read if it were submitted now and nothing else
 * came: injection included, its parts where the kernel splits it. False with errno where the drive
 * is no flashsim drive. */
bool oracle_ask(const struct device *d, const struct io *io, uint64_t *latency_ns);
/* Dies where a drive answers no such question. */
void oracle_require(struct replay *r);

#endif
