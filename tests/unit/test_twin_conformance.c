/* The conformance suite on the twin: in this process's memory and in files, of functions addressed
   physically and behind an IOMMU. */
#include "builder.h"
#include "machine_conformance.h"
#include "space.h"

#include "machine/twin.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MACHINE(iommu)                                                                             \
    "00:01.0 rp 01-04\n"                                                                           \
    "01:00.0 up 02-04\n"                                                                           \
    "02:00.0 down 03-03\n"                                                                         \
    "02:01.0 down 04-04\n"                                                                         \
    "03:00.0 ep gpu=64/32 " iommu "\n"                                                             \
    "04:00.0 ep gpu=16/16 " iommu "\n"

static enum rig_status open_twin(const char *text, const char *directory,
                                 struct rig_machine **out_machine, struct rig_error *err)
{
    struct rig_topology *t = build_machine(text, "AMD:25");
    enum rig_status status = rig_twin_open(t, directory, out_machine, err);
    rig_topology_free(t);
    return status;
}

static enum rig_status open_physical(struct rig_machine **out_machine, struct rig_error *err)
{
    return open_twin(MACHINE(""), NULL, out_machine, err);
}

static enum rig_status open_translated(struct rig_machine **out_machine, struct rig_error *err)
{
    return open_twin(MACHINE("iommu=translate"), NULL, out_machine, err);
}

/* The directory of the tests that run now; one at a time. */
static char directory[64];

static void empty(void)
{
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
}

static enum rig_status open_in_files(struct rig_machine **out_machine, struct rig_error *err)
{
    return open_twin(MACHINE(""), directory, out_machine, err);
}

static void close_twin(struct rig_machine *m)
{
    assert_int_equal(rig_machine_close(m, NULL), RIG_OK);
}

static void close_in_files(struct rig_machine *m)
{
    close_twin(m);
    empty();
}

static bool dma(struct rig_machine *m, int function, rig_bus_address at, void *data, size_t bytes,
                bool write)
{
    char name[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(m->topology, function)->bdf, name);
    return (write ? rig_twin_write(m, name, at, data, bytes, NULL)
                  : rig_twin_read(m, name, at, data, bytes, NULL)) == RIG_OK;
}

static void every_test_of_the_suite_was_run_to_its_end_on_one_of_the_twins(void **state)
{
    (void)state;
    const char *test = conformance_unjudged();
    if (test)
        fail_msg("%s was skipped by every run", test);
}

int main(void)
{
    const struct conformance twin = {
        .name = "a twin, physical",
        .function = "0000:03:00.0",
        .other = "0000:04:00.0",
        .bridge = "0000:02:00.0",
        .bar = 0,
        .space = TEST_SPACE,
        .memory_bytes = UINT64_C(8) << 30,
        .open = open_physical,
        .close = close_twin,
        .dma = dma,
        .leave_bus = twin_set_gone,
    };
    struct conformance translated = twin, files = twin;
    translated.name = "a twin, behind an IOMMU";
    translated.open = open_translated;
    files.name = "a twin, in files";
    files.open = open_in_files;
    files.close = close_in_files;
    snprintf(directory, sizeof directory, "/tmp/rigmem-twin-XXXXXX");
    if (!mkdtemp(directory))
        return 1;
    int failed = conformance_run(&twin) + conformance_run(&translated) + conformance_run(&files);
    rmdir(directory);
    const struct CMUnitTest whole[] = {
        cmocka_unit_test(every_test_of_the_suite_was_run_to_its_end_on_one_of_the_twins),
    };
    return failed + cmocka_run_group_tests(whole, NULL, NULL);
}
