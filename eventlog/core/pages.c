/* Checks the pages of an LMDB file, and reads many values at a time. pages.py describes the layout, and
 * names the damage that is found here. Numbers are in this machine's byte order.
 */

#include <string.h>

#include "compiled.h"

enum { BRANCH = 1, LEAF = 2, OVERFLOW = 4, BIG_VALUE = 1, SUB_TREE = 2 };
enum { NUMBER_BYTES = 8, FLAGS_AT = 10, LOWER_AT = 12, UPPER_AT = 14, HEAD_BYTES = 16, NODE_BYTES = 8 };
enum { TREE_BYTES = 48, DEPTH_AT = 6, ROOT_AT = 40, DEPTH_MAX = 32, FIRST = 2 };
enum { TREES_AT = HEAD_BYTES + 24, LAST_AT = TREES_AT + 2 * TREE_BYTES, TRANSACTION_AT = LAST_AT + 8 };

struct file {
    const uint8_t *data;
    uint64_t page_bytes, there, last; /* pages that are in the file; the last one that there may be */
    uint8_t *used; /* one for each page up to the last one */
};

struct node {
    const uint8_t *key, *value;
    uint64_t key_bytes, value_bytes, room; /* the room for a value in its page */
    unsigned flags;
};

static uint16_t two(const uint8_t *at) { uint16_t n; memcpy(&n, at, sizeof n); return n; }
static uint32_t four(const uint8_t *at) { uint32_t n; memcpy(&n, at, sizeof n); return n; }
static uint64_t eight(const uint8_t *at) { uint64_t n; memcpy(&n, at, sizeof n); return n; }

static int use(struct file *file, uint64_t first, uint64_t count, uint64_t end)
{
    if (first < FIRST || count > end || first > end - count) return 0;
    for (; count; count--, first++)
        if (file->used[first]++) return 0;
    return 1;
}

static const uint8_t *page_of(const struct file *file, uint64_t number, unsigned kind)
{
    const uint8_t *page = file->data + number * file->page_bytes;
    return eight(page) == number && two(page + FLAGS_AT) == kind ? page : NULL;
}

/* Return how many nodes a page has, -1 if its offsets do not fit. */
static int64_t nodes_in(const struct file *file, const uint8_t *page)
{
    unsigned lower = two(page + LOWER_AT), upper = two(page + UPPER_AT);
    if (lower <= HEAD_BYTES || lower % 2 || lower > upper || upper > file->page_bytes) return -1;
    return (lower - HEAD_BYTES) / 2;
}

static int take_node(const struct file *file, const uint8_t *page, int64_t number, struct node *node)
{
    unsigned offset = two(page + HEAD_BYTES + 2 * number);
    if (offset < two(page + UPPER_AT) || offset > file->page_bytes - NODE_BYTES || offset % 2) return 0;
    const uint8_t *at = page + offset;
    node->value_bytes = two(at) | (uint64_t)two(at + 2) << 16;
    node->flags = two(at + 4);
    node->key = at + NODE_BYTES;
    node->key_bytes = two(at + 6);
    node->value = node->key + node->key_bytes;
    node->room = file->page_bytes - (uint64_t)(node->value - page);
    return node->value <= page + file->page_bytes;
}

static uint64_t child_of(const struct node *node) { return node->value_bytes | (uint64_t)node->flags << 32; }

/* Find a value on pages of its own, and which these are; return 0 if they are not there. */
static int find_big(const struct file *file, struct node *node, uint64_t *first, uint64_t *count)
{
    if (node->room < NUMBER_BYTES) return 0;
    *first = eight(node->value);
    const uint8_t *page = *first < FIRST || *first >= file->there ? NULL : page_of(file, *first, OVERFLOW);
    if (!page) return 0;
    *count = four(page + LOWER_AT);
    node->value = page + HEAD_BYTES;
    return node->value_bytes + HEAD_BYTES <= *count * file->page_bytes && *count <= file->there - *first;
}

static int check_tree(struct file *file, const uint8_t *tree, unsigned kind, int is_free);

static int check_free(struct file *file, const struct node *node)
{
    uint64_t size = node->value_bytes / NUMBER_BYTES, count = size ? eight(node->value) : size;
    if (count >= size) return 0;
    for (uint64_t at = 1; at <= count; at++)
        if (!use(file, eight(node->value + NUMBER_BYTES * at), 1, file->last + 1)) return 0;
    return 1;
}

static int check_page(struct file *file, uint64_t number, unsigned depth, unsigned kind, int is_free)
{
    uint64_t first, pages;
    if (!use(file, number, 1, file->there)) return 0;
    const uint8_t *page = page_of(file, number, depth > 1 ? BRANCH : LEAF);
    int64_t count = page ? nodes_in(file, page) : -1;
    struct node node;
    for (int64_t at = 0; at < count; at++) {
        if (!take_node(file, page, at, &node)) return 0;
        if (depth > 1) {
            if (!check_page(file, child_of(&node), depth - 1, kind, is_free)) return 0;
            continue;
        }
        if (node.flags == BIG_VALUE && kind != SUB_TREE) {
            if (!find_big(file, &node, &first, &pages) || !use(file, first, pages, file->there)) return 0;
        } else if (node.flags != kind || node.value_bytes > node.room) return 0;
        if (kind == SUB_TREE && (node.value_bytes != TREE_BYTES || !check_tree(file, node.value, 0, 0))) return 0;
        if (is_free && !check_free(file, &node)) return 0;
    }
    return count >= 0;
}

