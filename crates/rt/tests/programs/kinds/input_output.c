/* Pipes, sockets, events, buffers, large files, the kernel's own rings. */
#include "kinds.h"
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <locale.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <wchar.h>

static int fds[2];
static void *echoes(void *arg) {
    char b[64];
    ssize_t n;
    int *fd = arg;
    fight(NULL);
    while ((n = read(fd[0], b, sizeof b)) > 0) (void)!write(fd[1], b, (size_t)n);
    close(fd[1]);
    return NULL;
}
static int pipes(void) {
    int to[2], from[2], ends[2];
    char b[200] = "";
    pthread_t t;
    if (pipe(to) || pipe(from)) return 1;
    ends[0] = to[0], ends[1] = from[1];
    pthread_create(&t, NULL, echoes, ends);
    printf("%zd\n", write(to[1], "through two pipes", 17));
    close(to[1]);
    pthread_join(t, NULL);
    ssize_t n = read(from[0], b, sizeof b);
    printf("%zd %s\n", n, b);
    signal(SIGPIPE, SIG_IGN);
    close(from[0]);
    int bad[2];
    if (pipe(bad)) return 1;
    close(bad[0]);
    printf("%zd", write(bad[1], "x", 1));
    printf(" %s\n", strerror(errno));
    printf("%zd", read(-1, b, 1));
    printf(" %s\n", strerror(errno));
    return 0;
}
static int listener;
static void *serves(void *arg) {
    char b[100];
    int c = accept(listener, NULL, NULL);
    ssize_t n = recv(c, b, sizeof b, 0);
    fight(arg);
    send(c, b, (size_t)n, MSG_NOSIGNAL);
    close(c);
    return NULL;
}
static int sockets(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    char b[100] = "";
    pthread_t t;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    printf("%d %d\n", bind(listener, (void *)&a, len), listen(listener, 5));
    getsockname(listener, (void *)&a, &len);
    pthread_create(&t, NULL, serves, NULL);
    int c = socket(AF_INET, SOCK_STREAM, 0);
    printf("%d\n", connect(c, (void *)&a, len));
    printf("%zd ", send(c, "over tcp", 8, 0));
    printf("%zd ", recv(c, b, sizeof b, 0));
    printf("%s\n", b);
    pthread_join(t, NULL);
    int s[2];
    printf("%d\n", socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
    struct iovec v[2] = {{"scat", 4}, {"tered", 5}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } pass = {0};
    m.msg_control = &pass, m.msg_controllen = sizeof pass;
    pass.h.cmsg_len = CMSG_LEN(sizeof(int)), pass.h.cmsg_level = SOL_SOCKET, pass.h.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&pass.h), &c, sizeof c);
    printf("%zd ", sendmsg(s[0], &m, 0));
    struct iovec w = {b, sizeof b};
    struct msghdr r = {.msg_iov = &w, .msg_iovlen = 1, .msg_control = &pass, .msg_controllen = sizeof pass};
    printf("%zd %s %d\n", recvmsg(s[1], &r, 0), b, *(int *)CMSG_DATA(&pass.h));
    return 0;
}
static void *adds(void *arg) {
    uint64_t one = 1;
    fight(arg);
    for (int i = 0; i < 10; i++) (void)!write(fds[0], &one, 8);
    return NULL;
}
static int events(void) {
    int ep = epoll_create1(EPOLL_CLOEXEC), seen = 0;
    fds[0] = eventfd(0, EFD_NONBLOCK);
    int tfd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec once = {{0, 0}, {0, 3000000}};
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fds[0]}, got[4];
    epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &e);
    e.data.fd = tfd;
    epoll_ctl(ep, EPOLL_CTL_ADD, tfd, &e);
    timerfd_settime(tfd, 0, &once, NULL);
    pthread_t t;
    pthread_create(&t, NULL, adds, NULL);
    uint64_t sum = 0, fired = 0;
    while (sum < 10 || !fired) {
        int n = epoll_wait(ep, got, 4, 1000);
        for (int i = 0; i < n; i++) {
            uint64_t v = 0;
            if (read(got[i].data.fd, &v, 8) == 8) *(got[i].data.fd == tfd ? &fired : &sum) += v;
        }
        if (++seen > 1000) break;
    }
    pthread_join(t, NULL);
    printf("%d %d\n", (int)sum, (int)fired);
    struct pollfd p = {fds[0], POLLIN, 0};
    printf("%d\n", poll(&p, 1, 0));
    return 0;
}
static int buffers(void) {
    char b[4096];
    fights();
    printf("no newline");
    fprintf(stderr, "to stderr\n");
    fflush(stdout);
    setvbuf(stdout, b, _IOFBF, sizeof b);
    printf(" buffered\n");
    setlocale(LC_ALL, "C.UTF-8");
    printf("%s %.2f %ls\n", setlocale(LC_NUMERIC, NULL), 3.14159, L"wide \u00e4");
    FILE *f = fopen("file.txt", "w+");
    for (int i = 0; i < 1000; i++) fprintf(f, "line %d\n", i);
    fseek(f, 0, SEEK_SET);
    char line[100];
    int n = 0;
    while (fgets(line, sizeof line, f)) n++;
    fclose(f);
    printf("%d lines\n", n);
    char *mem = NULL;
    size_t size = 0;
    f = open_memstream(&mem, &size);
    fwrite("in memory", 1, 9, f);
    fclose(f);
    printf("%s %zu\n", mem, size);
    f = fmemopen(mem, size, "r");
    printf("%zu %s\n", fread(line, 1, 9, f), strtok(line, " "));
    f = fopen("/nonexistent", "r");
    printf("%d %s\n", f == NULL, strerror(errno));
    printf("left in the buffer");
    return 0;
}
static void *prints(void *arg) {
    for (int i = 0; i < 500; i++) {
        flockfile(stdout);
        fputs("whole ", stdout), fputs("line\n", stdout);
        funlockfile(stdout);
    }
    return arg;
}
static int shared_stdout(void) {
    pthread_t t[3];
    for (long i = 0; i < 3; i++) pthread_create(&t[i], NULL, prints, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    return 0;
}
static int large(void) {
    int fd = open("large", O_CREAT | O_RDWR, 0600);
    char b[8] = "end";
    fights();
    printf("%zd\n", pwrite(fd, b, 4, 5l << 30));
    memset(b, 0, sizeof b);
    printf("%zd %s\n", pread(fd, b, 4, 5l << 30), b);
    struct stat st;
    fstat(fd, &st);
    printf("%ld\n", (long)st.st_size);
    printf("%d %d\n", flock(fd, LOCK_EX), fcntl(fd, F_GETFL) & O_ACCMODE);
    if (ftruncate(fd, 100)) return 1;
    int out = open("copy", O_CREAT | O_WRONLY, 0600);
    off_t from = 0;
    printf("%zd\n", sendfile(out, fd, &from, 100));
    struct iovec v[2] = {{b, 4}, {b + 4, 4}};
    printf("%zd\n", preadv(fd, v, 2, 96));
    return 0;
}
/* One read through io_uring by system calls: the kernel writes the buffer. */
static int uring(void) {
    struct io_uring_params p = {0};
    int fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (fd < 0) { printf("io_uring: %s\n", strerror(errno)); return 77; }
    char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), 3, MAP_SHARED | MAP_POPULATE, fd,
                    IORING_OFF_CQ_RING);
    struct io_uring_sqe *e = mmap(NULL, p.sq_entries * sizeof *e, 3, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
    static char buffer[64];
    int in = open("/proc/self/comm", O_RDONLY);
    memset(e, 0, sizeof *e);
    e->opcode = IORING_OP_READ, e->fd = in, e->addr = (uintptr_t)buffer, e->len = sizeof buffer;
    ((unsigned *)(sq + p.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    printf("%ld\n", syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
    struct io_uring_cqe *c = (void *)(cq + p.cq_off.cqes);
    printf("%d %s", c->res, buffer);
    fights();
    return 0;
}
/* A ring that is set up behind libc's back, as libraries do. */
static int hidden_ring(void) {
    unsigned long context = 0;
    long r;
    fights();
    __asm__ volatile("syscall" : "=a"(r) : "a"(SYS_io_setup), "D"(8), "S"(&context) : "rcx", "r11", "memory");
    if (r < 0) { printf("io_setup: %s\n", strerror(-r)); return 77; }
    printf("%d\n", context != 0);
    return 0;
}
KINDS({"pipes", pipes}, {"sockets", sockets}, {"events", events}, {"stdio", buffers}, {"shared_stdout", shared_stdout},
      {"large_files", large}, {"io_uring", uring}, {"hidden_ring", hidden_ring})
