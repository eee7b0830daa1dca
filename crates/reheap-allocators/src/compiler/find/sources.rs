//! Sources that show what a compiler can do.

/// Finding out whether there is a header takes less time than reading it.
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

pub(super) const TRIAL_C: &str = "\
int main(void) { void *block = malloc(7); free(block); return 0; }
";

/// No header of the C++ library: [`Kind::HostGccWithMuslHeaders`] has none, and allocators need none.
pub(super) const TRIAL_CXX_OBJECT: &str = "\
template <typename T> struct alignas(64) Box { static_assert(sizeof(T) > 0, \"\"); T *inner; };
int main() { Box<int> box; box.inner = static_cast<int *>(malloc(7)); free(box.inner); return 0; }
";

/// `#error` is the first thing a compiler sees after the first header, so what it says about the libc comes before any
/// other complaint. musl itself defines no macro by which it could be known.
pub(super) const ONLY_MUSL: &str = "\
#if defined __GLIBC__
#error reheap: glibc
#elif defined __UCLIBC__
#error reheap: uclibc
#elif defined __BIONIC__
#error reheap: bionic
#elif defined __NEWLIB__
#error reheap: newlib
#endif
";

pub(super) const ONLY_GLIBC: &str = "\
#if !defined __GLIBC__
#error reheap: not glibc
#endif
";
