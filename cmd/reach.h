/* The parts of `reach`. */
#ifndef CMD_REACH_H
#define CMD_REACH_H

#include "handlers.h"

/* What a `reach` is about, kept while it is printed. `before` is the machine without what is tried
   and is there iff the question is what that changes. from and to are function numbers. */
struct reach_question {
    struct rig_topology *t, *before;
    const struct rig_rules *rules, *rules_before;
    const char *rules_from;
    int *from, *to;
    int from_count, to_count;
    bool all;  /* --all: a function's answer to itself belongs to it, as the kernel has one */
    bool pair; /* A and B were named */
    bool row;  /* A alone was named */
    bool why;
};

/* reach_pair_json is the answer for one pair as documents have it, or NULL with *err set. Remedies,
   which take time, are sought with `remedy` alone. */
json_t *reach_pair_json(struct reply *reply, const struct rig_topology *t,
                        const struct rig_rules *rules, int from, int to, bool remedy,
                        struct rig_error *err);

/* reach_remedy_json puts "hint" and "remedy" into the pair: what would change its answer, each step
 * proved. */
enum rig_status reach_remedy_json(struct reply *reply, const struct rig_topology *t,
                                  const struct rig_rules *rules, int from, int to, json_t *pair,
                                  struct rig_error *err);

/* reach_remedy_text prints a pair's "remedy", nothing where it is empty. */
void reach_remedy_text(struct view *view, const json_t *remedy, const char *indent);

/* reach_target_json is how much of GPU i's memory its BAR shows. */
json_t *reach_target_json(struct reply *reply, const struct rig_topology *t, int i);

/* reach_targets_text prints the question's GPUs whose memory their BAR does not show whole. */
void reach_targets_text(struct view *view, const struct reach_question *q);

/* reach_pair_text prints a pair that reach_pair_json made. rules_from: why this rule set. */
void reach_pair_text(struct view *view, const struct reach_question *q, const json_t *pair,
                     bool why);

/* reach_names_text prints "gpu0 (0000:03:00.0) -> gpu1 (0000:04:00.0): ". */
void reach_names_text(struct view *view, const struct reach_question *q, const json_t *pair);

/* reach_matrix_text prints the table of all pairs, its legend and the distinct reasons. */
enum rig_status reach_matrix_text(struct view *view, const struct reach_question *q,
                                  struct rig_error *err);

/* reach_reasons_text prints the distinct reasons for what is not reached, what is assumed and what
   is unknown, over the question's pairs. */
enum rig_status reach_reasons_text(struct view *view, const struct reach_question *q,
                                   struct rig_reach_table *table, struct rig_error *err);

/* path_meaning says in words what the path's name stands for. */
const char *path_meaning(enum rig_path path);

/* reach_rules_text prints which rules decided and why these. */
void reach_rules_text(struct view *view, const struct reach_question *q);

/* answer_word is "yes", "no" or "unknown"; answer_color its colour. */
const char *answer_word(enum rig_answer answer);
const char *answer_color(const char *word);

/* verdict_name is the name of one verdict, or NULL when `possible` holds none or several. */
const char *verdict_name(unsigned possible);

/* reach_graph writes the picture of the tree with the question's pairs in graphviz's language. */
enum rig_status reach_graph(struct out *o, const struct reach_question *q, struct rig_error *err);

#endif
