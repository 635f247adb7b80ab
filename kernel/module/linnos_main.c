// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS as a module: the list of observed drives, and the interfaces to user space.
 *
 *	/sys/kernel/linnos/add		write the name of a disk to observe it
 *	/sys/kernel/linnos/remove	write the name of a disk to stop observing it
 *	/sys/kernel/linnos/<disk>/	like /sys/block/<disk>/linnos of a kernel with LinnOS,
 *					without the files about refusals
 *	/dev/linnos			BLKEXPECT, which block devices of stock kernels lack
 *	/sys/kernel/debug/linnos/<disk>/in_flight
 *	/sys/kernel/debug/linnos/<disk>/missed
 *
 * linnos_tap.c observes the I/O of the drives. The state of a drive, its model, the files and
 * the ioctl are implemented by the same sources as in a kernel with LinnOS, block/linnos/.
 *
 * The module holds a reference to the struct gendisk of each observed drive. It does not keep
 * the drive open, so that others can still open it exclusively. When a disk is removed, the
 * module drops the reference before del_gendisk() returns, because the disk's driver may be
 * unloaded after that, and its code would be needed to release the disk. If the disk comes
 * back, it has to be added again.
 *
 * To observe the head of an NVMe multipath drive, the module observes its paths, which are hidden
 * disks without a node. It finds them by their names when the drive is added, and when a path
 * appears later. It holds no reference to a path, and stops using it when its removal is notified.
 *
 * Locks, outermost first: linnos_disks_lock, the mutex of the class of disks, linnos_drives_lock,
 * blk_linnos.lock.
 */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blk-linnos.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/compat.h>
#include <linux/debugfs.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "blk-linnos.h"
#include "blk-linnos-policy.h"
#include "blk-linnos-query.h"
#include "linnos_compat.h"

/* BLK_LINNOS depends on 64BIT, too: 64-bit times must be readable without a lock. */
#if BITS_PER_LONG != 64
#error "linnos.ko is for 64-bit kernels"
#endif

#define CREATE_TRACE_POINTS
#include <trace/events/linnos.h>

/* Interval of the check whether the queue of a disk has grown. */
#define LINNOS_RESIZE_INTERVAL (2 * HZ)

static DEFINE_MUTEX(linnos_drives_lock);
static LIST_HEAD(linnos_drives);
static DEFINE_MUTEX(linnos_disks_lock);
static struct kobject *linnos_kobj;
static struct dentry *linnos_debugfs;

static void linnos_resize_taps(struct work_struct *work);
static DECLARE_DELAYED_WORK(linnos_resize_work, linnos_resize_taps);

static char *drives;
module_param(drives, charp, 0444);
MODULE_PARM_DESC(drives, "comma-separated names of the disks to observe");

static struct blk_linnos *linnos_find_drive(const char *name)
{
	struct blk_linnos *linnos;

	list_for_each_entry(linnos, &linnos_drives, drives)
		if (!strcmp(linnos->disk->disk_name, name))
			return linnos;
	return NULL;
}

static bool linnos_is_gone(const struct gendisk *disk)
{
	return test_bit(GD_DEAD, &disk->state);
}

