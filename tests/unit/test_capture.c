/* The capture format of rigmem-machine(5): what is written, what is read, and what is refused. */
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rig_topology *read_text(const char *text)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_capture("m.json", text, strlen(text), &t, &err) != RIG_OK)
        fail_msg("%s: %s", err.where, err.why);
    return t;
}

static char *write_text(const struct rig_topology *t, bool redact)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(rig_topology_capture(t, redact, &text, &bytes, NULL), RIG_OK);
    assert_int_equal(strlen(text), bytes);
    return text;
}

/* Every shape a fact can have, and every key. The functions: a root port, a GPU below it, a physical
   function with a virtual one, a function of which nothing is known. */
static const char everything[] =
    "{\"format\":\"rigmem-machine\",\"version\":1,\"source\":\"live\",\"whole\":false,"
    "\"machine\":{\"host\":\"lab7\",\"cpu_vendor\":\"AuthenticAMD\",\"cpu_family\":25,"
    "\"cpu_name\":{\"value\":\"a name\",\"assumed\":\"a guess\"},\"kernel\":\"6.1.0-18-amd64\","
    "\"command_line\":\"root=/dev/sda1 iommu=pt pci=disable_acs_redir=0000:00:01.0 quiet\","
    "\"p2pdma\":\"off\",\"page_size\":4096,\"memory_base\":\"0x100000000\","
    "\"memory_bytes\":\"64GiB\",\"remote\":\"no\"},"
    "\"warnings\":[\"first\",\"second\"],"
    "\"functions\":["
    "{\"address\":\"0000:00:01.0\",\"name\":\"a port\",\"parent\":\"root\",\"vendor\":\"0x1022\","
    "\"device\":\"0x1483\",\"class\":\"0x060400\",\"revision\":\"0x01\",\"header_type\":\"bridge\","
    "\"command\":\"0x0006\",\"command_mask\":\"0x0007\",\"config_bytes\":4096,"
    "\"pcie_type\":\"root-port\",\"link_speed\":\"16 GT/s\",\"link_width\":16,"
    "\"max_speed\":\"2.5 GT/s\",\"max_width\":{\"unknown\":\"not read\"},"
    "\"acs_capability\":\"0x005f\",\"acs_control\":{\"value\":\"0x001d\",\"assumed\":\"me\"},"
    "\"ats\":false,\"primary\":\"0x00\",\"secondary\":\"0x01\",\"subordinate\":\"0x02\","
    "\"io_window\":false,\"memory_window\":\"0xe0000000-0xe1ffffff\","
    "\"prefetchable_window\":{\"base\":\"0x10000000000\",\"limit\":{\"absent\":\"odd\"}},"
    "\"bars\":{},\"iommu\":\"none\",\"numa_node\":false,\"driver\":\"pcieport\"},"
    "{\"address\":\"0000:01:00.0\",\"parent\":\"0000:00:01.0\",\"gpu\":true,\"vendor\":\"0x1002\","
    "\"device\":{\"value\":\"0x744c\",\"assumed\":\"its name\"},\"subsystem_vendor\":\"0x1da2\","
    "\"subsystem_device\":\"0x0001\",\"class\":\"0x030000\",\"header_type\":\"device\","
    "\"pcie_type\":\"endpoint\",\"acs_capability\":false,\"acs_control\":false,\"ats\":\"yes\","
    "\"iommu_group\":14,\"iommu_type\":\"DMA-FQ\",\"driver\":false,\"dma_mask_bits\":44,"
    "\"gpu_memory\":\"24GiB\",\"bars\":{"
    "\"0\":{\"flags\":\"memory 64-bit prefetchable\",\"address\":\"0x10000000000\","
    "\"size\":\"32GiB\",\"resizable\":[\"256MiB\",\"32GiB\"]},"
    "\"2\":{\"flags\":\"memory\",\"bus\":\"0xe0000000\",\"cpu\":\"0x40e0000000\",\"size\":4096,"
    "\"resizable\":false},"
    "\"4\":{\"flags\":\"io\",\"bus\":false,\"size\":256},\"5\":null}},"
    "{\"address\":\"0000:02:00.0\",\"parent\":{\"value\":\"0000:00:01.0\",\"assumed\":\"a guess\"},"
    "\"vf_count\":1,\"vf_offset\":128,\"vf_stride\":{\"value\":1,\"from\":\"the data sheet\"}},"
    "{\"address\":\"0000:02:10.0\",\"physical\":\"0000:02:00.0\",\"bars\":{\"0\":"
    "{\"flags\":\"memory virtual\"}}},"
    "{\"address\":\"10000:00:00.0\",\"parent\":\"pci10000:e0\"},"
    "{\"address\":\"10001:00:00.0\",\"parent\":null}"
    "]}";

static void a_capture_of_a_capture_is_the_same_byte_for_byte(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    char *first = write_text(t, false);
    struct rig_topology *again = read_text(first);
    char *second = write_text(again, false);
    assert_string_equal(first, second);
    rig_topology_free(t);
    rig_topology_free(again);
    free(first);
    free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_of_a_capture_is_the_same_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
