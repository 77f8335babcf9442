#include "tallyd.h"

#include <stdlib.h>

/* Knuth's multiplicative hash: the key's slot in a power-of-two table. */
static unsigned slot_of(uint32_t key)
{
	return (key * 2654435761u) >> 23;
}

struct tenant *table_create(void)
{
	struct tenant *table = calloc(TENANTS, sizeof(*table));

	if (!table)
		return NULL;
	/* Every eighth slot stays empty, so that some keys miss. */
	for (uint32_t i = 0; i < TENANTS; i++) {
		if (i % 8 == 7)
			continue;
		table[i].id = i + 1;
		table[i].weight = 1 + i % 5;
	}
	return table;
}

const struct tenant *table_find(const struct tenant *table, uint32_t key)
{
	const struct tenant *t = &table[slot_of(key) % TENANTS];

	return t->id ? t : NULL;
}
