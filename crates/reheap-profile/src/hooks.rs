//! The source of the hooks: one library for glibc, musl and static programs.

/// One C source, from the files in `hooks/`.
pub const SOURCE: &str = concat!(
    include_str!("../hooks/system.c"),
    include_str!("../hooks/trace.h"),
    include_str!("../hooks/trace.c"),
    include_str!("../hooks/capture.c"),
    include_str!("../hooks/recording.c"),
    include_str!("../hooks/blocks.c"),
    include_str!("../hooks/attach.c"),
    include_str!("../hooks/sample.c"),
    include_str!("../hooks/count.c"),
    include_str!("../hooks/family.c"),
    include_str!("../hooks/programs.c"),
    include_str!("../hooks/jemalloc.c"),
    include_str!("../hooks/mimalloc.c"),
    include_str!("../hooks/start.c"),
);

macro_rules! exports {
    (replaced: $($replaced:literal)*; hooked: $($hooked:literal)*) => {
        &[
            "reheap_hooks_attach",
            "reheap_next_malloc_usable_size",
            "execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "posix_spawn", "posix_spawnp",
            $($replaced, concat!("reheap_hook_", $replaced), concat!("reheap_next_", $replaced),)*
            $(concat!("reheap_hook_", $hooked), concat!("reheap_next_", $hooked),)*
        ]
    };
}

/// What the library exports: what a preload replaces; and for a static program, each hook and the pointer to the function
/// behind it, with what makes them work.
pub const EXPORTS: &[&str] = exports! {
    replaced:
        "malloc" "calloc" "realloc" "free" "aligned_alloc" "posix_memalign" "memalign" "valloc" "pvalloc" "reallocarray"
        "free_sized" "free_aligned_sized" "prctl" "syscall";
    hooked:
        "je_malloc" "je_calloc" "je_realloc" "je_free" "je_aligned_alloc" "je_posix_memalign"
        "je_mallocx" "je_rallocx" "je_sdallocx" "je_dallocx"
        "mi_malloc" "mi_zalloc" "mi_calloc" "mi_realloc" "mi_free"
        "mi_malloc_aligned" "mi_zalloc_aligned" "mi_realloc_aligned"
};
