/* output_test.c - files replaced whole: what is there before, during, after and instead. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test.h"
#include "format/output.h"

static bool write_text(const char *path, const char *text, bool keep)
{
    tp_output *o = tp_output_new(path);
    bool ok = o && tp_output_write(o, text, strlen(text));
    return tp_output_finish(o, ok && keep);
}

static bool holds(const char *path, const char *text)
{
    char bytes[64] = { 0 };
    FILE *f = fopen(path, "rb");
    size_t count = f ? fread(bytes, 1, sizeof bytes - 1, f) : 0;
    if (f)
        fclose(f);
    return f && count == strlen(text) && strcmp(bytes, text) == 0;
}

static int entries(const char *folder)
{
    int count = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        count++;
    if (d)
        closedir(d);
    return count - 2;
}

TP_TEST(the_old_file_stays_until_the_new_one_is_whole)
{
    char folder[] = "/tmp/taper-output-XXXXXX", path[64], link[64];
    struct stat s;
    TP_NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.pt", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    TP_NEED(write_text(path, "old", true));
    TP_EXPECT(chmod(path, 0640) == 0 && symlink("model.pt", link) == 0);

    tp_output *o = tp_output_new(link);
    TP_NEED(o);
    TP_EXPECT(tp_output_write(o, "new", 3) && holds(path, "old"));
    TP_EXPECT(tp_output_finish(o, true) && holds(path, "new"));
    TP_EXPECT(lstat(link, &s) == 0 && S_ISLNK(s.st_mode));
    TP_EXPECT(stat(path, &s) == 0 && (s.st_mode & 07777) == 0640);

    TP_EXPECT(!write_text(path, "given up", false) && holds(path, "new"));
    TP_EXPECT(entries(folder) == 2);        /* nothing stays beside them */
out:
    unlink(link);
    unlink(path);
    rmdir(folder);
}

TP_TEST(what_cannot_be_replaced_is_written_in_place)
{
    struct stat s;
    TP_NEED(write_text("/dev/null", "x", true));
    TP_EXPECT(stat("/dev/null", &s) == 0 && S_ISCHR(s.st_mode));
    TP_EXPECT(!write_text("/dev/full", "x", true) && strstr(tp_error_text(), "/dev/full: cannot be written: No space left"));
    TP_EXPECT(!write_text("/nowhere/at/all", "x", true) && strstr(tp_error_text(), "/nowhere/at/all: cannot be opened: No such file"));
    TP_EXPECT(!write_text("/tmp", "x", true) && strstr(tp_error_text(), "/tmp: cannot be opened: Is a directory"));
    TP_EXPECT(!write_text("", "x", true));
out:
    return;
}

TP_TESTS(TP_SWEPT(the_old_file_stays_until_the_new_one_is_whole), TP_SWEPT(what_cannot_be_replaced_is_written_in_place))
