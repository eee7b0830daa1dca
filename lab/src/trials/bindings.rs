//! Whose malloc a program calls, as the dynamic linker says.
//!
//! With `LD_DEBUG=libs,bindings` glibc's dynamic linker writes down which library answers for which symbol, in a file
//! for each process (ld.so(8)). That proves more than `/proc/PID/maps`, which shows that the library is there but not
//! that it is called, and it cannot come too late for a program that ends at once. A file holds several programs one
//! after the other when a process executes another; each begins with the binding of the vDSO's clock_gettime.

use super::records::Evidence;
use std::collections::BTreeSet;
use std::path::Path;

/// What must come from one library, or blocks of one allocator meet the `free` of another.
const FAMILY: [&str; 13] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "malloc_usable_size",
    "__libc_memalign",
];

/// A line like ``binding file A [0] to B [0]: normal symbol `malloc' [GLIBC_2.2.5]``.
struct Binding<'a> {
    from: &'a str,
    to: &'a str,
    symbol: &'a str,
}

impl<'a> Binding<'a> {
    fn parse(line: &'a str) -> Option<Binding<'a>> {
        let (_, line) = line.split_once("binding file ")?;
        let (from, line) = line.split_once(" [")?;
        let (_, line) = line.split_once("] to ")?;
        let (to, line) = line.split_once(" [")?;
        let (_, line) = line.split_once('`')?;
        let (symbol, _) = line.split_once('\'')?;
        Some(Binding { from, to, symbol })
    }
}

/// A program between two execve(2).
#[derive(Default)]
struct Image<'a> {
    name: Option<&'a str>,
    /// Who got which function from the allocator's library.
    from_library: BTreeSet<(&'a str, &'a str)>,
    /// Who got which function from whom else.
    elsewhere: BTreeSet<(&'a str, &'a str, &'a str)>,
}

impl Image<'_> {
    fn is_of(&self, program: &str) -> bool {
        self.name.is_some_and(|name| file_name(name) == program)
    }

    /// An executable that is not position independent gives the address of its own jump to a function for the
    /// function's, and the jump leads where its own calls go. That is not elsewhere.
    fn is_elsewhere(&self, to: &str, symbol: &str) -> bool {
        !(self.is_of(to) && self.from_library.contains(&(to, symbol)))
    }
}

/// Adds what the log of one process says of this program and of the library with this file name.
pub(super) fn read(log: &str, program: &str, library: &str, evidence: &mut Evidence) {
    for image in images(log, library) {
        if image.from_library.is_empty() {
            continue;
        }
        evidence.starts_of_all += 1;
        evidence.starts += usize::from(image.is_of(program));
        for (from, to, symbol) in &image.elsewhere {
            let elsewhere = format!("{from}: {symbol} of {to}");
            if image.is_elsewhere(to, symbol) && !evidence.elsewhere.contains(&elsewhere) {
                evidence.elsewhere.push(elsewhere);
            }
        }
    }
}

fn images<'a>(log: &'a str, library: &str) -> Vec<Image<'a>> {
    let mut images = vec![Image::default()];
    for line in log.lines() {
        // Others of the vDSO may follow at any time, when a library asks for `time`.
        if line.contains("binding file linux-vdso.so.1") && line.contains("clock_gettime'") {
            images.push(Image::default());
        }
        let image = images.last_mut().expect("it has had one from the start");
        if let Some((_, name)) = line.split_once("initialize program: ") {
            image.name = Some(name);
        }
        let Some(binding) = Binding::parse(line) else {
            continue;
        };
        if !FAMILY.contains(&binding.symbol) {
            continue;
        }
        let (from, to) = (file_name(binding.from), file_name(binding.to));
        if to == library {
            image.from_library.insert((from, binding.symbol));
        } else if from != library {
            image.elsewhere.insert((from, to, binding.symbol));
        }
    }
    images
}

fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
      7:\tbinding file linux-vdso.so.1 [0] to linux-vdso.so.1 [0]: normal symbol `__vdso_clock_gettime' [LINUX_2.6]
      7:\tbinding file linux-vdso.so.1 [0] to linux-vdso.so.1 [0]: normal symbol `__vdso_time' [LINUX_2.6]
      7:\tbinding file /lib/libc.so.6 [0] to /cache/libone-1.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
      7:\tinitialize program: sh
      7:\tbinding file linux-vdso.so.1 [0] to linux-vdso.so.1 [0]: normal symbol `__vdso_clock_gettime' [LINUX_2.6]
      7:\tbinding file perl [0] to /cache/libone-1.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
      7:\tbinding file linux-vdso.so.1 [0] to linux-vdso.so.1 [0]: normal symbol `__vdso_time' [LINUX_2.6]
      7:\tinitialize program: /usr/bin/perl
      7:\tbinding file /lib/plugin.so [0] to /lib/libc.so.6 [0]: normal symbol `free' [GLIBC_2.2.5]
      7:\tbinding file /lib/plugin.so [0] to /lib/libc.so.6 [0]: normal symbol `regfree' [GLIBC_2.2.5]
";

    #[test]
    fn programs_that_follow_each_other_in_a_process_are_told_apart() {
        let mut evidence = Evidence::default();
        read(LOG, "perl", "libone-1.so", &mut evidence);
        assert_eq!((evidence.starts, evidence.starts_of_all), (1, 2));
        assert_eq!(evidence.elsewhere, ["plugin.so: free of libc.so.6"]);
    }

    #[test]
    fn the_jump_of_an_executable_at_a_fixed_address_is_not_elsewhere() {
        let log = "binding file cc1 [0] to cc1 [0]: normal symbol `free' [GLIBC_2.2.5]\n\
            binding file cc1 [0] to /cache/libone-1.so [0]: normal symbol `free' [GLIBC_2.2.5]\n\
            initialize program: /usr/libexec/cc1\n";
        let mut evidence = Evidence::default();
        read(log, "cc1", "libone-1.so", &mut evidence);
        assert_eq!((evidence.starts, evidence.elsewhere), (1, Vec::new()));
    }

    #[test]
    fn a_program_without_the_library_is_no_evidence() {
        let mut evidence = Evidence::default();
        read(LOG, "perl", "libother-1.so", &mut evidence);
        assert_eq!(evidence, Evidence::default());
    }
}
