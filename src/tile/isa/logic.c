/* logic.c - steps on bytes of b8 as they lie: a byte is true when it is not 0, results are 0 or 1. What other programs do to
 * b8 goes through i32. */
#include "tile/isa/isa.h"

#define LOGIC_STEPS(UNARY, BINARY)                      \
    UNARY(logical_not, a == 0)                          \
    UNARY(bit_not, a == 0)                              \
    BINARY(logical_and, (a != 0) & (b != 0))            \
    BINARY(logical_or, (a | b) != 0)                    \
    BINARY(logical_xor, (a != 0) ^ (b != 0))            \
    BINARY(bit_and, (a != 0) & (b != 0))                \
    BINARY(bit_or, (a | b) != 0)                        \
    BINARY(bit_xor, (a != 0) ^ (b != 0))                \
    BINARY(eq, (a != 0) == (b != 0))                    \
    BINARY(ne, (a != 0) != (b != 0))

#define T uint8_t
LOGIC_STEPS(UNARY_FUNCTION, BINARY_FUNCTION)

extern const tp_tile_forms TP_ISA(tp_tile_logic)[];
const tp_tile_forms TP_ISA(tp_tile_logic)[TP_PRIM_COUNT] = { LOGIC_STEPS(UNARY_ENTRY, BINARY_ENTRY) };
