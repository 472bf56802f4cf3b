/* set.c - the tables of this copy, gathered. */
#include "tile/isa/isa.h"

extern const tp_tile_forms TP_ISA(tp_tile_steps_f32)[], TP_ISA(tp_tile_steps_f64)[], TP_ISA(tp_tile_steps_i32)[],
    TP_ISA(tp_tile_steps_i64)[], TP_ISA(tp_tile_steps_c64)[], TP_ISA(tp_tile_steps_c128)[], TP_ISA(tp_tile_logic)[];
extern tp_convert_fn *const TP_ISA(tp_tile_load)[TP_DTYPE_COUNT][TP_COMPUTE_COUNT];
extern tp_convert_fn *const TP_ISA(tp_tile_store)[TP_COMPUTE_COUNT][TP_DTYPE_COUNT];
extern tp_move_fn *const TP_ISA(tp_tile_moves)[5];
extern tp_fold_fn *const TP_ISA(tp_tile_folds)[TP_COMPUTE_COUNT][TP_FOLD_COUNT];
extern tp_fold_rows_fn *const TP_ISA(tp_tile_row_folds)[TP_COMPUTE_COUNT][TP_FOLD_COUNT];
extern tp_find_fn *const TP_ISA(tp_tile_finds)[TP_COMPUTE_COUNT];
extern void TP_ISA(tp_tile_deviation_f32)(int64_t n, float mean, const float *x, float *to);
extern void TP_ISA(tp_tile_deviation_f64)(int64_t n, double mean, const double *x, double *to);
extern void TP_ISA(tp_tile_exponentials_f32)(int64_t n, float top, const float *x, float *to);
extern void TP_ISA(tp_tile_exponentials_f64)(int64_t n, double top, const double *x, double *to);
extern void TP_ISA(tp_tile_normalise_f32)(int64_t n, float mean, float scale, const float *x, const float *w, const float *b, float *to);
extern void TP_ISA(tp_tile_normalise_f64)(int64_t n, double mean, double scale, const double *x, const double *w, const double *b, double *to);
extern void TP_ISA(tp_tile_running_f32)(int64_t n, const float *x, float *to);

const tp_tile_set TP_ISA(tp_tile_set) = {
    .step = { TP_ISA(tp_tile_steps_f32), TP_ISA(tp_tile_steps_f64), TP_ISA(tp_tile_steps_i32),
              TP_ISA(tp_tile_steps_i64), TP_ISA(tp_tile_steps_c64), TP_ISA(tp_tile_steps_c128) },
    .logic = TP_ISA(tp_tile_logic),
    .load = TP_ISA(tp_tile_load),
    .store = TP_ISA(tp_tile_store),
    .move = TP_ISA(tp_tile_moves),
    .fold = TP_ISA(tp_tile_folds),
    .fold_rows = TP_ISA(tp_tile_row_folds),
    .find = TP_ISA(tp_tile_finds),
    .deviation_f32 = TP_ISA(tp_tile_deviation_f32),
    .deviation_f64 = TP_ISA(tp_tile_deviation_f64),
    .exponentials_f32 = TP_ISA(tp_tile_exponentials_f32),
    .exponentials_f64 = TP_ISA(tp_tile_exponentials_f64),
    .normalise_f32 = TP_ISA(tp_tile_normalise_f32),
    .normalise_f64 = TP_ISA(tp_tile_normalise_f64),
    .running_f32 = TP_ISA(tp_tile_running_f32),
};
