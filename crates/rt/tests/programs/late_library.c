/* Not instrumented: only call chains lead here. */
void late_call(void (*f)(long), long i) {
    f(i);
    __asm__ volatile("");
}
