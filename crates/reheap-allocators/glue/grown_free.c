// `free` for allocators whose own knows nothing of grown blocks. It knows NULL as well, because mimalloc 3 looks that up in
// a table, and in a finished executable there is none before the first malloc.
void __reheap_inner_free(void *);

__attribute__((aligned(64))) void __reheap_free(void *block) {
    if (__builtin_expect(may_be_grown(block), 0) && (!block || __reheap_free_grown(block))) return;
    __reheap_inner_free(block);
}
