// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS models: what both kinds of file have in common, and what can be wrong.
 */
#include "linnos_model.h"

/* Say which check failed. */
const char *linnos_model_error_string(enum linnos_model_error error)
{
	static const char *const strings[] = {
		[LINNOS_MODEL_OK] = "no error",
		[LINNOS_MODEL_TRUNCATED] = "truncated file",
		[LINNOS_MODEL_MAGIC] = "bad magic, not a model file",
		[LINNOS_MODEL_UNKNOWN_VERSION] = "unknown version",
		[LINNOS_MODEL_SIZE] = "wrong size",
		[LINNOS_MODEL_SHAPE] = "wrong shape of network or trees",
		[LINNOS_MODEL_RESERVED] = "reserved field not zero",
		[LINNOS_MODEL_RANGE] = "number in the header out of range",
		[LINNOS_MODEL_CRC] = "checksum mismatch",
		[LINNOS_MODEL_NOT_NARROW] =
			"weights too large for sums of 16 bits; train it again, or quantise it with a smaller scale",
		[LINNOS_MODEL_SPLIT] = "split by an unknown feature",
		[LINNOS_MODEL_ORDER] = "written out of order",
	};

	if ((unsigned int)error > LINNOS_MODEL_ORDER)
		return "unknown error";
	return strings[error];
}

static const u8 linnos_magic[LINNOS_FILE_VERSION] = {
	'L', 'I', 'N', 'N', 'O', 'S', 'M', 'D',
};

/* IEEE CRC-32, reflected, four bits a step; its own field counts as zero. */
static u32 linnos_file_crc32(const u8 *file, size_t bytes)
{
	static const u32 table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	u32 crc = ~0u;
	size_t at;

	for (at = 0; at < bytes; at++) {
		crc ^= at - LINNOS_FILE_CRC32 < 4 ? 0 : file[at];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

bool linnos_all_zero(const u8 *p, size_t bytes)
{
	while (bytes--)
		if (*p++)
			return false;
	return true;
}

/* Can this be the beginning of a file of the kind with that version? */
enum linnos_model_error linnos_file_check_start(const u8 *file, size_t bytes,
						u32 version)
{
	if (bytes < sizeof(linnos_magic))
		return LINNOS_MODEL_TRUNCATED;
	if (memcmp(file, linnos_magic, sizeof(linnos_magic)))
		return LINNOS_MODEL_MAGIC;
	if (bytes < LINNOS_FILE_HEADER)
		return LINNOS_MODEL_TRUNCATED;
	if (linnos_get_u32(file + LINNOS_FILE_VERSION) != version)
		return LINNOS_MODEL_UNKNOWN_VERSION;
	return LINNOS_MODEL_OK;
}

/* With a header that is right: is all of it there, as it was written? */
enum linnos_model_error linnos_file_check_whole(const u8 *file, size_t bytes)
{
	u32 total_bytes = linnos_get_u32(file + LINNOS_FILE_TOTAL_BYTES);

	if (bytes < total_bytes)
		return LINNOS_MODEL_TRUNCATED;
	if (bytes > total_bytes)
		return LINNOS_MODEL_SIZE;
	if (linnos_get_u32(file + LINNOS_FILE_CRC32) !=
	    linnos_file_crc32(file, bytes))
		return LINNOS_MODEL_CRC;
	return LINNOS_MODEL_OK;
}

/* Write what all headers have, and zeros in the rest of it. What follows it? */
u8 *linnos_file_start(u8 *file, u32 version, u32 total_bytes, u32 id)
{
	memset(file, 0, LINNOS_FILE_HEADER);
	memcpy(file, linnos_magic, sizeof(linnos_magic));
	linnos_put_u32(file + LINNOS_FILE_VERSION, version);
	linnos_put_u32(file + LINNOS_FILE_TOTAL_BYTES, total_bytes);
	linnos_put_u32(file + LINNOS_FILE_CRC32, id);
	return file + LINNOS_FILE_HEADER;
}
