/* output.h - files that are replaced whole: whoever opens the path sees the old content or the new, never a part of either.
 *
 *     tp_output *o = tp_output_new(path);
 *     bool ok = o && tp_output_write(o, bytes, count);
 *     ok = tp_output_finish(o, ok) && ok;
 *
 * The bytes go to a file beside the target, which takes its place once they are on the disk. Until then the old file stays as it
 * is, whatever happens: a full disk, an error, a kill. Where the system has files without names, not even a kill leaves one behind.
 * A symbolic link stays a link, and what it points to is replaced; permissions stay, a new file gets those of the umask.
 *
 * Written in place, because there is nothing to replace or no way to: pipes, devices, /proc and /dev/fd; files of another user; files
 * in a folder where none can be made.
 *
 * Fails: TP_ERR_RUNTIME with path and reason; errno has the reason, too. */
#ifndef TP_FORMAT_OUTPUT_H
#define TP_FORMAT_OUTPUT_H

#include "base/error.h"

typedef struct tp_output tp_output;
TP_API TP_CHECK tp_output *tp_output_new(const char *path);
TP_API TP_CHECK bool tp_output_write(tp_output *o, const void *bytes, size_t count);
/* Frees `o`. With `keep` the file takes its place; without, or when that fails, nothing stays. NULL is fine and gives false. */
TP_API bool tp_output_finish(tp_output *o, bool keep);

#endif
