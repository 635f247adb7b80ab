/* SPDX-License-Identifier: MIT */
/*
 * Messages and options of linnos-ublk and linnos-agent. A program is compiled with its name as
 * PROGRAM, and its version as PROGRAM_VERSION.
 */
#ifndef LINNOS_PROGRAM_H
#define LINNOS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Exit statuses. */
#define EXIT_NOT_STARTED 1
#define EXIT_USAGE 2

/* The time between two checks of a state that another process changes. */
#define WAIT_MS 10

#define N_ELEMENTS(array) (sizeof(array) / sizeof(*(array)))

/* Print one line to stderr, after the name of the program. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Print a line, and exit with EXIT_NOT_STARTED. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Print a line with a reference to --help, and exit with EXIT_USAGE. */
void die_of_usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

enum option_kind {
	OPTION_FLAG, /* no argument; sets a bool */
	OPTION_TEXT,
	OPTION_U32,
	OPTION_DOUBLE,
	OPTION_PARSED, /* @parse stores the value */
};

/**
 * struct option_row - an option of a program
 * @name: its name without dashes; NULL for a heading in --help, whose text is @help
 * @argument: name of the argument in --help; NULL if there is none
 * @help: its description, which may have several lines
 * @offset: position of the value in the structure of all options
 * @min: the smallest number that is accepted
 * @max: the largest number that is accepted; 0 for the largest of the type
 */
struct option_row {
	const char *name, *argument, *help;
	enum option_kind kind;
	size_t offset;
	double min, max;
	void (*parse)(void *options, const char *text);
};

/* Store the value of one option. Exits with EXIT_USAGE if it is invalid. */
void option_set(const struct option_row *row, void *options, const char *text);
/*
 * Parse the command line, including --version and --help, which print @usage and the table. Return
 * the index of the first argument that is not an option.
 */
int options_parse_table(const struct option_row *table, size_t n, const char *usage, void *options,
			int argc, char **argv);
/* Parse the whole number of the option @name. Exits with EXIT_USAGE if it is out of range. */
uint64_t parse_whole(const char *name, const char *text, uint64_t min, uint64_t max);

/* Sleep for WAIT_MS. */
void wait_a_little(void);

#endif
