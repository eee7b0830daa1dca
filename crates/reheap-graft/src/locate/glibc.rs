//! glibc's malloc without symbols.
//!
//! Its assertions and its messages about a damaged heap name the function that they are in: `__libc_malloc`,
//! `free(): invalid pointer`. Only that function's code uses that text. `free` has no text of its own. But it is the
//! one function besides `realloc` that calls both the one with "free(): invalid pointer" and the one with
//! "munmap_chunk(): invalid pointer", and `realloc` calls it too.

use super::code::{Code, only};
use std::collections::{BTreeMap, BTreeSet};

/// The texts, and which function uses each.
pub(super) const TEXTS: [(&str, &str); 6] = [
    ("__libc_malloc", "malloc"),
    ("__libc_calloc", "calloc"),
    ("__libc_realloc", "realloc"),
    ("free(): invalid pointer", "free a block"),
    ("munmap_chunk(): invalid pointer", "unmap a block"),
    ("_mid_memalign", "align a block"),
];

/// Where the functions are; `None` if one of those that every malloc has cannot be shown.
pub(super) fn find(
    code: &Code<'_>,
    texts: &BTreeMap<u64, &'static str>,
) -> Option<BTreeMap<&'static str, u64>> {
    let user = |role: &str| {
        let addresses = texts.iter().filter(|(_, found)| **found == role);
        only(&code.users(&addresses.map(|(&address, _)| address).collect()))
    };
    let (malloc, calloc, realloc) = (user("malloc")?, user("calloc")?, user("realloc")?);
    let (free_block, unmap_block) = (user("free a block")?, user("unmap a block")?);
    let both = &code.callers(free_block) & &code.callers(unmap_block);
    let frees: BTreeSet<u64> = both
        .difference(&BTreeSet::from([realloc]))
        .copied()
        .collect();
    let free = only(&(&frees & &code.callees(realloc)))?;
    if frees.len() != 1 || !code.callees(realloc).contains(&malloc) {
        return None;
    }
    let mut found = BTreeMap::from([
        ("malloc", malloc),
        ("calloc", calloc),
        ("realloc", realloc),
        ("free", free),
    ]);
    if found.values().collect::<BTreeSet<_>>().len() != found.len() {
        return None;
    }
    found.extend(
        user("align a block")
            .map(|align| find_aligned(code, align))
            .unwrap_or_default(),
    );
    Some(found)
}

/// The functions in front of the one that aligns: `posix_memalign` calls it, and `memalign` passes its arguments on as
/// they are. `valloc` and `pvalloc` give it the size of a page.
fn find_aligned(code: &Code<'_>, align: u64) -> BTreeMap<&'static str, u64> {
    use super::arguments::{EINVAL, passes_arguments, returns_number};
    let callers = code.callers(align);
    let all = |condition: &dyn Fn(u64) -> bool| {
        only(
            &callers
                .iter()
                .copied()
                .filter(|&caller| condition(caller))
                .collect(),
        )
    };
    let mut found = BTreeMap::new();
    found.extend(
        all(&|caller| returns_number(code, caller, EINVAL)).map(|at| ("posix_memalign", at)),
    );
    // Up to glibc 2.37 both are one function. Later ones are two, and then neither is taken.
    let memalign = all(&|caller| passes_arguments(code, caller, align));
    found.extend(memalign.map(|at| ("memalign", at)));
    found.extend(memalign.map(|at| ("aligned_alloc", at)));
    found
}
