/* Shared by the test programs: starting and joining threads, iterations from the command line. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64

static long number(int argc, char **argv, int i, long otherwise) { return argc > i ? atol(argv[i]) : otherwise; }

static void parallel(int n, void *(*f)(void *)) {
    pthread_t t[THREADS_MAX];
    for (long i = 0; i < n; i++) pthread_create(&t[i], NULL, f, (void *)i);
    for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
}
