/* The readers of lspci's output, within the topology room. A text goes through them line by line:

   - lspci_source undoes what mailers and forums do to lines (quote marks, soft breaks, CRLF);
   - lspci_header reads the line that starts a function, lspci_detail those below it, lspci_hex the
     rows of its configuration space, lspci_tree the lines of a tree, lspci_machine what stands
     around them;
   - lspci_merge puts together what was read of one function, and refuses what does not agree.

   `lspci.c` holds the loop. Nothing here prints; text is never written to in place. */
#ifndef RIG_LSPCI_H
#define RIG_LSPCI_H

#include "topology/acs_list.h"

/* The command that gives everything a reader of text can use, for messages. */
#define LSPCI_COMMAND "sudo lspci -D -vvv -nn -xxxx"

/* ---- lspci_source.c: lines */

/* One line without its quote marks, indentation and trailing space; not NUL-terminated. `text` is
   in the data or in the source's own room and lasts until the next line is taken. */
struct lspci_line {
    const char *text;
    size_t length;
    size_t number; /* in the file, from 1 */
    size_t column; /* of text[0] in its line, from 1 */
    size_t indent; /* columns of white space after the quote marks; a tab goes to a multiple of 8 */
    size_t width;  /* columns up to the end of the text, quote marks left out */
};

/* With a stream, `at` and `end` are in its data, which moves when a line is taken. */
struct lspci_source {
    const char *name;
    const char *at, *end;
    struct text_stream *stream; /* NULL: the whole text lies before end */
    struct rig_error *err;      /* for the stream's errors */
    size_t number;              /* of the line that begins at `at` */
    char *room;                 /* for lines that had to be rewritten; grows */
    size_t room_size;
};

/* lspci_next makes *out_line the next line and true, or returns false at the end or when memory or
   the stream fails, which sets *out_status. Where the text goes on, the next 64 bytes lie at s->at
   then. Lines cut by quoted-printable's soft breaks are one line. */
bool lspci_next(struct lspci_source *s, struct lspci_line *out_line, enum rig_status *out_status);

/* ---- helpers for text that is not NUL-terminated */

static inline int lspci_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* A piece of a line, read from its front. */
struct lspci_text {
    const char *at;
    size_t left;
};

static inline struct lspci_text lspci_text_of(const struct lspci_line *line)
{
    return (struct lspci_text){line->text, line->length};
}

/* lspci_skip takes `word` off the front of t, if it stands there. */
bool lspci_skip(struct lspci_text *t, const char *word);

/* lspci_skip_space takes spaces and tabs off the front. */
void lspci_skip_space(struct lspci_text *t);

/* lspci_find moves t to the first `word` in it and true, or leaves it and false. */
bool lspci_find(struct lspci_text *t, const char *word);

/* lspci_after moves t behind the first `word` in it and true, or leaves it and false. */
bool lspci_after(struct lspci_text *t, const char *word);

/* lspci_number reads from `least` to `most` digits of base 10 or 16 off the front; false leaves t
   as it was. `most` is at most 16. */
bool lspci_number(struct lspci_text *t, unsigned base, unsigned least, unsigned most,
                  uint64_t *out);

/* ---- lspci_header.c: the line that starts a function */

/* lspci_function reads `[dddd:]bb:dd.f` off the front of t, which must be followed by one of `/`,
   white space or the end. */
bool lspci_function(struct lspci_text *t, struct rig_bdf *out_bdf);

/* lspci_is_header is true iff the line starts a function: its place, a class, a colon, a name;
   before a row of its configuration space the place is enough. */
bool lspci_is_header(const struct lspci_line *line, bool row_follows);

/* What a header line says of its place: `[dddd:]bb:dd.f`, or a path of lspci -PP
   (`00:01.0/01:00.0`) or -P (`00:01.0/00.0`). */
struct lspci_place {
    struct rig_bdf path[32]; /* from the root bus down; in a -P path all but the first lack bus */
    unsigned length;
    bool without_buses;
};

/* lspci_read_header fills *out_place and, in node, class, ids, revision and name from a line that
   lspci_is_header. A class without its interface is an assumed one. RIG_FAILED: memory. */
