// SPDX-License-Identifier: MIT
/* The interface to the ublk driver: see ublk.h. */
#include "ublk.h"
#include "program/program.h"
#include "ublk_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONTROL "/dev/ublk-control"
#define REQUEST_BYTES_MAX (512u << 10)
#define ZEROED_BYTES_MAX (64u << 20) /* per request, which delays overlapping writes */
#define SECTOR_SHIFT 9
/* Numbers of waits of WAIT_MS. udev needs some time to create the node of a new device. */
#define NODE_WAITS 300
/* After this time an existing server is considered alive. */
#define ALIVE_WAITS 100
/* If a server had the largest possible number of requests, the kernel notices that it is gone only
 * when they time out, 30 s after it has last checked them. */
#define GONE_WAITS 7000

#define RECOVERY (UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE)

static void prep_control(const struct ublk_device *d, struct io_uring_sqe *sqe, uint32_t op,
			 uint64_t data, void *buf, size_t bytes)
{
	struct ublksrv_ctrl_cmd *command = (struct ublksrv_ctrl_cmd *)sqe->cmd;

	/* Control commands use entries of twice the size. */
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = d->control_fd;
	sqe->cmd_op = op;
	/* The commands sleep. */
	sqe->flags = IOSQE_ASYNC;
	command->dev_id = d->number;
	command->queue_id = (uint16_t)-1;
	command->addr = (uintptr_t)buf;
	command->len = bytes;
	command->data[0] = data;
}

static int control(struct ublk_device *d, uint32_t op, uint64_t data, void *buf, size_t bytes)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&d->control);
	struct io_uring_cqe *cqe;
	int result;

	if (!sqe)
		return -EBUSY;
	prep_control(d, sqe, op, data, buf, bytes);
	do
		result = io_uring_submit_and_wait(&d->control, 1);
	while (result == -EINTR);
	if (result < 0)
		return result;
	result = io_uring_wait_cqe(&d->control, &cqe);
	if (result)
		return result;
	result = cqe->res;
	io_uring_cqe_seen(&d->control, cqe);
	return result;
}

void ublk_open_control(struct ublk_device *d)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SQE128};
	int error;

	*d = (struct ublk_device){.number = NO_DEVICE, .fd = -1};
	d->control_fd = open(CONTROL, O_RDWR | O_CLOEXEC);
	if (d->control_fd < 0 && (errno == ENOENT || errno == ENODEV || errno == ENXIO))
		die(CONTROL ": %s; load the ublk driver with modprobe ublk_drv (Linux 6.4 or "
			    "later, CONFIG_BLK_DEV_UBLK)",
		    strerror(errno));
	if (d->control_fd < 0)
		die(CONTROL ": %s%s", strerror(errno),
		    errno == EACCES || errno == EPERM ? "; run as root" : "");
	error = io_uring_queue_init_params(4, &d->control, &p);
	if (error)
		die("io_uring: %s%s", strerror(-error),
		    error == -EPERM ? "; check that the sysctl kernel.io_uring_disabled is 0" : "");
}

static const char *why_not_added(int error)
{
	switch (error) {
	case -EEXIST:
		return "; it exists already; delete it with --remove";
	case -EPERM:
	case -EACCES:
		return "; run as root (CAP_SYS_ADMIN)";
	case -EINVAL:
		return "; the number may be too large";
	case -ENODEV:
		return "; Linux 6.4 or later is needed";
	default:
		return "";
	}
}

static struct ublk_params params_of(const struct ublk_device *d, const struct geometry *g)
{
	struct ublk_params p = {
		.len = sizeof(p),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic =
			{
				/* On drives without a volatile cache the flushes are unnecessary,
				 * but cost nothing. */
				.attrs = UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA,
				.logical_bs_shift = __builtin_ctz(g->logical_bytes),
				.physical_bs_shift = __builtin_ctz(g->physical_bytes),
				.io_opt_shift = __builtin_ctz(g->physical_bytes),
				.io_min_shift = __builtin_ctz(g->physical_bytes),
				.max_sectors = d->request_bytes_max >> SECTOR_SHIFT,
				.dev_sectors = g->bytes >> SECTOR_SHIFT,
			},
	};

	if (g->can_zero) {
		p.types |= UBLK_PARAM_TYPE_DISCARD;
		p.discard.discard_granularity = g->physical_bytes;
		p.discard.max_discard_sectors = ZEROED_BYTES_MAX >> SECTOR_SHIFT;
		p.discard.max_write_zeroes_sectors = ZEROED_BYTES_MAX >> SECTOR_SHIFT;
		p.discard.max_discard_segments = 1;
	}
	return p;
}