static int in_flight_show(struct seq_file *m, void *unused)
{
	struct blk_linnos *linnos = m->private;
	struct linnos_load load;

	linnos_load_snapshot(&linnos->drive, &load);
	seq_printf(m, "%u pages, %u reads\n",
		   load.read_pages + load.write_pages, load.reads);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(in_flight);

static int missed_show(struct seq_file *m, void *unused)
{
	struct blk_linnos *linnos = m->private;

	mutex_lock(&linnos->lock);
	seq_printf(m, "%u\n", linnos_tap_missed(linnos));
	mutex_unlock(&linnos->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(missed);

/*
 * Return true if a disk is a path to a head of NVMe multipath. The driver names both by the numbers
 * of the subsystem and of the namespace, and hides paths.
 */
static bool linnos_is_path(const struct gendisk *disk,
			   const struct gendisk *head)
{
	int subsystem, controller, namespace;
	char name[DISK_NAME_LEN];

	if (!(disk->flags & GENHD_FL_HIDDEN) || queue_is_mq(head->queue) ||
	    sscanf(disk->disk_name, "nvme%dc%dn%d", &subsystem, &controller,
		   &namespace) != 3)
		return false;
	scnprintf(name, sizeof(name), "nvme%dn%d", subsystem, namespace);
	return !strcmp(name, head->disk_name);
}

/* Return true if a disk may be the head of NVMe multipath, which has no requests. */
static bool linnos_is_head(const struct gendisk *disk)
{
	int subsystem, namespace;

	return !queue_is_mq(disk->queue) && sscanf(disk->disk_name, "nvme%dn%d",
						   &subsystem, &namespace) == 2;
}

/*
 * Open a block device by its path, as a program does, because the block layer's own functions have
 * changed often. The type is checked before the file is opened, because opening another kind of
 * device may have side effects, and again afterwards, because the path may have changed.
 */
static struct file *linnos_open_bdev(const char *path)
{
	struct file *file;
	dev_t dev;
	int ret = lookup_bdev(path, &dev);

	if (ret)
		return ERR_PTR(ret);
	file = filp_open(path, O_RDONLY, 0);
	if (!IS_ERR(file) && !S_ISBLK(file_inode(file)->i_mode)) {
		fput(file);
		return ERR_PTR(-ENOTBLK);
	}
	return file;
}

/* Open a disk by name. Return the disk or an error pointer. The caller puts @opened. */
static struct gendisk *linnos_open_disk(const char *name, struct file **opened)
{
	struct block_device *bdev;
	struct gendisk *disk;
	char *path;

	if (strchr(name, '/'))
		return ERR_PTR(-EINVAL);
	path = kasprintf(GFP_KERNEL, "/dev/%s", name);
	if (!path)
		return ERR_PTR(-ENOMEM);
	/* names in sysfs have '!' instead of a slash */
	strreplace(path, '!', '/');
	*opened = linnos_open_bdev(path);
	kfree(path);
	if (IS_ERR(*opened))
		return ERR_CAST(*opened);
	bdev = I_BDEV((*opened)->f_mapping->host);
	disk = bdev->bd_disk;
	if (bdev_is_partition(bdev))
		pr_warn("%s is a partition; use the name of its disk, %s\n",
			name, disk->disk_name);
	else if (strcmp(disk->disk_name, name))
		pr_warn("%s is another name of the disk %s; use that one\n",
			name, disk->disk_name);
	else if (!queue_is_mq(disk->queue) && !linnos_is_head(disk))
		pr_warn("%s has no requests; use the names of the drives below it\n",
			name);
	else
		return disk;
	fput(*opened);
	return ERR_PTR(-EINVAL);
}

/* Context: linnos_drives_lock held. */
static void linnos_remove_drive(struct blk_linnos *linnos)
{
	struct gendisk *disk = linnos->disk;

	/* from here on, the mode cannot be changed from off again */
	kobject_del(&linnos->kobj);
	debugfs_remove(linnos->tap.debugfs);
	mutex_lock(&linnos->lock);
	linnos_set_mode(linnos, LINNOS_OFF);
	mutex_unlock(&linnos->lock);
	list_del(&linnos->drives);
	linnos_tap_end(linnos);
	kobject_put(&linnos->kobj);
	put_device(disk_to_dev(disk));
}

/*
 * If a device is a path to a drive, observe it. A dead disk is not observed, because its removal
 * may have been notified already.
 *
 * Context: linnos_drives_lock held.
 */
static int linnos_add_path(struct device *dev, void *drive)
{
	struct gendisk *disk = dev_to_disk(dev);
	struct blk_linnos *linnos = drive;

	if (disk_to_dev(disk) != dev || linnos_is_gone(disk) ||
	    !linnos_is_path(disk, linnos->disk))
		return 0;
	return linnos_tap_add_path(linnos, disk);
}

/*
 * A disk or a partition is added. It is also called for each disk and partition when the interface
 * is registered.
 */
static int linnos_on_addition(LINNOS_CLASS_ARGS(dev))
{
	struct blk_linnos *linnos;

	mutex_lock(&linnos_drives_lock);
	list_for_each_entry(linnos, &linnos_drives, drives)
		if (linnos_add_path(dev, linnos))
			pr_warn("%s: out of memory: %s is not observed\n",
				linnos->disk->disk_name, dev_name(dev));
	mutex_unlock(&linnos_drives_lock);
	return 0;
}

/*
 * A disk or a partition is removed. It is also called for each disk and partition when the
 * interface is unregistered.
 */
static void linnos_on_removal(LINNOS_CLASS_ARGS(dev))
{
	struct blk_linnos *linnos, *next;

	mutex_lock(&linnos_drives_lock);
	list_for_each_entry_safe(linnos, next, &linnos_drives, drives) {
		if (disk_to_dev(linnos->disk) != dev) {
			if (disk_to_dev(dev_to_disk(dev)) == dev)
				linnos_tap_remove_path(linnos,
						       dev_to_disk(dev));
			continue;
		}
		if (linnos_is_gone(linnos->disk))
			pr_notice("%s was removed\n", linnos->disk->disk_name);
		linnos_remove_drive(linnos);
	}
	mutex_unlock(&linnos_drives_lock);
}

static struct class_interface linnos_disks = {
	.add_dev = linnos_on_addition,
	.remove_dev = linnos_on_removal,
};

/*
 * Get notified of additions and removals. The class of disks, block_class, is not exported to
 * modules, but can be reached from any disk.
 */
static int linnos_subscribe_disks(struct gendisk *disk)
{
	int ret = 0;

	mutex_lock(&linnos_disks_lock);
	if (!linnos_disks.class) {
		linnos_disks.class = disk_to_dev(disk)->class;
		ret = class_interface_register(&linnos_disks);
		if (ret)
			linnos_disks.class = NULL;
	}
	mutex_unlock(&linnos_disks_lock);
	return ret;
}

/*
 * Observe the paths to a head. A path that is added at the same time is found here, or by
 * linnos_on_addition() afterwards, or by both.
 *
 * Context: linnos_drives_lock held.
 */
static int linnos_add_paths(struct blk_linnos *linnos)
{
	int ret;

	if (!linnos_is_head(linnos->disk))
		return 0;
	ret = class_for_each_device(linnos_disks.class, NULL, linnos,
				    linnos_add_path);
	if (ret)
		return ret;
	if (list_is_singular(&linnos->tap.queues)) {
		pr_warn("%s: this NVMe drive has no path: no controller reaches it\n",
			linnos->disk->disk_name);
		return -ENODEV;
	}
	return 0;
}

static int linnos_add_disk(struct gendisk *disk)
{
	struct blk_linnos *linnos;
	int ret;

	/* the notification of its removal may have been missed */
	if (linnos_is_gone(disk))
		return -ENODEV;
	linnos = linnos_alloc(disk);
	if (!linnos)
		return -ENOMEM;
	ret = linnos_tap_begin(linnos);
	if (ret) {
		linnos_free(linnos);
		return ret;
	}
	ret = linnos_add_paths(linnos);
	if (ret) {
		linnos_tap_end(linnos);
		linnos_free(linnos);
		return ret;
	}
	ret = kobject_init_and_add(&linnos->kobj, &linnos_ktype, linnos_kobj,
				   "%s", disk->disk_name);
	if (ret) {
		linnos_tap_end(linnos);
		kobject_put(&linnos->kobj);
		return ret;
	}
	get_device(disk_to_dev(disk));
	list_add_tail(&linnos->drives, &linnos_drives);
	linnos->tap.debugfs =
		debugfs_create_dir(disk->disk_name, linnos_debugfs);
	debugfs_create_file("in_flight", 0400, linnos->tap.debugfs, linnos,
			    &in_flight_fops);
	debugfs_create_file("missed", 0400, linnos->tap.debugfs, linnos,
			    &missed_fops);
	schedule_delayed_work(&linnos_resize_work, LINNOS_RESIZE_INTERVAL);
	return 0;
}

static int linnos_add_drive(const char *name)
{
	struct gendisk *disk;
	struct file *opened;
	int ret;

	disk = linnos_open_disk(name, &opened);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	ret = linnos_subscribe_disks(disk);
	if (ret)
		goto out;
	mutex_lock(&linnos_drives_lock);
	ret = linnos_find_drive(name) ? -EEXIST : linnos_add_disk(disk);
	mutex_unlock(&linnos_drives_lock);
out:
	fput(opened);
	return ret;
}

/* Provide slots for all requests of queues that have grown. */
static void linnos_resize_taps(struct work_struct *work)
{
	struct blk_linnos *linnos;

	mutex_lock(&linnos_drives_lock);
	list_for_each_entry(linnos, &linnos_drives, drives) {
		mutex_lock(&linnos->lock);
		if (linnos_tap_missed(linnos))
			linnos_tap_fit(linnos);
		mutex_unlock(&linnos->lock);
	}
	if (!list_empty(&linnos_drives))
		schedule_delayed_work(&linnos_resize_work,
				      LINNOS_RESIZE_INTERVAL);
	mutex_unlock(&linnos_drives_lock);
}

/* Copy the name that was written to a sysfs file, without white space at its ends. */
static int linnos_parse_name(const char *page, char name[DISK_NAME_LEN])
{
	if (strscpy(name, skip_spaces(page), DISK_NAME_LEN) < 0)
		return -ENAMETOOLONG;
	strim(name);
	return *name ? 0 : -EINVAL;
}

static ssize_t add_store(struct kobject *kobj, struct kobj_attribute *attr,
			 const char *page, size_t bytes)
{
	char name[DISK_NAME_LEN];

	return linnos_parse_name(page, name) ?: linnos_add_drive(name) ?: bytes;
}

static ssize_t remove_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *page, size_t bytes)
{
	struct blk_linnos *linnos;
	char name[DISK_NAME_LEN];
	int ret = linnos_parse_name(page, name);

	if (ret)
		return ret;
	mutex_lock(&linnos_drives_lock);
	linnos = linnos_find_drive(name);
	if (linnos)
		linnos_remove_drive(linnos);
	mutex_unlock(&linnos_drives_lock);
	return linnos ? bytes : -ENODEV;
}

static struct kobj_attribute add_attr = __ATTR_WO(add);
static struct kobj_attribute remove_attr = __ATTR_WO(remove);

static const struct attribute *const linnos_attrs[] = {
	&add_attr.attr,
	&remove_attr.attr,
	NULL,
};

static long linnos_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	if (cmd != BLKEXPECT)
		return -ENOTTY;
	return blk_linnos_ioctl(file->f_mode & FMODE_READ, (void __user *)arg);
}

static const struct file_operations linnos_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = linnos_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

/* All users may open it: queries need descriptors of drives that are open for reading. */
static struct miscdevice linnos_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "linnos",
	.mode = 0666,
	.fops = &linnos_fops,
};

