// SPDX-License-Identifier: MIT
/*
 * linnos-agent: serve latency predictions for this node's drives.
 *
 * There is a single thread and no state per client, except for rate limits: each datagram is
 * answered or ignored. Sockets and drives are opened first. After that the process uses only a few
 * system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "configuration.h"
#include "drives.h"
#include "program/program.h"

/* The maximum number of datagrams to read from one socket before the next one. */
enum { BATCH = 64 };

static const char usage[] = "usage: linnos-agent [options]\n"
			    "\n"
			    "Serves latency predictions for this node's drives to other nodes.\n"
			    "linnos-agent(8) describes the configuration.\n"
			    "\n";

struct settings {
	const char *path;
	bool checks;
};

static const struct option_row options[] = {
	{"config", "FILE", "the configuration (/etc/linnos/agent.conf)", OPTION_TEXT,
	 .offset = offsetof(struct settings, path)},
	{"check", NULL, "check the configuration and its drives, and exit", OPTION_FLAG,
	 .offset = offsetof(struct settings, checks)},
};

static struct configuration configuration;
static struct drive drives[DRIVES_MAX];
static struct key keys[KEYS_MAX];
static struct sources sources;

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

static void query_drive(void *data, const struct query *query, uint64_t now_ns,
			struct answer *answer)
{
	drive_query((struct drive *)data + query->drive, query, now_ns, answer);
}

static int listen_on(const struct sockaddr_in6 *address)
{
	struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = address->sin6_port};
	/* A machine without IPv6 may still have IPv4. */
	bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&address->sin6_addr);
	int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int off = 0;

	memcpy(&ipv4.sin_addr, address->sin6_addr.s6_addr + 12, sizeof(ipv4.sin_addr));
	if (fd < 0 || (!is_ipv4 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off))) ||
	    (is_ipv4 ? bind(fd, (const struct sockaddr *)&ipv4, sizeof(ipv4))
		     : bind(fd, (const struct sockaddr *)address, sizeof(*address))))
		die("port %u: %s", ntohs(address->sin6_port), strerror(errno));
	return fd;
}

/* Return false, after printing the reason, if the key cannot be read. */
static bool read_key(struct key *key, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[1024]; /* more than a key and the line breaks that follow it */
	struct stat s;
	ssize_t bytes = fd < 0 || fstat(fd, &s) ? -1 : read(fd, text, sizeof(text));

	if (bytes < 0)
		warn("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (bytes < 0)
		return false;
	if (s.st_mode & 07) {
		warn("%s must not be readable by all users; run chmod o= %s", path, path);
		return false;
	}
	while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
		bytes--;
	if (bytes < KEY_BYTES_MIN || bytes > KEY_BYTES_MAX) {
		warn("%s has %zd bytes; a key must have %d to %d", path, bytes, KEY_BYTES_MIN,
		     KEY_BYTES_MAX);
		return false;
	}
	memcpy(key->key, text, (size_t)bytes);
	explicit_bzero(text, sizeof(text));
	key->bytes = (size_t)bytes;
	return true;
}

/* Read all keys. If one of them cannot be read, return false, and the current keys stay in use. */
static bool read_keys(void)
{
	static struct key read[KEYS_MAX];

	for (unsigned int k = 0; k < configuration.n_keys; k++)
		if (!read_key(&read[k], configuration.keys[k]))
			return false;
	memcpy(keys, read, sizeof(keys));
	explicit_bzero(read, sizeof(read));
	return true;
}

/* Return the rate limit of a datagram's sender; NULL if it is not allowed. */
static struct rate *rate_of(const struct sockaddr_storage *from)
{
	const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)from;
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)from;
	const struct network *network;

	network = network_of(configuration.networks, configuration.n_networks,
			     (const struct sockaddr *)from);
	if (!network)
		return NULL;
	/* The port does not matter: a host is one source. */
	return from->ss_family == AF_INET ? source_rate(&sources, &ipv4->sin_addr,
							sizeof(ipv4->sin_addr), &network->rate)
					  : source_rate(&sources, &ipv6->sin6_addr,
							sizeof(ipv6->sin6_addr), &network->rate);
}

/* Return false if there are no more datagrams. */
static bool serve_one(struct agent *agent, int fd)
{
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct sockaddr_storage from;
	socklen_t from_bytes = sizeof(from);
	ssize_t bytes;

	bytes = recvfrom(fd, datagram, sizeof(datagram), MSG_TRUNC, (struct sockaddr *)&from,
			 &from_bytes);
	/* Any other error was caused by a datagram that was sent earlier. Continue to receive. */
	if (bytes < 0)
		return errno != EAGAIN && errno != EWOULDBLOCK;
	bytes = agent_answer(agent, rate_of(&from), clock_of(CLOCK_MONOTONIC), datagram, bytes);
	if (bytes)
		sendto(fd, datagram, bytes, MSG_NOSIGNAL, (struct sockaddr *)&from, from_bytes);
	return true;
}

