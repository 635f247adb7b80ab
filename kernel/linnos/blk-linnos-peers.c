// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: which drives hold replicas of each other.
 *
 * The administrator names a drive's peers (linnos/peers), and linnos_decide() asks
 * them. Naming is one way: each drive of an array is told of the others. A peer does
 * not ask its own peers, so two drives may name each other.
 *
 * Nobody holds a reference of a peer: a disk that is removed goes, whoever names it.
 * That is safe, for
 *
 *  - only drives in linnos_drives can be named, and that list and all arrays of peers
 *    change under linnos_peers_lock;
 *  - whoever decides uses an array and the drives in it within one RCU read-side
 *    section;
 *  - whoever takes a drive out of an array, or an array away, waits for these sections
 *    before the lock is released;
 *  - a drive that goes takes itself out of all arrays before anything of it is taken
 *    down. That leaves holes, for it must not need memory.
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

#define linnos_locked(p) \
	rcu_dereference_protected(p, lockdep_is_held(&linnos_peers_lock))

/* Return: the old ones, which nobody looks at any more. */
static struct linnos_peers *linnos_replace_peers(struct blk_linnos *linnos,
						 struct linnos_peers *peers)
{
	peers = rcu_replace_pointer(linnos->peers, peers,
				    lockdep_is_held(&linnos_peers_lock));
	if (peers)
		synchronize_rcu();
	return peers;
}

static struct blk_linnos *linnos_find_drive(const char *name)
{
	struct blk_linnos *linnos;

	list_for_each_entry(linnos, &linnos_drives, drives)
		if (!strcmp(linnos->disk->disk_name, name))
			return linnos;
	return NULL;
}

/* A drive can be named from now on. */
void linnos_join(struct blk_linnos *linnos)
{
	mutex_lock(&linnos_peers_lock);
	list_add_tail(&linnos->drives, &linnos_drives);
	mutex_unlock(&linnos_peers_lock);
}

/* Take a drive that goes out of another's peers. Return: it was among them. */
static bool linnos_take_out(struct blk_linnos *linnos,
			    const struct blk_linnos *gone)
{
	struct linnos_peers *peers = linnos_locked(linnos->peers);
	bool found = false, others = false;
	struct blk_linnos *peer;
	int i;

	for (i = 0; peers && i < LINNOS_PEERS_MAX; i++) {
		peer = linnos_locked(peers->at[i]);
		if (peer == gone) {
			rcu_assign_pointer(peers->at[i], NULL);
			found = true;
		} else if (peer) {
			others = true;
		}
	}
	if (found && !others)
		pr_notice(
			"%s: its last peer, %s, has gone: no read is refused\n",
			linnos->disk->disk_name, gone->disk->disk_name);
	return found;
}

/*
 * A drive goes, its files have gone: it is nobody's peer any more, and has none.
 * Nobody asks it when this returns, nor will.
 */
void linnos_leave(struct blk_linnos *linnos)
{
	struct linnos_peers *own;
	struct blk_linnos *other;
	bool named = false;

	mutex_lock(&linnos_peers_lock);
	list_del_init(&linnos->drives);
	list_for_each_entry(other, &linnos_drives, drives)
		named |= linnos_take_out(other, linnos);
	own = linnos_replace_peers(linnos, NULL);
	if (named && !own)
		synchronize_rcu();
	mutex_unlock(&linnos_peers_lock);
	kfree(own);
}

/* Make a drive the @n-th of @peers. */
static int linnos_name_peer(struct blk_linnos *linnos,
			    struct linnos_peers *peers, int n, const char *name,
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
		if (linnos_locked(peers->at[i]) == peer)
			return -EEXIST;
	*why = "there are too many";
	if (n == LINNOS_PEERS_MAX)
		return -E2BIG;
	rcu_assign_pointer(peers->at[n], peer);
	return 0;
}

/*
 * Name a drive's peers anew, with white space between them. All of them, or none: on
 * failure the old ones stay, and a line in the kernel log says which name failed.
 */
int linnos_set_peers(struct blk_linnos *linnos, const char *names)
{
	struct linnos_peers *peers = kzalloc(sizeof(*peers), GFP_KERNEL);
	char *copy = kstrdup(names, GFP_KERNEL);
	char *rest = copy, *name;
	int n = 0, ret = 0;
	const char *why;

	if (!peers || !copy) {
		ret = -ENOMEM;
		goto out;
	}
	mutex_lock(&linnos_peers_lock);
	while (!ret && (name = strsep(&rest, " \t\n"))) {
		if (!*name)
			continue;
		ret = linnos_name_peer(linnos, peers, n++, name, &why);
		if (ret)
			pr_warn("%s: peers refused: %.*s: %s\n",
				linnos->disk->disk_name, DISK_NAME_LEN, name,
				why);
	}
	if (!n) {
		kfree(peers);
		peers = NULL;
	}
	if (!ret)
		peers = linnos_replace_peers(linnos, peers);
	mutex_unlock(&linnos_peers_lock);
out:
	kfree(peers);
	kfree(copy);
	return ret;
}

ssize_t linnos_show_peers(struct blk_linnos *linnos, char *page)
{
	struct linnos_peers *peers;
	struct blk_linnos *peer;
	ssize_t bytes = 0;
	int i;

	mutex_lock(&linnos_peers_lock);
	peers = linnos_locked(linnos->peers);
	for (i = 0; peers && i < LINNOS_PEERS_MAX; i++) {
		peer = linnos_locked(peers->at[i]);
		if (peer)
			bytes += sysfs_emit_at(page, bytes, "%s%s",
					       bytes ? " " : "",
					       peer->disk->disk_name);
	}
	mutex_unlock(&linnos_peers_lock);
	return bytes + sysfs_emit_at(page, bytes, "\n");
}
