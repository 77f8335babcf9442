/* seccomp: strict, and filters that kill, fail or trap whatever they do not know. */
#include "kinds.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* After the filter is set, the program goes on to new memory and new code. */
static void go_on(void) {
    static char area[8 << 20];
    for (int i = 0; i < (int)sizeof area; i += 64) area[i]++;
    for (int k = 0; k < 300; k++) pair[k & 1] += k;
}
static void done(const char *s) { syscall(SYS_write, 1, s, strlen(s)); }

static int strict(void) {
    fights();
    fflush(stdout);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 77;
    go_on();
    done("strict\n");
    syscall(SYS_exit, 6);
    return 0;
}
static int filter(unsigned otherwise, int by_syscall) {
    static const int allowed[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn};
    struct sock_filter f[20];
    int n = 0, count = sizeof allowed / sizeof *allowed;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(count - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog p = {(unsigned short)n, f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (by_syscall) return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}
static int filtered(unsigned otherwise, int by_syscall) {
    fights();
    fflush(stdout);
    if (filter(otherwise, by_syscall)) return 77;
    go_on();
    done("filtered\n");
    syscall(SYS_exit_group, 7);
    return 0;
}
static int kills(void) { return filtered(SECCOMP_RET_KILL_PROCESS, 0); }
static int kills_by_syscall(void) { return filtered(SECCOMP_RET_KILL_PROCESS, 1); }
static int fails(void) { return filtered(SECCOMP_RET_ERRNO | EPERM, 0); }
/* A filter that cannot be entered, and a question. */
static int refused(void) {
    struct sock_fprog none = {0, NULL};
    printf("%d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none));
    printf(" %s\n", strerror(errno));
    printf("%ld", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    printf(" %s\n", strerror(errno));
    printf("%d\n", prctl(PR_GET_SECCOMP) >= 0);
    fights();
    return 0;
}
/* A filter that kills for `count` calls, then this program again under it. */
static int again(const int *killing, int count) {
    struct sock_filter f[20];
    int n = 0;
    fights();
    fflush(stdout);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)killing[i], (unsigned char)(count - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog p = {(unsigned short)n, f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p)) return 77;
    execl("/proc/self/exe", "program", "under", NULL);
    return 1;
}
static int under(void) {
    fights();
    printf("%d children\n", waitpid(-1, NULL, __WALL) == -1 ? 0 : 1);
    return 5;
}
static int inherited(void) {
    static const int killing[] = {SYS_ptrace, SYS_reboot};
    return again(killing, 2);
}
static int inherited_narrow(void) {
    static const int killing[] = {SYS_ftruncate, SYS_unlink, SYS_rt_tgsigqueueinfo};
    return again(killing, 3);
}
static volatile sig_atomic_t trapped;
static void trap(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    char b[] = "trapped 000\n";
    b[8] = (char)('0' + i->si_syscall / 100), b[9] = (char)('0' + i->si_syscall / 10 % 10), b[10] = (char)('0' + i->si_syscall % 10);
    done(b);
    trapped++;
}
static int traps(void) {
    struct sigaction sa = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &sa, NULL);
    fights();
    fflush(stdout);
    if (filter(SECCOMP_RET_TRAP, 0)) return 77;
    syscall(SYS_getppid);
    go_on();
    syscall(SYS_exit_group, 10 + trapped);
    return 0;
}
static void *confined(void *arg) {
    if (filter(SECCOMP_RET_KILL_PROCESS, 0)) return NULL;
    go_on();
    done("a thread filtered\n");
    syscall(SYS_exit, 0);
    return arg;
}
/* Only one thread has the filter; the others make and end threads. */
static int one_thread(void) {
    pthread_t t;
    pthread_create(&t, NULL, confined, NULL);
    pthread_join(t, NULL);
    for (int i = 0; i < 20; i++) fights();
    go_on();
    puts("others go on");
    return 0;
}
KINDS({"strict", strict}, {"kill", kills}, {"kill_by_syscall", kills_by_syscall}, {"errno", fails}, {"refused", refused}, {"trap", traps},
      {"inherited", inherited}, {"inherited_narrow", inherited_narrow}, {"under", under}, {"one_thread", one_thread})
