/* SPDX-License-Identifier: MIT */
/* Translate text of block layer events to blktrace's binary events: see text_events.h. */
#include "text_events.h"

#include "blktrace_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_MAGIC 0x65617407u
#define SHOWN_BYTES 120
#define LINES_SEEN 1024		/* number of lines that lt_events_are_text() reads */
#define UNNUMBERED_BACK_NS 100000u

/* Actions and categories of blktrace that the parser does not use. */
#define ACT_INSERT 12
#define CAT_READ CATEGORY(0)
#define CAT_QUEUE CATEGORY(4)
#define CAT_REQUEUE CATEGORY(5)
#define CAT_ISSUE CATEGORY(6)
#define CAT_COMPLETE CATEGORY(7)
#define CAT_FS CATEGORY(8)

/* Events by their names in ftrace and by blkparse's letters. */
static const struct kind {
	const char *name, *letters;
	uint32_t action;
} kinds[] = {
	{ "block_bio_queue", "Q", ACT_QUEUE | CAT_QUEUE },
	{ "block_bio_backmerge", "M", ACT_BACKMERGE | CAT_QUEUE },
	{ "block_bio_frontmerge", "F", ACT_FRONTMERGE | CAT_QUEUE },
	{ "block_getrq", "G", ACT_GETRQ | CAT_QUEUE },
	{ "block_rq_insert", "I", ACT_INSERT | CAT_QUEUE },
	{ "block_rq_requeue", "R", ACT_REQUEUE | CAT_REQUEUE },
	{ "block_rq_issue", "D", ACT_ISSUE | CAT_ISSUE },
	{ "block_rq_complete", "C", ACT_COMPLETE | CAT_COMPLETE },
	/* only of drives without requests, as md and dm */
	{ "block_bio_complete", "C", ACT_COMPLETE | CAT_COMPLETE },
	{ "block_split", "X", ACT_SPLIT },
	{ "block_bio_remap", "A", ACT_REMAP },
	/* Not about requests: plugging, messages, sleeping, bounces, events of drivers. */
	{ "block_plug", "P", 0 },
	{ "block_unplug", "U", 0 },
	{ "", "UT", 0 },
	{ "", "m", 0 },
	{ "", "S", 0 },
	{ "", "T", 0 },
	{ "", "B", 0 },
	{ "", "d", 0 },
};

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

/* Kinds of lines. */
enum line { NO_EVENT, AN_EVENT, THE_END, MALFORMED };

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* Remove a whole number and the blanks after it from the start of a text. */
static bool take_number(const char **at, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*value = strtoull(*at, &end, 10);
	*at = skip_blanks(end);
	return !errno;
}

/* Read "8,0". */
static bool take_device(const char **at, uint32_t *device)
{
	uint64_t major, minor;

	if (!take_number(at, &major) || **at != ',')
		return false;
	*at = skip_blanks(*at + 1);
	if (!take_number(at, &minor) || major >= 1 << 12 || minor >= 1 << 20)
		return false;
	*device = major << 20 | minor;
	return true;
}

/* Read seconds with a fraction as ns. */
static bool take_time(const char **at, uint64_t *ns)
{
	uint64_t scale = 1000000000, seconds;
	const char *digit;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	seconds = strtoull(*at, (char **)&digit, 10);
	if (errno || *digit != '.' || seconds > UINT64_MAX / 4 / scale)
		return false;
	*ns = seconds * scale;
	for (digit++; isdigit((unsigned char)*digit); digit++)
		*ns += (*digit - '0') * (scale /= 10);
	*at = digit;
	return true;
}

/*
 * Read the letters of an I/O, for example "R", "WS", "FF" or "ZA": an F if a flush comes first, the
 * operation, and flags. An append to a zone (ZA) is a write. Like discards, zeroes that the drive
 * writes by itself (WZ) and changes of a zone's state (ZR, ZF, ZO and ZC) transfer no data. Older
 * kernels print N for all of these, so N is never a read.
 */
