/* real_f32.c - the steps of f32. */
#include "tile/isa/math_f32.h"
#include "tile/isa/isa.h"

#define T float
#define LIBM(name) name##f
#define SIN_LIMIT SIN_LIMIT_f32
#define SPECIAL(name) tp_special_##name##_f32
#define REAL_FUNCTIONS REAL_FUNCTIONS_f32
#define REAL_TABLE TP_ISA(tp_tile_steps_f32)
extern const tp_tile_forms REAL_TABLE[TP_PRIM_COUNT];

#include "tile/isa/real.h"
