/* SPDX-License-Identifier: MIT */
/*
 * Run the blktrace reader on events that are valid one by one, in any order, to test how it matches
 * completions with I/Os.
 *
 * An event is encoded in six bytes, so that the fuzzer finds sequences that it would not find with
 * the 48 bytes of an event in a file.
 */
#include "fuzz.h"
#include "../../linnapp/native/blktrace_parser.h"

#include <string.h>

enum { EVENT_BYTES = 6, MAX_EVENTS = 1024 };

/* Actions of linux/blktrace_api.h: Q, M, F, R, D, C, X, A, one that the reader skips, and G. */
static const uint32_t actions[] = { 1, 2, 3, 6, 7, 8, 13, 15, 9, 4 };

struct event {
	uint32_t magic, sequence;
	uint64_t time, sector;
	uint32_t bytes, action, pid, device, cpu;
	uint16_t error, pdu_len;
};

static void unpack(const uint8_t *packed, struct event *event, uint64_t *now_ns)
{
	static const uint32_t odd_sizes[] = { 0, 1, 511, 0xfffffe00, 0xffffffff, 513, 4097, 1 << 30 };
	static const uint16_t errors[] = { 0, 16, 11, 5, 0xfff0, 0xfff5, 0x8000, 0xffff };
	uint8_t action = packed[0], flags = packed[1], size = packed[3];

	/* Advance by up to 64 us, or by seconds: more than the age at which I/Os are abandoned. */
	*now_ns += packed[4] < 128 ? packed[4] * 500ull : packed[4] * 500000000ull;
	*event = (struct event){
		.magic = 0x65617407,
		.time = flags & 1 ? *now_ns - packed[4] * 999ull : *now_ns,
		.sector = flags & 2 ? 0 - (uint64_t)packed[2] : packed[2],
		.bytes = size < 248 ? (size + 1) * 512u : odd_sizes[size - 248],
		.action = actions[action % (sizeof(actions) / sizeof(*actions))] |
			  (flags & 4 ? 1u << 17 : 1u << 16) | (flags & 0xf8u) << 24,
		.device = 8 << 20,
		.cpu = packed[5] >> 4,
		.error = errors[packed[5] & 7],
	};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event events[MAX_EVENTS];
	size_t n = size / EVENT_BYTES;
	uint64_t now_ns = 1000000000;
	struct fuzz_file file;
	struct lt_parser *parser;
	const char *path;

	if (n > MAX_EVENTS)
		n = MAX_EVENTS;
	for (size_t i = 0; i < n; i++)
		unpack(data + i * EVENT_BYTES, &events[i], &now_ns);
	fuzz_file(&file, (const uint8_t *)events, n * sizeof(*events));
	path = file.path;
	parser = lt_open(&path, 1, &(struct lt_options){ .max_age_ns = 60000000000 });
	if (!parser)
		abort();
	fuzz_read_all(parser);
	lt_close(parser);
	close(file.fd);
	return 0;
}
