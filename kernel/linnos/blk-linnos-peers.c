// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: which drives hold replicas of each other.
 *
 * The administrator names a drive's peers (linnos/peers), and the policy asks them, each
 * only of itself: so two drives may name each other.
 *
 * Nobody holds a reference of a peer: a disk that is removed goes, whoever names it.
 * That is safe, for
 *
 *  - only drives in linnos_drives can be named, and that list and all peers change
 *    under linnos_peers_lock;
 *  - whoever decides looks at peers within an RCU read-side section;
 *  - whoever takes a peer away waits for these sections before the lock is released;
 *  - a drive that goes takes itself out of all others' peers before anything of it is
 *    taken down.
 *
 * The lock is a leaf, and nothing is allocated under it. It is taken with the active
 * reference of a file "peers" held, and by a disk that goes after kobject_del(), which
 * has waited for the writers of its own.
 */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "blk-linnos-policy.h"

static DEFINE_MUTEX(linnos_peers_lock);
static LIST_HEAD(linnos_drives);

static struct blk_linnos *linnos_peer(struct blk_linnos *linnos, int i)
{
	return rcu_dereference_protected(linnos->peers[i],
					 lockdep_is_held(&linnos_peers_lock));
}

/* Nobody looks at the old ones when this returns. */
static void linnos_assign_peers(struct blk_linnos *linnos,
				struct blk_linnos **peers, int n)
{
	int i;

	for (i = 0; i < LINNOS_PEERS_MAX; i++)
		rcu_assign_pointer(linnos->peers[i], i < n ? peers[i] : NULL);
	WRITE_ONCE(linnos->has_peers, n);
	synchronize_rcu();
}

static struct blk_linnos *linnos_find_drive(const char *name)
{
	struct blk_linnos *linnos;

	list_for_each_entry(linnos, &linnos_drives, drives)
		if (!strcmp(linnos->disk->disk_name, name))
			return linnos;
	return NULL;
}

void linnos_peers_add(struct blk_linnos *linnos)
{
	guard(mutex)(&linnos_peers_lock);
	list_add_tail(&linnos->drives, &linnos_drives);
}

/* Take a drive that goes out of another's peers. */
static void linnos_take_out(struct blk_linnos *linnos,
			    const struct blk_linnos *gone)
{
	bool found = false, others = false;
	struct blk_linnos *peer;
	int i;

	for (i = 0; i < LINNOS_PEERS_MAX; i++) {
		peer = linnos_peer(linnos, i);
		if (peer == gone) {
			rcu_assign_pointer(linnos->peers[i], NULL);
			found = true;
		} else if (peer) {
			others = true;
		}
	}
	if (!found || others)
		return;
	pr_notice("%s: its last peer, %s, has gone: no read is refused\n",
		  linnos->disk->disk_name, gone->disk->disk_name);
}

/* A drive goes, its files have gone: nobody asks it when this returns, nor will. */
void linnos_peers_del(struct blk_linnos *linnos)
{
	struct blk_linnos *other;

	guard(mutex)(&linnos_peers_lock);
	list_del_init(&linnos->drives);
	list_for_each_entry(other, &linnos_drives, drives)
		linnos_take_out(other, linnos);
	/* and it has none; this waits */
	linnos_assign_peers(linnos, NULL, 0);
}

static int linnos_name_peer(struct blk_linnos *linnos,
			    struct blk_linnos **peers, int n, const char *name,
			    const char **why)
{
	struct blk_linnos *peer = linnos_find_drive(name);
	int i;

	*why = "no disk with LinnOS has this name";
	if (!peer)
		return -ENODEV;
	*why = "a disk is not its own peer";
	if (peer == linnos)
		return -EINVAL;
	*why = "it is named twice";
	for (i = 0; i < n; i++)
		if (peers[i] == peer)
			return -EEXIST;
	*why = "there are too many";
	if (n == LINNOS_PEERS_MAX)
		return -E2BIG;
	peers[n] = peer;
	return 0;
}

/* Names have white space between them. All are taken, or, if one is wrong, none. */
int linnos_set_peers(struct blk_linnos *linnos, const char *names)
{
	char *copy __free(kfree) = kstrdup(names, GFP_KERNEL);
	struct blk_linnos *peers[LINNOS_PEERS_MAX];
	char *rest = copy, *name;
	const char *why;
	int n = 0, ret;

	if (!copy)
		return -ENOMEM;
	guard(mutex)(&linnos_peers_lock);
	while ((name = strsep(&rest, " \t\n"))) {
		if (!*name)
			continue;
		ret = linnos_name_peer(linnos, peers, n++, name, &why);
		if (!ret)
			continue;
		pr_warn("%s: peers refused: %.*s: %s\n",
			linnos->disk->disk_name, DISK_NAME_LEN, name, why);
		return ret;
	}
	linnos_assign_peers(linnos, peers, n);
	return 0;
}

ssize_t linnos_show_peers(struct blk_linnos *linnos, char *page)
{
	struct blk_linnos *peer;
	ssize_t bytes = 0;
	int i;

	guard(mutex)(&linnos_peers_lock);
	for (i = 0; i < LINNOS_PEERS_MAX; i++) {
		peer = linnos_peer(linnos, i);
		if (peer)
			bytes += sysfs_emit_at(page, bytes, "%s%s",
					       bytes ? " " : "",
					       peer->disk->disk_name);
	}
	return bytes + sysfs_emit_at(page, bytes, "\n");
}
