// SPDX-License-Identifier: MIT
/*
 * Query an agent on this machine, or a server that does nothing but return each datagram:
 *
 *	agent query PID PORT QUERIES AT_ONCE [KEY]
 *	agent echo PORT
 *
 * Prints ns of processor time that the process PID took for a query.
 */
#include "datagram.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

static struct sockaddr_in address = {.sin_family = AF_INET};

static int echo(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	struct sockaddr_in from;
	char datagram[DATAGRAM_BYTES_MAX];

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return 1;
	for (;;) {
		socklen_t n = sizeof(from);
		ssize_t bytes = recvfrom(fd, datagram, sizeof(datagram), MSG_DONTWAIT,
					 (struct sockaddr *)&from, &n);

		if (bytes < 0)
			poll(&polled, 1, -1);
		else
			sendto(fd, datagram, bytes, 0, (struct sockaddr *)&from, n);
	}
}

static double cpu_ns(const char *pid)
{
	char path[64];
	double ns;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lf", &ns) != 1)
		exit(1);
	fclose(file);
	return ns;
}

int main(int argc, char **argv)
{
	const struct query query = {.bytes = 4096};
	struct timeval limit = {.tv_sec = 5};
	const char *key = argc > 6 ? argv[6] : "";
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	size_t bytes = query_write(&query, key, strlen(key), datagram);
	long queries, at_once;
	double start_ns;

	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	address.sin_port = htons(atoi(argv[argc > 3 ? 3 : 2]));
	if (argc == 3)
		return echo(fd);
	queries = atol(argv[4]);
	at_once = atol(argv[5]);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return 1;
	start_ns = cpu_ns(argv[2]);
	for (long sent = 0; sent < queries; sent += at_once) {
		char answer[DATAGRAM_BYTES_MAX];

		for (long i = 0; i < at_once; i++)
			send(fd, datagram, bytes, 0);
		for (long i = 0; i < at_once; i++)
			if (recv(fd, answer, sizeof(answer), 0) != (ssize_t)bytes)
				return 1;
	}
	printf("%.0f\n", (cpu_ns(argv[2]) - start_ns) / (double)queries);
	return 0;
}
