/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS in raid1 and raid10 of a stock kernel: /sys/block/md0/md/linnos.
 *
 * With LinnOS's patches the file is md-mod's. Here md-mod is the kernel's own, and
 * the personality brings the file and takes it away again, as raid456 does with its
 * own. Included by raid1.c and raid10.c before their tables, with LINNOS_RUN and
 * LINNOS_FREE what stood there.
 */
static ssize_t linnos_show(struct mddev *mddev, char *page)
{
	return sysfs_emit(page, "%s\n",
			  test_bit(MD_LINNOS, &mddev->flags) ? "on" : "off");
}

static ssize_t linnos_store(struct mddev *mddev, const char *buf, size_t len)
{
	if (sysfs_streq(buf, "on"))
		set_bit(MD_LINNOS, &mddev->flags);
	else if (sysfs_streq(buf, "off"))
		clear_bit(MD_LINNOS, &mddev->flags);
	else
		return -EINVAL;
	return len;
}

static struct md_sysfs_entry md_linnos = __ATTR_RW(linnos);

static struct attribute *linnos_attrs[] = {
	&md_linnos.attr,
	NULL,
};

static const struct attribute_group linnos_group = {
	.attrs = linnos_attrs,
};

static int linnos_run(struct mddev *mddev)
{
	int ret = LINNOS_RUN(mddev);

	if (ret)
		return ret;
	clear_bit(MD_LINNOS, &mddev->flags);
	/* an array of dm-raid has no files */
	if (mddev->to_remove == &linnos_group)
		mddev->to_remove = NULL;
	else if (mddev->kobj.sd &&
		 sysfs_create_group(&mddev->kobj, &linnos_group))
		pr_warn("md/linnos:%s: no file linnos\n", mdname(mddev));
	return 0;
}

/* md-mod removes the file when the array's lock is released. */
static void linnos_free(struct mddev *mddev, void *priv)
{
	mddev->to_remove = &linnos_group;
	LINNOS_FREE(mddev, priv);
}

/* Whose it is that is loaded; DKMS replaces a kernel's module by one that differs. */
MODULE_VERSION("linnos");
