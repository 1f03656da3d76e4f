#include "data/db/lmdb_walk.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

/* A page, with field sizes in bytes: number (8), pad (2), flags (2), then the bounds of its free
 * space, lower and upper (2 each). The first of a run of overflow pages has their number (4)
 * instead of the bounds. In a branch or leaf the offsets of its nodes (2 each) follow up to
 * `lower`.
 *
 * A node: size or page number (low 2, high 2), flags (2), key size (2), key. In a branch, the flags
 * are the highest part of the page number. In a leaf, the value follows, or the number of its first
 * overflow page (8) if it is large. */
enum { PAGE_HEADER = 16, NODE_HEADER = 8 };
enum { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_KINDS = 0x6f };
enum { NODE_BIG = 0x01, NODE_KINDS = 0x07 };

static uint16_t read_16(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t read_64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static crema_status fail_page(uint64_t number, const char *what) {
  return cr_fail(CREMA_E_CORRUPT, "the database is corrupt: page %llu %s",
                 (unsigned long long)number, what);
}

crema_status cr_lmdb_walk_begin(cr_lmdb_walk *walk, cr_lmdb_file *file) {
  const cr_lmdb_meta *meta = &file->meta;
  *walk = (cr_lmdb_walk){.file = file,
                         .page_size = meta->page_size,
                         .pages = meta->last_page + 1,
                         .entries = meta->entries,
                         .root = meta->root};
  if (file->size / meta->page_size < 2) {
    return cr_fail(CREMA_E_CORRUPT, "truncated database (%llu bytes)",
                   (unsigned long long)file->size);
  }
  if (walk->pages < 2) return cr_fail(CREMA_E_CORRUPT, "the database is corrupt: it has no pages");
  /* The file lacks pages at its end that became free before they were written. */
  if (walk->pages > file->size / meta->page_size) walk->pages = file->size / meta->page_size;
  if (meta->duplicates) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a database with several values per key");
  }
  return CREMA_OK;
}

void cr_lmdb_walk_end(cr_lmdb_walk *walk) {
  for (int i = 0; i < CR_LMDB_MAX_DEPTH; ++i) {
    free(walk->level[i].page);
    walk->level[i].page = NULL;
  }
}

static crema_status check_number(const cr_lmdb_walk *walk, uint64_t number) {
  if (number >= 2 && number < walk->pages) return CREMA_OK;
  return fail_page(number, "lies outside the file");
}

static bool is_leaf(const uint8_t *page) {
  return (read_16(page + 10) & PAGE_LEAF) != 0;
}

/* The node at `index`; its key lies inside the page. */
static crema_status get_node(const cr_lmdb_walk *walk, const uint8_t *page, int index,
                             const uint8_t **out, cr_db_bytes *key) {
  size_t offset = read_16(page + PAGE_HEADER + 2 * index);
  if (offset < PAGE_HEADER || offset + NODE_HEADER > walk->page_size) {
    return fail_page(read_64(page), "has a node outside itself");
  }
  const uint8_t *node = page + offset;
  size_t key_size = read_16(node + 6);
  if (key_size > walk->page_size - offset - NODE_HEADER) {
    return fail_page(read_64(page), "has a key outside itself");
  }
  *out = node;
  *key = (cr_db_bytes){node + NODE_HEADER, key_size};
  return CREMA_OK;
}

/* Reads the page as the lowest level, before its first node. */
static crema_status enter(cr_lmdb_walk *walk, uint64_t number) {
  const size_t size = walk->page_size;
  if (walk->depth == CR_LMDB_MAX_DEPTH) return fail_page(number, "is part of a loop");
  cr_lmdb_level *level = &walk->level[walk->depth];
  CR_TRY(check_number(walk, number));
  if (level->page == NULL) level->page = malloc(size);
  if (level->page == NULL) return cr_fail_memory(size, "a page of a database");
  CR_TRY(cr_lmdb_file_read(walk->file, number * size, level->page, size));
  if (read_64(level->page) != number) return fail_page(number, "has another number");
  int kind = read_16(level->page + 10) & PAGE_KINDS;
  size_t lower = read_16(level->page + 12);
  if (kind != PAGE_BRANCH && kind != PAGE_LEAF) return fail_page(number, "is no tree page");
  if (lower < PAGE_HEADER + 2 || lower > size || lower % 2 != 0) {
    return fail_page(number, "has no proper list of nodes");
  }
  level->index = 0;
  level->count = (int)(lower - PAGE_HEADER) / 2;
  ++walk->depth;
  return CREMA_OK;
}

/* Goes down from the lowest level, a branch, to the child at its index. */
static crema_status enter_child(cr_lmdb_walk *walk) {
  const cr_lmdb_level *level = &walk->level[walk->depth - 1];
  const uint8_t *node = NULL;
  cr_db_bytes key;
  CR_TRY(get_node(walk, level->page, level->index, &node, &key));
  uint64_t child = (uint64_t)read_16(node) | (uint64_t)read_16(node + 2) << 16 |
                   (uint64_t)read_16(node + 4) << 32;
  return enter(walk, child);
}

static uint64_t overflow_pages(size_t page_size, uint64_t size) {
  return (PAGE_HEADER - 1 + size) / page_size + 1;
}

/* Finds a large node's value in its overflow pages. */
static crema_status find_overflow(cr_lmdb_walk *walk, uint64_t number, uint64_t size) {
  CR_TRY(check_number(walk, number));
  if (overflow_pages(walk->page_size, size) > walk->pages - number) {
    return fail_page(number, "does not hold the value that belongs there");
  }
  walk->value = (cr_db_bytes){NULL, (size_t)size};
  walk->offset = number * walk->page_size + PAGE_HEADER;
  return CREMA_OK;
}

