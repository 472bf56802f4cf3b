/* copy_views.h - below a functionaliser: views become copies, torch.func.functionalize(remove="mutations_and_views").
 *
 *     %select = aten.select.int(%x, 0, 0)      =>      %select_copy = aten.select_copy.int(%x, 0, 0)
 *
 * A view whose op has no copying variant goes on as it is. Owned by whoever pushed it; it needs no fini. */
#ifndef TP_TRACE_COPY_VIEWS_H
#define TP_TRACE_COPY_VIEWS_H

#include "trace/mount.h"

TP_API void tp_copy_views_enter(tp_mount *m);           /* as a transform; the functionaliser is entered after it */
TP_API void tp_copy_views_leave(tp_mount *m);

#endif
