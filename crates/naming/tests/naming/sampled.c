/* Structures in the ways that real programs use them. Prints where its objects lie: type, address. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list_head { struct list_head *next, *prev; };
struct rb_node { unsigned long parent_color; struct rb_node *right, *left; };
struct sem { long count; long owner; int osq; struct list_head wait_list; };
struct ops { int (*open)(int); int (*close)(int); };
struct mapping {
    void *host;
    struct rb_node *tree;
    unsigned long nrpages;
    const struct ops *ops;
    struct sem sem;
    unsigned flags : 3, err : 5;
    char name[12];
    union { long as_long; struct { int lo, hi; } as_pair; void *as_pointer; } u;
};
struct vma {
    unsigned long start, end;
    struct rb_node rb;
    struct mapping *mapping;
    struct list_head link;
    double weight;
    unsigned short key;
    unsigned char kind;
    int counters[8];
};
struct table { struct list_head *buckets; unsigned long mask; struct vma *last; struct vma *cache[4]; };
struct sockaddr_any { short family; char data[30]; };
struct sockaddr_four { short family; unsigned short port; unsigned addr; char zero[24]; };
struct element { int a; int b; long c; };

struct table *the_table;
static long sum;

#define container_of(p, t, m) ((t *)((char *)(p) - offsetof(t, m)))

static inline void list_add(struct list_head *n, struct list_head *head)
{
    n->next = head->next;
    n->prev = head;
    head->next->prev = n;
    head->next = n;
}

static inline int sem_trylock(struct sem *s)
{
    long old = __atomic_load_n(&s->count, __ATOMIC_RELAXED);
    return __atomic_compare_exchange_n(&s->count, &old, old + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

__attribute__((noinline)) void sem_up(struct sem *s)
{
    s->owner = 0;
    __atomic_fetch_sub(&s->count, 1, __ATOMIC_RELEASE);
}

__attribute__((noinline)) void insert(struct mapping *m, struct vma *v)
{
    struct rb_node **at = &m->tree;
    struct rb_node *parent = NULL;
    if (sem_trylock(&m->sem))
        m->sem.owner = 7;
    while (*at) {
        struct vma *o = container_of(*at, struct vma, rb);
        parent = *at;
        at = v->start < o->start ? &parent->left : &parent->right;
    }
    v->rb.parent_color = (unsigned long)parent;
    v->rb.left = v->rb.right = NULL;
    *at = &v->rb;
    v->mapping = m;
    m->nrpages += (v->end - v->start) >> 12;
    m->flags = v->kind & 7;
    m->err++;
    sem_up(&m->sem);
}

__attribute__((noinline)) struct vma *find(struct mapping *m, unsigned long at)
{
    struct rb_node *n = m->tree;
    while (n) {
        struct vma *v = container_of(n, struct vma, rb);
        if (at < v->start)
            n = n->left;
        else if (at >= v->end)
            n = n->right;
        else
            return v;
    }
    return NULL;
}

__attribute__((noinline)) long walk(struct list_head *head)
{
    long n = 0;
    for (struct list_head *p = head->next; p != head; p = p->next) {
        struct vma *v = container_of(p, struct vma, link);
        n += v->key + v->counters[v->kind & 7] + (long)v->weight;
        v->counters[3]++;
        if (v->mapping->ops->open)
            n += v->mapping->ops->open(v->kind);
    }
    return n;
}

__attribute__((noinline)) long elements(struct element *e, int n)
{
    long s = 0;
    for (int i = 0; i < n; i++) {
        s += e[i].a + e[i].c;
        e[i].b = s;
    }
    for (struct element *p = e; p < e + n; p++)
        s ^= p->b;
    return s;
}

__attribute__((noinline)) long address(struct sockaddr_any *any)
{
    if (any->family == 4) {
        struct sockaddr_four *four = (struct sockaddr_four *)any;
        four->port++;
        return four->addr + four->zero[1];
    }
    return any->data[5];
}

__attribute__((noinline)) long unions(struct mapping *m, int how)
{
    switch (how) {
    case 0: m->u.as_long = 5; return m->u.as_long;
    case 1: m->u.as_pair.hi = 6; return m->u.as_pair.lo;
    case 2: m->u.as_pointer = m; return ((struct mapping *)m->u.as_pointer)->nrpages;
    case 3: return m->name[how + 2];
    case 4: memcpy(m->name, "abcdefghijk", 12); return m->name[1];
    }
    return 0;
}

__attribute__((noinline)) long through_void(void *opaque)
{
    struct vma *v = opaque;
    struct table *t = the_table;
    t->last = v;
    t->cache[v->kind & 3] = v;
    return t->cache[1] ? (long)t->cache[1]->start : (long)v->end;
}

__attribute__((noinline)) struct mapping *current_mapping(void) { return the_table->last->mapping; }

static int identity(int x) { return x; }
static const struct ops the_ops = { identity, identity };

/* Called through a pointer, so that no compiler writes it out. */
static void *(*volatile clear)(void *, int, size_t) = memset;

static void *make(const char *type, size_t size)
{
    void *p = aligned_alloc(64, (size + 127) / 64 * 64);
    clear(p, 0, size);
    printf("%s %p %zu\n", type, p, size);
    return p;
}

int main(void)
{
    struct table *t = make("table", sizeof *t);
    struct mapping *m = make("mapping", sizeof *m);
    the_table = t;
    t->mask = 3;
    t->buckets = make("list_head", sizeof(struct list_head));
    t->buckets->next = t->buckets->prev = t->buckets;
    m->ops = &the_ops;
    for (int i = 0; i < 9; i++) {
        struct vma *v = make("vma", sizeof *v);
        v->start = (unsigned long)(i * 7 % 9) << 12;
        v->end = v->start + 4096;
        v->key = i;
        v->kind = i & 3;
        v->weight = i * 1.5;
        list_add(&v->link, t->buckets);
        insert(m, v);
        sum += through_void(v);
    }
    for (int i = 0; i < 9; i++) {
        struct vma *v = find(m, i << 12);
        sum += v ? v->key : 0;
    }
    sum += walk(t->buckets);
    struct element *e = make("element", 8 * sizeof *e);
    sum += elements(e, 8);
    struct sockaddr_four *f = make("sockaddr_four", sizeof *f);
    f->family = 4;
    sum += address((struct sockaddr_any *)f);
    for (int i = 0; i < 5; i++)
        sum += unions(m, i);
    sum += current_mapping()->nrpages;
    printf("sum %ld\n", sum);
    return 0;
}
