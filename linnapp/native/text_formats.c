/* SPDX-License-Identifier: MIT */
/*
 * The table of text trace formats, one I/O per line. A new format is one entry here, one line in
 * _line() of tests/unit/test_text_forms.py, and one in linnapp/topics/formats.txt.
 */
#include <string.h>

#include "text_trace.h"

#define SECTOR_BYTES 512
#define S_DIGITS 9
#define MS_DIGITS 6
#define US_DIGITS 3
#define NS_DIGITS 0

static const struct lt_text_format formats[] = {
	{ .name = "iolog",
	  .description = "'<us> <file> read|write <offset> <bytes>'",
	  .n_columns = 5, .max_columns = 5,
	  .time_at = 0, .volume_at = 1, .volume_columns = 1, .type_at = 2, .offset_at = 3,
	  .size_at = 4, .time_digits = US_DIGITS, .reads = "read", .writes = "write",
	  .passed_over = "add open close", .skipped = "wait trim sync datasync",
	  .header = "fio version 3 iolog", .flags = LT_TEXT_IOLOG,
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "heimdall",
	  .description = "time_ms device offset_bytes size_bytes type (1 read, 0 write)",
	  .n_columns = 5, .max_columns = 5,
	  .time_at = 0, .volume_at = 1, .volume_columns = 1, .offset_at = 2, .size_at = 3,
	  .type_at = 4, .time_digits = MS_DIGITS, .reads = "1", .writes = "0",
	  .flags = LT_TEXT_DEVICE,
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "mqsim",
	  .description = "MQSim: time_ns device offset_sectors size_sectors type (1 read, 0 write)",
	  .n_columns = 5, .max_columns = 5,
	  .time_at = 0, .volume_at = 1, .volume_columns = 1, .offset_at = 2, .size_at = 3,
	  .type_at = 4, .time_digits = NS_DIGITS, .reads = "1", .writes = "0",
	  .offset_unit_bytes = SECTOR_BYTES, .size_unit_bytes = SECTOR_BYTES,
	  .flags = LT_TEXT_DEVICE },
	{ .name = "disksim",
	  .description = "DiskSim: time_ms device offset_sectors size_sectors flags (1 read, 0 write)",
	  .n_columns = 5, .max_columns = 5,
	  .time_at = 0, .volume_at = 1, .volume_columns = 1, .offset_at = 2, .size_at = 3,
	  .type_at = 4, .time_digits = MS_DIGITS, .reads = "1 3 5 7", .writes = "0 2 4 6",
	  .offset_unit_bytes = SECTOR_BYTES, .size_unit_bytes = SECTOR_BYTES,
	  .flags = LT_TEXT_DEVICE },
	{ .name = "msr",
	  .description = "MSR Cambridge: time (100 ns),host,disk,Read|Write,offset_bytes,size_bytes,"
			 "response_time",
	  .n_columns = 7, .max_columns = 7,
	  .time_at = 0, .volume_at = 1, .volume_columns = 2, .type_at = 3, .offset_at = 4,
	  .size_at = 5, .time_digits = 2, .reads = "Read R", .writes = "Write W",
	  .header = "Timestamp,Hostname",
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "alibaba",
	  .description = "Alibaba block traces: device,R|W,offset_bytes,size_bytes,time_us",
	  .n_columns = 5, .max_columns = 5,
	  .volume_at = 0, .volume_columns = 1, .type_at = 1, .offset_at = 2, .size_at = 3,
	  .time_at = 4, .time_digits = US_DIGITS, .reads = "R Read", .writes = "W Write",
	  .header = "device_id,",
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "tencent",
	  .description = "Tencent block traces: time_s,offset_sectors,size_sectors,type (0 read, "
			 "1 write),volume",
	  .n_columns = 5, .max_columns = 5,
	  .time_at = 0, .offset_at = 1, .size_at = 2, .type_at = 3, .volume_at = 4,
	  .volume_columns = 1, .time_digits = S_DIGITS, .reads = "0", .writes = "1",
	  .header = "Timestamp,Offset",
	  .offset_unit_bytes = SECTOR_BYTES, .size_unit_bytes = SECTOR_BYTES },
	{ .name = "systor",
	  .description = "Systor '17: time_s,response_s,R|W,lun,offset_bytes,size_bytes",
	  .n_columns = 6, .max_columns = 6,
	  .time_at = 0, .type_at = 2, .volume_at = 3, .volume_columns = 1, .offset_at = 4,
	  .size_at = 5, .time_digits = S_DIGITS, .reads = "R Read", .writes = "W Write",
	  .header = "Timestamp,Response",
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "spc",
	  .description = "SPC (UMass): unit,offset_sectors,size_bytes,R|W,time_s",
	  .n_columns = 5, .max_columns = 5,
	  .volume_at = 0, .volume_columns = 1, .offset_at = 1, .size_at = 2, .type_at = 3,
	  .time_at = 4, .time_digits = S_DIGITS, .reads = "R Read", .writes = "W Write",
	  .offset_unit_bytes = SECTOR_BYTES,
	  .size_unit_bytes = 1 },
	{ .name = "fiu",
	  .description = "FIU: time_ns pid process offset_sectors size_sectors R|W major minor md5",
	  .n_columns = 9, .max_columns = 9,
	  .time_at = 0, .offset_at = 3, .size_at = 4, .type_at = 5, .volume_at = 6,
	  .volume_columns = 2, .time_digits = NS_DIGITS, .reads = "R Read", .writes = "W Write",
	  .offset_unit_bytes = SECTOR_BYTES, .size_unit_bytes = SECTOR_BYTES },
	{ .name = "flashnet",
	  .description = "FlashNet's log of a replay: arrival_ms,latency_us,type (1 read, 0 write),"
			 "size_bytes,offset_bytes,submit_ms,size_bytes",
	  .n_columns = 7, .max_columns = 7,
	  .latency_at = 1, .type_at = 2, .size_at = 3, .offset_at = 4, .time_at = 5,
	  .same_as_size_at = 6, .time_digits = MS_DIGITS, .latency_digits = US_DIGITS,
	  .reads = "1", .writes = "0",
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "fio-lat",
	  .description = "fio's latency log with log_offset=1: end_ms, latency_ns, type (0 read, "
			 "1 write), size_bytes, offset_bytes[, priority]",
	  .n_columns = 5, .max_columns = 6,
	  .time_at = 0, .latency_at = 1, .type_at = 2, .size_at = 3, .offset_at = 4,
	  .time_digits = MS_DIGITS, .latency_digits = NS_DIGITS, .reads = "0", .writes = "1",
	  .skipped = "2", .flags = LT_TEXT_AT_END | LT_TEXT_COARSE,
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
	{ .name = "fio-lat-short",
	  .description = "fio's log without offsets: time_ms, value, type, size_bytes",
	  .n_columns = 4, .max_columns = 4,
	  .time_at = 0, .type_at = 2, .size_at = 3, .offset_at = 0,
	  .time_digits = MS_DIGITS, .reads = "0", .writes = "1", .skipped = "2",
	  .refusal = LT_TEXT_NO_OFFSETS,
	  .offset_unit_bytes = 1, .size_unit_bytes = 1 },
};

#define N_FORMATS ((int32_t)(sizeof(formats) / sizeof(*formats)))

static const struct unit {
	const char *name;
	int32_t digits;
} units[] = { { "s", S_DIGITS }, { "ms", MS_DIGITS }, { "us", US_DIGITS }, { "100ns", 2 },
	      { "ns", NS_DIGITS } };

#define N_UNITS (sizeof(units) / sizeof(*units))

/** lt_text_formats() - get the table and the number of its formats */
const struct lt_text_format *lt_text_formats(int32_t *n)
{
	*n = N_FORMATS;
	return formats;
}

/** lt_text_unit() - get the name of the unit of 10^@digits ns */
const char *lt_text_unit(int32_t digits)
{
	for (size_t i = 0; i < N_UNITS; i++)
		if (units[i].digits == digits)
			return units[i].name;
	return "?";
}

/**
 * lt_text_find() - find a format by its name
 * @name: "FORMAT", or "FORMAT:UNIT" with another unit of time: s, ms, us, 100ns or ns
 * @time_digits: set to the unit's, or to -1 if no unit is named
 *
 * Return: the format, or NULL if the table has none of this name.
 */
const struct lt_text_format *lt_text_find(const char *name, int32_t *time_digits)
{
	size_t length = strcspn(name, ":");
	size_t unit = N_UNITS;

	*time_digits = -1;
	if (name[length]) {
		for (unit = 0; unit < N_UNITS && strcmp(units[unit].name, name + length + 1);)
			unit++;
		if (unit == N_UNITS)
			return NULL;
		*time_digits = units[unit].digits;
	}
	for (const struct lt_text_format *f = formats; f < formats + N_FORMATS; f++)
		if (!f->refusal && strlen(f->name) == length && !memcmp(f->name, name, length))
			return f;
	return NULL;
}
