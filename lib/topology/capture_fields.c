#include "topology/capture.h"

#define FUNCTION(member) offsetof(struct rig_function, member)
#define MACHINE(member) offsetof(struct rig_machine_facts, member)
#define BAR(member) offsetof(struct rig_bar, member)

static const struct capture_word header_types[] = {
    {"device", 0}, {"bridge", 1}, {"cardbus", 2}, {NULL, 0}};

static const struct capture_word pcie_types[] = {
    {"endpoint", RIG_PCIE_ENDPOINT},
    {"legacy-endpoint", RIG_PCIE_LEGACY_ENDPOINT},
    {"root-port", RIG_PCIE_ROOT_PORT},
    {"upstream-port", RIG_PCIE_UPSTREAM_PORT},
    {"downstream-port", RIG_PCIE_DOWNSTREAM_PORT},
    {"pcie-to-pci-bridge", RIG_PCIE_TO_PCI_BRIDGE},
    {"pci-to-pcie-bridge", RIG_PCI_TO_PCIE_BRIDGE},
    {"integrated-endpoint", RIG_PCIE_INTEGRATED_ENDPOINT},
    {"event-collector", RIG_PCIE_EVENT_COLLECTOR},
    {NULL, 0},
};

static const struct capture_word iommus[] = {{"none", RIG_IOMMU_NONE},
                                             {"identity", RIG_IOMMU_IDENTITY},
                                             {"translate", RIG_IOMMU_TRANSLATE},
                                             {NULL, 0}};

static const struct capture_word on_off[] = {{"off", 0}, {"on", 1}, {NULL, 0}};
static const struct capture_word no_yes[] = {{"no", 0}, {"yes", 1}, {NULL, 0}};

static const struct capture_word bar_flags[] = {{"memory", 0},
                                                {"io", RIG_BAR_IO},
                                                {"64-bit", RIG_BAR_64BIT},
                                                {"prefetchable", RIG_BAR_PREFETCHABLE},
                                                {"virtual", RIG_BAR_VIRTUAL},
                                                {NULL, 0}};

const struct capture_word capture_sources[] = {
    {"live", RIG_SOURCE_LIVE},
    {"capture", RIG_SOURCE_CAPTURE},
    {"lspci-hex", RIG_SOURCE_LSPCI_HEX},
    {"lspci-text", RIG_SOURCE_LSPCI_TEXT},
    {"lspci-tree", RIG_SOURCE_LSPCI_TREE},
    {"sysfs", RIG_SOURCE_SYSFS},
    {NULL, 0},
};

const struct capture_field capture_machine_fields[] = {
    {"command_line", MACHINE(command_line), CAPTURE_TEXT, 0, 0, NULL},
    {"cpu_family", MACHINE(cpu_family), CAPTURE_NUMBER, 0, 0xffff, NULL},
    {"cpu_name", MACHINE(cpu_name), CAPTURE_TEXT, 0, 0, NULL},
    {"cpu_vendor", MACHINE(cpu_vendor), CAPTURE_TEXT, 0, 0, NULL},
    {"host", MACHINE(host), CAPTURE_TEXT, 0, 0, NULL},
    {"kernel", MACHINE(kernel), CAPTURE_TEXT, 0, 0, NULL},
    {"memory_base", MACHINE(memory_base), CAPTURE_HEX, 0, UINT64_MAX, NULL},
    {"memory_bytes", MACHINE(memory_bytes), CAPTURE_SIZE, 0, UINT64_MAX, NULL},
    {"p2pdma", MACHINE(p2pdma), CAPTURE_WORD, 0, 1, on_off},
    {"page_size", MACHINE(page_size), CAPTURE_SIZE, 0, UINT64_MAX, NULL},
    {"remote", MACHINE(remote), CAPTURE_WORD, 0, 1, no_yes},
    {NULL, 0, CAPTURE_NUMBER, 0, 0, NULL},
};