/* The kernel copies 1.3x as fast to aligned addresses. */
enum { COPY_ALIGNMENT = 64 };

/* Only values on overflow pages begin right after a page's header. */
crema_status cr_lmdb_read_value(cr_lmdb_file *file, uint64_t offset, size_t size, cr_buffer *store,
                                cr_db_bytes *out) {
  size_t page_size = file->meta.page_size;
  size_t header = offset % page_size == PAGE_HEADER ? PAGE_HEADER : 0;
  cr_buffer_clear(store);
  CR_TRY(cr_buffer_reserve(store, header + size + COPY_ALIGNMENT));
  uint8_t *page = (uint8_t *)store->data;
  page += -(uintptr_t)page % COPY_ALIGNMENT;
  CR_TRY(cr_lmdb_file_read(file, offset - header, page, header + size));
  *out = (cr_db_bytes){page + header, size};
  if (header == 0) return CREMA_OK;
  uint32_t pages;
  memcpy(&pages, page + 12, sizeof pages);
  if (read_64(page) == offset / page_size && (read_16(page + 10) & PAGE_KINDS) == PAGE_OVERFLOW &&
      pages >= overflow_pages(page_size, size)) {
    return CREMA_OK;
  }
  return fail_page(offset / page_size, "does not hold the value that belongs there");
}

/* Sets key and value from the lowest level, a leaf, at its index. */
static crema_status load(cr_lmdb_walk *walk) {
  const cr_lmdb_level *level = &walk->level[walk->depth - 1];
  const uint8_t *node = NULL;
  CR_TRY(get_node(walk, level->page, level->index, &node, &walk->key));
  uint64_t size = (uint64_t)read_16(node) | (uint64_t)read_16(node + 2) << 16;
  int kind = read_16(node + 4) & NODE_KINDS;
  const uint8_t *data = walk->key.data + walk->key.size;
  uint64_t room = walk->page_size - (size_t)(data - level->page);
  uint64_t inside = kind == NODE_BIG ? 8 : size;
  if ((kind != 0 && kind != NODE_BIG) || inside > room) {
    return fail_page(read_64(level->page), "has a value outside itself");
  }
  if (kind == NODE_BIG) return find_overflow(walk, read_64(data), size);
  walk->value = (cr_db_bytes){data, (size_t)size};
  walk->offset = read_64(level->page) * walk->page_size + (size_t)(data - level->page);
  return CREMA_OK;
}

/* Goes down to the first leaf below the lowest level. */
static crema_status descend(cr_lmdb_walk *walk) {
  while (!is_leaf(walk->level[walk->depth - 1].page)) CR_TRY(enter_child(walk));
  return load(walk);
}

static crema_status begin_at_root(cr_lmdb_walk *walk, bool *empty) {
  walk->depth = 0;
  walk->visited = 1;
  *empty = walk->root == UINT64_MAX;
  return *empty ? CREMA_OK : enter(walk, walk->root);
}

/* A failure leaves the walk on no record. */
static crema_status settle(cr_lmdb_walk *walk, crema_status status, bool *valid) {
  if (status != CREMA_OK) walk->depth = 0;
  *valid = status == CREMA_OK && walk->depth > 0;
  return status;
}

crema_status cr_lmdb_walk_first(cr_lmdb_walk *walk, bool *valid) {
  bool empty = false;
  crema_status status = begin_at_root(walk, &empty);
  if (status == CREMA_OK && !empty) status = descend(walk);
  return settle(walk, status, valid);
}

static crema_status step(cr_lmdb_walk *walk) {
  while (walk->depth > 0) {
    cr_lmdb_level *level = &walk->level[walk->depth - 1];
    if (++level->index < level->count) break;
    --walk->depth;
  }
  if (walk->depth == 0) return CREMA_OK;
  /* A loop of pages could make the walk endless. */
  if (++walk->visited > walk->entries) return fail_page(walk->root, "leads to too many records");
  return descend(walk);
}

crema_status cr_lmdb_walk_next(cr_lmdb_walk *walk, bool *valid) {
  return settle(walk, step(walk), valid);
}

static int compare(cr_db_bytes a, cr_db_bytes b) {
  int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
  if (order != 0) return order;
  return a.size < b.size ? -1 : a.size > b.size;
}

/* Finds the last node of the lowest level whose key is not above `wanted`; a branch's first key
 * counts as the lowest. */
static crema_status search(cr_lmdb_walk *walk, cr_db_bytes wanted) {
  cr_lmdb_level *level = &walk->level[walk->depth - 1];
  int low = 0, high = level->count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    const uint8_t *node = NULL;
    cr_db_bytes key = {0};
    CR_TRY(get_node(walk, level->page, middle, &node, &key));
    if (compare(key, wanted) <= 0) low = middle;
    else high = middle;
  }
  level->index = low;
  return CREMA_OK;
}

static crema_status seek(cr_lmdb_walk *walk, cr_db_bytes wanted) {
  bool empty = false;
  CR_TRY(begin_at_root(walk, &empty));
  if (empty) return CREMA_OK;
  for (;;) {
    CR_TRY(search(walk, wanted));
    if (is_leaf(walk->level[walk->depth - 1].page)) break;
    CR_TRY(enter_child(walk));
  }
  CR_TRY(load(walk));
  if (compare(walk->key, wanted) != 0) walk->depth = 0;
  return CREMA_OK;
}

crema_status cr_lmdb_walk_seek(cr_lmdb_walk *walk, cr_db_bytes key, bool *valid) {
  return settle(walk, seek(walk, key), valid);
}
