/* SPDX-License-Identifier: MIT */
/* Read a latency model from its file. */
#ifndef LINNOS_MODEL_FILE_H
#define LINNOS_MODEL_FILE_H

#include "linnos_model.h"

#include <stdint.h>

#define MODEL_WHY_BYTES 512

/* Return the model, which the caller frees with free(). On failure return NULL, set *error to a
 * negative errno, and write a message to why[]: which file, what is wrong with it, what to do. */
struct linnos_latency *model_file_read(const char *path, int *error, char why[MODEL_WHY_BYTES]);
/* Return a model for drives without a file, which predicts the mean of the last four latencies. */
struct linnos_latency *model_mean_of_last(uint32_t overdue_us);

#endif