/* Add the drives of a list. An error for one drive does not affect the others. */
static void linnos_add_named(char *names)
{
	char *name;
	int ret;

	while ((name = strsep(&names, ","))) {
		if (!*name)
			continue;
		ret = linnos_add_drive(name);
		if (ret)
			pr_warn("%s: not observed: error %d\n", name, ret);
	}
}

static int __init linnos_init(void)
{
	int ret = linnos_tap_find_points();

	if (ret)
		return ret;
	linnos_kobj = kobject_create_and_add("linnos", kernel_kobj);
	if (!linnos_kobj)
		return -ENOMEM;
	linnos_debugfs = debugfs_create_dir("linnos", NULL);
	ret = misc_register(&linnos_misc);
	if (ret)
		goto out_kobj;
	ret = sysfs_create_files(linnos_kobj, linnos_attrs);
	if (ret)
		goto out_misc;
	if (drives) {
		char *names = kstrdup(drives, GFP_KERNEL);

		if (names)
			linnos_add_named(names);
		kfree(names);
	}
	return 0;
out_misc:
	misc_deregister(&linnos_misc);
out_kobj:
	debugfs_remove(linnos_debugfs);
	kobject_put(linnos_kobj);
	return ret;
}
module_init(linnos_init);

static void __exit linnos_exit(void)
{
	/* after this, no drive can be added */
	sysfs_remove_files(linnos_kobj, linnos_attrs);
	misc_deregister(&linnos_misc);
	class_interface_unregister(&linnos_disks);
	cancel_delayed_work_sync(&linnos_resize_work);
	debugfs_remove(linnos_debugfs);
	kobject_put(linnos_kobj);
}
module_exit(linnos_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The LinnOS developers");
MODULE_DESCRIPTION("LinnOS: predict which of several drives serves a read best");
