/* What is said of texts that hold no tree, and of `disable_acs_redir=` lists. The functions are
   invented; Linux's sentences are those of drivers/pci/p2pdma.c, the matrices' words nvidia-smi's.
 */
#include "topology/acs_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rig_error refused(const char *text)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    char *data = malloc(strlen(text) + 1);
    memcpy(data, text, strlen(text));
    assert_int_equal(read_lspci("text", data, strlen(text), &t, &err), RIG_BAD_INPUT);
    assert_null(t);
    free(data);
    return err;
}

/* The text is refused; `why` begins and `hint` is what is said. */
static void says(const char *text, const char *why, const char *hint)
{
    struct rig_error err = refused(text);
    if (strncmp(err.why, why, strlen(why)) != 0)
        fail_msg("%s", err.why);
    if (strcmp(err.hint, hint) != 0)
        fail_msg("%s", err.hint);
}

#define LIST "a plain list of functions shows no tree"
#define NONE "it shows no PCI function"
#define LOOSE "lines of functions without the functions they are of"
#define PIECE "a piece of a tree without the root bus above it"
#define MATRIX "a matrix of paths names no functions"

static void linuxs_answer_in_its_log_is_passed_on(void **state)
{
    (void)state;
    says("03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Ellesmere "
         "[Radeon RX 470/480/570/570X/580/580X/590] (rev e7)\n"
         "04:00.0 3D controller: Two\n"
         "[   12.5] amdgpu 0000:03:00.0: cannot be used for peer-to-peer DMA as the client and "
         "provider (0000:04:00.0) do not share an upstream bridge or whitelisted host bridge\n",
         LIST,
         "Linux's log in it says no for 0000:03:00.0 -> 0000:04:00.0: no bridge is above both with "
         "nothing that redirects, and neither an AMD CPU of family 23 or later nor Linux's list of "
         "host bridges makes up for it");
    says("nvme 0001:03:00.0: cannot be used for peer-to-peer DMA as the client and provider are\n",
         NONE, "");
    says("nvme: cannot be used for peer-to-peer DMA as the client and provider (0000:04:00.0)\n",
         NONE, "");
}

static void a_line_of_the_log_below_a_long_list_is_no_part_of_its_last_name(void **state)
{
    (void)state;
    struct rig_error err = refused(
        "04:00.0 VGA compatible controller: A Vendor Whose Name Is Long, Incorporated [AVWNIL] A "
        "Device Whose Name Is Longer\n"
        "Jan  1 00:00:00 host kernel: nvme 0000:03:00.0: cannot be used for peer-to-peer DMA as "
        "the client and provider (0000:04:00.0) do not share an upstream bridge\n");
    assert_non_null(strstr(err.hint, "says no for 0000:03:00.0 -> 0000:04:00.0"));
}

static void functions_that_redirect_by_the_text_are_named_in_one_parameter(void **state)
{
    (void)state;
    says("ACS redirect is enabled on: 0000:0d:01.0, 0b:00.0 (0000:11:01.0), 0000:0d:01.0.\n"
         "other 0000:00:01.0\n",
         NONE,
         "ACS redirects at 3 functions in it, cleared by "
         "pci=disable_acs_redir=0000:0d:01.0;0000:0b:00.0;0000:11:01.0");
    says("nvme 0000:03:00.0: ACS redirect is set between the client and provider (0000:04:00.0)\n"
         "nvme 0000:03:00.0: to disable ACS redirect for this path, add the kernel parameter: "
         "pci=disable_acs_redir=0000:01:00.0;0000:01:08.0\n",
         NONE,
         "ACS redirects at 2 functions in it, cleared by "
         "pci=disable_acs_redir=0000:01:00.0;0000:01:08.0");
    says("to disable ACS redirect: do what?\nACS redirect is set on 00:01.0\nACS redirect enabled: "
         "00:02.0\n",
         NONE,
         "ACS redirects at 2 functions in it, cleared by "
         "pci=disable_acs_redir=0000:00:01.0;0000:00:02.0");
    says("0000:0d:01.0 ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir- UpstreamFwd+\n"
         "0000:0d:02.0 ACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+\n"
         "0000:0d:03.0 ACSCap: SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+\n"
         "0000:0d:04.0 ACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir+ UpstreamFwd+\n",
         NONE,
         "ACS redirects at 2 functions in it, cleared by "
         "pci=disable_acs_redir=0000:0d:01.0;0000:0d:04.0");
}

