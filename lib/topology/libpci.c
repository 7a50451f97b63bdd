#include "topology/libpci.h"

#include <dlfcn.h>
#include <pci/pci.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libpci.so.3"

/* libpci brings libudev and more along, which takes longer to load than most commands take: it is
   loaded when it is first asked. These are its functions of the same names. */
struct calls {
    struct pci_access *(*alloc)(void);
    void (*init)(struct pci_access *access);
    void (*cleanup)(struct pci_access *access);
    void (*scan_bus)(struct pci_access *access);
    int (*read_block)(struct pci_dev *dev, int at, u8 *bytes, int count);
    int (*set_param)(struct pci_access *access, char *name, char *value);
    int (*load_name_list)(struct pci_access *access);
    char *(*lookup_name)(struct pci_access *access, char *text, int bytes, int flags, ...);
};

struct libpci {
    void *library;
    struct calls call;
    struct pci_access *access;
    struct pci_dev *next, *at; /* `at`: whose configuration space was read last */
};

/* Which version of a function with several: that of the header's struct pci_access. */
#define INIT_VERSION "LIBPCI_3.5"

static bool find_calls(struct libpci *pci)
{
    const struct {
        const char *name, *version;
        void *call;
    } calls[] = {
        {"pci_alloc", NULL, &pci->call.alloc},
        {"pci_init", INIT_VERSION, &pci->call.init},
        {"pci_cleanup", NULL, &pci->call.cleanup},
        {"pci_scan_bus", NULL, &pci->call.scan_bus},
        {"pci_read_block", NULL, &pci->call.read_block},
        {"pci_set_param", NULL, &pci->call.set_param},
        {"pci_load_name_list", NULL, &pci->call.load_name_list},
        {"pci_lookup_name", NULL, &pci->call.lookup_name},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(calls); i++) {
        void *found = calls[i].version ? dlvsym(pci->library, calls[i].name, calls[i].version)
                                       : dlsym(pci->library, calls[i].name);
        if (!found)
            return false;
        memcpy(calls[i].call, &found, sizeof found);
    }
    return true;
}

/* Loads libpci; false with *out_why, which dlerror keeps, where it is missing or too old. */
static bool load(struct libpci *pci, const char **out_why)
{
    pci->library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (pci->library && find_calls(pci))
        return true;
    *out_why = dlerror();
    return false;
}

/* Where libpci's error callback goes back to. The callback has no argument of its own, so the
   innermost guard of the thread is kept here. */
struct guard {
    jmp_buf back;
    char why[256];
};

static _Thread_local struct guard *innermost;

/* libpci's callback must not return. */
static void __attribute__((noreturn, format(printf, 1, 2))) on_error(char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(innermost->why, sizeof innermost->why, format, args);
    va_end(args);
    longjmp(innermost->back, 1);
}

static void __attribute__((format(printf, 1, 2))) on_warning(char *format, ...)
{
    (void)format;
}

/* Runs step(context); false, with guard->why, where libpci called its error callback. `step` holds
   nothing that a jump out of it would lose. */
static bool guarded(struct guard *guard, void (*step)(void *context), void *context)
{
    struct guard *outer = innermost;
    innermost = guard;
    bool done = setjmp(guard->back) == 0;
    if (done)
        step(context);
    innermost = outer;
    return done;
}

static void unload(struct libpci *pci)
{
    if (pci->library)
        dlclose(pci->library);
    free(pci);
}

static enum rig_status open_access(struct libpci **out, struct rig_error *err)
{
    struct libpci *pci = calloc(1, sizeof *pci);
    if (!pci)
        return rig_fail_memory(err);
    const char *why;
    if (!load(pci, &why)) {
        rig_fail(err, RIG_REFUSED, LIBRARY, "%s", why);
        rig_hint(err,
                 "install libpci 3.5 or later: the package libpci3, pciutils-libs or pciutils");
        unload(pci);
        return RIG_REFUSED;
    }
    pci->access = pci->call.alloc();
    if (!pci->access) {
        unload(pci);
        return rig_fail_memory(err);
    }
    pci->access->error = on_error;
    pci->access->warning = on_warning;
    pci->access->debug = on_warning;
    pci->access->id_lookup_mode = 0; /* no cache file in the home directory */
    *out = pci;
    return RIG_OK;
}

static void close_step(void *context)
{
    struct libpci *pci = context;
    pci->call.cleanup(pci->access);
}

void libpci_close(struct libpci *pci)
{
    if (!pci)
        return;
    struct guard guard;
    guarded(&guard, close_step, pci);
    unload(pci);
}