static bool take_operation(const char **at, uint32_t *action)
{
	size_t n = strspn(*at, "RWDFNASMBEUPZOC");
	const char *operation = *at + (n > 1 && **at == 'F');

	if (!n || ((*at)[n] && (*at)[n] != ' ' && (*at)[n] != '\t'))
		return false;
	if (operation[0] == 'R')
		*action |= CAT_READ;
	else if (operation[0] == 'W')
		*action |= CAT_WRITE | (operation[1] == 'Z' ? CAT_DISCARD : 0);
	else if (operation[0] == 'Z' && operation[1] == 'A')
		*action |= CAT_WRITE;
	else if (operation[0] == 'D' || operation[0] == 'Z' || operation[0] == 'N')
		*action |= CAT_DISCARD | CAT_WRITE;
	*at = skip_blanks(*at + n);
	return true;
}

/* Read "SECTOR + SECTORS", or for a split "SECTOR / SECTOR"; an I/O without either has no data. */
static bool take_place(const char **at, struct blk_event_v7 *e)
{
	const char *next = *at;
	uint64_t sector, n;
	char sign;

	if (!take_number(&next, &sector) || (*next != '+' && *next != '/'))
		return false;
	sign = *next;
	next = skip_blanks(next + 1);
	if (!take_number(&next, &n) || (sign == '/' && n < sector))
		return false;
	n -= sign == '/' ? sector : 0;
	if (n > UINT32_MAX / SECTOR_BYTES)
		return false;
	/* More follows in all formats: an error, a program, the device before a remap. */
	if (!strpbrk(next, "[(<"))
		return false;
	e->sector = sector;
	e->bytes = n * SECTOR_BYTES;
	*at = next;
	return true;
}

/* Read a completion's error in the last brackets of the line: either sign, or its lower 16 bits. */
static void read_error(const char *at, struct blk_event_v7 *e)
{
	const char *bracket = strrchr(at, '[');
	int error = bracket ? (int16_t)strtol(bracket + 1, NULL, 10) : 0;

	e->error = error < 0 ? -error : error;
}

/* A summary follows the events, first of programs, as "fio (661)", or of CPUs or drives. */
static bool begins_summary(const char *line)
{
	const char *bracket = strrchr(line, '(');

	return !strncmp(line, "CPU", 3) || !strncmp(line, "Total (", 7) ||
	       (bracket && !isdigit((unsigned char)*line) && isdigit((unsigned char)bracket[1]) &&
		line[strlen(line) - 1] == ')');
}

/* Read "  8,0    1        4     0.000082000   661  D   R 95839968 + 8 [fio]". */
static enum line read_blkparse(const char *at, struct blk_event_v7 *e)
{
	uint64_t cpu, sequence, pid, number;
	const struct kind *kind;
	bool is_completion;
	size_t letters;

	at = skip_blanks(at);
	if (begins_summary(at))
		return THE_END;
	if (!take_device(&at, &e->device) || !take_number(&at, &cpu) ||
	    !take_number(&at, &sequence) || !take_time(&at, &e->time))
		return MALFORMED;
	at = skip_blanks(at);
	if (!take_number(&at, &pid))
		return MALFORMED;
	e->cpu = cpu;
	e->sequence = sequence;
	e->pid = pid;
	letters = strcspn(at, " \t");
	for (kind = kinds; kind < kinds + N_KINDS; kind++)
		if (strlen(kind->letters) == letters && !memcmp(kind->letters, at, letters))
			break;
	if (kind == kinds + N_KINDS)
		return MALFORMED;
	if (!kind->action)
		return NO_EVENT;
	e->action = kind->action;
	at = skip_blanks(at + letters);
	if (!take_operation(&at, &e->action))
		return MALFORMED;
	is_completion = (e->action & ACT_MASK) == ACT_COMPLETE;
	if (take_place(&at, e)) {
		e->action |= CAT_FS;
	} else {
		/*
		 * Without data, as a flush, whose completion has a sector. Another event with one
		 * number is a passthrough command of this size, perhaps with its bytes in brackets.
		 */
		bool has_number = take_number(&at, &number);

		e->action |= *at == '(' || (has_number && !is_completion) ? CAT_PASSTHROUGH :
									    CAT_FS;
		if (*at != '(' && *at != '[')
			return MALFORMED;
	}
	if (is_completion)
		read_error(at, e);
	return AN_EVENT;
}