static void serve(struct agent *agent, int fd)
{
	for (unsigned int k = 0; k < BATCH && serve_one(agent, fd); k++)
		;
}

static void report(const struct agent *agent)
{
	static const char *const reasons[IGNORED_KINDS] = {
		[IGNORED_STRANGER] = "from other addresses", [IGNORED_TOO_MANY] = "over the rate",
		[IGNORED_MALFORMED] = "malformed",	     [IGNORED_NOT_SIGNED] = "not signed",
		[IGNORED_NO_DRIVE] = "about unknown drives",
	};
	char text[256];
	size_t used = 0;

	for (unsigned int k = 0; k < IGNORED_KINDS; k++)
		used += snprintf(text + used, sizeof(text) - used, "%s%llu %s", k ? ", " : "",
				 (unsigned long long)agent->ignored[k], reasons[k]);
	warn("answered %llu queries; ignored %s", (unsigned long long)agent->answered, text);
}

/* SIGUSR1 prints a report, SIGHUP reads the keys again, and the other signals end the agent. */
static bool handle_signal(const struct agent *agent, int signals)
{
	struct signalfd_siginfo signal;

	if (read(signals, &signal, sizeof(signal)) != sizeof(signal))
		return false;
	if (signal.ssi_signo == SIGUSR1) {
		report(agent);
		return false;
	}
	if (signal.ssi_signo == SIGHUP) {
		warn(read_keys() ? "the keys were read again" : "the keys are unchanged");
		return false;
	}
	return true;
}

static int catch_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		die("signals: %s", strerror(errno));
	return fd;
}

static void open_drives(struct agent *agent)
{
	agent->n_drives = configuration.n_drives;
	for (unsigned int k = 0; k < agent->n_drives; k++) {
		drive_open(&drives[k], configuration.drives[k]);
		if (drives[k].fd >= 0)
			continue;
		/*
		 * The agent starts even if a drive is missing. It does not start if a path is not a
		 * block device, or if its mode (EACCES) or the unit's DeviceAllow (EPERM) forbids
		 * opening it.
		 */
		if (errno == ENOTBLK || errno == EACCES || errno == EPERM)
			die("%s: %s", configuration.drives[k], strerror(errno));
		warn("%s: %s; queries about it are answered with GONE until it exists",
		     configuration.drives[k], strerror(errno));
	}
}

/* Drop all capabilities, even of root. capset(2) is called only if there are any, because the
 * unit's system call filter forbids it. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3] = {0}, none[2] = {0};

	syscall(SYS_capget, &header, has);
	if ((has[0].permitted || has[1].permitted) && syscall(SYS_capset, &header, none))
		die("cannot drop capabilities: %s", strerror(errno));
}

/* The check is stricter than a start, which waits for missing drives. */
static int check_drives(void)
{
	int status = EXIT_SUCCESS;

	for (unsigned int k = 0; k < configuration.n_drives; k++) {
		drive_open(&drives[k], configuration.drives[k]);
		if (drives[k].fd < 0) {
			warn("%s: %s", configuration.drives[k], strerror(errno));
			status = EXIT_NOT_STARTED;
		}
	}
	return status;
}

static void serve_all(struct agent *agent, struct pollfd *fds)
{
	const unsigned int n = configuration.n_listeners;
	struct pollfd *signals = &fds[n];

	do {
		if (poll(fds, n + 1, -1) < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
		for (unsigned int k = 0; k < n; k++)
			if (fds[k].revents)
				serve(agent, fds[k].fd);
	} while (!signals->revents || !handle_signal(agent, signals->fd));
}

static void run(void)
{
	struct pollfd fds[LISTENERS_MAX + 1];
	unsigned int n = 0;
	struct agent agent = {
		.query = query_drive,
		.drives = drives,
		.generation = clock_of(CLOCK_REALTIME),
		.keys = keys,
		.n_keys = configuration.n_keys,
	};
	int signals = catch_signals();

	crypto_shorthash_keygen(sources.secret);
	if (!read_keys())
		exit(EXIT_NOT_STARTED);
	open_drives(&agent);
	for (; n < configuration.n_listeners; n++)
		fds[n] = (struct pollfd){listen_on(&configuration.listeners[n]), POLLIN, 0};
	fds[n] = (struct pollfd){signals, POLLIN, 0};
	/* Nothing below needs a privilege: ports below 1024 are bound, and drives are open. */
	drop_capabilities();
	serve_all(&agent, fds);
	report(&agent);
}

int main(int argc, char **argv)
{
	struct settings settings = {.path = "/etc/linnos/agent.conf"};
	int first = options_parse_table(options, N_ELEMENTS(options), usage, &settings, argc, argv);
	const char *error;
	FILE *file;

	if (first < argc)
		die_of_usage("%s: no argument is expected", argv[first]);
	file = fopen(settings.path, "re");
	if (!file)
		die("%s: %s", settings.path, strerror(errno));
	error = configuration_read(&configuration, file, settings.path);
	fclose(file);
	if (error)
		die("%s", error);
	if (settings.checks)
		return check_drives();
	run();
	return 0;
}