static void scan_step(void *context)
{
    struct libpci *pci = context;
    pci->access->method = PCI_ACCESS_SYS_BUS_PCI;
    pci->call.init(pci->access);
    pci->call.scan_bus(pci->access);
    pci->next = pci->access->devices;
}

enum rig_status libpci_scan(struct libpci **out, struct rig_error *err)
{
    struct libpci *pci;
    enum rig_status status = open_access(&pci, err);
    if (status != RIG_OK)
        return status;
    struct guard guard;
    if (!guarded(&guard, scan_step, pci)) {
        libpci_close(pci);
        rig_fail(err, RIG_REFUSED, "/sys/bus/pci", "%s", guard.why);
        rig_hint(err, "the machine needs a mounted /sys; a machine without PCI has none of this");
        return RIG_REFUSED;
    }
    *out = pci;
    return RIG_OK;
}

bool libpci_next(struct libpci *pci, struct rig_bdf *out_bdf)
{
    struct pci_dev *dev = pci->next;
    if (!dev)
        return false;
    pci->next = dev->next;
    *out_bdf = (struct rig_bdf){(uint32_t)dev->domain, dev->bus, dev->dev, dev->func};
    return true;
}

struct config_request {
    const struct libpci *pci;
    struct pci_dev *dev;
    uint8_t *config;
    size_t bytes;
};

static void config_step(void *context)
{
    static const int ends[] = {64, 128, 256, 4096};
    struct config_request *r = context;
    int at = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(ends); i++) {
        if (!r->pci->call.read_block(r->dev, at, r->config + at, ends[i] - at))
            break;
        at = ends[i];
        r->bytes = (size_t)at;
    }
}

static bool is_at(const struct pci_dev *dev, struct rig_bdf bdf)
{
    return (uint32_t)dev->domain == bdf.domain && dev->bus == bdf.bus && dev->dev == bdf.device &&
           dev->func == bdf.function;
}

/* Functions are mostly asked for in the order of the list: the search goes on from the last one. */
static struct pci_dev *find(struct libpci *pci, struct rig_bdf bdf)
{
    struct pci_dev *dev = pci->at ? pci->at->next : NULL;
    if (dev && is_at(dev, bdf))
        return dev;
    for (dev = pci->access->devices; dev; dev = dev->next)
        if (is_at(dev, bdf))
            return dev;
    return NULL;
}

size_t libpci_config(struct libpci *pci, struct rig_bdf bdf, uint8_t config[4096])
{
    struct config_request request = {.pci = pci, .dev = find(pci, bdf), .config = config};
    if (!request.dev)
        return 0;
    pci->at = request.dev;
    struct guard guard;
    return guarded(&guard, config_step, &request) ? request.bytes : 0;
}

struct names_request {
    const struct libpci *pci;
    bool loaded;
};

static void names_step(void *context)
{
    struct names_request *r = context;
    char parameter[] = "hwdb.disable", value[] = "1";
    (void)r->pci->call.set_param(r->pci->access, parameter, value);
    r->loaded = r->pci->call.load_name_list(r->pci->access) != 0;
}

bool libpci_names(struct libpci **out)
{
    struct libpci *pci;
    if (open_access(&pci, NULL) != RIG_OK)
        return false;
    struct names_request request = {.pci = pci};
    struct guard guard;
    if (!guarded(&guard, names_step, &request) || !request.loaded) {
        libpci_close(pci);
        return false;
    }
    *out = pci;
    return true;
}

struct name_request {
    const struct libpci *pci;
    uint16_t vendor, device;
    char *text;
    int bytes;
    const char *found;
};

static void name_step(void *context)
{
    struct name_request *r = context;
    r->found =
        r->pci->call.lookup_name(r->pci->access, r->text, r->bytes,
                                 PCI_LOOKUP_VENDOR | PCI_LOOKUP_DEVICE, r->vendor, r->device);
}

bool libpci_name(struct libpci *pci, uint16_t vendor, uint16_t device, char *text, size_t bytes)
{
    struct name_request request = {
        .pci = pci, .vendor = vendor, .device = device, .text = text, .bytes = (int)bytes};
    struct guard guard;
    /* libpci answers a name that does not fit with a text of its own, outside the buffer. */
    return guarded(&guard, name_step, &request) && request.found == text;
}

bool libpci_ids_path(char *path, size_t bytes)
{
    struct libpci *pci;
    if (open_access(&pci, NULL) != RIG_OK)
        return false;
    const char *name = pci->access->id_file_name;
    bool fits = name && (size_t)snprintf(path, bytes, "%s", name) < bytes;
    libpci_close(pci);
    return fits;
}
