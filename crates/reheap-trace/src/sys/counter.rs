//! The processor's counter, which `hooks/trace.c` reads too.
use rustix::time::{ClockId, clock_gettime};

/// Where it is now; `None` on processors whose counter is not known.
pub(crate) fn counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction, and Linux lets programs execute it unless one asked not to
        // (PR_SET_TSC), which reheap does not. It changes no memory.
        return Some(unsafe { core::arch::x86_64::_rdtsc() });
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: Linux lets programs read the virtual counter (Documentation/arch/arm64/booting.rst: CNTKCTL_EL1), and
        // reading it changes nothing.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack));
        }
        return Some(value);
    }
    #[allow(unreachable_code)]
    None
}

/// Whether it runs at one rate, on all cores alike. The kernel trusts it then for its own clock.
pub(crate) fn counter_is_steady() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true;
    }
    // Absent from a container's /sys is no reason for a slower clock if the processor says that its counter is steady.
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processors.lines().find(|line| line.starts_with("flags"));
    let has = |flag: &str| flags.is_some_and(|line| line.split(' ').any(|word| word == flag));
    has("constant_tsc") && has("nonstop_tsc")
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
