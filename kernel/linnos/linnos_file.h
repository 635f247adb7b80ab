/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS model files, of either kind: numbers, magic and checksum. For those who
 * read and write them, linnos_engine.c and linnos_latency.c.
 */
#ifndef _LINNOS_FILE_H
#define _LINNOS_FILE_H

#include "linnos_engine.h"

static const u8 linnos_magic[8] = { 'L', 'I', 'N', 'N', 'O', 'S', 'M', 'D' };

/* The file is little-endian and may sit at any address. */
static inline u32 get_u16(const u8 *p)
{
	return p[0] | (u32)p[1] << 8;
}

static inline u32 get_u32(const u8 *p)
{
	return get_u16(p) | get_u16(p + 2) << 16;
}

static inline u8 *put_u16(u8 *p, u32 value)
{
	p[0] = value & 0xff;
	p[1] = value >> 8 & 0xff;
	return p + 2;
}

static inline u8 *put_u32(u8 *p, u32 value)
{
	return put_u16(put_u16(p, value), value >> 16);
}

static inline bool all_zero(const u8 *p, size_t bytes)
{
	while (bytes--)
		if (*p++)
			return false;
	return true;
}

/* IEEE CRC-32, reflected, four bits a step: a model is read once. */
static inline u32 linnos_crc32_nibbles(u32 crc, const u8 *p, size_t bytes)
{
	static const u32 table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};

	while (bytes--) {
		crc ^= *p++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return crc;
}

/* The file's checksum counts its own field as zero. */
static inline u32 linnos_file_crc32(const u8 *file, size_t bytes)
{
	static const u8 zero[4];
	u32 crc = ~0u;

	crc = linnos_crc32_nibbles(crc, file, LINNOS_FILE_CRC32);
	crc = linnos_crc32_nibbles(crc, zero, sizeof(zero));
	crc = linnos_crc32_nibbles(crc, file + LINNOS_FILE_CRC32 + 4,
				   bytes - LINNOS_FILE_CRC32 - 4);
	return ~crc;
}

#endif /* _LINNOS_FILE_H */
