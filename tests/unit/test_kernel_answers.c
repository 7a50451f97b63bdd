/* What a real Linux 6.1 answered for every pair of endpoints of real (emulated) machines under many
   settings. The files lie in tests/kernel-answers; RIGMEM_KERNEL_ANSWERS names another directory of
   the kind. */
#include "topology/topology.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *directory(void)
{
    const char *given = getenv("RIGMEM_KERNEL_ANSWERS");
    return given ? given : "tests/kernel-answers";
}

static struct rig_topology *load(const char *machine, const char *file)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s/%s", directory(), machine, file);
    struct rig_topology *t;
    struct rig_error err = {.status = RIG_OK};
    if (rig_topology_load(path, &t, &err) != RIG_OK)
        fail_msg("%s: %s %s", path, err.where, err.why);
    return t;
}

static struct node *node_at(struct rig_topology *t, const char *bdf)
{
    int i = rig_topology_find(t, bdf);
    if (i < 0)
        fail_msg("no function %s", bdf);
    return &t->node[i];
}

static void apply(struct rig_topology *t, const json_t *setting)
{
    const char *bdf;
    json_t *value;
    json_object_foreach(json_object_get(setting, "acs"), bdf, value) node_at(t, bdf)
        ->f.acs_control = fact_known(strtoul(json_string_value(value), NULL, 16));
    json_object_foreach(json_object_get(setting, "ids"), bdf, value)
    {
        unsigned vendor, device;
        assert_int_equal(sscanf(json_string_value(value), "%x:%x", &vendor, &device), 2);
        node_at(t, bdf)->f.vendor = fact_known(vendor);
        node_at(t, bdf)->f.device = fact_known(device);
    }
    assert_int_equal(topology_finish(t, "setting", NULL), RIG_OK);
}

static int check_setting(const struct rig_topology *t, const char *kernel, const json_t *setting,
                         const char *machine, size_t number)
{
    size_t k;
    json_t *answer;
    int checked = 0;
    json_array_foreach(json_object_get(setting, "answers"), k, answer)
    {
        const char *provider = json_string_value(json_array_get(answer, 0));
        const char *client = json_string_value(json_array_get(answer, 1));
        int expected = (int)json_integer_value(json_array_get(answer, 2));
        int c = rig_topology_find(t, client);
        bool unknown;
        int distance = rig_p2pdma_distance(t, rig_rules_for(kernel), rig_topology_find(t, provider),
                                           &c, 1, &unknown);
        if (distance != expected || unknown)
            fail_msg("%s, setting %zu: provider %s, client %s: %d%s, the kernel says %d", machine,
                     number, provider, client, distance, unknown ? " (unknown)" : "", expected);
        checked++;
    }
    return checked;
}

static int check_file(const char *machine, const char *file, const char *form)
{
    char path[2048], vendor[32];
    unsigned family;
    snprintf(path, sizeof path, "%s/%s/%s", directory(), machine, file);
    json_t *doc = json_load_file(path, 0, NULL);
    assert_non_null(doc);
    const char *cpu = json_string_value(json_object_get(doc, "cpu"));
    const char *kernel = json_string_value(json_object_get(doc, "kernel"));
    assert_int_equal(sscanf(cpu, "%31[^:]:%u", vendor, &family), 2);
    struct rig_topology *base = load(machine, form);
    assert_int_equal(rig_topology_set_cpu(base, vendor, family, NULL, NULL), RIG_OK);
    size_t k;
    json_t *setting;
    int checked = 0;
    json_array_foreach(json_object_get(doc, "settings"), k, setting)
    {
        struct rig_topology *t;
        assert_int_equal(rig_topology_copy(base, &t, NULL), RIG_OK);
        apply(t, setting);
        checked += check_setting(t, kernel, setting, machine, k);
        rig_topology_free(t);
    }
    rig_topology_free(base);
    json_decref(doc);
    return checked;
}

static int check_all(const char *form)
{
    DIR *d = opendir(directory());
    assert_non_null(d);
    int checked = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", directory(), e->d_name);
        DIR *machine = e->d_name[0] == '.' ? NULL : opendir(path);
        if (!machine)
            continue;
        for (struct dirent *f; (f = readdir(machine));) {
            const char *dot = strrchr(f->d_name, '.');
            if (dot && strcmp(dot, ".json") == 0)
                checked += check_file(e->d_name, f->d_name, form);
        }
        closedir(machine);
    }
    closedir(d);
    return checked;
}

static void hex_dumps_give_every_answer_of_the_kernel(void **state)
{
    (void)state;
    assert_true(check_all("machine.hex") > 500);
}

static void texts_give_every_answer_of_the_kernel(void **state)
{
    (void)state;
    assert_true(check_all("machine.text") > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_dumps_give_every_answer_of_the_kernel),
        cmocka_unit_test(texts_give_every_answer_of_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