static int open_node(uint32_t number)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/ublkc%u", number);
	for (int i = 0;; i++) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 || (errno != ENOENT && errno != EACCES) || i == NODE_WAITS)
			return fd < 0 ? -errno : fd;
		wait_a_little();
	}
}

static size_t requests_bytes(unsigned int depth)
{
	const size_t page_bytes = sysconf(_SC_PAGESIZE);

	return (depth * sizeof(struct ublksrv_io_desc) + page_bytes - 1) / page_bytes * page_bytes;
}

static int open_requests(struct ublk_device *d)
{
	d->fd = open_node(d->number);
	if (d->fd < 0)
		return d->fd;
	for (unsigned int i = 0; i < d->n_queues; i++) {
		const off_t at = UBLKSRV_CMD_BUF_OFFSET + i * requests_bytes(UBLK_MAX_QUEUE_DEPTH);
		void *requests = mmap(NULL, requests_bytes(d->depth), PROT_READ,
				      MAP_SHARED | MAP_POPULATE, d->fd, at);

		if (requests == MAP_FAILED)
			return -errno;
		d->requests[i] = requests;
	}
	return 0;
}

static void copy_info(struct ublk_device *d, const struct ublksrv_ctrl_dev_info *info)
{
	d->number = info->dev_id;
	d->n_queues = info->nr_hw_queues;
	d->depth = info->queue_depth;
	d->request_bytes_max = info->max_io_buf_bytes;
}

void ublk_add(struct ublk_device *d, const struct options *o, const struct geometry *g)
{
	const uint32_t number = o->device;
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = o->queues,
		.queue_depth = o->queue_depth,
		.max_io_buf_bytes = REQUEST_BYTES_MAX,
		.dev_id = number,
		.flags = o->recover ? RECOVERY : 0,
	};
	struct ublk_params p;
	int error;

	d->number = number;
	error = control(d, UBLK_U_CMD_ADD_DEV, 0, &info, sizeof(info));
	if (error && number == NO_DEVICE)
		die("cannot create a ublk device: %s%s", strerror(-error), why_not_added(error));
	if (error)
		die("cannot create /dev/ublkb%u: %s%s", number, strerror(-error),
		    why_not_added(error));
	/* There are at most as many queues as processors. */
	copy_info(d, &info);
	p = params_of(d, g);
	error = control(d, UBLK_U_CMD_SET_PARAMS, 0, &p, sizeof(p));
	if (!error)
		error = open_requests(d);
	if (!error && o->recover && (info.flags & RECOVERY) != RECOVERY)
		error = -EOPNOTSUPP;
	if (error) {
		ublk_delete(d);
		die("/dev/ublkb%u cannot be set up: %s", d->number, strerror(-error));
	}
}

/* Return true if no process serves the device or is about to: a server keeps its node open, which
 * only one process can. */
