// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: which drives hold replicas of each other.
 *
 * To refuse a read that will be slow is of use if somebody serves it sooner. A
 * drive whose model tells microseconds can know that, if it is told where the
 * same data is: the administrator names its peers (linnos/peers). Then a read
 * that is slow here is refused only if a peer would serve it sooner, by more
 * than a failover costs; linnos_decide() asks. Here is who is whose peer.
 *
 * Naming is one way: each drive of an array is told of the others. What a drive
 * is asked is how long a read would take there, with what it has seen itself and
 * by its own model. It does not ask its own peers, so nothing goes round in
 * circles, and two drives may name each other.
 *
 * Nobody holds a reference of a peer: a disk that is removed goes, whoever names
 * it. That is safe, for
 *
 *  - a drive is among linnos_drives from before its files appear until after
 *    they have gone, and only those that are can be named;
 *  - that list and all arrays of peers change under linnos_peers_lock;
 *  - whoever decides takes the array, and asks the drives in it, within one RCU
 *    read-side section, and keeps no pointer beyond it;
 *  - whoever takes away a drive from an array, or an array, waits before the lock
 *    is released until nobody can be looking at it. So a drive that is in no
 *    array is not being asked by anybody;
 *  - a drive that goes takes itself out of all arrays before anything of it is
 *    taken down.
 *
 * Taking a drive out makes a hole in the array. That needs no memory, for a disk
 * that goes cannot be told that there is none.
 *
 * The lock is a leaf. Under it nothing is waited for but readers, who do not
 * sleep, and nothing is allocated, so that it is not held while memory is written
 * back to one of these disks. It is taken with the active reference of a file
 * "peers" held, and by a disk that goes with its queue's sysfs_dir_lock held, but
 * only when that one's own files are gone: kobject_del(), which waits for their
 * writers, comes first. So if the peers of one disk are being written while
 * another that they name goes, either comes first: the name is refused, or is
 * in the array and is taken out.
 *
 * Model and mode of a peer may change at any time, also while it is asked:
 * it is asked as blk_linnos_expect() does, which md calls just as unprepared.
 * Neither elevator nor number of queues matter here.
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

static struct linnos_peers *linnos_peers_of(struct blk_linnos *linnos)
{
	return rcu_dereference_protected(linnos->peers,
					 lockdep_is_held(&linnos_peers_lock));
}

static struct blk_linnos *linnos_peer_at(struct linnos_peers *peers, int i)
{
	return rcu_dereference_protected(peers->at[i],
					 lockdep_is_held(&linnos_peers_lock));
}

static struct blk_linnos *linnos_drive_called(const char *name)
{
	struct blk_linnos *linnos;

	list_for_each_entry(linnos, &linnos_drives, drives)
		if (!strcmp(linnos->disk->disk_name, name))
			return linnos;
	return NULL;
}

/**
 * linnos_join() - a drive can be named from now on
 * @linnos: the disk's policy
 *
 * Context: Process context.
 */
void linnos_join(struct blk_linnos *linnos)
{
	mutex_lock(&linnos_peers_lock);
	list_add_tail(&linnos->drives, &linnos_drives);
	mutex_unlock(&linnos_peers_lock);
}

/* Returns whether it was there. */
static bool linnos_take_out(struct linnos_peers *peers,
			    const struct blk_linnos *peer)
{
	int i;

	if (!peers)
		return false;
	for (i = 0; i < LINNOS_PEERS_MAX; i++) {
		if (linnos_peer_at(peers, i) != peer)
			continue;
		rcu_assign_pointer(peers->at[i], NULL);
		return true;
	}
	return false;
}

static bool linnos_has_peers(struct linnos_peers *peers)
{
	int i;

	for (i = 0; i < LINNOS_PEERS_MAX; i++)
		if (linnos_peer_at(peers, i))
			return true;
	return false;
}

static void linnos_say_alone(struct blk_linnos *linnos,
			     const struct blk_linnos *peer)
{
	pr_notice("%s: its last peer, %s, has gone: no read is refused\n",
		  linnos->disk->disk_name, peer->disk->disk_name);
}

/**
 * linnos_leave() - a drive goes: it is nobody's peer any more, and has none
 * @linnos: the disk's policy, with its files gone
 *
 * Nobody asks it when this returns, nor will.
 *
 * Context: Process context.
 */
