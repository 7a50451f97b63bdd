/* Pictures by graphviz: its program dot is run directly, without a shell. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char *picture_kind(const char *path)
{
    static const char *const kinds[] = {"dot", "svg", "png", "pdf"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(dot + 1, kinds[i]) == 0)
            return kinds[i];
    return NULL;
}

static enum rig_status fail(struct rig_error *err, enum rig_status status, const char *what,
                            const char *why, const char *hint)
{
    if (err->status != RIG_OK)
        return err->status;
    err->status = status;
    snprintf(err->what, sizeof err->what, "%s", what);
    snprintf(err->why, sizeof err->why, "%s", why);
    snprintf(err->hint, sizeof err->hint, "%s", hint);
    return status;
}

/* A file in memory that holds the graph, read from its start: graphviz's standard input. */
static int graph_file(const char *graph, size_t bytes)
{
    int fd = memfd_create("graph", MFD_CLOEXEC);
    while (fd >= 0 && bytes > 0) {
        ssize_t done = write(fd, graph, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            close(fd);
            return -1;
        }
        graph += done;
        bytes -= (size_t)done;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Starts `dot -TKIND` from in to out; 0 or an errno. */
static int start_dot(const char *kind, int in, int out, pid_t *out_pid)
{
    char form[8], name[] = "dot", quiet[] = "-q"; /* errors only */
    snprintf(form, sizeof form, "-T%s", kind);
    char *const words[] = {name, quiet, form, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        posix_spawnattr_setsigdefault(&attributes, &defaults);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
        posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        error = posix_spawnp(out_pid, "dot", &actions, &attributes, words, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static bool finished_well(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static enum rig_status draw(const char *kind, int out, const char *graph, size_t bytes,
                            struct rig_error *err)
{
    int in = graph_file(graph, bytes);
    if (in < 0)
        return fail(err, RIG_FAILED, "dot", "no memory for the graph", "");
    pid_t pid;
    int error = start_dot(kind, in, out, &pid);
    close(in);
    if (error == ENOENT)
        return fail(err, RIG_REFUSED, "dot", "graphviz is not installed",
                    "install graphviz, or write FILE.dot and draw it elsewhere");
    if (error)
        return fail(err, RIG_FAILED, "dot", "cannot be run", "");
    if (!finished_well(pid))
        return fail(err, RIG_FAILED, "dot", "graphviz failed to draw the picture", "");
    return RIG_OK;
}

enum rig_status picture_write(const char *path, const char *graph, size_t bytes, bool dry,
                              struct rig_error *err)
{
    const char *kind = picture_kind(path);
    if (!kind)
        return fail(err, RIG_INVALID, path, "its ending is none of .svg .png .pdf .dot", "");
    if (strcmp(kind, "dot") == 0)
        return file_write(path, graph, bytes, dry, err);
    struct new_file file;
    enum rig_status status = file_begin(path, dry, &file, err);
    if (status != RIG_OK)
        return status;
    status = draw(kind, file.fd, graph, bytes, err);
    if (status != RIG_OK) {
        file_abandon(&file);
        return status;
    }
    return file_commit(&file, err);
}

void picture_reply(const struct request *request, struct reply *reply, const struct out *graph)
{
    const char *path = request_value(request, OPT_OUTPUT);
    reply->result = json_object();
    if (graph->error) {
        reply->no_memory = true;
    } else if (path) {
        if (picture_write(path, graph->buffer, graph->used, request->settings.dry_run,
                          &reply->err) == RIG_OK)
            put(reply, reply->result, "file", text_json(path));
    } else {
        put(reply, reply->result, "dot", json_stringn(graph->buffer, graph->used));
    }
}

bool picture_text(struct view *view, const json_t *result)
{
    if (!json_object_get(result, "dot") && !json_object_get(result, "file"))
        return false;
    out_text(view->out, member_text(result, "dot"));
    return true;
}
