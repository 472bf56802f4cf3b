/* real_f64.c - the steps of f64. */
#include "tile/isa/math_f64.h"
#include "tile/isa/isa.h"

#define T double
#define LIBM(name) name
#define SIN_LIMIT SIN_LIMIT_f64
#define SPECIAL(name) tp_special_##name##_f64
#define REAL_FUNCTIONS REAL_FUNCTIONS_f64
#define REAL_TABLE TP_ISA(tp_tile_steps_f64)
extern const tp_tile_forms REAL_TABLE[TP_PRIM_COUNT];

#include "tile/isa/real.h"
