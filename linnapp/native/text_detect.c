/* SPDX-License-Identifier: MIT */
/*
 * Detect the format of a text trace from its first lines.
 *
 * Many formats are a few columns of numbers, and the appearance of a line does not distinguish
 * them. So each format is tried on the first lines, and the result is checked for implausible
 * values: sizes that are not whole sectors, one I/O in some minutes, too many device numbers. If
 * exactly one format remains, it is used. Otherwise the user has to name the format.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text_trace.h"

#define SECTOR_BYTES 512
#define MAX_FORMATS 32
#define SHOWN_BYTES 60
#define REASON_BYTES 300
#define LINE_BYTES 256

#define SLOWEST_NS 60e9		/* maximum of the median time between I/Os */
#define SLOWEST_OF_FEW_NS 3600e9
#define FASTEST_NS 20.0		/* minimum of the mean time between I/Os */
#define LARGEST_MEDIAN (16 << 20)
#define LARGEST_DEVICE_DIGITS 5

/* The first lines, read in one format. */
struct probe {
	const struct lt_text_format *format;
	bool whole;		/* all lines could be read */
	int64_t rows;		/* room for this number of I/Os, one for each line */
	int64_t n;		/* number of I/Os */
	int64_t *time, *offset, *size, *latency, *line;
	uint8_t *is_write;
	struct lt_text_counts counts;
	bool has_long_device;
	bool is_doubtful;	/* it was rejected for a reason that is not conclusive */
	int64_t bad_line;	/* the line that could not be read */
	char why_not[REASON_BYTES];	/* the reason why it was rejected, or empty */
};

__attribute__((format(printf, 2, 3)))
static void append(char *why, const char *format, ...)
{
	size_t length = strlen(why);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why + length, LT_TEXT_WHY_BYTES - length, format, arguments);
	va_end(arguments);
}

/* ---- text that is not a supported trace at all ---- */

#define REPORT "the file is a report like that of iostat, without individual I/Os; record the " \
	       "drive with `linnapp trace`"

static const struct form {
	const char *begins;	/* start of one of the first lines */
	const char *sentence;
} forms[] = {
	{ "version https://git-lfs", "the file is a Git LFS pointer without the data; fetch the "
				     "data with `git lfs pull`" },
	{ "<!doctype", "the file is a web page; download the file that the page links to" },
	{ "<html", "the file is a web page; download the file that the page links to" },
	{ "{", "the file is JSON; a trace has lines of columns (see `linnapp help formats`)" },
	{ "[{", "the file is JSON; a trace has lines of columns (see `linnapp help formats`)" },
	{ "TIME(", "the file is the output of biosnoop; record the drive with `linnapp trace` "
		   "instead" },
	{ "Attaching ", "the file is the output of bpftrace; record the drive with `linnapp "
			"trace` instead" },
	{ "Linux ", REPORT },
	{ "Device:", REPORT },
	{ "Device    ", REPORT },
	{ "Device,r/s", REPORT },
	{ "PERFILE2", "the file has perf's binary format; convert it to text with `perf script`" },
	{ "fio-", "the file is a report of fio, without individual I/Os; run fio again with "
		  "write_iolog" },
	{ "# tracer:", "the file is text of ftrace without block events; trace the events "
		       "block:block_rq_issue and block:block_rq_complete" },
};

static size_t line_length(const char *text, size_t n)
{
	const char *end = memchr(text, '\n', n);

	return end ? (size_t)(end - text) : n;
}

static int count_of(char c, const char *text, size_t n)
{
	int found = 0;

	for (size_t i = 0; i < n; i++)
		found += text[i] == c;
	return found;
}

