/* What a source may be: its kind is found by content, and what holds no machine is refused in one
   sentence that says what it is. */
#include "topology/topology.h"

#include "fixture_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char capture[] = "{\"format\":\"rigmem-machine\",\"version\":1,\"functions\":"
                              "[{\"address\":\"0000:03:00.0\",\"parent\":\"root\"}]}";

/* A function whose ids are 8086:09a2, as `lspci -x` prints it. */
static const char hex[] = "00:00.0 System peripheral: Intel Corporation Ice Lake Memory Map/VT-d\n"
                          "00: 86 80 a2 09 00 00 10 00 04 00 80 08 00 00 80 00\n"
                          "10: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
                          "20: 00 00 00 00 00 00 00 00 00 00 00 00 86 80 00 00\n"
                          "30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n\n";

static const char tree[] = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n";

static enum rig_source kind_of(const char *text, size_t bytes)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (rig_topology_parse("x", text, bytes, &t, &err) != RIG_OK)
        fail_msg("%s: %s", err.where, err.why);
    enum rig_source kind = rig_topology_machine(t)->source;
    rig_topology_free(t);
    return kind;
}

static void the_kind_of_a_text_is_found_by_its_content(void **state)
{
    (void)state;
    assert_int_equal(kind_of(capture, strlen(capture)), RIG_SOURCE_CAPTURE);
    assert_int_equal(kind_of(hex, strlen(hex)), RIG_SOURCE_LSPCI_HEX);
    assert_int_equal(kind_of(tree, strlen(tree)), RIG_SOURCE_LSPCI_TREE);
    char marked[sizeof capture + 8];
    int n = snprintf(marked, sizeof marked, "\xef\xbb\xbf\n %s", capture);
    assert_int_equal(kind_of(marked, (size_t)n), RIG_SOURCE_CAPTURE);
}

/* A header of POSIX.1 ustar: the magic is at 257. */
static const char tar[512] = {[0] = 'f', 'i', 'l', 'e', [257] = 'u', 's', 't', 'a', 'r'};

static const char zeros[512] = "0";

static const struct {
    const char *text;
    size_t bytes;
    const char *why;
} refused[] = {
    {"", 0, "empty"},
    {" \n\t\n", 4, "empty"},
    {"\x1f\x8b\x08", 3, "gzip archive"},
    {"BZh9", 4, "bzip2 archive"},
    {"\x7f"
     "ELF",
     4, "a program"},
    {"\xff\xfe{\0", 4, "UTF-16"},
    {"00:00.0 \0", 9, "a NUL byte at offset 8"},
    {"<?xml version=\"1.0\"?><topology/>", 32, "hwloc's XML"},
    {"<system version=\"1\"/>", 21, "NCCL's"},
    {"<!DOCTYPE html><html>", 21, "a web page"},
    {"<HTML><body>", 12, "a web page"},
    {"<html>", 6, "a web page"},
    {"<topology><object/></topology>", 30, "hwloc's XML"},
    {"<?xml?><list><node/></list>", 27, "lshw's XML"},
    {"<?xml?><gpus/>", 14, "XML of some other program"},
    {tar, sizeof tar, "a tar archive"},
    {tar, 262, "a NUL byte at offset 4"},
    {zeros, sizeof zeros, "a NUL byte at offset 1"},
    {"<", 1, "no PCI function"},
    {"<!doctype html>", 15, "a web page"},
    {"[]", 2, "a JSON list"},
    {"{\"children\":[],\"class\":\"system\",\"id\":\"x\"}", 41, "lshw's"},
};

static void what_holds_no_machine_is_refused_by_what_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(refused); i++) {
        struct rig_topology *t = NULL;
        struct rig_error err;
        rig_error_clear(&err);
        assert_int_equal(rig_topology_parse("x", refused[i].text, refused[i].bytes, &t, &err),
                         RIG_BAD_INPUT);
        if (!strstr(err.why, refused[i].why))
            fail_msg("\"%s\" does not hold \"%s\"", err.why, refused[i].why);
        assert_true(err.hint[0] != '\0' || strstr(err.why, "run `"));
        assert_null(t);
    }
}

static void expect_load(const char *source, enum rig_status status, const char *why)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    enum rig_status got = rig_topology_load(source, &t, &err);
    if (got != status || (why && !strstr(err.why, why)))
        fail_msg("%s gives %d: %s", source ? source : "NULL", (int)got, err.why);
    rig_topology_free(t);
}

static void a_source_that_names_nothing_is_misuse(void **state)
{
    (void)state;
    expect_load(NULL, RIG_INVALID, "empty");
    expect_load("", RIG_INVALID, "empty");
    expect_load("live:", RIG_INVALID, "no directory");
}

