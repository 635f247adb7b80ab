// SPDX-License-Identifier: MIT
/* Messages and options of a program: see program.h. */
#include "program.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The column of the descriptions in --help. */
#define HELP_COLUMN 24
#define OPTIONS_MAX 32

static void print_message(const char *format, va_list args, const char *end)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	fprintf(stderr, PROGRAM ": %s%s\n", line, end);
}

#define PRINT_MESSAGE(end)                                                                         \
	do {                                                                                       \
		va_list args;                                                                      \
                                                                                                   \
		va_start(args, format);                                                            \
		print_message(format, args, end);                                                  \
		va_end(args);                                                                      \
	} while (0)

void warn(const char *format, ...)
{
	PRINT_MESSAGE("");
}

void die(const char *format, ...)
{
	PRINT_MESSAGE("");
	exit(EXIT_NOT_STARTED);
}

void die_of_usage(const char *format, ...)
{
	PRINT_MESSAGE("; " PROGRAM " --help lists the options");
	exit(EXIT_USAGE);
}

uint64_t parse_whole(const char *name, const char *text, uint64_t min, uint64_t max)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < min || value > max)
		die_of_usage("--%s %s: it must be a whole number from %llu to %llu", name, text,
			     (unsigned long long)min, (unsigned long long)max);
	return value;
}

static double parse_number(const struct option_row *row, const char *text)
{
	double max = row->max ? row->max : __DBL_MAX__, value;
	char *end;

	value = strtod(text, &end);
	if (end == text || *end || !(value >= row->min && value <= max))
		die_of_usage("--%s %s: it must be a number from %.12g to %.12g", row->name, text,
			     row->min, max);
	return value;
}

void option_set(const struct option_row *row, void *options, const char *text)
{
	void *value = (char *)options + row->offset;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)value = true;
		break;
	case OPTION_TEXT:
		*(const char **)value = text;
		break;
	case OPTION_U32:
		*(uint32_t *)value =
			parse_whole(row->name, text, row->min, row->max ? row->max : UINT32_MAX);
		break;
	case OPTION_DOUBLE:
		*(double *)value = parse_number(row, text);
		break;
	case OPTION_PARSED:
		row->parse(options, text);
	}
}

static void print_row(const char *name, const char *argument, const char *help)
{
	int used = printf("  --%s %s", name, argument ? argument : "");

	for (size_t length; *help; help += length + (help[length] == '\n'), used = 0) {
		length = strcspn(help, "\n");
		printf("%*s%.*s\n", used < HELP_COLUMN ? HELP_COLUMN - used : 0, "", (int)length,
		       help);
	}
}

static void print_help(const struct option_row *table, size_t n, const char *usage)
{
	fputs(usage, stdout);
	for (const struct option_row *row = table; row < table + n; row++)
		if (row->name)
			print_row(row->name, row->argument, row->help);
		else
			printf("\n%s\n", row->help);
	print_row("version", NULL, "print the version");
	print_row("help", NULL, "print this text");
}

int options_parse_table(const struct option_row *table, size_t n, const char *usage, void *options,
			int argc, char **argv)
{
	struct option known[OPTIONS_MAX + 3] = {{"version", no_argument, NULL, OPTIONS_MAX},
						{"help", no_argument, NULL, 'h'}};
	int found, n_known = 2;

	for (size_t k = 0; k < n; k++)
		if (table[k].name)
			known[n_known++] = (struct option){
				table[k].name, table[k].argument ? required_argument : no_argument,
				NULL, k};
	while ((found = getopt_long(argc, argv, "h", known, NULL)) >= 0)
		if (found == 'h') {
			print_help(table, n, usage);
			exit(EXIT_SUCCESS);
		} else if (found == '?') {
			fputs(PROGRAM " --help lists the options\n", stderr);
			exit(EXIT_USAGE);
		} else if (found == OPTIONS_MAX) {
			puts(PROGRAM " " PROGRAM_VERSION);
			exit(EXIT_SUCCESS);
		} else {
			option_set(&table[found], options, optarg);
		}
	return optind;
}

void wait_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000}, NULL);
}
