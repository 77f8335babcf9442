/* Memory that was written is never run (PR_SET_MDWE), also not in what it executes. */
#include "kinds.h"
static int mdwe(void) {
    fights();
    if (prctl(65, 1, 0, 0, 0)) return printf("%s\n", strerror(errno)), 77;
    for (int i = 0; i < 5000; i++) free(malloc(i * 16));
    fights();
    fflush(stdout);
    pid_t c = fork();
    if (c == 0) execl("/proc/self/exe", "program", "second", NULL);
    ended("executed", c);
    c = fork();
    if (c == 0) unsetenv("TUSSLE_SESSION"), execl("/proc/self/exe", "program", "second", NULL);
    ended("executed", c);
    return 0;
}
static int second(void) { fights(); printf("%d\n", prctl(66, 0, 0, 0, 0)); return 5; }
KINDS({"mdwe", mdwe}, {"second", second})
