/* A twin of two functions, and what tests of the function layer do with it. */
#include "functions.h"

#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct rig_machine *functions_open(void)
{
    struct rig_topology *t = build_machine("00:01.0 rp 01-04\n"
                                           "01:00.0 up 02-04\n"
                                           "02:00.0 down 03-03\n"
                                           "02:01.0 down 04-04\n"
                                           "03:00.0 ep gpu=64/32\n"
                                           "04:00.0 ep gpu=16/16\n",
                                           "AMD:25");
    struct rig_machine *m;
    assert_int_equal(rig_twin_open(t, NULL, &m, NULL), RIG_OK);
    rig_topology_free(t);
    return m;
}

struct rig_device *functions_take(struct rig_machine *m, const char *name)
{
    struct rig_device *dev;
    struct rig_error err = {.status = RIG_OK};
    if (rig_device_take(m, name, &dev, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return dev;
}

struct device_hold *functions_alloc(struct rig_device *dev, uint64_t bytes)
{
    struct device_hold *hold;
    assert_int_equal(device_alloc(dev, bytes, 0, false, &hold, NULL), RIG_OK);
    return hold;
}

struct device_hold *functions_pin(struct rig_device *dev, const void *memory, uint64_t bytes)
{
    struct device_hold *hold;
    assert_int_equal(device_pin(dev, (uint64_t)(uintptr_t)memory, bytes, &hold, NULL), RIG_OK);
    return hold;
}

struct twin_audit functions_audit(struct rig_machine *m)
{
    struct twin_audit a;
    twin_audit(m, &a);
    return a;
}

void functions_close(struct rig_machine *m)
{
    assert_int_equal(rig_machine_close(m, NULL), RIG_OK);
}
