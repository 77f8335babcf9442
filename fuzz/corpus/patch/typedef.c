typedef struct {
	int a, *b, c[4];
	long d __attribute__((aligned(64)));
	_Alignas(32) char e;
} pair_t;
typedef struct node { struct node *left, *right; long key; } node_t;
#define FIELD(t, n) t n
struct made { FIELD(int, x); DECLARE_BITMAP(bits, 64); int y; } ____cacheline_aligned;
pair_t x = { 1, NULL, { 0 } };
