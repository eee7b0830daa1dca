//! Which of the kernel's functions serve page faults.

use std::fs;
use std::ops::Range;

/// The functions through which all faults go: x86's, then arm64's.
const FUNCTIONS: [&str; 5] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_mem_abort",
    "do_page_fault",
];

/// Their code.
#[derive(Debug)]
pub(super) struct Faults(Vec<Range<u64>>);

impl Faults {
    /// `None` where the kernel does not tell its addresses (`kernel.kptr_restrict`).
    pub(super) fn of_this_kernel() -> Option<Self> {
        let text = fs::read("/proc/kallsyms").ok()?;
        Self::parse(&text)
    }

    /// Of lines in order of address, as those of the kernel itself are; modules follow.
    fn parse(text: &[u8]) -> Option<Self> {
        let ranges = FUNCTIONS.iter().filter_map(|name| {
            let found = memchr::memmem::find(text, format!(" {name}\n").as_bytes())?;
            let line = memchr::memrchr(b'\n', &text[..found]).map_or(0, |end| end + 1);
            let mut addresses = text[line..].split(|byte| *byte == b'\n').map(address);
            let start = addresses.next()??;
            let end = addresses
                .map_while(|address| address)
                .find(|end| *end != start)?;
            (start != 0).then_some(start..end)
        });
        let ranges: Vec<Range<u64>> = ranges.collect();
        (!ranges.is_empty()).then_some(Self(ranges))
    }

    /// Whether functions that call each other serve a fault.
    pub(super) fn serve(&self, calls: &[u64]) -> bool {
        calls
            .iter()
            .any(|address| self.0.iter().any(|range| range.contains(address)))
    }
}

fn address(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    u64::from_str_radix(std::str::from_utf8(&line[..end]).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::Faults;

    #[test]
    fn the_functions_end_where_the_next_begins() {
        let text = b"ffff00 T other\nffff10 T exc_page_fault\nffff10 T alias\nffff20 T next\n";
        let faults = Faults::parse(text).expect("one function");
        assert!(faults.serve(&[0xffff05, 0xffff1f]));
        assert!(!faults.serve(&[0xffff05, 0xffff20]));
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_tells_nothing() {
        assert!(Faults::parse(b"0000 T exc_page_fault\n0000 T next\n").is_none());
    }
}
