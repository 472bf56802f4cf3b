/* frame.h - a program made ready to run over tiles.
 *
 * A frame is decided once for a run and shared by all its chunks; a tp_tile_state holds the registers of one chunk. A
 * register is a pointer: into an operand that needs no conversion, or into the chunk's scratch memory. A register may
 * also be one element that stands for all lanes; steps have forms for that, otherwise it is spread out.
 * Always: the results of a program do not depend on how many elements a tile has. */
#ifndef TP_TILE_FRAME_H
#define TP_TILE_FRAME_H

#include "tile/set.h"

enum { TP_SCRATCH = 160 * 1024 };       /* bytes of scratch memory a chunk brings */

typedef struct tp_frame {
    const tp_tile_program *program;
    const tp_tile_set     *set;
    int      compute;
    int64_t  bytes;                                 /* of an element of the compute type */
    int64_t  tile;                                  /* most elements of a tile, a power of two */
    uint8_t  input_dtype[TP_TILE_OPERANDS];
    uint8_t  slot[TP_TILE_REGISTERS];               /* which piece of scratch a register may use */
    int      slots;
    _Alignas(16) char constant[TP_TILE_REGISTERS][16];     /* scalars in the compute type */
} tp_frame;

typedef struct tp_tile_state {
    const tp_frame *frame;
    char           *scratch;                        /* TP_SCRATCH bytes, borrowed */
    const char     *at[TP_TILE_REGISTERS];
    bool            one[TP_TILE_REGISTERS];
    int64_t         spread[TP_TILE_REGISTERS];      /* how many elements of the slot hold a scalar's value */
    _Alignas(16) char cell[TP_TILE_OPERANDS][16];   /* converted single elements */
} tp_tile_state;

/* rows x columns elements of one operand; strides in bytes. */
typedef struct tp_patch {
    int64_t rows, columns, row_stride, column_stride;
} tp_patch;

void tp_frame_init(tp_frame *f, const tp_tile_program *p, int compute, const tp_scalar *scalar, const uint8_t *input_dtype);
void tp_state_init(tp_tile_state *t, const tp_frame *f, char *scratch);
void tp_state_load(tp_tile_state *t, int input, const char *at, const tp_patch *patch);
/* Runs the steps; `target[r]`, where not NULL, is where register r is written instead of into scratch. */
void tp_state_run(tp_tile_state *t, int64_t n, char *const *target);
const char *tp_state_read(tp_tile_state *t, int reg, int64_t n);     /* dense, in the compute type */
void tp_state_store(tp_tile_state *t, int reg, char *to, tp_dtype dtype, const tp_patch *patch);

/* Moves elements of `bytes` each between layouts of one shape. */
static inline void tp_patch_move(const tp_tile_set *set, size_t bytes, char *to, const tp_patch *p, const char *from,
                                 int64_t from_row, int64_t from_column)
{
    set->move[__builtin_ctz((unsigned)bytes)](p->rows, p->columns, to, p->row_stride, p->column_stride, from, from_row,
                                              from_column);
}

static inline bool tp_patch_is_dense(const tp_patch *p, int64_t bytes)
{
    return (p->columns == 1 || p->column_stride == bytes) && (p->rows == 1 || p->row_stride == p->columns * bytes);
}

static inline bool tp_patch_is_still(const tp_patch *p)
{
    return (p->columns == 1 || p->column_stride == 0) && (p->rows == 1 || p->row_stride == 0);
}

#endif