/* Find the name of a block layer event in a line of ftrace or perf, which ends with a colon. */
static const char *find_event(const char *line, const struct kind **kind)
{
	for (const char *at = line; (at = strstr(at, "block_")); at++) {
		size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");

		if (at[n] != ':' || at == line || (at[-1] != ' ' && at[-1] != ':' && at[-1] != '\t'))
			continue;
		for (*kind = kinds; *kind < kinds + N_KINDS; (*kind)++)
			if (strlen((*kind)->name) == n && !memcmp((*kind)->name, at, n))
				return at;
		return NULL;
	}
	return NULL;
}

/*
 * Read "  fio-5405  [002] d..1. 8018.233160: block_rq_issue: 8,0 R 4096 () 184067232 + 8 [fio]", or
 * perf's "fio  5405 [002]  8018.233160: block:block_rq_issue: ..."
 */
static enum line read_ftrace(const char *line, struct blk_event_v7 *e)
{
	const struct kind *kind;
	const char *event = find_event(line, &kind), *at, *cpu;
	uint64_t bytes;

	if (!event || !kind->action)
		return NO_EVENT;
	/* Go back over "block:" and the colon after the time. */
	if (event - line > 6 && !strncmp(event - 6, "block:", 6))
		event -= 6;
	for (at = event; at > line && (at[-1] == ' ' || at[-1] == '\t');)
		at--;
	if (at == line || *--at != ':')
		return MALFORMED;
	while (at > line && (isdigit((unsigned char)at[-1]) || at[-1] == '.'))
		at--;
	if (!take_time(&at, &e->time))
		return MALFORMED;
	cpu = strchr(line, '[');
	e->cpu = cpu && cpu < event ? strtoul(cpu + 1, NULL, 10) : 0;
	e->action = kind->action;
	at = skip_blanks(strchr(event + (strncmp(event, "block:", 6) ? 0 : 6), ':') + 1);
	if (!take_device(&at, &e->device) || !take_operation(&at, &e->action))
		return MALFORMED;
	/* Requests have bytes, and a command in parentheses, which is empty for reads and writes. */
	if (!take_place(&at, e)) {
		take_number(&at, &bytes);
		if (*at == '(') {
			if (at[1] != ')')
				e->action |= CAT_PASSTHROUGH;
			at += strcspn(at, ")");
			at = skip_blanks(*at ? at + 1 : at);
		}
		if (!take_place(&at, e))
			return MALFORMED;
	}
	e->action |= CAT_FS;
	if ((e->action & ACT_MASK) == ACT_COMPLETE)
		read_error(at, e);
	return AN_EVENT;
}

typedef enum line read_line(const char *line, struct blk_event_v7 *e);

static bool is_void(const char *line)
{
	line = skip_blanks(line);
	return !*line || *line == '#';
}

/* Return the reader for the first line that has an event; NULL if there is none. */
static read_line *find_reader(const char *head, size_t n)
{
	read_line *found = NULL;
	int lines = 0;

	while (!found && n && lines++ < LINES_SEEN) {
		const char *end = memchr(head, '\n', n);
		size_t length = end ? (size_t)(end - head) : n;
		char *line = strndup(head, length);
		struct blk_event_v7 e = { 0 };

		if (!line)
			return NULL;
		line[strcspn(line, "\r")] = '\0';
		if (!is_void(line)) {
			if (read_blkparse(line, &e) == AN_EVENT)
				found = read_blkparse;
			else if (read_ftrace(line, &e) == AN_EVENT)
				found = read_ftrace;
		}
		free(line);
		head += length + (end != NULL);
		n -= length + (end != NULL);
	}
	return found;
}

bool lt_events_are_text(const char *head, size_t n)
{
	return find_reader(head, n < LT_EVENTS_HEAD_BYTES ? n : LT_EVENTS_HEAD_BYTES);
}

static bool write_event(FILE *out, struct blk_event_v7 *e)
{
	/* The text has one order, so one numbering: the numbers of each CPU would have gaps. */
	e->cpu = 0;
	e->sequence++;
	return fwrite(e, sizeof(*e), 1, out) == 1;
}