enum rig_status lspci_read_header(struct rig_topology *t, const struct lspci_line *line,
                                  struct lspci_place *out_place, struct node *node,
                                  struct rig_error *err);

/* lspci_read_name takes a device's name as lspci prints it, with or without numbers, into node.
   RIG_FAILED: memory. */
enum rig_status lspci_read_name(struct rig_topology *t, struct lspci_text name, struct node *node,
                                struct rig_error *err);

/* ---- lspci_detail.c: the lines below a header */

/* Whose lines follow the last `Capabilities:` line. */
enum lspci_capability {
    LSPCI_BEFORE_CAPABILITIES,
    LSPCI_EXPRESS,
    LSPCI_ACS,
    LSPCI_SRIOV,
    LSPCI_REBAR,
    LSPCI_OTHER_CAPABILITY,
};

/* What stands between one function's header line and what ends it. `node` holds what the lines said
   and nothing that was worked out from lines that are missing: that needs the whole text. */
struct lspci_block {
    struct node node;
    size_t line;   /* of the header */
    size_t indent; /* of the header */
    enum lspci_capability capability;
    bool details;      /* it has lines below its header */
    bool whole;        /* ... and among them the one that each function has: Control or Flags */
    bool cut;          /* an elision stands in it, or the text ends within it */
    bool at_end;       /* its last line is one that stands at the end of a block */
    bool has_list;     /* its status register tells that it has capabilities */
    bool no_list;      /* ... that it has none */
    bool denied;       /* capabilities are not shown for lack of privilege */
    bool extended;     /* a capability of extended space is shown */
    bool acs_listed;   /* ... that of ACS, with or without its words */
    bool sriov_listed; /* ... that of SR-IOV */
    bool bus_numbers;  /* a line with bus numbers is shown */
    bool all_ones;     /* its header reads all ones */
    bool vf_disabled;  /* virtual functions are not enabled */
    bool unnumbered;   /* BARs are shown without their numbers (lspci -v) */
    int next_bar;      /* the number that the next BAR without one has, if none is missing */
};

/* lspci_is_detail is true iff the text begins as a line below a header does, by its words. */
bool lspci_is_detail(const struct lspci_line *line);

/* lspci_detail takes a line below a header. RIG_BAD_INPUT: a fact given twice and differently, a
   number out of range. RIG_FAILED: memory. */
enum rig_status lspci_detail(struct rig_topology *t, const char *name,
                             const struct lspci_line *line, struct lspci_block *block,
                             struct rig_error *err);

/* ---- lspci_hex.c: rows of configuration space */

/* The rows of one function so far. `bytes` lie from offset 0 on without a gap; rows behind a gap
   are checked and not kept, so then `bytes` is less than `next`. */
struct lspci_hex {
    size_t bytes;
    size_t next;       /* the offset of the next row, if none is missing */
    size_t first_line; /* where they begin; 0: there are none */
    uint8_t at[4096];
};

/* lspci_hex_run takes as many whole, plain rows as stand at *at, each the next one; it moves *at
   past them and counts their lines in *number. It stops, without an error, at anything else. */
void lspci_hex_run(struct lspci_hex *hex, const char **at, const char *end, size_t *number);

/* lspci_row_at is true iff the first row of a dump may begin at `at`. */
bool lspci_row_at(const char *at, const char *end);

/* lspci_is_row is true iff the line looks like a row of a dump, right or wrong. */
bool lspci_is_row(const struct lspci_line *line);

/* lspci_hex_row takes a line that lspci_is_row. RIG_BAD_INPUT: an offset above fff, out of order or
   no multiple of 16, a row that is not 16 bytes. */
enum rig_status lspci_hex_row(struct lspci_hex *hex, const char *name,
                              const struct lspci_line *line, struct rig_error *err);

/* ---- lspci_merge.c */

/* Where a reading of a function came from, for messages. */
struct lspci_origin {
    const char *name;
    size_t line;
};

/* lspci_number_bars gives the BARs of `unnumbered`, which lspci -v prints without numbers, the
   numbers that the same BARs have in `numbered`, if their kinds agree one by one. */