/* Return iconv's name of an encoding with two or four bytes for each character, or NULL. */
static const char *find_wide_encoding(const unsigned char *head, size_t n)
{
	static const struct {
		const char *name;
		uint8_t mark_bytes, mark[4];
		uint8_t zeroes;		/* without a mark: bits of the first 8 bytes that are 0 */
	} encodings[] = {
		{ "UTF-32", 4, { 0xff, 0xfe, 0, 0 }, 0 },
		{ "UTF-32", 4, { 0, 0, 0xfe, 0xff }, 0 },
		{ "UTF-32LE", 0, { 0 }, 0xee },
		{ "UTF-32BE", 0, { 0 }, 0x77 },
		{ "UTF-16", 2, { 0xff, 0xfe }, 0 },
		{ "UTF-16", 2, { 0xfe, 0xff }, 0 },
		{ "UTF-16LE", 0, { 0 }, 0xaa },
		{ "UTF-16BE", 0, { 0 }, 0x55 },
	};
	uint8_t zeroes = 0;

	for (int i = 0; i < 8 && n >= 8; i++)
		zeroes |= !head[i] << i;
	for (size_t i = 0; i < sizeof(encodings) / sizeof(*encodings); i++) {
		size_t length = encodings[i].mark_bytes;

		if (length ? n >= length && !memcmp(head, encodings[i].mark, length) :
			     zeroes == encodings[i].zeroes)
			return encodings[i].name;
	}
	return NULL;
}

static bool is_printable(const unsigned char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' && !memchr("\t\r\n\v\f", text[i], 5))
			return false;
	return true;
}

/* Return true if the data cannot be read as lines at all; describe the data in @why. */
static bool is_not_text(const unsigned char *head, size_t n, char *why)
{
	size_t line = line_length((const char *)head, n);
	const char *wide = find_wide_encoding(head, n);
	const unsigned char *zero = memchr(head, '\0', n);

	if (!n) {
		append(why, "the file is empty");
	} else if (wide) {
		append(why, "the file is text in %.6s; convert it with `iconv -f %s -t UTF-8`", wide,
		    wide);
	} else if (zero && zero - head >= 8 && is_printable(head, zero - head)) {
		append(why, "line %d contains bytes of zero; the file is damaged, as after a crash or "
			 "an incomplete copy: copy it again",
		    1 + count_of('\n', (const char *)head, zero - head));
	} else if (zero) {
		append(why, "the file is neither text nor a recording of blktrace; it begins with the "
			 "bytes");
		for (size_t i = 0; i < n && i < 8; i++)
			append(why, " %02x", head[i]);
	} else if (line == n && memchr(head, '\r', n - 1)) {
		append(why, "its lines end in carriage returns only; convert them with `tr '\\r' "
			 "'\\n'`");
	}
	return *why;
}

static bool is_other_form(const char *head, size_t n, char *why)
{
	if (memmem(head, n, " block_rq_", 10) || memmem(head, n, ":block_rq_", 10))
		append(why, "the file contains events of the block layer, but not as ftrace or `perf "
			 "script` prints them by default, with times in seconds; print them again "
			 "with their defaults");
	for (; n && memchr(" \t\r\n", *head, 4); n--)
		head++;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms) && !*why; i++) {
		size_t length = strlen(forms[i].begins);

		if (n >= length && !strncasecmp(head, forms[i].begins, length))
			append(why, "%s", forms[i].sentence);
	}
	return *why;
}

static bool has_other_separator(const char *head, size_t n, char *why)
{
	size_t line = line_length(head, n);

	for (const char *c = ";|"; *c && !*why; c++)
		/* Each column has at most one decimal comma. */
		if (count_of(*c, head, line) >= 3 &&
		    count_of(',', head, line) <= count_of(*c, head, line))
			append(why, "its columns are separated by %s instead of commas or blanks; "
				 "replace decimal commas, if it has any, by points, and then "
				 "convert it with `tr '%c' ','`",
			    *c == ';' ? "semicolons" : "vertical bars", *c);
	return *why;
}

/* ---- plausibility of the lines in a format ---- */

static int by_value(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return a < b ? -1 : a > b;
}

static int64_t median_of(const int64_t *values, int64_t n)
{
	int64_t *sorted = malloc(n * sizeof(*sorted));
	int64_t median;

	if (!sorted)
		return values[0];
	memcpy(sorted, values, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_value);
	median = sorted[(n - 1) / 2];
	free(sorted);
	return median;
}

