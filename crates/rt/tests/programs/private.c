/* One word that one thread uses: nothing to report. */
#include "common.h"
static volatile long word;
int main(int argc, char **argv) {
    long n = number(argc, argv, 1, 1000000);
    for (long i = 0; i < n; i++) word++;
    return 0;
}
