/* The formats of each vendor family, for the list in format.c. */
#ifndef RIG_GPU_FORMAT_FAMILY_H
#define RIG_GPU_FORMAT_FAMILY_H

#include "gpu/format/format.h"

extern const struct rig_format rig_format_gfx9, rig_format_gfx9_further, rig_format_gfx9_mi100,
    rig_format_gfx10, rig_format_gfx11, rig_format_gfx12;
extern const struct rig_format rig_format_nv2, rig_format_nv2_pascal, rig_format_nv2_ampere,
    rig_format_nv3, rig_format_nv3_blackwell;
extern const struct rig_format rig_format_xe, rig_format_xe2, rig_format_xe_hpc;
extern const struct rig_format rig_format_plain;

#endif