static void what_looks_like_a_function_and_is_none_is_not_named(void **state)
{
    (void)state;
    says("ACS redirect is enabled on: a00:01.0x 00:20.0 00:01.8 1.2.3.4 12:30:45 10000:00:01.0: "
         "fe80::1 x00:02.0 00:03.0:\n",
         NONE,
         "ACS redirects at 2 functions in it, cleared by "
         "pci=disable_acs_redir=10000:00:01.0;0000:00:03.0");
}

static void more_functions_than_a_hint_holds_are_counted(void **state)
{
    (void)state;
    struct rig_error err = refused("ACS redirect is enabled on: 00:01.0 00:02.0 00:03.0 00:04.0 "
                                   "00:05.0 00:06.0 00:07.0 00:08.0 00:09.0 00:0a.0 00:0b.0 "
                                   "00:0c.0 00:0d.0 00:0e.0\n");
    assert_non_null(strstr(err.hint, "ACS redirects at more than 12 functions"));
    assert_non_null(strstr(err.hint, ";0000:00:0c.0"));
    assert_null(strstr(err.hint, "00:0d.0"));
}

static void a_list_with_control_words_names_those_that_redirect(void **state)
{
    (void)state;
    says("00:01.0 PCI bridge: Intel Corporation Thing\n"
         "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-\n"
         "00:02.0 PCI bridge: Intel Corporation Thing\n"
         "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl-\n",
         LIST, "ACS redirects at 1 functions in it, cleared by pci=disable_acs_redir=0000:00:01.0");
}

static void a_host_bridge_told_by_its_ids_is_looked_up(void **state)
{
    (void)state;
    says("pci 0000:00:01.0: Host bridge not in P2PDMA whitelist: 8086:4c43\n", NONE,
         "host bridge 8086:4c43 is not on Linux's list");
    says("host bridge 0000:17:00.0 (8086:2030): whitelisted\n", NONE,
         "host bridge 8086:2030 is on Linux's list");
    says("host bridge (1ae0:0001)\n", NONE, "host bridge 1ae0:0001 is on Linux's list");
    says("ost bridge 1ae0:0001\n", NONE, "host bridge 1ae0:0001 is on Linux's list");
    says("ost bridge", NONE, "");
    says("ACS redirect is enabled on 00:01.0\nhost bridge 8086:4c43\n", NONE,
         "ACS redirects at 1 functions in it, cleared by pci=disable_acs_redir=0000:00:01.0; host "
         "bridge 8086:4c43 is not on Linux's list, so what is redirected to it goes no further");
    says("host bridge 8086 and 8086:x and 8086:12345\n", NONE, "");
    says("the host bridge 0000:00:00.0 of 18086:4c43 or 8086:4c43:1\n", NONE, "");
}

static void a_matrix_through_host_bridges_asks_for_the_cpu_and_the_iommu(void **state)
{
    (void)state;
    static const char text[] = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"
                               "GPU0\t X \tPHB\tPXB\t0-15\n"
                               "GPU1\tPHB\t X \tPIX\t0-15\n"
                               "NIC0\tPXB\tPIX\t X \n";
    says(text, MATRIX,
         "PHB leads through a host bridge, where Linux lets requests pass on AMD CPUs of family 23 "
         "or later, redirected or not; this library's answer hangs on the IOMMU: check that");
    char named[512];
    snprintf(named, sizeof named, "both below AMD Starship/Matisse GPP bridges, ACSCtl: 0x001d\n%s",
             text);
    says(named, LOOSE,
         "PHB leads through a host bridge, where Linux lets requests pass on AMD CPUs of family 23 "
         "or later (it names one of family 23), redirected or not; this library's answer hangs on "
         "the IOMMU: check that");
    says("Turin, 1 May\nAMD Genoa\nAMD Family 17h\nGPU0\t X \tNODE\n", MATRIX,
         "NODE leads through a host bridge, where Linux lets requests pass on AMD CPUs of family "
         "23 or later (it names one of family 25), redirected or not; this library's answer hangs "
         "on the IOMMU: check that");
    says("GPU0\tX\tNV12\tPIX\nGPU1\tNV12\tX\tPIX\n", MATRIX, "");
    says("GPU0 is a card\nGPU1\n", NONE, "");
}