/* Return the median of the times between I/Os, in ns. */
static double median_gap(const struct probe *p)
{
	int64_t *gaps, n = p->n - 1;
	double median;

	if (n < 1)
		return 0;
	gaps = malloc(n * sizeof(*gaps));
	if (!gaps)
		return 0;
	for (int64_t i = 0; i < n; i++)
		gaps[i] = p->time[i + 1] - p->time[i];
	median = median_of(gaps, n);
	free(gaps);
	return median;
}

static bool is_plausible_gap(double ns)
{
	return ns <= SLOWEST_NS && (ns >= FASTEST_NS || !ns);
}

__attribute__((format(printf, 2, 3)))
static bool reject(struct probe *p, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(p->why_not, sizeof(p->why_not), format, arguments);
	va_end(arguments);
	return true;
}

static double unit_ns(int32_t digits)
{
	double ns = 1;

	while (digits-- > 0)
		ns *= 10;
	return ns;
}

/* Append the units of time with which the rate of arrival would be plausible. */
static void suggest_units(struct probe *p, double gap_units)
{
	static const int32_t digits[] = { 9, 6, 3, 2, 0 };
	const char *before = "; another unit may be right: ";

	for (size_t i = 0; i < sizeof(digits) / sizeof(*digits); i++) {
		size_t length = strlen(p->why_not);

		if (digits[i] == p->format->time_digits ||
		    !is_plausible_gap(gap_units * unit_ns(digits[i])))
			continue;
		snprintf(p->why_not + length, sizeof(p->why_not) - length, "%s--from %s:%s", before,
			 p->format->name, lt_text_unit(digits[i]));
		before = ", ";
	}
}

static bool has_implausible_times(struct probe *p)
{
	static const struct {
		int32_t digits;
		double from, to;
		const char *name;
	} clocks[] = {
		{ 9, 1e9, 2.2e9, "seconds since 1970" },
		{ 6, 1e12, 2.2e12, "milliseconds since 1970" },
		{ 3, 1e15, 2.2e15, "microseconds since 1970" },
		{ 2, 1.2e17, 1.6e17, "100 ns since 1601" },
		{ 0, 1e18, 2.2e18, "nanoseconds since 1970" },
	};
	const char *unit = lt_text_unit(p->format->time_digits);
	double first = p->counts.first_units, ns = unit_ns(p->format->time_digits);
	double gap = median_gap(p), slowest = p->n > 3 ? SLOWEST_NS : SLOWEST_OF_FEW_NS;
	int64_t span = p->n ? p->time[p->n - 1] - p->time[0] : 0;

	if (p->format->time_digits == 0 && p->counts.fractions)
		return reject(p, "its times are whole ns, but these have fractions");
	if (gap > slowest) {
		reject(p, "there would be one I/O in %.0f s, with times in %s",
			       gap / 1e9, unit);
		suggest_units(p, gap / ns);
		return true;
	}
	if (p->n >= 16 && span && (double)span / p->n < FASTEST_NS) {
		reject(p, "there would be one I/O in %.2g ns, with times in %s",
			       (double)span / p->n, unit);
		suggest_units(p, (double)span / p->n / ns);
		return true;
	}
	for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
		if (clocks[i].digits != p->format->time_digits && first >= clocks[i].from &&
		    first <= clocks[i].to && first * ns > 3600e9 &&
		    is_plausible_gap(gap / ns * unit_ns(clocks[i].digits)))
			return reject(p, "its times are in %s, but these look like %s; "
						 "choose the unit with --from %s:%s or --from "
						 "%s:%s", unit,
					      clocks[i].name, p->format->name, unit, p->format->name,
					      lt_text_unit(clocks[i].digits));
	return false;
}

/* Return the smallest I/O that is not on whole sectors if there are many of them, otherwise -1. If
 * there are a few, the reader refuses them line by line. A format that is refused has no offsets. */
