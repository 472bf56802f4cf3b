/* draw.c - see draw.h. */
#include "ir/draw.h"

#include <string.h>

#include "base/alloc.h"

enum { CHARACTER = 7, LINE = 15, MARGIN = 10, GAP = 24, DROP = 46 };        /* pixels, for a 12-pixel monospaced face */

typedef struct box {
    uint32_t row;                   /* 1 is the top one; 0: left out */
    int32_t  x, y, width, height;
} box;

typedef struct drawing {
    const tp_graph *graph;
    const tp_draw_host *host;
    box     *of;                    /* by node id */
    int32_t *row_width, *row_height;
    uint32_t rows, deepest;
    tp_text *out;
    const box *to;
} drawing;

static void note_depth(tp_node *input, void *data)
{
    drawing *d = data;
    if (d->of[input->id].row > d->deepest)
        d->deepest = d->of[input->id].row;
}

static void measure(box *b, const char *label)
{
    int32_t longest = 0, at = 0, lines = 1;
    for (const char *c = label; *c; c++)
        if (*c == '\n') {
            lines++;
            at = 0;
        } else if (((unsigned char)*c & 0xC0) != 0x80 && ++at > longest) {      /* letters, not bytes */
            longest = at;
        }
    b->width = longest * CHARACTER + 2 * MARGIN;
    b->height = lines * LINE + MARGIN;
}

/* Rows from above; a row is as wide as its boxes and as high as the highest. */
static void lay_out(drawing *d)
{
    tp_graph_each(d->graph, n) {
        const char *label = d->host->label(n, d->host->data);
        box *b = &d->of[n->id];
        d->deepest = 0;
        tp_node_each_input(n, note_depth, d);
        if (!label)
            continue;
        b->row = d->deepest + 1;
        measure(b, label);
        b->x = d->row_width[b->row];
        d->row_width[b->row] += b->width + GAP;
        if (d->row_height[b->row] < b->height)
            d->row_height[b->row] = b->height;
        if (d->rows < b->row)
            d->rows = b->row;
    }
}

static void put_text(tp_text *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        switch (text[i]) {
        case '<': tp_text_add(out, "&lt;"); break;
        case '>': tp_text_add(out, "&gt;"); break;
        case '&': tp_text_add(out, "&amp;"); break;
        case '"': tp_text_add(out, "&quot;"); break;
        default: tp_text_add(out, "%c", text[i]);
        }
}

static void put_box(drawing *d, const tp_node *n)
{
    const box *b = &d->of[n->id];
    tp_text_add(d->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"", b->x, b->y, b->width, b->height);
    const char *fill = d->host->fill(n, d->host->data), *label = d->host->label(n, d->host->data);
    put_text(d->out, fill, strlen(fill));
    tp_text_add(d->out, "\" stroke=\"black\"/>\n");
    for (int32_t line = 1; label && *label; line++) {
        size_t length = strcspn(label, "\n");
        tp_text_add(d->out, "<text x=\"%d\" y=\"%d\">", b->x + MARGIN, b->y + line * LINE);
        put_text(d->out, label, length);
        tp_text_add(d->out, "</text>\n");
        label += length + (label[length] != 0);
    }
}

static void put_line(tp_node *input, void *data)
{
    drawing *d = data;
    const box *from = &d->of[input->id];
    if (from->row)
        tp_text_add(d->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"black\" marker-end=\"url(#tip)\"/>\n", from->x + from->width / 2,
                    from->y + from->height, d->to->x + d->to->width / 2, d->to->y);
}

static void put_picture(drawing *d)
{
    int32_t width = 0, height = GAP;
    for (uint32_t r = 1; r <= d->rows; r++)
        width = d->row_width[r] > width ? d->row_width[r] : width;
    for (uint32_t r = 1; r <= d->rows; r++) {           /* heights become the tops of rows */
        int32_t own = d->row_height[r];
        d->row_height[r] = height;
        height += own + DROP;
    }
    tp_graph_each(d->graph, n) {
        box *b = &d->of[n->id];
        if (b->row) {
            b->x += GAP + (width - d->row_width[b->row]) / 2;
            b->y = d->row_height[b->row];
        }
    }
    tp_text_add(d->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" font-size=\"12\">\n", width + GAP,
                height);
    tp_text_add(d->out, "<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"8\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/>"
                        "</marker></defs>\n");
    tp_graph_each(d->graph, n)
        if (d->of[n->id].row) {
            d->to = &d->of[n->id];
            tp_node_each_input(n, put_line, d);
        }
    tp_graph_each(d->graph, n)
        if (d->of[n->id].row)
            put_box(d, n);
    tp_text_add(d->out, "</svg>\n");
}

bool tp_graph_draw(const tp_graph *g, const tp_draw_host *host, tp_text *out)
{
    size_t count = g->node_count + 2;
    drawing d = { .graph = g, .host = host, .out = out };
    d.of = tp_alloc_zero(count * sizeof *d.of);
    d.row_width = tp_alloc_zero(count * sizeof *d.row_width);
    d.row_height = tp_alloc_zero(count * sizeof *d.row_height);
    bool ok = d.of && d.row_width && d.row_height;
    if (ok) {
        lay_out(&d);
        put_picture(&d);
        ok = !out->failed || tp_fail_memory();
    }
    tp_free(d.of);
    tp_free(d.row_width);
    tp_free(d.row_height);
    return ok;
}
