/* Both threads read a table under a reader-writer lock and count, each in a slot of its own beside the other's. FIXED:
   slots have lines; the lock stays shared. */
#include "common.h"
struct slot { APART long reads; };
struct shared {
    _Alignas(64) pthread_rwlock_t lock;
    _Alignas(64) long table[8];
    _Alignas(64) struct slot slots[2];
};
static _Alignas(128) struct shared s = {.lock = PTHREAD_RWLOCK_INITIALIZER};
static void *work(void *arg) {
    struct slot *slot = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_rwlock_rdlock(&s.lock);
        x += (uint64_t)s.table[i & 7];
        slot->reads++;
        WORK(SECTION_NS);
        pthread_rwlock_unlock(&s.lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(work, &s.slots[0], work, &s.slots[1], argc, argv); }