static int64_t find_odd_size(const struct probe *p)
{
	int64_t odd = 0, found = -1;

	for (int64_t i = 0; i < p->n; i++) {
		if (p->size[i] % SECTOR_BYTES == 0 &&
		    (p->offset[i] % SECTOR_BYTES == 0 || p->format->refusal))
			continue;
		odd++;
		if (found < 0 || p->size[i] < p->size[found])
			found = i;
	}
	return odd > p->n / 10 ? found : -1;
}

static bool has_implausible_sizes(struct probe *p)
{
	const struct lt_text_format *f = p->format;

	int64_t as_bytes = 0, largest = 0;

	for (int64_t i = 0; i < p->n; i++) {
		as_bytes += p->size[i] / f->size_unit_bytes % SECTOR_BYTES == 0 &&
			    p->offset[i] / f->offset_unit_bytes % SECTOR_BYTES == 0;
		largest = p->size[i] > largest ? p->size[i] : largest;
	}
	/* A column that contains only 0 and 1 is not a size. */
	if (p->counts.empty > 9 * p->n || (p->counts.empty && largest == f->size_unit_bytes))
		return reject(p, "its I/Os would have a length of 0 or of %d bytes",
				      f->size_unit_bytes);
	if (median_of(p->size, p->n) > LARGEST_MEDIAN)
		return reject(p, "half of its I/Os would be larger than %d MiB",
				      LARGEST_MEDIAN >> 20);
	if (f->size_unit_bytes == 1) {
		int64_t odd = find_odd_size(p);

		return odd >= 0 && reject(p, "line %lld would be a %s of %lld bytes at byte %lld, "
					     "which is not on whole sectors",
					  (long long)p->line[odd],
					  p->is_write[odd] ? "write" : "read",
					  (long long)p->size[odd], (long long)p->offset[odd]);
	}
	/* The times may nevertheless be ns of a simulator, because they are large whole numbers. */
	p->is_doubtful = f->time_digits == 0 && median_gap(p) >= 1000;
	return 2 * as_bytes >= p->n &&
	       reject(p, "its sizes are in sectors, but these, and the offsets, are multiples "
			 "of %d, like bytes", SECTOR_BYTES);
}

static bool has_implausible_columns(struct probe *p)
{
	const struct lt_text_format *f = p->format;
	bool has_offset = p->n < 2;

	if ((f->flags & LT_TEXT_DEVICE) &&
	    (p->has_long_device || (p->counts.n_volumes > 16 && p->counts.n_volumes > p->n / 4)))
		return reject(p, "its second column is a device, but here it has %lld "
					 "different values", (long long)p->counts.n_volumes);
	if (!(f->flags & LT_TEXT_AT_END))
		return false;
	if (median_of(p->latency, p->n) < 1000)
		return reject(p, "half of its I/Os would take less than a microsecond (fio "
				      "before version 3 logged microseconds)");
	for (int64_t i = 0; i < p->n; i++)
		has_offset |= p->offset[i] > 1;
	return !has_offset && reject(p, "its fifth column is the offset, but here it is 0 "
						"or 1 in all lines; run fio again with "
						"log_offset=1");
}

/* ---- try all formats on the lines ---- */

static bool alloc_probe(struct probe *p, int64_t rows)
{
	/* one allocation for all columns */
	p->time = malloc(rows * (5 * sizeof(*p->time) + sizeof(*p->is_write)));
	if (!p->time)
		return false;
	p->rows = rows;
	p->offset = p->time + rows;
	p->size = p->offset + rows;
	p->latency = p->size + rows;
	p->line = p->latency + rows;
	p->is_write = (uint8_t *)(p->line + rows);
	return true;
}

/* Return the start of a line; lines are counted from 1. */
static size_t start_of_line(const char *text, size_t n, int64_t line)
{
	size_t at = 0;

	while (--line > 0 && at < n)
		at += line_length(text + at, n - at) + 1;
	return at < n ? at : n;
}

