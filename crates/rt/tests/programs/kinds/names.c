/* Strictly by ISO C these names are the program's: other signatures, other meaning. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile long pair[2] __attribute__((aligned(64)));
int read = 3;
double write(double x) { return x * 2; }
int send(const char *what) { pair[0]++; return (int)strlen(what); }
struct recv { int a; } recv = {7};
void wait(int *n) { (*n)++; pair[1]++; }
int waitpid(void) { return 12; }
char *fork(const char *a) { return malloc(strlen(a) + 1); }
int sem_post(int a, int b) { return a + b; }
int sem_wait(void *p, int b) { return b + (p != 0); }
long pipe[8];
int vfork_count;
int mmap(void) { return 5; }
int munmap(int a) { return a + 1; }
int sigaction = 9;
int readv(int a) { return a; }
int writev(int a) { return a; }
int poll(int a) { return a - 1; }
int syscall_count, eventfd = 4;
int execve(int n) { return n; }
int posix_spawn(int n) { return n; }
int sigaltstack = 2;
int prctl(int n) { return -n; }
int thrd_create(int n) { return n + 40; }
int mtx_lock(int n) { return n + 41; }
int enter(int a) { return a; }
int tussle(int a) { return a; }
static void *fight(void *arg) {
    for (long i = 0; i < 5000; i++) pair[(long)arg & 1]++;
    return NULL;
}
int main(void) {
    int n = 1;
    wait(&n);
    char *p = fork("abc");
    strcpy(p, "abc");
    printf("%d %g %d %d %d %d %s\n", read, write(4), send("four"), recv.a, n, waitpid(), p);
    printf("%d %d %ld %d %d\n", sem_post(1, 2), sem_wait(p, 3), pipe[1], mmap(), munmap(2));
    printf("%d %d %d %d %d %d\n", sigaction, readv(1), writev(2), poll(3), eventfd, execve(2));
    printf("%d %d %d %d %d %d %d\n", posix_spawn(2), sigaltstack, prctl(2), enter(1), tussle(1),
        thrd_create(1), mtx_lock(1));
    free(p);
    FILE *f = fopen("file", "w+");
    fwrite("hello\n", 1, 6, f);
    rewind(f);
    char line[10] = "";
    fread(line, 1, 6, f);
    fclose(f);
    printf("%s", line);
    pthread_t t[2];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], NULL, fight, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    return 0;
}
