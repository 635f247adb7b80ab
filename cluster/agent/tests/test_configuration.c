// SPDX-License-Identifier: MIT
/* Tests of configurations and their error messages. */
#include "../../../liblinnos/tests/test.h"
#include "configuration.h"

static struct configuration c;

static const char *read_text(const char *text)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");
	const char *error = configuration_read(&c, file, "agent.conf");

	fclose(file);
	return error;
}

static void is_refused(const char *text, const char *says)
{
	const char *error = read_text(text);

	assert(error && strstr(error, says));
}

TEST(all_that_it_may_say)
{
	assert(!read_text("# a node\n"
			  "drive /dev/a   # the first\n"
			  "\n"
			  "drive /dev/b /models/b.linnos\n"
			  "listen 10.0.0.1\n"
			  "listen fd00::1 99\n"
			  "allow 10.0.0.0/24 1000\n"
			  "allow fd00::/8\n"
			  "socket /run/x 5\n"
			  "key /etc/k"));
	assert(c.n_drives == 2 && !strcmp(c.drives[1], "/dev/b"));
	assert(!*c.models[0] && !strcmp(c.models[1], "/models/b.linnos"));
	assert(c.n_listeners == 2 && c.n_networks == 2);
	assert(c.listeners[0].sin6_port == htons(DEFAULT_PORT));
	assert(c.listeners[1].sin6_port == htons(99));
	assert(c.networks[0].rate.interval_ns == 1000000);
	assert(c.networks[1].rate.interval_ns == 1000000000 / DEFAULT_RATE);
	assert(c.local_rate.interval_ns == 200000000);
	assert(!strcmp(c.socket, "/run/x") && !strcmp(c.keys[0], "/etc/k") && c.n_keys == 1);
}

TEST(what_is_wrong_is_told_with_its_line)
{
	is_refused("drive /dev/a\nsocket x\n", "agent.conf:2: x: not an absolute path");
	is_refused("drives /dev/a\n", "agent.conf:1: drives: not one of drive,");
	is_refused("drive\n", "drive: of what?");
	is_refused("drive /dev/a /m /dev/b\n", "\"/dev/b\" is one word too many");
	is_refused("drive /dev/a m\n", "agent.conf:1: m: not an absolute path");
	is_refused("allow 10.0.0.1/24\n", "allow 10.0.0.1/24: neither an address nor a network");
	is_refused("allow 10.0.0.1 0\n", "rate 0: not a whole number from 1");
	is_refused("allow 10.0.0.1 5x\n", "rate 5x: not a whole number");
	is_refused("listen 10.0.0.0/24\n", "listen 10.0.0.0/24: not an address");
	is_refused("listen 10.0.0.1 70000\n", "port 70000: not a whole number from 1 to 65535");
}

TEST(one_that_would_answer_nobody_is_refused)
{
	is_refused("socket /run/x\n", "no drive is named");
	is_refused("drive /dev/a\n", "neither listen nor socket");
	is_refused("drive /dev/a\nlisten ::1\n", "listen without allow");
}

TEST(too_long_and_too_many_are_refused)
{
	char text[4096] = "", *at = text;

	memset(text, 'x', 2000);
	text[2000] = 0;
	is_refused(text, "longer than");
	for (unsigned int k = 0; k <= DRIVES_MAX; k++)
		at += sprintf(at, "drive /dev/a\n");
	is_refused(text, "more than 64 drives");
	sprintf(text, "drive /%0300d\n", 0);
	is_refused(text, "a path longer than 255 bytes");
}
