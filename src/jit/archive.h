/* archive.h - torch.jit.save and load: TorchScript archives as PyTorch 2.13 lays them out (docs/formats.md).
 *
 * A module is a pickle of its slots and one text for each Python module its classes came from. A function is saved as the
 * method `forward` of a module without slots. Shared tensors and shared modules stay shared.
 * Fails: TP_ERR_RUNTIME for what has no text, and for broken archives, in the words of the readers. */
#ifndef TP_JIT_ARCHIVE_H
#define TP_JIT_ARCHIVE_H

#include "format/zip.h"
#include "jit/module.h"

TP_API TP_CHECK bool tp_jit_save(tp_zip_writer *w, tp_jit_module *m);               /* the writer is not finished */
TP_API TP_CHECK tp_jit_module *tp_jit_module_of_function(tp_jit_function *f);       /* with `forward`, and %self before its inputs */
TP_API TP_CHECK tp_jit_module *tp_jit_load(tp_zip *z);

#endif
