void probe(void);

__attribute__((noinline)) static void deep_in_plugin(void) {
    probe();
    __asm__ volatile("" ::: "memory");
}

void from_plugin(void) {
    deep_in_plugin();
    __asm__ volatile("" ::: "memory");
}
