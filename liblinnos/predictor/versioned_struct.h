/* SPDX-License-Identifier: MIT */
/*
 * Structures of the public headers that may grow. New members are appended, and zero in a new
 * member selects the previous behaviour, so that programs and libraries of different versions are
 * compatible. The functions work like copy_struct_from_user() in the kernel.
 */
#ifndef LINNOS_VERSIONED_STRUCT_H
#define LINNOS_VERSIONED_STRUCT_H

#include <stddef.h>

/*
 * Copy a caller's structure, which begins with its size, to a structure of this library that
 * contains the defaults. @ver0_bytes is the size of the first version of the structure. Members
 * that the caller's structure does not have keep their defaults, and members that this library does
 * not have must be zero. @given may be NULL. Return 0, or a negative errno after setting the error
 * text.
 */
int versioned_struct_copy_in(void *to, size_t bytes, const void *given, size_t ver0_bytes,
			     const char *name);

/* Fill a caller's structure of @bytes. Members that this library does not have are set to zero. */
void versioned_struct_copy_out(void *to, size_t bytes, const void *from, size_t from_bytes);

#endif