static void what_cannot_be_read_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct fixture f;
    char path[256];
    fixture_make(&f);
    expect_load("/nowhere/machine.json", RIG_REFUSED, "no such file");
    expect_load("live:/nowhere", RIG_REFUSED, "no such file");
    expect_load(f.root, RIG_BAD_INPUT, "holds no machine");
    snprintf(path, sizeof path, "%s/loop", f.root);
    fixture_link(&f, "loop", "loop");
    expect_load(path, RIG_REFUSED, "symbolic links");
    snprintf(path, sizeof path, "%s/socket", f.root);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof address), 0);
    expect_load(path, RIG_REFUSED, "a socket, not a file");
    close(s);
    fixture_remove(&f);
}

/* A whole machine's dump has less than 1 GiB: more is refused before it is read. */
static void more_than_any_machine_has_is_refused(void **state)
{
    (void)state;
    const size_t most = (size_t)1 << 30;
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    assert_int_equal(rig_topology_parse("x", "", most + 1, &t, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "more than 1024 MiB"));
    struct fixture f;
    char path[256];
    fixture_make(&f);
    fixture_file(&f, "machine", hex);
    snprintf(path, sizeof path, "%s/machine", f.root);
    assert_int_equal(truncate(path, (off_t)most + 1), 0);
    expect_load(path, RIG_BAD_INPUT, "more than 1024 MiB");
    /* A stream tells it when so much has come. */
    assert_int_equal(truncate(path, 10), 0);
    struct text_stream s = {.name = "x", .fd = open(path, O_RDONLY), .taken = most - 9};
    assert_true(s.fd >= 0);
    rig_error_clear(&err);
    assert_int_equal(text_stream_more(&s, NULL, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "more than 1024 MiB"));
    free(s.data);
    close(s.fd);
    fixture_remove(&f);
}

static void an_error_of_reading_is_told(void **state)
{
    (void)state;
    /* Address 0 of a process is not mapped. */
    expect_load("/proc/self/mem", RIG_FAILED, "reading failed: input/output error");
}

/* A capture in a pipe: small pieces, a mark of its encoding first, more than one window of it. */
static void a_capture_comes_in_pieces_of_any_size(void **state)
{
    (void)state;
    size_t room = (size_t)300 << 10;
    char *text = malloc(room);
    assert_non_null(text);
    static const char head[] = "\xef\xbb\xbf  \n";
    memset(text, ' ', room);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + room - sizeof capture, capture, sizeof capture);
    struct rig_error err;
    for (int with_mark = 0; with_mark < 2; with_mark++) {
        const char *from = with_mark ? text : text + 3;
        int ends[2], status;
        assert_int_equal(pipe(ends), 0);
        pid_t writer = fork();
        assert_true(writer >= 0);
        if (writer == 0) {
            size_t bytes = strlen(from);
            for (size_t i = 0; i < bytes; i += 1000)
                if (write(ends[1], from + i, bytes - i < 1000 ? bytes - i : 1000) < 0)
                    _exit(1);
            _exit(0);
        }
        close(ends[1]);
        int input = dup(STDIN_FILENO);
        assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
        close(ends[0]);
        struct rig_topology *t = NULL;
        rig_error_clear(&err);
        if (rig_topology_load("-", &t, &err) != RIG_OK)
            fail_msg("%s", err.why);
        assert_int_equal(rig_topology_count(t), 1);
        rig_topology_free(t);
        if (input >= 0)
            dup2(input, STDIN_FILENO);
        close(input);
        assert_int_equal(waitpid(writer, &status, 0), writer);
        assert_int_equal(status, 0);
    }
    free(text);
}

static void take_no_notice(int signal)
{
    (void)signal;
}

/* The state that /proc tells after the name: S while it waits (Linux:
   Documentation/filesystems/proc.rst). */
static bool is_asleep(pid_t process)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    const char *name_end = got > 0 ? strrchr(text, ')') : NULL;
    return name_end && strncmp(name_end, ") S", 3) == 0;
}

/* A signal that is caught while a read waits. */
static void a_signal_does_not_end_reading(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = take_no_notice}, old;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t reader = getpid(), writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        /* It waits nowhere but in read(). */
        for (int i = 0; i < 3; i++) {
            while (getppid() == reader && !is_asleep(reader))
                sched_yield();
            kill(reader, SIGUSR1);
        }
        _exit(write(ends[1], hex, strlen(hex)) != (ssize_t)strlen(hex));
    }
    close(ends[1]);
    struct text_stream s = {.name = "x", .fd = ends[0]};
    while (!s.at_end)
        assert_int_equal(text_stream_more(&s, s.data, NULL), RIG_OK);
    assert_int_equal(s.bytes, strlen(hex));
    assert_memory_equal(s.data, hex, s.bytes);
    free(s.data);
    close(ends[0]);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    sigaction(SIGUSR1, &old, NULL);
}

