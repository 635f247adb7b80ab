// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* LinnOS models: the parts that both kinds of model file share. */
#include "linnos_model.h"

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

	return strings[error];
}

/* Compute the CRC-32 of a file whose own CRC field counts as 0. */
static u32 linnos_file_crc32(const u8 *file, size_t bytes)
{
	static const u8 zeros[4];
	const size_t rest = LINNOS_FILE_CRC32 + sizeof(zeros);
	u32 crc = crc32_le(~0u, file, LINNOS_FILE_CRC32);

	crc = crc32_le(crc, zeros, sizeof(zeros));
	return ~crc32_le(crc, file + rest, bytes - rest);
}

/* Check that this can be the beginning of a model file with that version. */
enum linnos_model_error linnos_file_check_start(const u8 *file, size_t bytes,
						u32 version)
{
	if (bytes < LINNOS_FILE_VERSION)
		return LINNOS_MODEL_TRUNCATED;
	if (memcmp(file, "LINNOSMD", LINNOS_FILE_VERSION))
		return LINNOS_MODEL_MAGIC;
	if (bytes < LINNOS_FILE_HEADER)
		return LINNOS_MODEL_TRUNCATED;
	if (get_unaligned_le32(file + LINNOS_FILE_VERSION) != version)
		return LINNOS_MODEL_UNKNOWN_VERSION;
	return LINNOS_MODEL_OK;
}

/* Check that a file with a valid header is complete and undamaged. */
enum linnos_model_error linnos_file_check_whole(const u8 *file, size_t bytes)
{
	u32 total_bytes = get_unaligned_le32(file + LINNOS_FILE_TOTAL_BYTES);

	if (bytes < total_bytes)
		return LINNOS_MODEL_TRUNCATED;
	if (bytes > total_bytes)
		return LINNOS_MODEL_SIZE;
	if (get_unaligned_le32(file + LINNOS_FILE_CRC32) !=
	    linnos_file_crc32(file, bytes))
		return LINNOS_MODEL_CRC;
	return LINNOS_MODEL_OK;
}