static void a_matrix_of_what_the_driver_allows_is_no_fact_of_pcie(void **state)
{
    (void)state;
    says(" \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n", MATRIX,
         "CNS, GNS, TNS and DR are what a driver allows, no facts of PCIe");
}

static void a_piece_of_a_tree_lacks_its_root_bus(void **state)
{
    (void)state;
    says("-01.0-[01-18]----00.0-[02-18]--+- ... -[0e]----00.0  Thing\n", PIECE, "");
    says("+-[x is no tree\n|-[y]--- nor this\n", PIECE, "");
    says("+-[x is no tree\n", NONE, "");
    says("           +-01.1-[01]----00.0  Thing\n           \\-01.2-[02]----00.0  Thing\n", PIECE,
         "");
}

static void capabilities_without_their_functions_are_said_to_be_so(void **state)
{
    (void)state;
    says("\tCapabilities: [148 v1] Access Control Services\n", LOOSE, "");
    says("    ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n", LOOSE, "");
}

static void sentences_that_do_not_fit_a_hint_are_left_out(void **state)
{
    (void)state;
    char text[2048];
    size_t n = (size_t)sprintf(text, "ACS redirect is enabled on:");
    for (int i = 0; i < 12; i++)
        n += (size_t)sprintf(text + n, " 10000000:%02x:00.0", i);
    sprintf(text + n, "\npci=disable_acs_redir=00:01.0,00:02.0\nhost bridge 8086:4c43\n"
                      "GPU0\tX\tPHB\n");
    struct rig_error err = refused(text);
    assert_non_null(strstr(err.hint, "a comma ends disable_acs_redir=: Linux takes 1"));
    assert_non_null(strstr(err.hint, ";10000000:0b:00.0"));
    assert_null(strstr(err.hint, "PHB"));
}

/* ---- lists */

static void list(const char *text, const char *expected)
{
    char out[ACS_LIST_TEXT] = "";
    bool mistaken = acs_list_mistake(text, strlen(text), out);
    if (mistaken != (*expected != '\0') || strcmp(out, expected) != 0)
        fail_msg("%s: %s", text, out);
}

static void commas_between_functions_end_the_option(void **state)
{
    (void)state;
    list("quiet pci=disable_acs_redir=0000:0c:10.0,0000:0a:00.0,0a:04.0 ro",
         "a comma ends disable_acs_redir=: Linux takes 1 of its 3 functions; separate them by "
         "semicolons: pci=disable_acs_redir=0000:0c:10.0;0000:0a:00.0;0a:04.0");
    list("pci=realloc,disable_acs_redir=00:01.0/00.0;00:02.0,pci:8086:2030,noaer",
         "a comma ends disable_acs_redir=: Linux takes 2 of its 3 functions; separate them by "
         "semicolons: pci=disable_acs_redir=00:01.0/00.0;00:02.0;pci:8086:2030");
    /* the second list of the line is the mistaken one */
    list("pci=disable_acs_redir=00:01.0 pci=disable_acs_redir=00:02.0,00:03.0",
         "a comma ends disable_acs_redir=: Linux takes 1 of its 2 functions; separate them by "
         "semicolons: pci=disable_acs_redir=00:02.0;00:03.0");
}

static void other_lists_are_no_mistake(void **state)
{
    (void)state;
    list("", "");
    list("pci=disable_acs_redir=0000:0c:10.0;0000:0a:00.0", "");
    list("pci=disable_acs_redir=0000:0c:10.0,realloc,big_root_window", "");
    list("pci=disable_acs_redir=", "");
    list("pci=disable_acs_redir=,0000:0a:00.0", "");
    list("pci=disable_acs_redir=0000:0a,0000:0b", "");
    list("pci=disable_acs_redir=0000:0c:10.0,resource_alignment=20@00:1f.0", "");
}

