/* SPDX-License-Identifier: MIT */
/* Reads a model of latencies from its file. */
#ifndef LINNOS_MODEL_FILE_H
#define LINNOS_MODEL_FILE_H

#include "linnos_model.h"

#include <stdint.h>

#define MODEL_WHY_BYTES 512

/* The model, for free(); NULL when there is none: *error is then a negative errno, and why[] says
 * which file, what is wrong with it and what to do. */
struct linnos_latency *model_file_read(const char *path, int *error, char why[MODEL_WHY_BYTES]);
/* Without a file: the mean of the last four latencies is the prediction. */
struct linnos_latency *model_mean_of_last(uint32_t overdue_us);

#endif
