/* The disk of kofi_target.ko. */
#include <linux/blkdev.h>
#include <linux/falloc.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>
#include "kofi_target.h"

static int target_disk_of_file(struct target_disk *disk, const char *path, bool read_only)
{
	struct inode *inode;

	disk->file = filp_open(path, O_LARGEFILE | (read_only ? O_RDONLY : O_RDWR), 0);
	if (IS_ERR(disk->file)) {
		int status = PTR_ERR(disk->file);

		disk->file = NULL;
		return status;
	}
	inode = file_inode(disk->file);
	if (!S_ISREG(inode->i_mode) && !S_ISBLK(inode->i_mode))
		return -ENOTBLK;
	disk->about.capacity = i_size_read(disk->file->f_mapping->host) >> SECTOR_SHIFT;
	/* The same file is the same content, also when the module was loaded anew. */
	disk->about.content = ((u64)(S_ISBLK(inode->i_mode) ? inode->i_rdev : inode->i_sb->s_dev) << 32) ^ inode->i_ino;
	disk->about.features = KOFI_BLK_CACHE;
	if (disk->file->f_op->fallocate)
		disk->about.features |= KOFI_BLK_HAS_DISCARD | KOFI_BLK_HAS_ZERO;
	return 0;
}

static int target_disk_of_memory(struct target_disk *disk, unsigned int megabytes)
{
	disk->memory = vzalloc((size_t)megabytes << 20);
	if (!disk->memory)
		return -ENOMEM;
	disk->about.capacity = (u64)megabytes << (20 - SECTOR_SHIFT);
	disk->about.content = get_random_u64();
	disk->about.features = KOFI_BLK_HAS_DISCARD | KOFI_BLK_HAS_ZERO;
	return 0;
}

int target_disk_open(struct target_disk *disk, const char *path, unsigned int megabytes, bool read_only, u32 block)
{
	int status = -EINVAL;

	if (*path && !megabytes)
		status = target_disk_of_file(disk, path, read_only);
	else if (!*path && megabytes)
		status = target_disk_of_memory(disk, megabytes);
	if (status)
		return status;
	disk->about.block = block;
	if (block >= SECTOR_SIZE)
		disk->about.capacity -= disk->about.capacity % (block >> SECTOR_SHIFT);
	if (read_only)
		disk->about.features |= KOFI_BLK_READ_ONLY;
	return kofi_target_rs_is_meant(&disk->about) ? 0 : -EINVAL;
}

void target_disk_close(struct target_disk *disk)
{
	if (disk->file)
		filp_close(disk->file, NULL);
	vfree(disk->memory);
}

static int target_read(struct file *file, u8 *buffer, size_t len, loff_t position)
{
	while (len) {
		ssize_t count = kernel_read(file, buffer, len, &position);

		/* The file may have become shorter. */
		if (count <= 0)
			return count ?: -EIO;
		buffer += count;
		len -= count;
	}
	return 0;
}

static int target_write(struct file *file, const u8 *buffer, size_t len, loff_t position)
{
	while (len) {
		ssize_t count = kernel_write(file, buffer, len, &position);

		if (count <= 0)
			return count ?: -EIO;
		buffer += count;
		len -= count;
	}
	return 0;
}

static int target_in_file(struct file *file, const struct kofi_blk_job *job, void *buffer)
{
	loff_t end = job->position + job->len;
	int status = 0;

	switch (job->op) {
	case KOFI_BLK_READ:
		return target_read(file, buffer, job->len, job->position);
	case KOFI_BLK_WRITE:
		status = target_write(file, buffer, job->len, job->position);
		break;
	case KOFI_BLK_FLUSH:
		return vfs_fsync(file, 1);
	case KOFI_BLK_DISCARD:
	case KOFI_BLK_ZERO:
		/* A hole reads as zeros. */
		status = vfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, job->position, job->len);
		break;
	}
	if (!status && job->is_durable)
		status = vfs_fsync_range(file, job->position, end - 1, 1);
	return status;
}

static void target_in_memory(u8 *memory, const struct kofi_blk_job *job, void *buffer)
{
	switch (job->op) {
	case KOFI_BLK_READ:
		memcpy(buffer, memory + job->position, job->len);
		break;
	case KOFI_BLK_WRITE:
		memcpy(memory + job->position, buffer, job->len);
		break;
	case KOFI_BLK_DISCARD:
	case KOFI_BLK_ZERO:
		memset(memory + job->position, 0, job->len);
		break;
	}
}

int target_disk_carry_out(struct target_disk *disk, const struct kofi_blk_job *job, void *buffer)
{
	unsigned int noio, local;
	int status;

	if (disk->memory) {
		target_in_memory(disk->memory, job, buffer);
		return 0;
	}
	/* The initiator may be this kernel, and what it writes may be what has to be written to have memory. */
	noio = memalloc_noio_save();
	local = current->flags & PF_LOCAL_THROTTLE;
	current->flags |= PF_LOCAL_THROTTLE;
	status = target_in_file(disk->file, job, buffer);
	current_restore_flags(local, PF_LOCAL_THROTTLE);
	memalloc_noio_restore(noio);
	return status;
}
