/* real_f32.c - the steps of f32. */
#include "tile/isa/isa.h"
#include "tile/isa/math_f32.h"

#define T float
#define LIBM(name) name##f
#define REAL_TABLE TP_ISA(tp_tile_steps_f32)
extern const tp_tile_forms REAL_TABLE[TP_PRIM_COUNT];

#include "tile/isa/real.h"
