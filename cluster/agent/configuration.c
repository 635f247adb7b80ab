// SPDX-License-Identifier: MIT
#include "configuration.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A directive has at most two arguments; one more word is parsed in order to reject it. */
enum { WORDS_MAX = 4 };

#define RATE_MAX 10000000

/* The current line of the file, for messages; 0 for the whole file. */
static const char *file_name;
static unsigned int line_number;

static const char *fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *fault(const char *format, ...)
{
	static char text[1024];
	va_list args;
	int used;

	used = line_number ? snprintf(text, sizeof(text), "%.200s:%u: ", file_name, line_number)
			   : snprintf(text, sizeof(text), "%.200s: ", file_name);
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
	return text;
}

static bool whole(const char *text, unsigned long most, unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}

static const char *parse_path(char *to, const char *text)
{
	if (*text != '/')
		return fault("%s is not an absolute path", text);
	if (strlen(text) >= PATH_BYTES)
		return fault("%.40s...: the path is longer than %d bytes", text, PATH_BYTES - 1);
	strcpy(to, text);
	return NULL;
}

static const char *parse_drive(struct configuration *c, char *const *words)
{
	if (c->n_drives == DRIVES_MAX)
		return fault("more than %d drives", DRIVES_MAX);
	return parse_path(c->drives[c->n_drives++], words[1]);
}

static const char *parse_rate(struct rate *rate, const char *text)
{
	unsigned long per_second;

	if (!whole(text, RATE_MAX, &per_second) || !per_second)
		return fault("rate %s: it must be a whole number from 1 to %d", text, RATE_MAX);
	rate_set(rate, per_second);
	return NULL;
}

static const char *parse_network(struct configuration *c, char *const *words)
{
	struct network *network = &c->networks[c->n_networks];

	if (c->n_networks == NETWORKS_MAX)
		return fault("more than %d networks", NETWORKS_MAX);
	if (!network_parse(network, words[1]))
		return fault("allow %s: it must be an address or a network like 10.0.0.0/24",
			     words[1]);
	c->n_networks++;
	rate_set(&network->rate, DEFAULT_RATE);
	return words[2] ? parse_rate(&network->rate, words[2]) : NULL;
}

/* IPv4 addresses are stored as IPv4-mapped, so that there is only one kind of address. */
static const char *parse_listener(struct configuration *c, char *const *words)
{
	unsigned long port = DEFAULT_PORT;
	struct network address;

	if (c->n_listeners == LISTENERS_MAX)
		return fault("more than %d addresses to listen on", LISTENERS_MAX);
	if (strchr(words[1], '/') || !network_parse(&address, words[1]))
		return fault("listen %s: it must be an address", words[1]);
	if (words[2] && (!whole(words[2], 65535, &port) || !port))
		return fault("port %s: it must be a whole number from 1 to 65535", words[2]);
	c->listeners[c->n_listeners] = (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
	};
	memcpy(&c->listeners[c->n_listeners++].sin6_addr, address.address, sizeof(address.address));
	return NULL;
}

static const char *parse_key(struct configuration *c, char *const *words)
{
	if (c->n_keys == KEYS_MAX)
		return fault("more than %d keys", KEYS_MAX);
	return parse_path(c->keys[c->n_keys++], words[1]);
}

static const struct directive {
	const char *name;
	unsigned int arguments_max;
	const char *(*take)(struct configuration *c, char *const *words);
} directives[] = {
	{"drive", 1, parse_drive},
	{"allow", 2, parse_network},
	{"listen", 2, parse_listener},
	{"key", 1, parse_key},
};

static const char *parse_line(struct configuration *c, char *line)
{
	char *words[WORDS_MAX + 1] = {NULL}, *rest;
	unsigned int n = 0;

	line[strcspn(line, "#")] = 0;
	for (char *word = strtok_r(line, " \t\r\n", &rest); word && n < WORDS_MAX;
	     word = strtok_r(NULL, " \t\r\n", &rest))
		words[n++] = word;
	if (!n)
		return NULL;
	for (size_t k = 0; k < sizeof(directives) / sizeof(*directives); k++) {
		const struct directive *d = &directives[k];

		if (strcmp(words[0], d->name))
			continue;
		if (n < 2)
			return fault("%s: an argument is missing", d->name);
		if (n > 1 + d->arguments_max)
			return fault("%s %s: unexpected word \"%s\"", d->name, words[1],
				     words[1 + d->arguments_max]);
		return d->take(c, words);
	}
	return fault("%s: the directive must be drive, allow, listen or key", words[0]);
}

static const char *complete(const struct configuration *c)
{
	if (!c->n_drives)
		return fault("no drive is configured");
	if (!c->n_listeners)
		return fault("listen is not configured, so no client can send a query");
	if (!c->n_networks)
		return fault("allow is not configured, so no client would be answered");
	return NULL;
}

const char *configuration_read(struct configuration *c, FILE *file, const char *name)
{
	const char *error = NULL;
	char line[1024];

	memset(c, 0, sizeof(*c));
	file_name = name;
	line_number = 0;
	while (!error && fgets(line, sizeof(line), file)) {
		char *start = line;

		/* Skip the byte order mark of UTF-8 that some editors write. */
		if (!line_number++ && !strncmp(line, "\xef\xbb\xbf", 3))
			start += 3;
		if (strchr(line, '\n') || feof(file))
			error = parse_line(c, start);
		else if (strlen(line) < sizeof(line) - 1)
			error = fault("a byte is zero; the file must be text in UTF-8");
		else
			error = fault("the line is longer than %zu bytes", sizeof(line) - 2);
	}
	if (error)
		return error;
	line_number = 0;
	return ferror(file) ? fault("the file cannot be read") : complete(c);
}
