//! Whether the kernel chooses addresses at random.

use reheap_report::attacks::Randomisation;
use std::fs;

/// `setarch -R` sets it in the personality of a process, and children inherit it (personality(2)).
const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;

/// How addresses of the programs that this process starts are chosen. What cannot be read is as it usually is.
pub(crate) fn randomisation() -> Randomisation {
    let personality = fs::read_to_string("/proc/self/personality").unwrap_or_default();
    let personality = u32::from_str_radix(personality.trim(), 16).unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap_or_default();
    match kernel.trim() {
        _ if personality & ADDR_NO_RANDOMIZE != 0 => Randomisation::Off,
        "0" => Randomisation::Off,
        "1" => Randomisation::Partly,
        _ => Randomisation::On,
    }
}