static void a_long_list_is_counted_and_not_printed(void **state)
{
    (void)state;
    char text[800] = "pci=disable_acs_redir=00:01.0";
    for (int i = 0; i < 40; i++)
        strcat(text, ",0000:0c:10.0");
    list(text, "a comma ends disable_acs_redir=: Linux takes 1 of its 41 functions; separate them "
               "by semicolons");
}

/* ---- machines */

static struct rig_topology *machine(const char *text)
{
    struct rig_topology *t = NULL;
    struct rig_error err = {.status = RIG_OK};
    if (read_lspci("text", text, strlen(text), &t, &err) != RIG_OK)
        fail_msg("%s", err.why);
    return t;
}

#define TREE "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n\n"

static void warns(const char *text, const char *warning)
{
    struct rig_topology *t = machine(text);
    assert_int_equal(rig_topology_warnings(t), *warning ? 1 : 0);
    if (*warning)
        assert_string_equal(rig_topology_warning(t, 0), warning);
    rig_topology_free(t);
}

static void a_machines_command_line_with_such_a_list_is_warned_of(void **state)
{
    (void)state;
#define MISTAKE                                                                                    \
    "a comma ends disable_acs_redir=: Linux takes 1 of its 2 functions; separate them by "         \
    "semicolons: pci=disable_acs_redir=00:01.0;00:02.0"
    warns(TREE "Command line: ro pci=disable_acs_redir=00:01.0,00:02.0\n",
          "the kernel's command line: " MISTAKE);
    warns(TREE "I booted with pci=disable_acs_redir=00:01.0,00:02.0\n", "the text: " MISTAKE);
    warns(TREE "Command line: ro pci=disable_acs_redir=00:01.0;00:02.0\n", "");
}

static void an_option_that_linux_never_had_is_warned_of(void **state)
{
    (void)state;
    static const char warning[] =
        "the kernel's command line: Linux has no option pci=noacs; ACS redirects are cleared by "
        "pci=disable_acs_redir=";
    warns(TREE "Command line: ro pci=noacs quiet\n", warning);
    warns(TREE "Command line: ro pci=realloc,noacs\n", warning);
    warns(TREE "Command line: \"pci=noacs\"\n", warning);
    warns(TREE "Command line: pci=nomsi pci=noacs\n", warning);
    warns(TREE "Command line: ro pci=noacsx pci=realloc,xnoacs noacs xpci=noacs\n", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linuxs_answer_in_its_log_is_passed_on),
        cmocka_unit_test(a_line_of_the_log_below_a_long_list_is_no_part_of_its_last_name),
        cmocka_unit_test(functions_that_redirect_by_the_text_are_named_in_one_parameter),
        cmocka_unit_test(what_looks_like_a_function_and_is_none_is_not_named),
        cmocka_unit_test(more_functions_than_a_hint_holds_are_counted),
        cmocka_unit_test(a_list_with_control_words_names_those_that_redirect),
        cmocka_unit_test(a_host_bridge_told_by_its_ids_is_looked_up),
        cmocka_unit_test(a_matrix_through_host_bridges_asks_for_the_cpu_and_the_iommu),
        cmocka_unit_test(a_matrix_of_what_the_driver_allows_is_no_fact_of_pcie),
        cmocka_unit_test(a_piece_of_a_tree_lacks_its_root_bus),
        cmocka_unit_test(capabilities_without_their_functions_are_said_to_be_so),
        cmocka_unit_test(sentences_that_do_not_fit_a_hint_are_left_out),
        cmocka_unit_test(commas_between_functions_end_the_option),
        cmocka_unit_test(other_lists_are_no_mistake),
        cmocka_unit_test(a_long_list_is_counted_and_not_printed),
        cmocka_unit_test(a_machines_command_line_with_such_a_list_is_warned_of),
        cmocka_unit_test(an_option_that_linux_never_had_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
