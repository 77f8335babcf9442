/* Two threads add to neighbouring words, by turns: channels HOW WORK, additions a step. They hand the turn on by HOW:
   pipe, readv, eventfd, counter (eventfd_read), socket, semop, msg, mq, sigwait, signalfd.
   The same by two processes:                           channels HOW WORK processes
   Both at once, who tell a third thread of each step:  channels HOW WORK both
   Both at once, each step when another process asks for it, and told to it and to a third thread: channels HOW WORK served */
#include "common.h"
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { STEPS = 60, ENDS = 5 };

static struct board { volatile long value[8]; } *board;
static int ends[ENDS][2], set, messages;
static mqd_t queues[ENDS];
static const char *how;
static long work;

static int is(const char *name) { return strcmp(how, name) == 0; }

static void check(int ok) {
    if (!ok) perror(how), exit(3);
}

static sigset_t signals_of(int to) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGRTMIN + to);
    return s;
}

static void prepare(int k) {
    if (is("pipe") || is("readv")) check(pipe(ends[k]) == 0);
    if (is("socket")) check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[k]) == 0);
    if (is("eventfd") || is("counter")) ends[k][0] = ends[k][1] = eventfd(0, EFD_SEMAPHORE);
    if (is("mq")) {
        struct mq_attr about = {.mq_maxmsg = 8, .mq_msgsize = 8};
        char name[64];
        sprintf(name, "/tussle-channels-%d-%d", getpid(), k);
        check((queues[k] = mq_open(name, O_CREAT | O_RDWR, 0600, &about)) >= 0);
        mq_unlink(name);
    }
    sigset_t s = signals_of(k);
    sigprocmask(SIG_BLOCK, &s, NULL);
    if (is("signalfd")) ends[k][0] = signalfd(-1, &s, 0);
}

static void forget(void) {
    if (is("semop")) semctl(set, 0, IPC_RMID);
    if (is("msg")) msgctl(messages, IPC_RMID, NULL);
}

static void change(int k, int by) {
    struct sembuf s = {k, by, 0};
    check(semop(set, &s, 1) == 0);
}

static void send_to(int k) {
    struct { long type; char text[8]; } m = {k + 1, "go"};
    long one = 1;
    if (is("socket")) check(send(ends[k][1], &one, 8, 0) == 8);
    else if (is("counter")) check(eventfd_write(ends[k][1], 1) == 0);
    else if (is("semop")) change(k, 1);
    else if (is("msg")) check(msgsnd(messages, &m, 8, 0) == 0);
    else if (is("mq")) check(mq_send(queues[k], m.text, 3, 0) == 0);
    else if (is("sigwait") || is("signalfd")) kill(getpid(), SIGRTMIN + k);
    else check(write(ends[k][1], &one, 8) == 8);
}

static void wait_at(int k) {
    struct { long type; char text[8]; } m;
    struct iovec places[2] = {{&m.type, 4}, {m.text, 4}};
    struct signalfd_siginfo info;
    eventfd_t n;
    sigset_t s = signals_of(k);
    int got;
    if (is("socket")) check(recv(ends[k][0], &n, 8, 0) == 8);
    else if (is("counter")) check(eventfd_read(ends[k][0], &n) == 0);
    else if (is("semop")) change(k, -1);
    else if (is("msg")) check(msgrcv(messages, &m, 8, k + 1, 0) == 8);
    else if (is("mq")) check(mq_receive(queues[k], m.text, 8, NULL) == 3);
    else if (is("sigwait")) check(sigwait(&s, &got) == 0);
    else if (is("signalfd")) check(read(ends[k][0], &info, sizeof info) == sizeof info);
    else if (is("readv")) check(readv(ends[k][0], places, 2) == 8);
    else check(read(ends[k][0], &n, 8) == 8);
}

static void step(int me) {
    for (int i = 0; i < work; i++) board->value[me] += i & 3;
}

static void *by_turns(void *arg) {
    int me = (long)arg;
    for (int i = 0; i < STEPS; i++) {
        wait_at(me);
        step(me);
        if (!(me && i == STEPS - 1)) send_to(!me);
    }
    return arg;
}

static void *listens(void *arg) {
    for (int i = 0; i < 2 * STEPS; i++) wait_at(2);
    return arg;
}

static void *tells(void *arg) {
    for (int i = 0; i < STEPS; i++) step((long)arg), send_to(2);
    return arg;
}

static void *serves(void *arg) {
    int me = (long)arg;
    for (int i = 0; i < STEPS; i++) wait_at(me), step(me), send_to(3 + me), send_to(2);
    return arg;
}

static void asks(void) {
    for (int i = 0; i < STEPS; i++) send_to(0), send_to(1), wait_at(3), wait_at(4);
    _exit(0);
}

static void *starts(void *arg) {
    return send_to(0), arg;
}

int main(int argc, char **argv) {
    const char *mode = argc > 3 ? argv[3] : "turns";
    void *(*f)(void *) = strcmp(mode, "both") == 0 ? tells : strcmp(mode, "served") == 0 ? serves : by_turns;
    pthread_t listener;
    how = argc > 1 ? argv[1] : "pipe";
    work = number(argc, argv, 2, 5000);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    set = is("semop") ? semget(IPC_PRIVATE, ENDS, IPC_CREAT | 0600) : 0;
    messages = is("msg") ? msgget(IPC_PRIVATE, IPC_CREAT | 0600) : 0;
    for (int k = 0; k < ENDS; k++) prepare(k);
    if (strcmp(mode, "processes") == 0) {
        if (fork() == 0) by_turns((void *)0), _exit(0);
        if (fork() == 0) by_turns((void *)1), _exit(0);
        starts(NULL);
        while (wait(NULL) > 0) {}
        return forget(), 0;
    }
    if (f == serves && fork() == 0) asks();
    if (f != by_turns) pthread_create(&listener, NULL, listens, NULL);
    if (f == by_turns) starts(NULL);
    parallel(2, f);
    if (f != by_turns) pthread_join(listener, NULL);
    return forget(), 0;
}