static void binary_data_is_told_with_its_place_wherever_it_begins(void **state)
{
    (void)state;
    struct fixture f;
    char path[256];
    fixture_make(&f);
    fixture_file(&f, "machine", hex);
    snprintf(path, sizeof path, "%s/machine", f.root);
    size_t before = (size_t)200 << 10;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{%*s", (int)before - 1, "");
    fputc('\0', file);
    fclose(file);
    expect_load(path, RIG_BAD_INPUT, "a NUL byte at offset 204800");
    fixture_remove(&f);
}

/* Root reads what others may not: then this says nothing. */
static void a_file_that_may_not_be_read_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    char path[256];
    fixture_make(&f);
    snprintf(path, sizeof path, "%s/link", f.root);
    fixture_link(&f, "link", "/proc/self/fd/nothing");
    expect_load(path, RIG_REFUSED, "no such file");
    fixture_file(&f, "machine", hex);
    snprintf(path, sizeof path, "%s/machine", f.root);
    assert_int_equal(chmod(path, 0), 0);
    if (geteuid() != 0)
        expect_load(path, RIG_REFUSED, "permission denied");
    fixture_remove(&f);
}

/* The terminal of a process that has none. */
static void a_device_that_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rig_topology *t = NULL;
        struct rig_error err;
        rig_error_clear(&err);
        enum rig_status status = setsid() < 0 ? RIG_OK : rig_topology_load("/dev/tty", &t, &err);
        exit(status != RIG_REFUSED || !strstr(err.why, "no such device"));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void endless_devices_are_refused_at_once(void **state)
{
    (void)state;
    expect_load("/dev/null", RIG_BAD_INPUT, "empty");
    expect_load("/dev/zero", RIG_BAD_INPUT, "binary");
}

static void a_file_a_pipe_and_standard_input_give_the_same(void **state)
{
    (void)state;
    struct fixture f;
    char path[256];
    fixture_make(&f);
    fixture_file(&f, "machine", hex);
    snprintf(path, sizeof path, "%s/machine", f.root);
    expect_load(path, RIG_OK, NULL);

    snprintf(path, sizeof path, "%s/pipe", f.root);
    assert_int_equal(mkfifo(path, 0600), 0);
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        int fd = open(path, O_WRONLY);
        bool written = true;
        for (size_t i = 0; written && i < strlen(hex); i += 7) {
            size_t n = strlen(hex) - i < 7 ? strlen(hex) - i : 7;
            written = write(fd, hex + i, n) == (ssize_t)n;
        }
        _exit(!written);
    }
    expect_load(path, RIG_OK, NULL);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);

    int ends[2], input = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], hex, strlen(hex)), (ssize_t)strlen(hex));
    close(ends[1]);
    assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
    expect_load("-", RIG_OK, NULL);
    close(ends[0]);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    close(input);
    fixture_remove(&f);
}

/* Files are read through a window: one function a bus, with lines that lie across every place where
   the window may end, one of them longer than the window. */
static void a_file_larger_than_the_window_reads_as_from_memory(void **state)
{
    (void)state;
    struct fixture f;
    char path[256], head[64];
    size_t rows_at = (size_t)(strchr(hex, '\n') + 1 - hex), room = (size_t)2 << 20, used = 0;
    char *text = malloc(room);
    assert_non_null(text);
    for (unsigned bus = 0; bus < 256; bus++) {
        int n = snprintf(head, sizeof head, "%02x:00.0 System peripheral: Maker Thing\n", bus);
        memcpy(text + used, head, (size_t)n);
        used += (size_t)n;
        size_t prose = bus == 100 ? 300000 : 2000 + bus * 7;
        memcpy(text + used, hex + rows_at, strlen(hex + rows_at));
        used += strlen(hex + rows_at);
        memset(text + used, 'x', prose);
        used += prose;
        memcpy(text + used, "\n\n", 2);
        used += 2;
    }
    fixture_make(&f);
    for (int fault = 0; fault < 2; fault++) {
        /* the last row becomes a wrong one, whose line is told */
        char *last = memrchr(text, ':', used);
        assert_non_null(last);
        last[1] = fault ? '?' : ' ';
        if (fault)
            memcpy(last - 2, "33: 00", 6);
        struct rig_topology *t = NULL, *u = NULL;
        struct rig_error err, again;
        rig_error_clear(&err);
        rig_error_clear(&again);
        snprintf(path, sizeof path, "%s/dump", f.root);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, used, file), used);
        fclose(file);
        enum rig_status expected = rig_topology_parse(path, text, used, &t, &err);
        assert_int_equal(expected, fault ? RIG_BAD_INPUT : RIG_OK);
        assert_int_equal(rig_topology_load(path, &u, &again), expected);
        assert_string_equal(again.where, err.where);
        assert_string_equal(again.why, err.why);
        for (int i = 0; !fault && i < 256; i++) {
            assert_int_equal(rig_topology_function(u, i)->bdf.bus, i);
            assert_true(fact_is(rig_topology_function(u, i)->device, 0x09a2));
        }
        assert_int_equal(fault ? 0 : rig_topology_count(u), fault ? 0 : 256);
        rig_topology_free(t);
        rig_topology_free(u);
    }
    free(text);
    fixture_remove(&f);
}

