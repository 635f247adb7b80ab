// SPDX-License-Identifier: MIT
/* Reports of agents: see agents.h. */
#include "agents.h"

#include "clock.h"
#include "messages.h"
#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* @fd is NONE as long as the address is unknown. */
struct agent {
	atomic_int fd;
	_Atomic uint16_t drive;
};

enum { NONE = -1 };

struct agents {
	struct linnos_cluster *cluster;
	uint32_t n_nodes;
	uint16_t port;
	int poll_fd, end_fd;
	pthread_t thread;
	struct agent agents[];
};

static void receive_reports(struct agents *a, uint32_t node)
{
	uint8_t datagram[LINNOS_CLUSTER_DATAGRAM + 1];
	int fd = atomic_load(&a->agents[node].fd);
	ssize_t bytes;

	while ((bytes = recv(fd, datagram, sizeof(datagram), MSG_DONTWAIT)) >= 0)
		linnos_cluster_receive_report(a->cluster, node, datagram, bytes, clock_ns());
}

static void *receive_loop(void *data)
{
	struct agents *a = data;
	struct epoll_event events[16];

	for (;;) {
		int n = epoll_wait(a->poll_fd, events, 16, -1);

		for (int k = 0; k < n; k++) {
			if (events[k].data.u32 == a->n_nodes)
				return NULL;
			receive_reports(a, events[k].data.u32);
		}
	}
}

static int connected(const char *address, uint16_t port)
{
	struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				   .ai_socktype = SOCK_DGRAM};
	struct addrinfo *to;
	char number[8];
	int fd;

	snprintf(number, sizeof(number), "%u", port);
	if (getaddrinfo(address, number, &numeric, &to))
		return NONE;
	fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen)) {
		close(fd);
		fd = NONE;
	}
	freeaddrinfo(to);
	return fd;
}

void agents_resolve(struct agents *a, uint32_t node, const char *address, unsigned int drive)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = node};
	int fd = connected(address, a->port), before = a->agents[node].fd;

	if (fd < 0)
		return;
	a->agents[node].drive = drive;
	/* a concurrent query uses either the old or the new number, and never a mix */
	if (before != NONE) {
		dup3(fd, before, O_CLOEXEC);
		close(fd);
		fd = before;
	}
	a->agents[node].fd = fd;
	epoll_ctl(a->poll_fd, EPOLL_CTL_ADD, fd, &event);
}

void agents_query(struct agents *a, uint32_t bytes, uint64_t now_ns)
{
	int64_t node = linnos_cluster_next_query_node(a->cluster, now_ns);
	uint8_t datagram[LINNOS_CLUSTER_DATAGRAM];
	size_t length;
	int fd;

	if (node < 0)
		return;
	length = linnos_cluster_build_query(a->cluster, node, a->agents[node].drive, bytes, now_ns,
					    datagram);
	/*
	 * ignore errors: a query that cannot be sent counts as unanswered, and other agents are
	 * queried next
	 */
	fd = a->agents[node].fd;
	if (length && fd != NONE)
		send(fd, datagram, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int agents_create(struct agents **agents, struct linnos_cluster *cluster, uint32_t n_nodes,
		  uint16_t port)
{
	struct epoll_event end = {.events = EPOLLIN, .data.u32 = n_nodes};
	struct agents *a = calloc(1, sizeof(*a) + n_nodes * sizeof(*a->agents));
	int status = -ENOMEM;

	if (!a)
		return format_error(status, "cannot allocate memory for %u agents", n_nodes);
	a->cluster = cluster;
	a->n_nodes = n_nodes;
	a->port = port;
	for (uint32_t k = 0; k < n_nodes; k++)
		a->agents[k].fd = NONE;
	a->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	a->end_fd = eventfd(0, EFD_CLOEXEC);
	if (a->poll_fd < 0 || a->end_fd < 0 ||
	    epoll_ctl(a->poll_fd, EPOLL_CTL_ADD, a->end_fd, &end))
		status = -errno;
	else
		status = thread_begin(&a->thread, receive_loop, a);
	if (status) {
		format_error(status, "cannot start the thread that receives agent reports: %s",
			     strerror(-status));
		close(a->poll_fd);
		close(a->end_fd);
		free(a);
		return status;
	}
	*agents = a;
	return 0;
}

void agents_free(struct agents *a)
{
	eventfd_write(a->end_fd, 1);
	pthread_join(a->thread, NULL);
	for (uint32_t k = 0; k < a->n_nodes; k++)
		if (a->agents[k].fd != NONE)
			close(a->agents[k].fd);
	close(a->poll_fd);
	close(a->end_fd);
	free(a);
}
