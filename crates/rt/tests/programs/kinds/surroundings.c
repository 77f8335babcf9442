/* Environment, descriptors, users, roots: what a recorder may lean on and a program may take away. */
#include "kinds.h"
#include <grp.h>
#include <sys/auxv.h>
#include <dirent.h>
extern char **environ;

static void children(const char *what) {
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        fights();
        p = fork();
        if (p == 0) {
            fights();
            _exit(8);
        }
        int st = 0;
        waitpid(p, &st, 0);
        _exit(WEXITSTATUS(st));
    }
    ended(what, p);
}
static int cleared(void) {
    fights();
    clearenv();
    children("after clearenv");
    char *args[] = {"program", "child", NULL};
    execv("/proc/self/exe", args);
    return 1;
}
static int empty(void) {
    char *args[] = {"program", "child", NULL};
    char *none[] = {NULL};
    fights();
    fflush(stdout);
    execve("/proc/self/exe", args, none);
    return 1;
}
static int kept(void) {
    char *args[] = {"program", "child", NULL};
    setenv("KIND", "kept", 1);
    fflush(stdout);
    execv("/proc/self/exe", args);
    return 1;
}
static int null_env(void) {
    char *args[] = {"program", "child", NULL};
    fflush(stdout);
    execve("/proc/self/exe", args, NULL);
    return 1;
}
static int child(void) {
    int n = 0;
    for (char **e = environ; e && *e; e++)
        if (strcmp(*e, "KIND=kept") == 0 || !getenv("KIND")) n++, puts(*e);
    printf("%d variables\n", n);
    children("child of the exec");
    return 0;
}
static int jailed(void) {
    if (geteuid() != 0) { puts("needs root"); return 77; }
    fights();
    if (mkdir("jail", 0755) || chroot("jail") || chdir("/")) return 1;
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) return 2;
    printf("uid %d\n", (int)getuid());
    children("after chroot and setuid");
    clearenv();
    children("after clearenv too");
    return 0;
}
static int edits(void) {
    setenv("KIND_A", "1", 1);
    putenv("KIND_B=2");
    char *own[] = {"KIND_C=3", NULL};
    char **old = environ;
    environ = own;
    printf("%s %s\n", getenv("KIND_C"), getenv("KIND_A") ? "seen" : "hidden");
    setenv("KIND_D", "4", 1);
    for (char **e = environ; *e; e++) puts(*e);
    environ = old;
    printf("%s %s\n", getenv("KIND_A"), getenv("KIND_B"));
    unsetenv("KIND_A");
    printf("%s\n", getenv("KIND_A") ? "still" : "gone");
    fights();
    return 0;
}
static void numbers(void) {
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d)) printf("fd %s\n", e->d_name);
    closedir(d);
}
static int descriptors(void) {
    fights();
    numbers();
    int a = open("/dev/null", O_RDONLY), b = dup(a), c = fcntl(a, F_DUPFD, 500), p[2];
    if (pipe(p)) return 1;
    printf("%d %d %d %d %d\n", a, b, c, p[0], p[1]);
    printf("highest %d\n", dup2(a, 1000));
    for (int i = 3; i < 1024; i++) close(i);
    printf("closed: %d %s\n", dup2(a, 5), strerror(errno));
    children("after closing all");
    numbers();
    return 0;
}
static int closefroms(void) {
    fights();
    closefrom(3);
    printf("%d\n", close_range(3, ~0u, 0));
    children("after closefrom");
    printf("%d\n", open("/dev/null", O_RDONLY));
    close(0), close(2);
    printf("%d %d\n", open("/dev/null", O_RDONLY), open("/dev/null", O_RDWR));
    children("with 0 and 2 reopened");
    return 0;
}
static int nofile(void) {
    struct rlimit r = {3, 3};
    fights();
    setrlimit(RLIMIT_NOFILE, &r);
    printf("%d %s\n", open("/dev/null", O_RDONLY), strerror(errno));
    children("no descriptors left");
    return 0;
}
static int auxv(void) {
    printf("%lu %lu %d %s\n", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK), getauxval(AT_SYSINFO_EHDR) != 0,
           strrchr((char *)getauxval(AT_EXECFN), '/'));
    errno = 0;
    printf("%lu %s\n", getauxval(9999), strerror(errno));
    fights();
    return 0;
}
static int moved(void) {
    fights();
    if (chdir("/")) return 1;
    umask(0777);
    children("in another folder, umask 0777");
    return 0;
}
static int comm(void) {
    char name[16] = "";
    prctl(PR_SET_NAME, "renamed");
    fights();
    prctl(PR_GET_NAME, name);
    puts(name);
    prctl(PR_SET_DUMPABLE, 0);
    children("not dumpable");
    return 0;
}
/* Commands of the shell without an environment. */
static int cleared_shell(void) {
    char line[80];
    fights();
    clearenv();
    fflush(stdout);
    printf("system %d\n", WEXITSTATUS(system("exit 3")));
    FILE *f = popen("echo through a pipe", "r");
    while (f && fgets(line, sizeof line, f)) printf("popen %s", line);
    printf("%d %d\n", f ? pclose(f) : -1, system(NULL) != 0);
    return 0;
}
KINDS({"clearenv", cleared}, {"empty_env_exec", empty}, {"null_env_exec", null_env}, {"child", child}, {"kept_env_exec", kept},
      {"chroot_setuid", jailed}, {"environ_edits", edits}, {"descriptors", descriptors}, {"closefrom", closefroms},
      {"nofile", nofile}, {"auxv", auxv}, {"umask", moved}, {"dumpable", comm},
      {"cleared_shell", cleared_shell})
