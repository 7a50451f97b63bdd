/* A libpci of our own, for what the real one does rarely: tests/unit/test_libpci.c builds and loads
   it. FAKE_LIBPCI is what fails: any of the words below. FAKE_IDS is the name of its database of
   ids. Four functions in domain 7ffe, listed in no order, each with the first 64 bytes of
   configuration space. */
#include <pci/pci.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fails(const char *word)
{
    const char *what = getenv("FAKE_LIBPCI");
    return what && strstr(what, word);
}

struct pci_access *pci_alloc(void)
{
    struct pci_access *access = fails("alloc") ? NULL : calloc(1, sizeof *access);
    if (access && getenv("FAKE_IDS"))
        access->id_file_name = getenv("FAKE_IDS");
    return access;
}

void pci_init(struct pci_access *access)
{
    access->warning("a warning that nobody needs");
    if (fails("init"))
        access->error("Cannot find any working access method.");
}

static struct pci_dev *add(struct pci_access *access, u8 bus, u8 device, u8 function)
{
    struct pci_dev *dev = calloc(1, sizeof *dev);
    if (!dev)
        abort();
    dev->domain = 0x7ffe;
    dev->bus = bus;
    dev->dev = device;
    dev->func = function;
    dev->next = access->devices;
    access->devices = dev;
    return dev;
}

void pci_scan_bus(struct pci_access *access)
{
    if (fails("scan"))
        access->error("Cannot open %s", "/sys/bus/pci/devices");
    add(access, 0, 1, 0)->access = access;
    add(access, 1, 0, 0)->access = access;
    add(access, 0, 1, 1)->access = access;
    add(access, 0, 0, 0)->access = access;
}

int pci_read_block(struct pci_dev *dev, int pos, u8 *buf, int len)
{
    static const u8 endpoint[16] = {0x34, 0x12, 0x78, 0x56, 0, 0, 0, 0, 1, 0, 0, 0xff};
    if (fails("read"))
        dev->access->error("cannot read");
    if (pos > 0 && dev->bus != 1)
        return 0;
    memset(buf, 0, (size_t)len);
    if (pos == 0)
        memcpy(buf, endpoint, sizeof endpoint);
    return 1;
}

int pci_set_param(struct pci_access *acc, char *param, char *val)
{
    (void)acc;
    (void)param;
    (void)val;
    return 0;
}

int pci_load_name_list(struct pci_access *access)
{
    if (fails("load"))
        access->error("cannot load");
    return !fails("empty");
}

#ifndef LACKS_NAMES
char *pci_lookup_name(struct pci_access *a, char *buf, int size, int flags, ...)
{
    static char too_large[] = "<pci_lookup_name: buffer too small>";
    (void)flags;
    if (fails("name"))
        a->error("cannot name");
    if (fails("long"))
        return too_large;
    snprintf(buf, (size_t)size, "A Card By Name");
    return buf;
}
#endif

void pci_cleanup(struct pci_access *access)
{
    struct pci_dev *next;
    for (struct pci_dev *dev = access->devices; dev; dev = next) {
        next = dev->next;
        free(dev);
    }
    void (*error)(char *, ...) = access->error;
    free(access);
    if (fails("cleanup"))
        error("cannot clean up");
}
