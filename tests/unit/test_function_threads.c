/* The function layer and the twin under several threads: owners of different functions at once, who
   keep each other's, while a third finishes releases and moves bytes. Run under ThreadSanitizer. */
#include "builder.h"
#include "fixture_tree.h"

#include "machine/function.h"
#include "machine/registers.h"
#include "machine/twin.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define ROUNDS 400

struct shared {
    struct rig_machine *m;
    atomic_int left; /* owners that still run */
    atomic_int wrong;
};

struct owner {
    struct shared *shared;
    const char *name, *peer;
};

static void check(struct shared *s, bool right)
{
    if (!right)
        atomic_fetch_add(&s->wrong, 1);
}

/* One life of the function: memory, a view, a flush, a keep of the peer's, a release during a use.
 */
static void live_once(const struct owner *o)
{
    struct shared *s = o->shared;
    struct rig_device *dev;
    if (rig_device_take(s->m, o->name, &dev, NULL) != RIG_OK)
        return;
    check(s, rig_device_set_master(dev, true, NULL) == RIG_OK);
    check(s, device_use(dev, NULL) == RIG_OK);
    struct device_hold *memory = NULL, *pin = NULL;
    struct rig_view *view = NULL;
    check(s, device_alloc(dev, 16384, 0, false, &memory, NULL) == RIG_OK);
    check(s,
          device_pin(dev, (uint64_t)(uintptr_t)memory->grant.memory, 4096, &pin, NULL) == RIG_OK);
    check(s, device_map_bar(dev, 0, 0, 4096, false, &view, NULL) == RIG_OK);
    uint64_t word = 0x1122334455667788, back = 0;
    view_write(view, 8, &word, sizeof word);
    view_read(view, 8, &back, sizeof back);
    check(s, back == word);
    bool confirmed = false;
    check(s, twin_gpu_flush(dev, twin_gpu_registers(dev), &confirmed, NULL) == RIG_OK && confirmed);
    int peer_function = rig_topology_find(rig_machine_topology(s->m), o->peer);
    struct rig_device *peer = machine_device(s->m, peer_function);
    bool kept = peer && device_keep(peer, DEVICE_KEEP_PEER, device_function(dev), NULL) == RIG_OK;
    check(s, rig_device_release(dev, NULL) == RIG_OK);
    check(s, rig_device_life(dev) == RIG_LIFE_RELEASING);
    device_unuse(dev);
    if (kept)
        device_unkeep(peer, device_function(dev));
    check(s, device_free(dev, memory, NULL) == RIG_OK);
    check(s, device_unpin(dev, pin, NULL) == RIG_OK);
    check(s, device_unmap(dev, view, NULL) == RIG_OK);
}

static void *own(void *argument)
{
    const struct owner *o = argument;
    for (int i = 0; i < ROUNDS; i++)
        live_once(o);
    atomic_fetch_sub(&o->shared->left, 1);
    return NULL;
}

static void *look_on(void *argument)
{
    struct shared *s = argument;
    while (atomic_load(&s->left) > 0) {
        uint8_t bytes[64];
        machine_finish_releases(s->m);
        rig_twin_read(s->m, "05:00.0", UINT64_C(4) << 30, bytes, sizeof bytes, NULL);
        rig_twin_gpu_read(s->m, "03:00.0", 0, bytes, sizeof bytes, NULL);
        struct twin_audit a;
        twin_audit(s->m, &a);
        check(s, a.free_bytes <= UINT64_C(8) << 30);
    }
    return NULL;
}

static void owners_of_two_functions_and_a_third_thread_leave_nothing_behind(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:01.0 rp 01-05\n01:00.0 up 02-05\n"
                                           "02:00.0 down 03-03\n02:01.0 down 04-04\n"
                                           "02:02.0 down 05-05\n03:00.0 ep gpu=64/32\n"
                                           "04:00.0 ep gpu=16/16\n05:00.0 ep class=020000\n",
                                           "AMD:25");
    struct shared s = {.left = 2};
    assert_int_equal(rig_twin_open(t, NULL, &s.m, NULL), RIG_OK);
    rig_topology_free(t);
    struct owner owner[2] = {{&s, "03:00.0", "04:00.0"}, {&s, "04:00.0", "03:00.0"}};
    pthread_t thread[3];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, own, &owner[i]), 0);
    assert_int_equal(pthread_create(&thread[2], NULL, look_on, &s), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&s.wrong), 0);
    machine_finish_releases(s.m);
    struct twin_audit a;
    twin_audit(s.m, &a);
    assert_true(a.free_bytes == UINT64_C(8) << 30);
    assert_int_equal(a.taken + a.grants + a.pins + a.views, 0);
    assert_int_equal(rig_machine_close(s.m, NULL), RIG_OK);
}

/* A process without a descriptor left cannot have the file of a GPU's memory: one thread finds out,
   another asks why all the while. */
static void *ask_why(void *argument)
{
    struct shared *s = argument;
    struct rig_device *dev =
        machine_device(s->m, rig_topology_find(rig_machine_topology(s->m), "03:00.0"));
    bool told = false;
    for (int i = 0; i < 1000000 && !told; i++) {
        struct rig_error err = {.status = RIG_OK};
        device_fail(dev, &err);
        told = strcmp(err.what, "0000:03:00.0-memory") == 0;
        check(s, err.why[0] != '\0');
    }
    check(s, told);
    return NULL;
}

static void why_a_machine_broke_is_told_whole_to_every_thread(void **state)
{
    (void)state;
    struct fixture f;
    struct rig_topology *t = build_machine("00:01.0 rp 03-03\n03:00.0 ep gpu=64/32\n", "AMD:25");
    struct shared s = {.left = 1};
    struct rig_device *dev;
    struct rig_view *view;
    struct rlimit before, none;
    pthread_t asking;
    fixture_make(&f);
    assert_int_equal(rig_twin_open(t, f.root, &s.m, NULL), RIG_OK);
    rig_topology_free(t);
    assert_int_equal(rig_device_take(s.m, "03:00.0", &dev, NULL), RIG_OK);
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_OK);
    assert_int_equal(pthread_create(&asking, NULL, ask_why, &s), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t word = 1;
    view_write(view, 0, &word, sizeof word);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    pthread_join(asking, NULL);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(device_unmap(dev, view, NULL), RIG_OK);
    rig_machine_close(s.m, NULL);
    fixture_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_a_machine_broke_is_told_whole_to_every_thread),
        cmocka_unit_test(owners_of_two_functions_and_a_third_thread_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
