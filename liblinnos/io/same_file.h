/* SPDX-License-Identifier: MIT */
/* Find out whether two replicas are the same file or block device. */
#ifndef LINNOS_SAME_FILE_H
#define LINNOS_SAME_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* Return true if both are the same file, or nodes of the same block device. */
static inline bool is_same_file(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) || S_ISBLK(b->st_mode))
		return S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

#endif