static bool has_no_server(const struct ublk_device *d)
{
	int fd = open_node(d->number);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

bool ublk_needs_recovery(struct ublk_device *d, uint32_t number, bool recover)
{
	struct ublksrv_ctrl_dev_info info;
	int error, waits = 0;

	d->number = number;
	error = control(d, UBLK_U_CMD_GET_DEV_INFO, 0, &info, sizeof(info));
	while (!error && waits++ < GONE_WAITS) {
		if (info.state == UBLK_S_DEV_DEAD && has_no_server(d)) {
			error = control(d, UBLK_U_CMD_DEL_DEV, 0, NULL, 0);
			if (error)
				break;
			warn("/dev/ublkb%u, which a killed server had left, was deleted", number);
			return false;
		}
		if (info.state == UBLK_S_DEV_QUIESCED)
			break;
		if (waits > ALIVE_WAITS && info.state == UBLK_S_DEV_DEAD)
			die("/dev/ublkb%u is being created or deleted by another server", number);
		if (waits > ALIVE_WAITS && !kill(info.ublksrv_pid, 0))
			die("/dev/ublkb%u is served by process %d", number, info.ublksrv_pid);
		wait_a_little();
		error = control(d, UBLK_U_CMD_GET_DEV_INFO, 0, &info, sizeof(info));
	}
	if (error == -ENODEV)
		return false;
	if (error)
		die("/dev/ublkb%u: %s%s", number, strerror(-error), why_not_added(error));
	if (!recover)
		die("/dev/ublkb%u waits for a server; take it over with --recover, or delete it "
		    "with --remove %u",
		    number, number);
	if (info.state != UBLK_S_DEV_QUIESCED || (info.flags & RECOVERY) != RECOVERY ||
	    info.nr_hw_queues > QUEUES_MAX)
		die("/dev/ublkb%u cannot be recovered; delete it with --remove %u", number, number);
	d->is_taken_over = true;
	copy_info(d, &info);
	return true;
}

static int start_recovery(struct ublk_device *d)
{
	for (int i = 0;; i++) {
		int error = control(d, UBLK_U_CMD_START_USER_RECOVERY, 0, NULL, 0);

		if (error != -EBUSY || i == END_WAITS)
			return error;
		wait_a_little();
	}
}

/* Take over a device, which is the last step before it is served. It can be done only once, so
 * everything else must be set up before. */
void ublk_take_over(struct ublk_device *d, const struct geometry *g)
{
	const struct ublk_params want = params_of(d, g);
	struct ublk_params have = {.len = sizeof(have)};
	int error = control(d, UBLK_U_CMD_GET_PARAMS, 0, &have, sizeof(have));

	/* Without the dropped replicas, blocks may be smaller, and the mirror may be larger. */
	if (!error && (have.basic.dev_sectors > want.basic.dev_sectors ||
		       have.basic.logical_bs_shift < want.basic.logical_bs_shift ||
		       (have.types & ~want.types & UBLK_PARAM_TYPE_DISCARD)))
		die("--recover: /dev/ublkb%u has %llu sectors; the replicas have %llu, or other "
		    "block sizes",
		    d->number, (unsigned long long)have.basic.dev_sectors,
		    (unsigned long long)want.basic.dev_sectors);
	if (!error)
		error = start_recovery(d);
	if (!error)
		error = open_requests(d);
	if (error)
		die("/dev/ublkb%u cannot be recovered: %s; delete it with --remove %u", d->number,
		    strerror(-error), d->number);
}

void ublk_release(struct ublk_device *d)
{
	if (!d->is_taken_over)
		ublk_delete(d);
}

int ublk_delete(struct ublk_device *d)
{
	int error;

	/* The kernel waits until no process has the device open or mapped. */
	for (unsigned int i = 0; i < d->n_queues; i++) {
		if (d->requests[i])
			munmap((void *)d->requests[i], requests_bytes(d->depth));
		d->requests[i] = NULL;
	}
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	error = control(d, UBLK_U_CMD_STOP_DEV, 0, NULL, 0);
	if (!error)
		error = control(d, UBLK_U_CMD_DEL_DEV, 0, NULL, 0);
	/* Another process has deleted it. */
	return error == -ENODEV ? 0 : error;
}

void ublk_remove(uint32_t number)
{
	struct ublksrv_ctrl_dev_info info;
	struct ublk_device d;
	int error;

	ublk_open_control(&d);
	d.number = number;
	error = control(&d, UBLK_U_CMD_GET_DEV_INFO, 0, &info, sizeof(info));
	if (error == -ENODEV)
		die("--remove %u: there is no such ublk device", number);
	if (!error)
		error = ublk_delete(&d);
	if (error)
		die("--remove %u: %s%s", number, strerror(-error),
		    error == -EPERM || error == -EACCES ? "; run as root (CAP_SYS_ADMIN)" : "");
}

void ublk_prep_command(const struct ublk_device *d, struct io_uring_sqe *sqe,
		       enum ublk_command command)
{
	if (command == UBLK_START && d->is_taken_over)
		prep_control(d, sqe, UBLK_U_CMD_END_USER_RECOVERY, getpid(), NULL, 0);
	else if (command == UBLK_START)
		prep_control(d, sqe, UBLK_U_CMD_START_DEV, getpid(), NULL, 0);
	else
		prep_control(d, sqe, UBLK_U_CMD_STOP_DEV, 0, NULL, 0);
}

static void prep_io(const struct ublk_device *d, struct io_uring_sqe *sqe, uint32_t op,
		    unsigned int queue, unsigned int tag, const void *buf, int result)
{
	struct ublksrv_io_cmd *command = (struct ublksrv_io_cmd *)sqe->cmd;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = d->fd;
	sqe->cmd_op = op;
	command->q_id = queue;
	command->tag = tag;
	command->result = result;
	command->addr = (uintptr_t)buf;
}

void ublk_prep_fetch(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		     unsigned int tag, const void *buf)
{
	prep_io(d, sqe, UBLK_U_IO_FETCH_REQ, queue, tag, buf, 0);
}

void ublk_prep_commit(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		      unsigned int tag, const void *buf, int result)
{
	prep_io(d, sqe, UBLK_U_IO_COMMIT_AND_FETCH_REQ, queue, tag, buf, result);
}
