// SPDX-License-Identifier: MIT
/* Read a latency model from its file: see model_file.h. */
#include "model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger than any model. */
#define FILE_BYTES_MAX (64u << 10)
/* Version of model files with a fast/slow network. */
#define NETWORK_VERSION 1
#define REMEDY "`linnapp train --kind latency` makes one"

static ssize_t read_whole(const char *path, unsigned char *file)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t bytes = 0;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	while (bytes < FILE_BYTES_MAX && n) {
		n = read(fd, file + bytes, FILE_BYTES_MAX - bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			n = -errno;
			close(fd);
			return n;
		}
		bytes += n;
	}
	close(fd);
	return bytes;
}

static struct linnos_latency *parse(const char *path, const unsigned char *file, size_t bytes,
				    int *error, char *why)
{
	struct linnos_latency *model = malloc(linnos_latency_sizeof(bytes));
	enum linnos_model_error wrong;

	if (!model) {
		*error = -ENOMEM;
		snprintf(why, MODEL_WHY_BYTES, "%s: out of memory", path);
		return NULL;
	}
	wrong = linnos_latency_parse(model, file, bytes);
	if (!wrong)
		return model;
	free(model);
	*error = -EINVAL;
	if (wrong == LINNOS_MODEL_UNKNOWN_VERSION && file[LINNOS_FILE_VERSION] == NETWORK_VERSION)
		snprintf(why, MODEL_WHY_BYTES,
			 "%s: a fast/slow network, which predicts no latencies; " REMEDY, path);
	else
		snprintf(why, MODEL_WHY_BYTES, "%s: %s; " REMEDY, path,
			 linnos_model_error_string(wrong));
	return NULL;
}

struct linnos_latency *model_file_read(const char *path, int *error, char why[MODEL_WHY_BYTES])
{
	unsigned char *file = malloc(FILE_BYTES_MAX);
	struct linnos_latency *model = NULL;
	ssize_t bytes = file ? read_whole(path, file) : -ENOMEM;

	if (bytes < 0) {
		*error = bytes;
		snprintf(why, MODEL_WHY_BYTES, "%s: %s; " REMEDY, path, strerror(-bytes));
	} else {
		model = parse(path, file, bytes, error, why);
	}
	free(file);
	return model;
}

struct linnos_latency *model_mean_of_last(uint32_t overdue_us)
{
	struct linnos_latency *model = calloc(1, sizeof(*model));

	if (model)
		model->overdue_us = overdue_us;
	return model;
}
