/* translate.h - an exported program handed to the writers of other formats: state becomes weights inside the file.
 *
 * Fails: what the writers say; TP_ERR_UNIMPLEMENTED for a program that writes to its buffers or inputs: neither format has a
 * place that lasts from one run to the next. */
#ifndef TP_EXPORT_TRANSLATE_H
#define TP_EXPORT_TRANSLATE_H

#include "base/text.h"
#include "export/program.h"

TP_API TP_CHECK bool tp_program_to_c(const tp_program *p, const char *function, bool with_main, tp_text *out);     /* fuse/c_writer.h */
TP_API TP_CHECK bool tp_program_to_onnx(const tp_program *p, tp_text *out);                                        /* onnx/model.h */

#endif