const struct capture_field capture_function_fields[] = {
    {"acs_capability", FUNCTION(acs_capability), CAPTURE_HEX, 4, 0xffff, NULL},
    {"acs_control", FUNCTION(acs_control), CAPTURE_HEX, 4, 0xffff, NULL},
    {"ats", FUNCTION(pasid_or_ats), CAPTURE_WORD, 0, 1, no_yes},
    {"class", FUNCTION(class_code), CAPTURE_HEX, 6, 0xffffff, NULL},
    {"command", FUNCTION(command), CAPTURE_HEX, 4, 0xffff, NULL},
    {"config_bytes", FUNCTION(config_bytes), CAPTURE_NUMBER, 0, 4096, NULL},
    {"device", FUNCTION(device), CAPTURE_HEX, 4, 0xffff, NULL},
    {"dma_mask_bits", FUNCTION(dma_mask_bits), CAPTURE_NUMBER, 0, 64, NULL},
    {"driver", FUNCTION(driver), CAPTURE_TEXT, 0, 0, NULL},
    {"header_type", FUNCTION(header_type), CAPTURE_WORD, 0, 0x7f, header_types},
    {"iommu_group", FUNCTION(iommu_group), CAPTURE_NUMBER, 0, UINT64_MAX, NULL},
    {"iommu_type", FUNCTION(iommu_type), CAPTURE_TEXT, 0, 0, NULL},
    {"link_speed", FUNCTION(link_speed), CAPTURE_SPEED, 0, 99999, NULL},
    {"link_width", FUNCTION(link_width), CAPTURE_NUMBER, 0, 63, NULL},
    {"max_speed", FUNCTION(max_speed), CAPTURE_SPEED, 0, 99999, NULL},
    {"max_width", FUNCTION(max_width), CAPTURE_NUMBER, 0, 63, NULL},
    {"numa_node", FUNCTION(numa_node), CAPTURE_NUMBER, 0, UINT32_MAX, NULL},
    {"pcie_type", FUNCTION(pcie_type), CAPTURE_WORD, 0, 15, pcie_types},
    {"primary", FUNCTION(primary), CAPTURE_HEX, 2, 0xff, NULL},
    {"revision", FUNCTION(revision), CAPTURE_HEX, 2, 0xff, NULL},
    {"secondary", FUNCTION(secondary), CAPTURE_HEX, 2, 0xff, NULL},
    {"subordinate", FUNCTION(subordinate), CAPTURE_HEX, 2, 0xff, NULL},
    {"subsystem_device", FUNCTION(subsystem_device), CAPTURE_HEX, 4, 0xffff, NULL},
    {"subsystem_vendor", FUNCTION(subsystem_vendor), CAPTURE_HEX, 4, 0xffff, NULL},
    {"vendor", FUNCTION(vendor), CAPTURE_HEX, 4, 0xffff, NULL},
    {"vf_count", FUNCTION(vf_count), CAPTURE_NUMBER, 0, 0xffff, NULL},
    {"vf_offset", FUNCTION(vf_offset), CAPTURE_NUMBER, 0, 0xffff, NULL},
    {"vf_stride", FUNCTION(vf_stride), CAPTURE_NUMBER, 0, 0xffff, NULL},
    {NULL, 0, CAPTURE_NUMBER, 0, 0, NULL},
};

const struct capture_field capture_gpu_memory = {
    "gpu_memory", FUNCTION(gpu_memory), CAPTURE_SIZE, 0, UINT64_MAX, NULL};
const struct capture_field capture_iommu = {"iommu", FUNCTION(iommu), CAPTURE_WORD, 0, 2, iommus};

const struct capture_field capture_bar_fields[] = {
    {"bus", BAR(bus), CAPTURE_HEX, 0, UINT64_MAX, NULL},
    {"cpu", BAR(cpu), CAPTURE_HEX, 0, UINT64_MAX, NULL},
    {"flags", BAR(flags), CAPTURE_FLAGS, 0, 0xf, bar_flags},
    {"resizable", BAR(resizable), CAPTURE_SIZES, 0, UINT64_MAX, NULL},
    {"size", BAR(size), CAPTURE_SIZE, 0, UINT64_MAX, NULL},
    {NULL, 0, CAPTURE_NUMBER, 0, 0, NULL},
};

const struct capture_field capture_address = {"address", BAR(bus),   CAPTURE_HEX,
                                              0,         UINT64_MAX, NULL};

const struct capture_field capture_window_fields[] = {
    {"base", offsetof(struct rig_window, base), CAPTURE_HEX, 0, UINT64_MAX, NULL},
    {"limit", offsetof(struct rig_window, limit), CAPTURE_HEX, 0, UINT64_MAX, NULL},
    {NULL, 0, CAPTURE_NUMBER, 0, 0, NULL},
};

const struct capture_window capture_windows[CAPTURE_WINDOWS] = {
    {"io_window", FUNCTION(io)},
    {"memory_window", FUNCTION(memory)},
    {"prefetchable_window", FUNCTION(prefetchable)},
};
