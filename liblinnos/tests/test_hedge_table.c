// SPDX-License-Identifier: MIT
/* Hedge tables in files, and the messages for invalid files. */
#include "hedge_table.h"

#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST "linnos hedge table 1\n"

static struct hedge_table table;
static char why[HEDGE_TABLE_WHY_BYTES];

/* Read a table with this text from a file. */
static int reads(const char *text)
{
	char path[] = "/tmp/hedge-table-XXXXXX";
	int fd = mkstemp(path), error;

	assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	error = hedge_table_read(&table, path, why);
	if (error)
		assert(!strncmp(why, path, strlen(path)));
	unlink(path);
	return error;
}

static int is_refused(const char *text, const char *reason)
{
	return reads(text) == -EINVAL && strstr(why, reason) && strstr(why, "`linnapp train");
}

TEST(table_row_applies_up_to_the_next_prediction)
{
	static const uint32_t expected[][2] = {
		{0, 150},   {1, 150},	{89, 150},    {90, 200},    {127, 200},
		{128, 200}, {999, 200}, {1000, 4000}, {1001, 4000}, {UINT32_MAX, 4000}};

	assert(!reads(FIRST "# p99 of 3000 reads\n0 150\n90 200\n# between\n128 200\n1000 4000\n"));
	assert(table.n_rows == 4);
	for (unsigned int i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert(hedge_table_after_us(&table, expected[i][0]) == expected[i][1]);
	assert(!reads(FIRST "0 4294967295\n"));
	assert(hedge_table_after_us(&table, 77) == UINT32_MAX);
}

TEST(invalid_table_is_rejected_with_its_line)
{
	char many[2000] = FIRST;

	assert(is_refused("", "line 0: no rows"));
	assert(is_refused(FIRST, "line 1: no rows"));
	assert(is_refused("linnos hedge table 2\n0 150\n",
			  "line 1: not a hedge table of version 1"));
	assert(is_refused("0 150\n", "line 1: not a hedge table of version 1"));
	assert(is_refused(FIRST "0\n", "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 150", "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 150 7\n", "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 -5\n", "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 150.5\n", "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 4294967296\n", "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 99999999999999999999999\n",
			  "line 2: a row must have two integers"));
	assert(is_refused(FIRST "0 0\n", "line 2: the delay is 0 us"));
	assert(is_refused(FIRST "5 150\n", "line 2: the first row"));
	assert(is_refused(FIRST "0 150\n0 160\n", "line 3: the prediction must be larger"));
	assert(is_refused(FIRST "0 150\n10 149\n", "line 3: the delay must not be smaller"));
	for (unsigned int i = 0; i <= HEDGE_TABLE_ROWS_MAX; i++)
		sprintf(many + strlen(many), "%u 9\n", i);
	assert(is_refused(many, "line 66: too many rows"));
}

TEST(unreadable_table_is_rejected)
{
	assert(hedge_table_read(&table, "/nowhere", why) == -ENOENT);
	assert(!strcmp(why,
		       "/nowhere: No such file or directory; `linnapp train --kind latency` makes "
		       "one"));
	assert(hedge_table_read(&table, "/", why) == -EISDIR && strstr(why, "/: Is a directory"));
}
