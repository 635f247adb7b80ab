// SPDX-License-Identifier: MIT
/*
 * Asks librados all there is to ask of completions, of both kinds, and prints the answers.
 *
 *	completions CONF USER POOL
 */
#include <rados/librados.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rados_ioctx_t pool;
static int n_told, told;

static void done(rados_completion_t completion, void *of)
{
	told = rados_aio_get_return_value(completion);
	/* what waits for it waits on until this has returned */
	usleep(20000);
	__atomic_fetch_add((int *)of, 1, __ATOMIC_RELEASE);
}

static rados_completion_t new_one(int is_second)
{
	rados_completion_t completion;
	int status = is_second ? rados_aio_create_completion2(&n_told, done, &completion)
			       : rados_aio_create_completion(&n_told, done, done, &completion);

	n_told = 0;
	if (status || rados_aio_get_return_value(completion) || rados_aio_is_complete(completion))
		exit(1);
	return completion;
}

static void end(const char *what, rados_completion_t c, int status)
{
	int waited;

	if (status) {
		printf("%s %d\n", what, status);
		exit(1);
	}
	waited = rados_aio_wait_for_complete(c);
	printf("%s %d %d %d", what, waited, rados_aio_is_complete(c), rados_aio_is_safe(c));
	waited = rados_aio_wait_for_complete_and_cb(c);
	printf(" %d %d %d", waited, rados_aio_is_complete_and_cb(c), rados_aio_is_safe_and_cb(c));
	printf(" %d %d %d\n", rados_aio_get_return_value(c), told,
	       __atomic_load_n(&n_told, __ATOMIC_ACQUIRE));
	rados_aio_release(c);
}

static void use(int is_second)
{
	char data[16] = "", left[16] = "";
	rados_completion_t c;
	uint64_t size;
	time_t when;
	int expected = is_second ? 1 : 2;

	c = new_one(is_second);
	end("write_full", c, rados_aio_write_full(pool, "completions", c, "hello", 5));
	c = new_one(is_second);
	end("write", c, rados_aio_write(pool, "completions", c, "J", 1, 0));
	c = new_one(is_second);
	end("append", c, rados_aio_append(pool, "completions", c, " you", 4));
	c = new_one(is_second);
	end("read", c, rados_aio_read(pool, "completions", c, data, sizeof(data), 0));
	c = new_one(is_second);
	end("stat", c, rados_aio_stat(pool, "completions", c, &size, &when));
	printf("%s %d\n", data, (int)size);
	c = new_one(is_second);
	if (rados_aio_read(pool, "completions", c, left, sizeof(left), 1))
		exit(1);
	rados_aio_release(c);
	while (__atomic_load_n(&n_told, __ATOMIC_ACQUIRE) < expected)
		usleep(1000);
	printf("released %s %d\n", left, told);
	c = new_one(is_second);
	end("remove", c, rados_aio_remove(pool, "completions", c));
	c = new_one(is_second);
	end("read", c, rados_aio_read(pool, "completions", c, data, sizeof(data), 0));
	c = new_one(is_second);
	rados_aio_release(c);
}

int main(int argc, char **argv)
{
	rados_t client;

	if (argc != 4 || rados_create(&client, argv[2]) ||
	    rados_conf_read_file(client, argv[1]) || rados_connect(client) ||
	    rados_ioctx_create(client, argv[3], &pool))
		return 1;
	use(0);
	use(1);
	rados_ioctx_destroy(pool);
	rados_shutdown(client);
	return 0;
}
