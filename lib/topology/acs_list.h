/* The kernel parameter that clears ACS redirects, as people write it. Not public. */
#ifndef RIG_ACS_LIST_H
#define RIG_ACS_LIST_H

#include "topology/topology.h"

/* Room for what acs_list_mistake says. */
#define ACS_LIST_TEXT 384

/* acs_list_mistake is true iff `text` holds a `disable_acs_redir=` list whose functions are
   separated by commas, and then writes what Linux makes of it, and what to write instead, into out.
   The list's separator is a semicolon; a comma ends the option of `pci=`, and Linux reads what
   follows as the name of another one (Linux: pci_setup in drivers/pci/pci.c,
   Documentation/admin-guide/kernel-parameters.txt). A comma before another option is none. */
bool acs_list_mistake(const char *text, size_t bytes, char out[ACS_LIST_TEXT]);

/* acs_list_check warns where the kernel's command line in t has that mistake, or has `pci=noacs`,
   which no version of Linux knows. */
void acs_list_check(struct rig_topology *t);

#endif