void linnos_leave(struct blk_linnos *linnos)
{
	struct linnos_peers *own;
	struct blk_linnos *other;
	bool taken_out = false;

	mutex_lock(&linnos_peers_lock);
	list_del_init(&linnos->drives);
	list_for_each_entry(other, &linnos_drives, drives) {
		if (!linnos_take_out(linnos_peers_of(other), linnos))
			continue;
		taken_out = true;
		if (!linnos_has_peers(linnos_peers_of(other)))
			linnos_say_alone(other, linnos);
	}
	own = rcu_replace_pointer(linnos->peers, NULL,
				  lockdep_is_held(&linnos_peers_lock));
	if (own || taken_out)
		synchronize_rcu();
	mutex_unlock(&linnos_peers_lock);
	kfree(own);
}

static int linnos_name_peer(struct blk_linnos *linnos,
			    struct linnos_peers *peers, int n, const char *name,
			    const char **why)
{
	struct blk_linnos *peer = linnos_drive_called(name);
	int i;

	if (!peer) {
		*why = "no disk with LinnOS has this name";
		return -ENODEV;
	}
	if (peer == linnos) {
		*why = "a disk is not its own peer";
		return -EINVAL;
	}
	for (i = 0; i < n; i++) {
		if (linnos_peer_at(peers, i) == peer) {
			*why = "it is named twice";
			return -EEXIST;
		}
	}
	if (n == LINNOS_PEERS_MAX) {
		*why = "there are too many";
		return -E2BIG;
	}
	rcu_assign_pointer(peers->at[n], peer);
	return 0;
}

/**
 * linnos_set_peers() - name a drive's peers anew
 * @linnos: the disk's policy
 * @names: names of disks, white space between them; of none, to have no peers
 *
 * All of them, or none: on failure the old ones stay, and a line in the kernel
 * log says which name failed, and why. A decision sees the old ones or the new.
 *
 * Context: Process context.
 * Return: 0; -ENODEV for a name that is no registered disk's (a partition's is
 * not), -EINVAL for the disk's own, -EEXIST for one that comes twice, -E2BIG for
 * more than %LINNOS_PEERS_MAX; -ENOMEM.
 */
int linnos_set_peers(struct blk_linnos *linnos, const char *names)
{
	struct linnos_peers *unused = kzalloc(sizeof(*unused), GFP_KERNEL);
	char *copy = kstrdup(names, GFP_KERNEL);
	char *rest = copy, *name;
	const char *why;
	int n = 0, ret = 0;

	if (!unused || !copy) {
		kfree(copy);
		kfree(unused);
		return -ENOMEM;
	}
	mutex_lock(&linnos_peers_lock);
	while ((name = strsep(&rest, " \t\n"))) {
		if (!*name)
			continue;
		ret = linnos_name_peer(linnos, unused, n, name, &why);
		if (ret) {
			pr_warn("%s: peers refused: %.*s: %s\n",
				linnos->disk->disk_name, DISK_NAME_LEN, name,
				why);
			goto out;
		}
		n++;
	}
	if (!n) {
		kfree(unused);
		unused = NULL;
	}
	unused = rcu_replace_pointer(linnos->peers, unused,
				     lockdep_is_held(&linnos_peers_lock));
	if (unused)
		synchronize_rcu();
out:
	mutex_unlock(&linnos_peers_lock);
	kfree(unused);
	kfree(copy);
	return ret;
}

/**
 * linnos_show_peers() - name a drive's peers
 * @linnos: the disk's policy
 * @page: a page for their names, as linnos_set_peers() takes them
 *
 * Context: Process context.
 * Return: how many bytes.
 */
ssize_t linnos_show_peers(struct blk_linnos *linnos, char *page)
{
	struct linnos_peers *peers;
	struct blk_linnos *peer;
	ssize_t bytes = 0;
	int i;

	mutex_lock(&linnos_peers_lock);
	peers = linnos_peers_of(linnos);
	for (i = 0; peers && i < LINNOS_PEERS_MAX; i++) {
		peer = linnos_peer_at(peers, i);
		if (peer)
			bytes += sysfs_emit_at(page, bytes, "%s%s",
					       bytes ? " " : "",
					       peer->disk->disk_name);
	}
	mutex_unlock(&linnos_peers_lock);
	return bytes + sysfs_emit_at(page, bytes, "\n");
}
