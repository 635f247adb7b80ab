/* SPDX-License-Identifier: MIT */
/*
 * Structures of the public headers that may grow. New members are appended, and zero in them means
 * what older versions did, so that programs and libraries of different versions fit together. All
 * libraries follow the kernel's copy_struct_from_user().
 */
#ifndef LINNOS_VERSIONED_STRUCT_H
#define LINNOS_VERSIONED_STRUCT_H

#include <stddef.h>

/*
 * Copy a caller's structure, which begins with its size, to one of this library's, which has the
 * defaults. @ver0_bytes is the size that the structure had in its first version and never changes.
 * Members that the caller's structure does not have yet keep their defaults; those that this
 * library does not know must be zero. @given may be NULL. Returns 0 or a negative errno, with a
 * text.
 */
int versioned_struct_copy_in(void *to, size_t bytes, const void *given, size_t ver0_bytes,
			     const char *name);

/* Fill a caller's structure of @bytes, and set what this library does not know to zero. */
void versioned_struct_copy_out(void *to, size_t bytes, const void *from, size_t from_bytes);

#endif