/* Return the number of lost events that a line of ftrace or perf reports, at least 1 if any. */
static uint32_t count_lost(const char *line)
{
	static const char *const reports[] = { "[LOST ", "PERF_RECORD_LOST lost " };

	for (size_t i = 0; i < sizeof(reports) / sizeof(*reports); i++) {
		const char *at = strstr(line, reports[i]);
		unsigned long n = at ? strtoul(at + strlen(reports[i]), NULL, 10) : 0;

		if (at)
			return n ? n : 1;
	}
	return 0;
}

/*
 * Return true if a second recording begins with an event: time goes back on its CPU, and so do the
 * CPU's numbers. Text of ftrace and perf has no numbers, so time has to go back further.
 */
static bool begins_again(struct lt_sequence *cpus, const struct blk_event_v7 *e, bool is_numbered)
{
	struct lt_sequence *cpu = &cpus[e->cpu % LT_MAX_CPUS], last = *cpu;

	*cpu = (struct lt_sequence){ .time = e->time, .last = e->sequence, .any = true };
	return last.any && e->time < last.time &&
	       (is_numbered ? e->sequence <= last.last :
			      last.time - e->time > UNNUMBERED_BACK_NS);
}

/* Read the whole text and write its events. */
static bool translate(FILE *in, FILE *out, const char *path, char *why)
{
	struct lt_sequence cpus[LT_MAX_CPUS] = { 0 };
	read_line *reader = NULL;
	uint32_t sequence = 0;
	enum line is = NO_EVENT;
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	long number = 0;
	bool done = true, is_whole;

	rewind(in);
	while (done && is != THE_END && (n = getline(&line, &room, in)) > 0) {
		struct blk_event_v7 e = { .magic = EVENT_MAGIC };
		char *start = line;

		if (!number++ && !strncmp(line, "\xef\xbb\xbf", 3))
			start += 3;
		is_whole = strlen(line) == (size_t)n;
		start[strcspn(start, "\r\n")] = '\0';
		if (is_whole && is_void(start))
			continue;
		if (!reader)
			reader = find_reader(start, strlen(start));
		is = reader ? reader(start, &e) : NO_EVENT;
		if (!is_whole) {
			snprintf(why, LT_PACKED_WHY, "%s:%ld: the line contains bytes of zero: the "
						     "file is damaged; copy it again", path,
				 number);
			done = false;
		} else if (is == MALFORMED) {
			snprintf(why, LT_PACKED_WHY, "%s:%ld: '%.*s' is not an event of the block "
						     "layer in the default format of %s; correct "
						     "or remove the line", path, number,
				 SHOWN_BYTES, start,
				 reader == read_blkparse ? "blkparse" : "perf or ftrace");
			done = false;
		} else if (is == NO_EVENT) {
			/* makes a gap in the numbers */
			sequence += reader == read_ftrace ? count_lost(start) : 0;
		} else if (is == AN_EVENT && begins_again(cpus, &e, reader == read_blkparse)) {
			snprintf(why, LT_PACKED_WHY, "%s:%ld: the event is earlier than the one "
						     "before it on CPU %u: a second recording "
						     "begins there; read them separately", path,
				 number, e.cpu);
			done = false;
		} else if (is == AN_EVENT) {
			e.sequence = sequence;
			done = write_event(out, &e);
			sequence = e.sequence;
			if (!done)
				snprintf(why, LT_PACKED_WHY, "%s: %s; its events are written to a "
					 "temporary file", path, strerror(errno));
		}
	}
	if (done && ferror(in)) {
		snprintf(why, LT_PACKED_WHY, "%s: %s", path, strerror(errno));
		done = false;
	}
	free(line);
	return done;
}

bool lt_events_translate(int from, int to, const char *path, char *why)
{
	int in_fd = dup(from), out_fd = dup(to);
	FILE *in = in_fd < 0 ? NULL : fdopen(in_fd, "r");
	FILE *out = out_fd < 0 ? NULL : fdopen(out_fd, "w");
	bool done = false;

	if (!in || !out)
		snprintf(why, LT_PACKED_WHY, "%s: %s", path, strerror(errno));
	else
		done = translate(in, out, path, why);
	if (in)
		fclose(in);
	if (out && fclose(out) && done) {
		snprintf(why, LT_PACKED_WHY, "%s: %s; its events are written to a temporary file",
			 path, strerror(errno));
		done = false;
	}
	return done;
}