void lspci_number_bars(struct node *unnumbered, const struct node *numbered);

/* lspci_merge adds to `into` what `from` knows. Both are readings of one function. RIG_BAD_INPUT:
   they do not agree; err names both lines and the fact. */
enum rig_status lspci_merge(struct node *into, struct lspci_origin old, const struct node *from,
                            struct lspci_origin fresh, struct rig_error *err);

/* ---- lspci_records.c: which functions were read, and where */

/* One function of the topology as it was read; record i is of node i. "A whole block" is one with
   nothing elided, read from the line that each function has to its end. */
struct lspci_record {
    size_t line;       /* of its first header */
    bool text;         /* a block of text was read */
    bool whole;        /* ... a whole one */
    bool capabilities; /* ... a whole one that shows its capabilities */
    bool denied;       /* ... one whose capabilities the user might not see */
    bool extended;     /* ... one with a capability of extended space */
    bool acs_listed, sriov_listed;
    bool bus_numbers;
    bool all_ones;
    bool no_list;    /* its status register tells that it has no capabilities */
    bool unnumbered; /* all that is known of its BARs came without their numbers */
    bool hex;
    bool drawn; /* it stands in a tree */
};

/* A place, as a number that is not 0, and its record's number. */
struct lspci_slot {
    uint64_t key;
    int index;
};

/* Finds functions by place. `slot` is an open-addressing hash, at most half full. */
struct lspci_records {
    struct lspci_record *record;
    int capacity;
    struct lspci_slot *slot;
    size_t slots;
};

/* lspci_record_find makes *out_index the number of bdf's record and node, a new one of both if it
   has none yet, which *out_new tells. RIG_BAD_INPUT: too many. RIG_FAILED: memory. */
enum rig_status lspci_record_find(struct lspci_records *r, struct rig_topology *t,
                                  struct rig_bdf bdf, int *out_index, bool *out_new,
                                  struct rig_error *err);

/* lspci_record_known is the number of bdf's record, or -1. There are records. */
int lspci_record_known(const struct lspci_records *r, struct rig_bdf bdf);

void lspci_records_free(struct lspci_records *r);

/* ---- lspci_tree.c: lspci -t */

struct lspci_tree;

/* lspci_tree_new makes an empty tree, or NULL when memory ran out. */
struct lspci_tree *lspci_tree_new(void);
void lspci_tree_free(struct lspci_tree *tree);

/* lspci_is_tree is true iff the line is one of a tree: it draws a root bus or, where `within` tells
   that the line before was of a tree, branches to a function or a bus. */
bool lspci_is_tree(const struct lspci_line *line, bool within);

/* lspci_tree_line takes a line that lspci_is_tree. RIG_BAD_INPUT: a function or bus drawn at a
   place where none can be, or a bus drawn twice and not alike. RIG_FAILED: memory. */
enum rig_status lspci_tree_line(struct lspci_tree *tree, struct rig_topology *t, const char *name,
                                const struct lspci_line *line, struct rig_error *err);

/* lspci_tree_count is how many functions were drawn. lspci_tree_function makes node what the tree
   says of the i-th, its place included, and returns its line. */
int lspci_tree_count(const struct lspci_tree *tree);
size_t lspci_tree_function(const struct lspci_tree *tree, int i, struct node *node);

/* ---- lspci_machine.c: what stands around */

/* lspci_machine_line takes a machine's fact from a line that belongs to no function: from
   /proc/cpuinfo, uname -a, the kernel's command line or log. RIG_BAD_INPUT: two that differ.
   RIG_FAILED: memory. */
enum rig_status lspci_machine_line(struct rig_topology *t, const char *name,
                                   const struct lspci_line *line, struct rig_error *err);

/* ---- lspci_clue.c: what a text without a tree tells all the same */

/* More functions than these are not kept. */
#define LSPCI_CLUE_FUNCTIONS 12

/* What stands in prose, logs and tables. None of it is a fact of a function: it goes into the hint
   that a text without a tree is refused with. */
