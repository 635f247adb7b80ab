// SPDX-License-Identifier: MIT
/* Tests of configurations and their error messages. */
#include "../../../liblinnos/tests/test.h"
#include "configuration.h"

static struct configuration c;

static const char *read_bytes(const char *bytes, size_t n)
{
	FILE *file = fmemopen((void *)bytes, n, "r");
	const char *error = configuration_read(&c, file, "agent.conf");

	fclose(file);
	return error;
}

static const char *read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

static void is_refused(const char *text, const char *says)
{
	const char *error = read_text(text);

	assert(error && strstr(error, says));
}

TEST(configuration_accepts_every_directive)
{
	assert(!read_text("# a node\n"
			  "drive /dev/a   # the first\n"
			  "\n"
			  "drive /dev/b\n"
			  "listen 10.0.0.1\n"
			  "listen fd00::1 99\n"
			  "allow 10.0.0.0/24 1000\n"
			  "allow fd00::/8\n"
			  "key /etc/k"));
	assert(c.n_drives == 2 && !strcmp(c.drives[1], "/dev/b"));
	assert(c.n_listeners == 2 && c.n_networks == 2);
	assert(c.listeners[0].sin6_port == htons(DEFAULT_PORT));
	assert(c.listeners[1].sin6_port == htons(99));
	assert(c.networks[0].rate.interval_ns == 1000000);
	assert(c.networks[1].rate.interval_ns == 1000000000 / DEFAULT_RATE);
	assert(!strcmp(c.keys[0], "/etc/k") && c.n_keys == 1);
}

TEST(configuration_names_the_line_and_the_fault)
{
	static const char *const cases[][2] = {
		{"drive /dev/a\nkey x\n", "agent.conf:2: x is not an absolute path"},
		{"drives /dev/a\n", "agent.conf:1: drives: the directive must be drive,"},
		{"drive\n", "drive: an argument is missing"},
		{"drive /dev/a /dev/b\n", "unexpected word \"/dev/b\""},
		{"drive a\n", "agent.conf:1: a is not an absolute path"},
		{"allow 10.0.0.1/24\n", "allow 10.0.0.1/24: it must be an address or a network"},
		{"allow 10.0.0.1 0\n", "rate 0: it must be a whole number from 1"},
		{"allow 10.0.0.1 5x\n", "rate 5x: it must be a whole number"},
		{"listen 10.0.0.0/24\n", "listen 10.0.0.0/24: it must be an address"},
		{"listen 10.0.0.1 70000\n",
		 "port 70000: it must be a whole number from 1 to 65535"},
		{"listen ::1\n", "no drive is configured"},
		{"drive /dev/a\n", "listen is not configured"},
		{"drive /dev/a\nlisten ::1\n", "allow is not configured"},
	};

	for (unsigned int k = 0; k < sizeof(cases) / sizeof(*cases); k++)
		is_refused(cases[k][0], cases[k][1]);
}

TEST(configuration_is_text_in_utf_8)
{
	static const char utf_16[] = "\xff\xfe"
				     "d\0r\0i\0v\0e\0 \0/\0a\0\n\0d\0";
	const char *error;

	assert(!read_text("\xef\xbb\xbf"
			  "drive /dev/a\nlisten ::1\nallow ::1\n"));
	error = read_bytes(utf_16, sizeof(utf_16) - 1);
	assert(error &&
	       strstr(error, "agent.conf:1: a byte is zero; the file must be text in UTF-8"));
}

TEST(configuration_refuses_what_exceeds_its_limits)
{
	char text[4096] = "", *at = text;

	memset(text, 'x', 2000);
	text[2000] = 0;
	is_refused(text, "the line is longer than");
	for (unsigned int k = 0; k <= DRIVES_MAX; k++)
		at += sprintf(at, "drive /dev/a\n");
	is_refused(text, "more than 64 drives");
	sprintf(text, "drive /%0300d\n", 0);
	is_refused(text, "the path is longer than 255 bytes");
}
