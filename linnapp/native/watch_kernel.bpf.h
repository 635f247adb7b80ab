/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The fields of the kernel's types that are read; offsets are found when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct signal_struct {
	struct {
		int counter;
	} live;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_generation;
};

struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path pwd;
};

struct file {
	unsigned int f_mode;
	void *f_op;
	struct inode *f_inode;
	struct path f_path;
	__s64 f_pos;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct io_kiocb {
	struct file *file;
	__u8 opcode;
	struct {
		__s32 res;
		int fd;
	} cqe;
};

/* A request for a transfer begins with this. */
struct io_rw {
	struct {
		__s64 ki_pos;
	} kiocb;
	__u64 addr;
	__u32 len;
};

struct bio_list {
};

#ifdef __TARGET_ARCH_x86
struct pt_regs {
	unsigned long di, si, dx, r10, r9, r8;
};
#else
struct user_pt_regs {
	__u64 regs[31];
};
#endif

struct thread_info {
#ifdef __TARGET_ARCH_x86
	__u32 status;
#else
	unsigned long flags;
#endif
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	unsigned in_iowait : 1;
	int pid;
	int tgid;
	struct fs_struct *fs;
	struct files_struct *files;
	struct task_struct *group_leader;
	char comm[LW_COMM];
	struct signal_struct *signal;
	struct bio_list *bio_list;
};

/* Stands for any memory that contains an address. */
struct list_head {
	struct list_head *next;
};

struct block_device_operations {
	void *submit_bio;
};

struct gendisk {
	int major;
	int first_minor;
	struct block_device_operations *fops;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	unsigned short bi_ioprio;
	__u8 bi_status;
	struct bvec_iter bi_iter;
	void *bi_private;
};

struct request {
	struct bio *bio;
};
#pragma clang attribute pop