struct lspci_clues {
    struct rig_bdf redirecting[LSPCI_CLUE_FUNCTIONS]; /* ACS redirects there, says the text */
    unsigned redirecting_count;
    bool more; /* it says so of more functions than are kept */
    bool pair; /* Linux's log says no of `client` and `provider` */
    struct rig_bdf client, provider;
    bool has_bridge; /* a host bridge's ids are told */
    uint16_t bridge_vendor, bridge_device;
    bool commas; /* a list of functions is separated by commas: comma_text */
    char comma_text[ACS_LIST_TEXT];
    bool matrix;           /* nvidia-smi's matrix of paths or of what the driver allows */
    bool driver_matrix;    /* ... of the latter */
    const char *host_path; /* the name in it of a path through a host bridge, or NULL */
    unsigned amd_family;   /* of an AMD CPU that the text names, or 0 */
    bool loose;            /* lines of functions stand without their header */
    bool piece_of_tree;    /* branches of a tree stand without the root bus */
};

/* lspci_clue_line takes what a line that belongs to no function tells. */
void lspci_clue_line(struct lspci_clues *c, const struct lspci_line *line);

/* lspci_clue_redirecting adds a function of which the text tells that it redirects. */
void lspci_clue_redirecting(struct lspci_clues *c, struct rig_bdf bdf);

/* lspci_clue_hint makes what was found err's hint. */
void lspci_clue_hint(const struct lspci_clues *c, struct rig_error *err);

/* ---- lspci_log.c: BARs in the kernel's log */

/* A BAR as the log tells it. */
struct lspci_logged {
    struct rig_bdf function;
    unsigned index;
    uint64_t flags, address, size;
};

/* In the order of the log, which tells a BAR again when it moves. */
struct lspci_log {
    struct lspci_logged *bar;
    size_t count, capacity;
};

/* lspci_log_line notes `pci 0000:03:00.0: reg 0x10: [mem ...]` and its like. RIG_FAILED: memory. */
enum rig_status lspci_log_line(struct lspci_log *log, const struct lspci_line *line,
                               struct rig_error *err);

/* lspci_log_apply fills in what the text does not tell of BARs, as assumed facts: the kernel may
   have moved them since. */
void lspci_log_apply(const struct lspci_log *log, const struct lspci_records *records,
                     struct rig_topology *t);

/* ---- lspci_settle.c: what follows once the whole text was read */

/* lspci_settle makes absent what the text would show if it were there, gives what stays unknown its
   reason, and looks names up where numbers are missing. `records` are of t's nodes. */
void lspci_settle(struct rig_topology *t, const struct lspci_records *records);

/* ---- lspci_functions.c: what was read of the functions, put together */

/* The functions of one text. */
struct lspci_functions {
    const char *name; /* of the text */
    struct rig_topology *t;
    struct lspci_records records;
    bool any_path; /* a place was told by a path (lspci -P) */
    bool any_text; /* a block of text was read */
    bool any_hex;
};

/* lspci_empty_node makes node the function bdf of which nothing is known. */
void lspci_empty_node(struct node *node, struct rig_bdf bdf);

/* lspci_place_block gives block the function and the place that its header told. RIG_BAD_INPUT: a
   path without bus numbers leads over a bridge whose buses are not known. RIG_FAILED: memory. */
enum rig_status lspci_place_block(struct lspci_functions *r, struct lspci_place *place,
                                  struct lspci_block *block, struct rig_error *err);

/* lspci_add_block, lspci_add_hex and lspci_add_tree add what was read; hex is empty afterwards, and
   may be before. RIG_BAD_INPUT: it does not agree with what was read before, or a dump is shorter
   than a header. RIG_FAILED: memory. */
enum rig_status lspci_add_block(struct lspci_functions *r, struct lspci_block *block,
                                struct rig_error *err);
enum rig_status lspci_add_hex(struct lspci_functions *r, struct rig_bdf bdf, struct lspci_hex *hex,
                              struct rig_error *err);
enum rig_status lspci_add_tree(struct lspci_functions *r, const struct lspci_tree *tree,
                               struct rig_error *err);

/* lspci_settle_paths, once all is read, puts on root buses what has no path in a text that has. */
void lspci_settle_paths(struct lspci_functions *r);

#endif
