/* Writing a file whole or not at all. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum rig_status fail(struct rig_error *err, enum rig_status status, const char *path,
                            const char *why)
{
    if (err->status != RIG_OK)
        return err->status;
    err->status = status;
    snprintf(err->what, sizeof err->what, "%s", path);
    snprintf(err->why, sizeof err->why, "%s", why);
    err->why[0] = (char)tolower((unsigned char)err->why[0]);
    return status;
}

static enum rig_status fail_errno(struct rig_error *err, const char *path, int error)
{
    bool refused = error == EACCES || error == EPERM || error == EROFS || error == ENOENT ||
                   error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG || error == EISDIR;
    return fail(err, refused ? RIG_REFUSED : RIG_FAILED, path, RIG_ERRNO(error));
}

/* A link could have been planted by somebody else; a device or a directory is no place for it. */
static enum rig_status check_place(const char *path, struct rig_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? RIG_OK : fail_errno(err, path, errno);
    if (S_ISLNK(st.st_mode))
        return fail(err, RIG_REFUSED, path, "is a symbolic link");
    if (!S_ISREG(st.st_mode))
        return fail(err, RIG_REFUSED, path, "is no regular file");
    return RIG_OK;
}

enum rig_status file_begin(const char *path, bool dry, struct new_file *out_file,
                           struct rig_error *err)
{
    enum rig_status status = check_place(path, err);
    if (status != RIG_OK)
        return status;
    struct new_file file = {.fd = -1, .path = path, .dry = dry};
    for (int i = 0; i < 100 && file.fd < 0; i++) {
        free(file.temporary);
        if (asprintf(&file.temporary, "%s.%ld.%d", path, (long)getpid(), i) < 0) {
            file.temporary = NULL;
            return fail(err, RIG_FAILED, path, "out of memory");
        }
        file.fd = open(file.temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file.fd < 0 && errno != EEXIST)
            break;
    }
    if (file.fd < 0) {
        int error = errno;
        free(file.temporary);
        return fail_errno(err, path, error);
    }
    *out_file = file;
    return RIG_OK;
}

void file_abandon(struct new_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    unlink(file->temporary);
    free(file->temporary);
    *file = (struct new_file){.fd = -1};
}

enum rig_status file_commit(struct new_file *file, struct rig_error *err)
{
    const char *path = file->path;
    bool written = fsync(file->fd) == 0 || errno == EINVAL;
    int error = errno;
    if (close(file->fd) != 0 && written) {
        written = false;
        error = errno;
    }
    file->fd = -1;
    if (written && file->dry) {
        file_abandon(file);
        return RIG_OK;
    }
    if (written && rename(file->temporary, path) != 0) {
        written = false;
        error = errno;
    }
    if (!written) {
        file_abandon(file);
        return fail_errno(err, path, error);
    }
    free(file->temporary);
    return RIG_OK;
}

enum rig_status file_write(const char *path, const char *text, size_t bytes, bool dry,
                           struct rig_error *err)
{
    struct new_file file;
    enum rig_status status = file_begin(path, dry, &file, err);
    if (status != RIG_OK)
        return status;
    while (bytes > 0) {
        ssize_t done = write(file.fd, text, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            int error = errno;
            file_abandon(&file);
            return fail_errno(err, path, error);
        }
        text += done;
        bytes -= (size_t)done;
    }
    return file_commit(&file, err);
}
