/* A judge whose twin goes on in another process. */
#include "judge.h"

#include "gpu/save.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Memories keep their order. */
static size_t place_of(const struct judge *j, const struct rig_memory *m)
{
    size_t i = 0;
    while (rig_gpus_memory(j->gpus, i) != m)
        i++;
    return i;
}

void judge_next_process(struct judge *j)
{
    size_t of_life[MODEL_LIVES], of_region[MODEL_REGIONS];
    json_t *machine = NULL, *memories = NULL;
    struct rig_error err = {.status = RIG_OK};
    if (!j->directory[0] || j->failed)
        return;
    for (int i = 0; i < j->model.lives; i++)
        of_life[i] = place_of(j, j->memory[i]);
    for (int i = 0; i < j->model.regions; i++)
        of_region[i] = place_of(j, j->model.region[i].handle.memory);
    assert_int_equal(machine_save(j->machine, &machine, NULL), RIG_OK);
    assert_int_equal(gpus_save(j->gpus, &memories, NULL), RIG_OK);
    rig_gpus_free(j->gpus);
    machine_detach(j->machine);
    j->gpus = NULL;
    enum rig_status status = twin_reopen(j->topology, j->directory, machine, &j->machine, &err);
    if (status == RIG_OK)
        status = gpus_restore(j->machine, memories, &j->gpus, &err);
    else
        j->machine = NULL;
    json_decref(machine);
    json_decref(memories);
    if (status != RIG_OK) {
        judge_wrong(j, "the next process: %s: %s: %s", rig_status_name(status), err.what, err.why);
        return;
    }
    twin_found_again(j->machine, (uint64_t)(uintptr_t)j->own, 16 * KIB(4));
    for (int i = 0; i < j->model.lives; i++) {
        struct rig_memory_info info;
        j->memory[i] = rig_gpus_memory(j->gpus, of_life[i]);
        rig_memory_info(j->memory[i], &info);
        j->device[i] = info.device;
    }
    for (int i = 0; i < j->model.regions; i++)
        j->model.region[i].handle.memory = rig_gpus_memory(j->gpus, of_region[i]);
}
