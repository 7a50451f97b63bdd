/* The handlers and text printers of the commands, for the table. */
#ifndef CMD_HANDLERS_H
#define CMD_HANDLERS_H

#include "cli.h"

void list_run(const struct request *request, struct reply *reply);
void list_text(struct view *view, const json_t *result);
void reach_run(const struct request *request, struct reply *reply);
void reach_picture_text(struct view *view, const json_t *result);
void topo_run(const struct request *request, struct reply *reply);
void topo_text(struct view *view, const json_t *result);
void capture_run(const struct request *request, struct reply *reply);
void capture_text(struct view *view, const json_t *result);
void diff_run(const struct request *request, struct reply *reply);
void diff_text(struct view *view, const json_t *result);
void completion_run(const struct request *request, struct reply *reply);
void script_text(struct view *view, const json_t *result);
void help_run(const struct request *request, struct reply *reply);
void help_text(struct view *view, const json_t *result);
void version_run(const struct request *request, struct reply *reply);
void version_text(struct view *view, const json_t *result);
void complete_run(const struct request *request, struct reply *reply);
void complete_text(struct view *view, const json_t *result);

void open_run(const struct request *request, struct reply *reply);
void close_run(const struct request *request, struct reply *reply);
void show_run(const struct request *request, struct reply *reply);
void alloc_run(const struct request *request, struct reply *reply);
void map_host_run(const struct request *request, struct reply *reply);
void map_peer_run(const struct request *request, struct reply *reply);
void bus_run(const struct request *request, struct reply *reply);
void free_run(const struct request *request, struct reply *reply);
void peek_run(const struct request *request, struct reply *reply);
void poke_run(const struct request *request, struct reply *reply);
void walk_run(const struct request *request, struct reply *reply);
void fault_run(const struct request *request, struct reply *reply);
void recover_run(const struct request *request, struct reply *reply);
void close_text(struct view *view, const json_t *result);
void session_text(struct view *view, const json_t *result);
void region_text(struct view *view, const json_t *result);
void bus_text(struct view *view, const json_t *result);
void free_text(struct view *view, const json_t *result);
void peek_text(struct view *view, const json_t *result);
void poke_text(struct view *view, const json_t *result);
void walk_text(struct view *view, const json_t *result);
void fault_text(struct view *view, const json_t *result);
void recover_text(struct view *view, const json_t *result);
/* shell has no result of its own: shell_main runs it. */
void shell_run(const struct request *request, struct reply *reply);

/* help_topic is the i-th topic's name, NULL past the last. */
const char *help_topic(int i);

#endif