static bool is_long_number(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return !name[digits] && digits > LARGEST_DEVICE_DIGITS;
}

/* Read lines up to the first one that is not in a format; return false if that is the first. */
static bool probe_lines(struct probe *p, const char *text, size_t n)
{
	const struct lt_text_options options = { .window = p->rows, .time_digits = -1,
						 .known_by = LT_TEXT_PROBED };
	const struct lt_text_columns columns = { p->time, p->offset, p->size, p->is_write,
						 p->latency, p->line };

	p->whole = true;
	for (;;) {
		struct lt_text_reader *r = lt_text_open_memory(text, n, p->format, &options);
		int64_t line, ios;

		if (!r)
			return false;
		p->n = lt_text_read(r, p->rows, &columns);
		p->counts = *lt_text_counts(r);
		for (int64_t i = 0; i < p->counts.n_volumes; i++)
			p->has_long_device |= is_long_number(lt_text_volume(r, i, &ios));
		line = lt_text_line_number(r);
		lt_text_close(r);
		if (p->n >= 0)
			return p->n || p->counts.empty;
		/* The lines before it are nevertheless in the format. */
		p->whole = false;
		p->bad_line = line;
		n = start_of_line(text, n, line);
		if (!n)
			return false;
	}
}

/* Return the line of a format's first error in the text, with the reader's message. */
static int64_t error_in(const struct lt_text_format *format, const char *text, size_t n, char *error)
{
	const struct lt_text_options options = { .window = 1, .time_digits = -1,
						 .known_by = LT_TEXT_PROBED };
	struct lt_text_reader *r = lt_text_open_memory(text, n, format, &options);
	struct lt_text_columns columns;
	int64_t values[4], line = 0;
	uint8_t is_write;

	if (!r)
		return 0;
	columns = (struct lt_text_columns){ &values[0], &values[1], &values[2], &is_write,
					    &values[3], NULL };
	if (lt_text_read(r, 1, &columns) < 0) {
		line = lt_text_line_number(r);
		snprintf(error, LT_TEXT_WHY_BYTES, "%s", lt_text_error(r));
	}
	lt_text_close(r);
	return line;
}

static const struct lt_text_format *detect(const char *head, size_t n, bool first, char *why);

/* Return the length of the blank lines and comments at the start. */
static size_t void_length(const char *head, size_t n)
{
	size_t at = 0;

	while (at < n) {
		size_t line = line_length(head + at, n - at), blanks = 0;

		while (blanks < line && strchr(" \t\r\v\f", head[at + blanks]))
			blanks++;
		if (blanks < line && head[at + blanks] != '#')
			break;
		at += line + (at + line < n);
	}
	return at;
}

static bool is_only_header(const char *head, size_t line, size_t n, char *why)
{
	const struct lt_text_format *formats;
	int32_t n_formats;

	if (void_length(head + line, n - line) < n - line)
		return false;
	formats = lt_text_formats(&n_formats);
	for (int32_t i = 0; i < n_formats; i++)
		if (lt_text_is_header(&formats[i], head, head + line))
			append(why, "the file has only the header of the format %s, and no I/O",
			    formats[i].name);
	return *why;
}

static bool is_other_fio_log(const char *line, int columns, char *why)
{
	char fifth[8];

	if (sscanf(line, "%*u, %*d, %*1[012], %*u, %7[0-9a-fx]", fifth) != 1)
		return false;
	if (columns == 5 && !strncmp(fifth, "0x", 2))
		append(why, LT_TEXT_NO_OFFSETS);
	else if (columns > 6)
		append(why, "the file is a log of fio with %d columns, of which the first six are "
			 "read; remove the others with `cut -d, -f1-6`", columns);
	return *why;
}