static int check_tree(struct file *file, const uint8_t *tree, unsigned kind, int is_free)
{
    unsigned depth = two(tree + DEPTH_AT);
    if (eight(tree + ROOT_AT) == UINT64_MAX) return 1;
    return depth && depth <= DEPTH_MAX && check_page(file, eight(tree + ROOT_AT), depth, kind, is_free);
}

/* Return 1 if no page that can be reached from a meta page is damaged, else 0. `used` has a zero for each
 * page up to the last one. */
EXPORT int pages_hold(
    const uint8_t *data, int64_t page_bytes, int64_t there, int64_t last, int64_t meta, uint8_t *used)
{
    uint64_t end = (uint64_t)(there <= last ? there : last + 1);
    struct file file = {data, (uint64_t)page_bytes, end, (uint64_t)last, used};
    const uint8_t *trees = data + meta * page_bytes + TREES_AT;
    return check_tree(&file, trees + TREE_BYTES, SUB_TREE, 0) && check_tree(&file, trees, 0, 1);
}

/* --- values under numbers */

struct wanted {
    const uint32_t *number, *end; /* in order, each once: the first that was not found yet */
    int64_t begin, bytes; /* of each value */
    uint8_t *into;
};

static uint64_t number_of(const struct node *node)
{
    return node->key_bytes == NUMBER_BYTES ? u64_at(node->key) : 0;
}

/* Copy the wanted values below `limit` out of a tree; return 0 if one is missing. Each page that is read
 * must have a wanted value, so a loop of pages ends. */
static int copy_tree(
    const struct file *file, uint64_t number, unsigned depth, uint64_t limit, struct wanted *wanted)
{
    struct node node, next;
    uint64_t first, pages;
    const uint8_t *page = NULL;
    if (number >= FIRST && number < file->there) page = page_of(file, number, depth > 1 ? BRANCH : LEAF);
    int64_t count = page ? nodes_in(file, page) : -1;
    for (int64_t at = 0; at < count && wanted->number < wanted->end; at++) {
        if (!take_node(file, page, at, &node)) return 0;
        if (depth > 1) {
            if (at + 1 < count && !take_node(file, page, at + 1, &next)) return 0;
            uint64_t below = at + 1 < count ? number_of(&next) : limit;
            if (*wanted->number < below && !copy_tree(file, child_of(&node), depth - 1, below, wanted)) return 0;
        } else if (number_of(&node) == *wanted->number) {
            if (node.flags == BIG_VALUE ? !find_big(file, &node, &first, &pages) : node.value_bytes > node.room)
                return 0;
            if (node.value_bytes < (uint64_t)(wanted->begin + wanted->bytes)) return 0;
            memcpy(wanted->into, node.value + wanted->begin, (size_t)wanted->bytes);
            wanted->into += wanted->bytes;
            wanted->number++;
        }
    }
    return count >= 0 && (wanted->number == wanted->end || *wanted->number >= limit);
}

/* Copy a part of the value of each key, as a transaction sees it; return 0 if one is missing, or the
 * transaction's meta page was written over. `value` is any value in the mapped file. */
EXPORT int copy_values(
    const uint8_t *value, int64_t page_bytes, int64_t transaction, const uint8_t *name, int64_t name_bytes,
    const uint32_t *numbers, int64_t count, int64_t begin, int64_t bytes, uint8_t *into)
{
    const uint8_t *page = value - (uintptr_t)value % (uintptr_t)page_bytes;
    const uint8_t *data = page - eight(page) * (uint64_t)page_bytes, *meta = data + (transaction & 1) * page_bytes;
    struct file file = {data, (uint64_t)page_bytes, eight(meta + LAST_AT) + 1, 0, NULL};
    struct wanted wanted = {numbers, numbers + count, begin, bytes, into};
    uint8_t tree[TREE_BYTES];
    struct node node;
    memcpy(tree, meta + TREES_AT + TREE_BYTES, sizeof tree);
    if (eight(meta + TRANSACTION_AT) != (uint64_t)transaction) return 0;
    const uint8_t *main = two(tree + DEPTH_AT) == 1 ? page_of(&file, eight(tree + ROOT_AT), LEAF) : NULL;
    int64_t tables = main ? nodes_in(&file, main) : 0;
    for (int64_t at = 0; at < tables; at++) {
        if (!take_node(&file, main, at, &node) || node.value_bytes != TREE_BYTES || node.room < TREE_BYTES) return 0;
        if (node.key_bytes != (uint64_t)name_bytes || memcmp(node.key, name, (size_t)name_bytes)) continue;
        unsigned depth = two(node.value + DEPTH_AT);
        return depth && depth <= DEPTH_MAX && copy_tree(&file, eight(node.value + ROOT_AT), depth, UINT64_MAX, &wanted)
            && wanted.number == wanted.end;
    }
    return 0;
}
