//! Sources that show what a compiler can do.

pub(super) const TRIAL_CXX_LIBRARY: &str = "\
#if !__has_include(<string>)
#error there is no C++ library
#endif
int main() { try { throw malloc(7); } catch (void *block) { free(block); } }
";

pub(super) const TRIAL_CXX_PROGRAM: &str = "\
#include <new>
#include <string>
#include <cstdlib>
int main(int count, char **words) { try { throw std::string(words[0]); } catch (std::string &) { return count < 1; } }
";

/// What a program may need and Debian's `musl-gcc` lacks, with a program that needs it. GCC's unwinder calls
/// `_dl_find_object` since version 12, and musl has none.
pub(super) const EXTRAS: [(&str, &str); 2] = [
    (
        "the kernel's headers",
        "#include <linux/limits.h>\nint main(void) { return PATH_MAX; }\n",
    ),
    (
        "an unwinder",
        "#include <unwind.h>\nint main(void) { return _Unwind_FindEnclosingFunction((void *) main) != 0; }\n",
    ),
];

pub(super) const OTHER_LIBCS: [(&str, &str); 5] = [
    ("reheap: not glibc", "another libc"),
    ("reheap: glibc", "glibc"),
    ("reheap: uclibc", "uClibc"),
    ("reheap: bionic", "Bionic"),
    ("reheap: newlib", "newlib"),
];