static bool has_other_numbers(const char *line, int columns, char *why)
{
	for (const char *c = line + 1; *c && !*why; c++) {
		if (!isdigit((unsigned char)c[-1]) || !isdigit((unsigned char)c[1]))
			continue;
		if (*c == ',' && strpbrk(line, " \t") && columns < 4)
			append(why, "its numbers have decimal commas; convert it with `tr ',' '.'`");
		else if (*c == ':')
			append(why, "its times are dates or hours; convert them to seconds since "
				 "1970, as `date +%%s.%%N` prints them");
	}
	return *why;
}

/* Describe lines, the first of @line bytes, that are nearly in a format; return false if they are
 * not. */
static bool explain_first_columns(const char *head, size_t line, size_t n, char *why)
{
	int columns = 1 + count_of(',', head, line);
	char text[LINE_BYTES] = "";

	memcpy(text, head, line < sizeof(text) ? line : sizeof(text) - 1);
	return is_only_header(head, line, n, why) || is_other_fio_log(text, columns, why) ||
	       has_other_numbers(text, columns, why);
}

/* Return true if only the first line is not in a format; describe its error in @why. */
static bool explain_first_line(const char *head, size_t n, char *why)
{
	char error[LT_TEXT_WHY_BYTES] = "", ignored[LT_TEXT_WHY_BYTES] = "";
	const struct lt_text_format *rest = NULL;
	size_t start = void_length(head, n), end = start + line_length(head + start, n - start);
	int number = 1 + count_of('\n', head, start);

	if (end + 1 < n)
		rest = detect(head + end + 1, n - end - 1, false, ignored);
	if (!rest || error_in(rest, head, n, error) != number)
		return false;
	*why = '\0';
	append(why, "line %d: %s. The lines after it have the format %s; correct or remove this line, "
		 "or skip it with --from %s if it names the columns", number, error, rest->name,
	    rest->name);
	return true;
}

static void append_unknown(const char *head, size_t n, char *why)
{
	const struct lt_text_format *formats;
	size_t start = void_length(head, n), line = line_length(head + start, n - start);
	int32_t n_formats;

	if (start == n) {
		append(why, "the file has only blank lines and comments");
		return;
	}
	head += start;
	if (explain_first_columns(head, line, n - start, why))
		return;
	append(why, "not a trace in a known format (blktrace");
	formats = lt_text_formats(&n_formats);
	for (int32_t i = 0; i < n_formats; i++)
		if (!formats[i].refusal)
			append(why, ", %s", formats[i].name);
	append(why, "); it begins with '");
	for (size_t i = 0; i < line && i < SHOWN_BYTES; i++)
		append(why, "%c", (unsigned char)head[i] < ' ' ? '?' : head[i]);
	append(why, "'. `linnapp help formats` shows their columns; --from FORMAT chooses one");
}

/* Reject the formats in which the lines would have implausible values. */
static void reject_implausible(struct probe *probes, int n)
{
	int64_t most = 0;

	for (struct probe *p = probes; p < probes + n; p++)
		most = p->n + p->counts.empty > most ? p->n + p->counts.empty : most;
	for (struct probe *p = probes; p < probes + n; p++) {
		if (!p->n)
			reject(p, "its I/Os would have no length");
		else if (2 * (p->n + p->counts.empty) < most)
			reject(p, "line %lld does not have this format",
				       (long long)p->bad_line);
		else if (!has_implausible_times(p) && !has_implausible_columns(p))
			has_implausible_sizes(p);
	}
}

