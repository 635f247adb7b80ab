/* SPDX-License-Identifier: MIT */
/*
 * Run the blktrace reader on arbitrary bytes, like files that are truncated, damaged or malicious.
 *
 * The first byte chooses the options. The rest is one file, or two of equal length.
 */
#include "fuzz.h"
#include "../../linnapp/native/blktrace_parser.h"

enum { TWO_FILES = 1, ALLOW_TRUNCATED = 2, MERGE = 4, SHORT_AGE = 8, ONE_DEVICE = 16,
       KEEP_STARTS = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t options = size ? data[0] : 0;
	int n_files = options & TWO_FILES ? 2 : 1;
	struct lt_options reading = {
		.max_age_ns = options & SHORT_AGE ? 1000 : 60000000000,
		.device = options & ONE_DEVICE ? 8 << 20 : 0,
		.overdue_us = options,
		.allow_truncated = !!(options & ALLOW_TRUNCATED),
		.keep_starts = !!(options & KEEP_STARTS),
	};
	struct fuzz_file files[2];
	const char *paths[2];
	struct lt_parser *parser;

	if (!size)
		return 0;
	data++;
	size--;
	for (int i = 0; i < n_files; i++) {
		fuzz_file(&files[i], data + size / n_files * i, size / n_files);
		paths[i] = files[i].path;
	}
	parser = lt_open(paths, n_files, &reading);
	if (!parser)
		abort();
	if (options & MERGE)
		lt_merge(parser, "/dev/null", options);
	else
		fuzz_read_all(parser);
	lt_close(parser);
	for (int i = 0; i < n_files; i++)
		close(files[i].fd);
	return 0;
}
