/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Part of watch.bpf.c: describe files and folders, report their paths, and find out whether they are
 * among the requested paths.
 */
static __always_inline void describe(__u64 address, struct inode *inode, struct lw_file *to)
{
	to->address = address;
	to->inode = BPF_CORE_READ(inode, i_ino);
	to->device = BPF_CORE_READ(inode, i_sb, s_dev);
	to->mode = BPF_CORE_READ(inode, i_mode);
	to->generation = BPF_CORE_READ(inode, i_generation);
}

static __always_inline struct file *file_of(struct task_struct *task, int fd)
{
	struct fdtable *table = task->files->fdt;
	struct file *file = NULL;

	if (fd < 0 || (unsigned int)fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

/* A walk from a dentry to the root. */
struct walk {
	struct dentry *dentry;
	struct mount *mount;
	struct path_text *to;
	__u32 start;	/* start of the text so far */
	bool is_done;
};

static long prepend_component(__u32 index, struct walk *walk)
{
	struct dentry *dentry = walk->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *mount = walk->mount, *below;
	__u32 length, start = walk->start;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		below = BPF_CORE_READ(mount, mnt_parent);
		walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = below;
		walk->is_done = below == mount || !below;
		return walk->is_done;
	}
	/* The mount is gone, or the file system is not mounted. */
	if (parent == dentry || !parent) {
		walk->is_done = true;
		return 1;
	}
	length = BPF_CORE_READ(dentry, d_name.len);
	if (length >= LW_COMPONENT || start < length + 1)
		return 1;
	start -= length + 1;
	walk->to->text[start & (FOLDER_END - 1)] = '/';
	if (bpf_probe_read_kernel(walk->to->text + ((start + 1) & (FOLDER_END - 1)),
				  length & (LW_COMPONENT - 1), BPF_CORE_READ(dentry, d_name.name)))
		return 1;
	walk->start = start;
	walk->dentry = parent;
	return 0;
}

/* Write the path of a dentry so that it ends before `end`; return its start, or -1 if too long. */
static __always_inline int write_path(struct dentry *dentry, struct vfsmount *vfsmount,
				      struct path_text *to, __u32 end)
{
	struct walk walk = {
		.dentry = dentry,
		.mount = (void *)vfsmount - bpf_core_field_offset(struct mount, mnt),
		.to = to,
		.start = end,
	};

	bpf_loop(LW_MAX_COMPONENTS, prepend_component, &walk, 0);
	return walk.is_done ? (int)walk.start : -1;
}

/* Return true if the text from `start` on is a requested path, or is in one. */
static __always_inline bool is_in_paths(const struct path_text *path, __u32 start)
{
	const char *text;

	if (start > FOLDER_END)
		return false;
	/* The verifier of 6.1 loses the bound if one copy is compared and another one added. */
	barrier_var(start);
	text = path->text + (start & (2 * FOLDER_END - 1));
#pragma unroll
	for (int i = 0; i < LW_MAX_PATHS; i++) {
		__u32 length = settings.path_length[i];

		if (!length || length >= LW_PREFIX)
			continue;
		if (!bpf_strncmp(text, length, (const char *)settings.path[i]) &&
		    (!text[length] || text[length] == '/'))
			return true;
	}
	return false;
}

/* Report the name of a file or directory; remember whether it is in the requested paths. */
static __noinline int report_path(struct dentry *dentry, struct vfsmount *vfsmount,
				struct lw_file *file, bool in_any_case)
{
	struct named_file name = { .file = *file };
	struct lw_name_record *record;
	__u64 address = file->address;
	struct path_text *path;
	__u32 zero = 0, length;
	int start;

	path = bpf_map_lookup_elem(&path_texts, &zero);
	if (!path)
		return true;
	start = write_path(dentry, vfsmount, path, FOLDER_END - 1);
	if (start <= 0)
		goto lost;
	path->text[FOLDER_END - 1] = '\0';
	if (settings.by_path)
		name.is_elsewhere = !is_in_paths(path, start);
	name.is_reported = !name.is_elsewhere || in_any_case;
	if (!name.is_reported)
		goto known;
	length = FOLDER_END - start;
	record = bpf_ringbuf_reserve(&records, sizeof(*record) + LW_SHORT_NAME, 0);
	if (!record)
		goto lost;
	if (length < LW_SHORT_NAME) {
		bpf_probe_read_kernel(record->name, length & (LW_SHORT_NAME - 1),
				      path->text + (start & (FOLDER_END - 1)));
	} else {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		record = bpf_ringbuf_reserve(&records, sizeof(*record) + LW_LONG_NAME, 0);
		if (!record)
			goto lost;
		bpf_probe_read_kernel(record->name, length & (LW_LONG_NAME - 1),
				      path->text + (start & (FOLDER_END - 1)));
	}
	record->type = LW_FILE_RECORD;
	record->tid = 0;
	record->time_ns = 0;
	record->argument = 0;
	record->length = length;
	record->file = *file;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
known:
	bpf_map_update_elem(&named, &address, &name, BPF_ANY);
	return !name.is_elsewhere;
lost:
	count(LW_LOST_NAMES);
	return true;
}

static __always_inline struct named_file *known_name(struct lw_file *file)
{
	__u64 address = file->address;
	struct named_file *known = bpf_map_lookup_elem(&named, &address);

	return known && known->file.inode == file->inode && known->file.device == file->device ?
		       known :
		       NULL;
}

/* Describe a file; return true if it is in the requested paths. */
static __always_inline bool describe_file(struct file *file, struct inode *inode, bool is_new,
					  struct lw_file *to)
{
	describe((__u64)file, inode, to);
	if (!is_new) {
		struct named_file *known = known_name(to);

		if (known)
			return !known->is_elsewhere;
	}
	return report_path(BPF_CORE_READ(file, f_path.dentry), BPF_CORE_READ(file, f_path.mnt), to,
			 false);
}

/* A directory to which a name is relative. */
struct folder {
	struct dentry *dentry;
	struct vfsmount *mount;
	__u64 address;
};

static __always_inline struct folder folder_of(int fd)
{
	struct folder folder = {};
	struct file *file;

	if (fd == AT_FDCWD) {
		struct fs_struct *fs = current_task()->fs;

		folder.dentry = fs->pwd.dentry;
		folder.mount = fs->pwd.mnt;
		folder.address = (__u64)folder.dentry;
		return folder;
	}
	file = file_of(current_task(), fd);
	if (file) {
		folder.dentry = BPF_CORE_READ(file, f_path.dentry);
		folder.mount = BPF_CORE_READ(file, f_path.mnt);
		folder.address = (__u64)file;
	}
	return folder;
}

static __always_inline void describe_folder(int fd, struct lw_file *to)
{
	struct folder folder = folder_of(fd);
	struct dentry *dentry = folder.dentry;
	struct named_file *known;

	if (!folder.address)
		return;
	describe(folder.address, BPF_CORE_READ(dentry, d_inode), to);
	known = known_name(to);
	if (!known || !known->is_reported)
		report_path(dentry, folder.mount, to, true);
}

/* Return true if a name in a call's arguments is in the requested paths or cannot be read. */
static __noinline int name_is_in_paths(__u64 name, int fd)
{
	struct path_text *path;
	struct folder folder;
	int start = FOLDER_END;
	__u32 zero = 0;
	long length;

	path = bpf_map_lookup_elem(&path_texts, &zero);
	if (!path)
		return true;
	length = bpf_probe_read_user_str(path->text + FOLDER_END, 2 * LW_PREFIX, (void *)name);
	if (length < 0)
		return true;
	if (path->text[FOLDER_END] == '/')
		return is_in_paths(path, FOLDER_END);
	if (path->text[FOLDER_END] == '.' && path->text[FOLDER_END + 1] == '/')
		bpf_probe_read_user_str(path->text + FOLDER_END, 2 * LW_PREFIX, (void *)(name + 2));
	folder = folder_of(fd);
	if (!folder.address)
		return true;
	path->text[FOLDER_END - 1] = '/';
	start = write_path(folder.dentry, folder.mount, path, FOLDER_END - 1);
	return start < 0 || is_in_paths(path, start);
}