/* Return the only remaining format, or NULL. */
static const struct lt_text_format *choose(struct probe *probes, int n, char *why)
{
	const struct probe *left[MAX_FORMATS];
	const char *before = "";
	bool any_whole = false;
	int n_left = 0;

	reject_implausible(probes, n);
	for (struct probe *p = probes; p < probes + n; p++)
		any_whole |= p->whole && !*p->why_not;
	for (struct probe *p = probes; p < probes + n; p++)
		if (!*p->why_not && (p->whole || !any_whole))
			left[n_left++] = p;
	for (struct probe *p = probes; p < probes + n; p++)
		if (n_left == 1 && !left[0]->counts.fractions && p->is_doubtful && *p->why_not)
			left[n_left++] = p;
	if (n_left == 1 && left[0]->format->refusal)
		append(why, "%s", left[0]->format->refusal);
	else if (n_left == 1)
		return left[0]->format;
	if (n_left > 1) {
		append(why, "its first lines could be ");
		for (int i = 0; i < n_left; i++, before = ", or ")
			append(why, "%s%s (%s)", before, left[i]->format->name,
			    left[i]->format->description);
		append(why, "; choose one with --from %s or --from %s", left[0]->format->name,
		    left[1]->format->name);
	}
	if (n_left)
		return NULL;
	for (struct probe *p = probes; p < probes + n; p++)
		if (!p->n && p->whole && (p->format->flags & LT_TEXT_AT_END)) {
			append(why, "all sizes are 0, as in fio's logs of bandwidth and IOPS, which do "
				 "not contain individual I/Os; run fio again with write_iolog");
			return NULL;
		}
	/* Lines without an I/O are not wrong; their reader reports that there are none. */
	for (struct probe *p = probes; p < probes + n; p++)
		if (!p->n && p->whole && !p->format->refusal)
			return p->format;
	append(why, "its first lines are not ");
	for (struct probe *p = probes; p < probes + n; p++, before = ", nor ")
		append(why, "%s%s (%s)", before, p->format->name, p->why_not);
	append(why, ". If the trace is correct, give its format, and its unit of time if that "
		 "differs, with --from FORMAT[:s|ms|us|100ns|ns]");
	return NULL;
}

static const struct lt_text_format *detect(const char *head, size_t n, bool first, char *why)
{
	const struct lt_text_format *formats, *found = NULL;
	struct probe *probes = calloc(MAX_FORMATS, sizeof(*probes));
	int n_probes = 0;
	int32_t n_formats;

	formats = lt_text_formats(&n_formats);
	for (int32_t i = 0; probes && i < n_formats; i++) {
		struct probe *p = &probes[n_probes];

		if (formats[i].flags & LT_TEXT_IOLOG)
			continue;
		p->format = &formats[i];
		if (alloc_probe(p, count_of('\n', head, n) + 1) && probe_lines(p, head, n) &&
		    /* One line is not enough to refuse the file for this format. */
		    (!p->format->refusal || p->whole || p->bad_line > 2)) {
			n_probes++;
		} else {
			free(p->time);
			*p = (struct probe){};
		}
	}
	if (n_probes)
		found = choose(probes, n_probes, why);
	else
		append_unknown(head, n, why);
	if (!found && first)
		explain_first_line(head, n, why);
	for (int i = 0; i < n_probes; i++)
		free(probes[i].time);
	free(probes);
	return found;
}

/**
 * lt_text_detect() - detect the format of a text trace
 * @head: the beginning of the file, up to LT_TEXT_HEAD_BYTES
 * @n: number of bytes; fewer than that are the whole file
 * @why: room for LT_TEXT_WHY_BYTES
 *
 * Return: the format; NULL if there is none or if several are possible, which @why describes.
 */
const struct lt_text_format *lt_text_detect(const char *head, int64_t n, char *why)
{
	const struct lt_text_format *formats;
	int32_t n_formats;

	*why = '\0';
	if (is_other_form(head, n, why) || is_not_text((const unsigned char *)head, n, why))
		return NULL;
	if (n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3)) {
		head += 3;
		n -= 3;
	}
	formats = lt_text_formats(&n_formats);
	for (int32_t i = 0; i < n_formats; i++)
		/* Any version: the reader reports versions that it does not support. */
		if ((formats[i].flags & LT_TEXT_IOLOG) && n >= 11 && !memcmp(head, "fio version", 11))
			return &formats[i];
	if (has_other_separator(head, n, why))
		return NULL;
	/* Leave out a last line that is not complete in the head. */
	if (n >= LT_TEXT_HEAD_BYTES - 3 && memchr(head, '\n', n))
		while (head[n - 1] != '\n')
			n--;
	return detect(head, n, true, why);
}
