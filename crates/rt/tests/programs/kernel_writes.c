/* Two threads; one has the kernel write a word that lies beside the other's, each way there is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t __read_chk(int, void *, size_t, size_t);
static volatile long words[2] __attribute__((aligned(64)));
static const char *way;
static volatile int done;
static void *counts(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000 || !done; i++) words[1]++;
    return NULL;
}
int main(int argc, char **argv) {
    (void)argc;
    way = argv[1];
    pthread_t t;
    pthread_create(&t, NULL, counts, NULL);
    int fd = open("/dev/zero", O_RDONLY), s[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
    FILE *zeros = fopen("/dev/zero", "r");
    struct iovec v[2] = {{(void *)words, 4}, {(char *)words + 4, 4}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    long got = 0;
    for (int i = 0; i < 3000; i++) {
        if (!strcmp(way, "readv")) got += readv(fd, v, 2);
        if (!strcmp(way, "preadv")) got += preadv(fd, v, 2, 0);
        if (!strcmp(way, "preadv2")) got += preadv2(fd, v, 2, 0, 0);
        if (!strcmp(way, "read_chk")) got += __read_chk(fd, (void *)words, 8, 16);
        if (!strcmp(way, "fread_unlocked")) got += fread_unlocked((void *)words, 2, 4, zeros) * 2;
        if (!strcmp(way, "raw_read")) got += syscall(SYS_read, fd, words, 8);
        if (!strcmp(way, "raw_readv")) got += syscall(SYS_readv, fd, v, 2);
        if (strncmp(way, "recv", 4) && strncmp(way, "raw_recv", 8)) continue;
        send(s[1], "12345678", 8, 0);
        if (!strcmp(way, "raw_recvmsg")) got += syscall(SYS_recvmsg, s[0], &m, 0);
        if (!strcmp(way, "raw_recvfrom")) got += syscall(SYS_recvfrom, s[0], words, 8, 0, NULL, NULL);
        if (way[1] == 'a') continue;
        if (!strcmp(way, "recv_trunc")) {
            got += recv(s[0], (void *)words, 8, MSG_TRUNC);
            continue;
        }
        got += !strcmp(way, "recvmsg") ? recvmsg(s[0], &m, 0) : recvfrom(s[0], (void *)words, 8, 0, NULL, NULL);
    }
    done = 1;
    pthread_join(t, NULL);
    printf("%ld\n", got);
    return 0;
}
