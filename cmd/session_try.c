/* A dry run on a session that lives in this process: a copy of the process does it, and sends its
   reply. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool send_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(fd, text, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        text += put;
        bytes -= (size_t)put;
    }
    return true;
}

static void answer(const struct request *request, struct reply *reply, int fd)
{
    request->command->run(request, reply);
    json_t *error = reply->err.status == RIG_OK ? json_null() : error_json(reply);
    json_t *all = json_pack("{si so so* so*}", "exit", reply->exit, "error", error, "result",
                            reply->result, "warnings", reply->warnings);
    char *text = all && !reply->no_memory ? json_dumps(all, JSON_COMPACT) : NULL;
    _exit(text && send_all(fd, text, strlen(text)) ? 0 : 1);
}

static void take_text(const json_t *error, const char *key, char *to, size_t room)
{
    snprintf(to, room, "%s", member_text(error, key));
}

static void take_reply(struct reply *reply, json_t *all)
{
    const json_t *error = json_object_get(all, "error");
    reply->exit = (int)member_number(all, "exit");
    reply->result = json_incref(json_object_get(all, "result"));
    json_t *warnings = json_object_get(all, "warnings");
    if (warnings) {
        json_decref(reply->warnings);
        reply->warnings = json_incref(warnings);
    }
    if (!json_is_object(error))
        return;
    struct rig_error *err = &reply->err;
    err->status = (enum rig_status)member_number(error, "code");
    take_text(error, "what", err->what, sizeof err->what);
    take_text(error, "why", err->why, sizeof err->why);
    take_text(error, "hint", err->hint, sizeof err->hint);
    take_text(error, "where", err->where, sizeof err->where);
}

static json_t *receive(int fd)
{
    FILE *from = fdopen(fd, "r");
    if (!from) {
        close(fd);
        return NULL;
    }
    json_t *all = json_loadf(from, 0, NULL);
    fclose(from);
    return all;
}

void session_try(const struct request *request, struct reply *reply)
{
    int ends[2];
    if (pipe(ends) != 0) {
        reply_fail(reply, RIG_FAILED, NULL, NULL, "%s", RIG_ERRNO(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        answer(request, reply, ends[1]);
    }
    close(ends[1]);
    json_t *all = child > 0 ? receive(ends[0]) : NULL;
    if (child < 0)
        close(ends[0]);
    int ended;
    while (child > 0 && waitpid(child, &ended, 0) < 0 && errno == EINTR)
        continue;
    if (all)
        take_reply(reply, all);
    else
        reply_fail(reply, RIG_FAILED, NULL, NULL, "the dry run's process came to nothing");
    json_decref(all);
}
