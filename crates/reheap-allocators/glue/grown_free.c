// `free` for allocators whose own knows nothing of grown blocks.
void __reheap_inner_free(void *);

__attribute__((aligned(64))) void __reheap_free(void *block) {
    if (__builtin_expect(may_be_grown(block), 0) && __reheap_free_grown(block)) return;
    __reheap_inner_free(block);
}
