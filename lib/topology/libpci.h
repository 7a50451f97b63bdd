/* All that the library asks of libpci, with its errors as outcomes: libpci itself exits on an
   error. libpci is loaded with the first handle and unloaded with the last. One handle is used by
   one thread at a time. */
#ifndef RIG_LIBPCI_H
#define RIG_LIBPCI_H

#include "base/base.h"

struct libpci;

/* libpci_scan makes *out the functions of this machine, found through /sys/bus/pci; free it with
   libpci_close.

   RIG_REFUSED  /sys/bus/pci cannot be read, err has libpci's reason; or libpci is not installed
   RIG_FAILED   memory ran out */
enum rig_status libpci_scan(struct libpci **out, struct rig_error *err);

/* libpci_next makes *out_bdf the next function of a scan; false after the last. */
bool libpci_next(struct libpci *pci, struct rig_bdf *out_bdf);

/* libpci_config reads the configuration space of a function of the scan into config, and is how
   many bytes the kernel let it read: 0, 64, 128 (a CardBus bridge), 256 or 4096. Without
   CAP_SYS_ADMIN the kernel ends it at byte 64 (drivers/pci/pci-sysfs.c, pci_read_config). */
size_t libpci_config(struct libpci *pci, struct rig_bdf bdf, uint8_t config[4096]);

/* libpci_names makes *out a handle that knows pci.ids; false where there is no database or no
   libpci. Free it with libpci_close. */
bool libpci_names(struct libpci **out);

/* libpci_name writes the vendor's and the device's name as lspci prints them together into text;
   false where libpci fails. */
bool libpci_name(struct libpci *pci, uint16_t vendor, uint16_t device, char *text, size_t bytes);

/* libpci_ids_path writes the path of the database of ids that libpci reads into path; false where
   it names none. */
bool libpci_ids_path(char *path, size_t bytes);

/* libpci_close frees all of it. NULL is allowed. */
void libpci_close(struct libpci *pci);

#endif
