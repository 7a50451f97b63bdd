/* What the two files that read the lines below a header share. Not public. */
#ifndef RIG_LSPCI_DETAIL_H
#define RIG_LSPCI_DETAIL_H

#include "topology/lspci.h"

/* One line and the block it belongs to. */
struct detail {
    struct rig_topology *t;
    const char *name;
    const struct lspci_line *line;
    struct lspci_block *block;
    struct rig_function *f; /* the block's */
    struct lspci_text rest; /* what follows the words that told the kind of line */
    struct rig_error *err;
};

/* detail_set makes *fact be value. RIG_BAD_INPUT: another line of the block said otherwise; `what`
   names two of such lines. */
enum rig_status detail_set(struct detail *d, struct rig_fact *fact, struct rig_fact value,
                           const char *what);

/* detail_flag finds the word "NAME+" or "NAME-" in t and makes *out_on which; false without. */
bool detail_flag(struct lspci_text t, const char *name, bool *out_on);

/* detail_subsystem takes the numbers at the end of a subsystem's name: "[10de:1234]", "10de:1234",
   "Device 1234". RIG_FAILED: memory. */
enum rig_status detail_subsystem(struct detail *d, struct lspci_text t);

/* Each takes one kind of line, `rest` being what follows its first words: `Capabilities:`,
   `LnkCap:`, `LnkSta:`, `Link:`, `ACSCap:`, `ACSCtl:`, `BAR `, `IOVCtl:`, `Initial VFs:`,
   `VF offset:`. */
enum rig_status detail_capability(struct detail *d);
enum rig_status detail_link_capability(struct detail *d);
enum rig_status detail_link_status(struct detail *d);
enum rig_status detail_link(struct detail *d);
enum rig_status detail_acs_capability(struct detail *d);
enum rig_status detail_acs_control(struct detail *d);
enum rig_status detail_resizable(struct detail *d);
enum rig_status detail_iov_control(struct detail *d);
enum rig_status detail_iov_count(struct detail *d);
enum rig_status detail_iov_offset(struct detail *d);

#endif