static void a_directory_may_be_the_root_or_its_sys(void **state)
{
    (void)state;
    struct fixture f;
    char path[256];
    fixture_make(&f);
    fixture_function(&f, "pci0000:00/0000:00:01.0");
    static const char *const forms[][2] = {
        {"", ""}, {"", "/sys"}, {"live:", ""}, {"live:", "/sys"}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(forms); i++) {
        snprintf(path, sizeof path, "%s%s%s", forms[i][0], f.root, forms[i][1]);
        expect_load(path, RIG_OK, NULL);
    }
    fixture_remove(&f);
}

static void the_system_s_reasons_begin_in_lower_case_unless_with_an_abbreviation(void **state)
{
    (void)state;
    assert_string_equal(RIG_ERRNO(ENOENT), "no such file or directory");
    assert_string_equal(RIG_ERRNO(EIO), "input/output error");
    /* glibc's text for a value that is none: Unknown error 12345 */
    assert_string_equal(RIG_ERRNO(12345), "unknown error 12345");
    /* .lib section in a.out corrupted; RFS specific error */
    assert_string_equal(RIG_ERRNO(ELIBSCN), ".lib section in a.out corrupted");
    assert_string_equal(RIG_ERRNO(EDOTDOT), "RFS specific error");
}

static void an_address_has_four_digits_of_domain_or_as_many_as_it_needs(void **state)
{
    (void)state;
    static const struct {
        struct rig_bdf bdf;
        const char *text;
    } rows[] = {{{0, 0, 0, 0}, "0000:00:00.0"},
                {{0xabcd, 0x9f, 0x1f, 7}, "abcd:9f:1f.7"},
                {{0x10000, 0x01, 0, 1}, "10000:01:00.1"},
                {{0xffffffff, 0xff, 0x10, 3}, "ffffffff:ff:10.3"}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[RIG_BDF_MAX];
        struct rig_bdf back;
        assert_string_equal(rig_bdf_format(rows[i].bdf, text), rows[i].text);
        assert_true(rig_bdf_parse(text, &back));
        assert_int_equal(rig_bdf_compare(rows[i].bdf, back), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_four_digits_of_domain_or_as_many_as_it_needs),
        cmocka_unit_test(the_system_s_reasons_begin_in_lower_case_unless_with_an_abbreviation),
        cmocka_unit_test(the_kind_of_a_text_is_found_by_its_content),
        cmocka_unit_test(what_holds_no_machine_is_refused_by_what_it_is),
        cmocka_unit_test(a_source_that_names_nothing_is_misuse),
        cmocka_unit_test(what_cannot_be_read_is_refused_with_the_reason),
        cmocka_unit_test(more_than_any_machine_has_is_refused),
        cmocka_unit_test(an_error_of_reading_is_told),
        cmocka_unit_test(a_capture_comes_in_pieces_of_any_size),
        cmocka_unit_test(a_signal_does_not_end_reading),
        cmocka_unit_test(binary_data_is_told_with_its_place_wherever_it_begins),
        cmocka_unit_test(a_file_that_may_not_be_read_is_refused),
        cmocka_unit_test(a_device_that_cannot_be_opened_is_refused),
        cmocka_unit_test(endless_devices_are_refused_at_once),
        cmocka_unit_test(a_file_a_pipe_and_standard_input_give_the_same),
        cmocka_unit_test(a_file_larger_than_the_window_reads_as_from_memory),
        cmocka_unit_test(a_directory_may_be_the_root_or_its_sys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
