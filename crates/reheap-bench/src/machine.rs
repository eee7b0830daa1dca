//! The machine that figures are from. A figure without it says nothing.
//!
//! All of it is told by the kernel and by files that every distribution has, except for the version of the libc, which
//! only the libc knows. What cannot be found out is left out: a measurement does not fail for it.

use crate::results::Machine;
use crate::run::{CommandLine, Finished, Launcher, Limits};
use rustix::system::{sysinfo, uname};
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

/// The kernel writes load averages as multiples of this (getloadavg(3), SI_LOAD_SHIFT).
const LOAD_UNIT: f64 = 65536.0;
/// How long the libc may take to say its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Describes the machine that this runs on, as it is now.
pub fn describe(launcher: &Launcher) -> Machine {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let system = sysinfo();
    let kernel = uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Machine {
        name: word(kernel.nodename()),
        architecture: ARCH.to_owned(),
        processor: processor(&cpuinfo),
        processors: available_parallelism().map_or(1, usize::from),
        memory_bytes: system.totalram as u64 * u64::from(system.mem_unit),
        kernel: format!("{} {}", word(kernel.sysname()), word(kernel.release())),
        libc: glibc(launcher).or_else(|| musl(launcher)),
        distribution: read("/etc/os-release")
            .or_else(|| read("/usr/lib/os-release"))
            .and_then(|text| distribution(&text)),
        huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text)),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .map(|text| text.trim().to_owned()),
        is_virtual: is_virtual(&cpuinfo) || Path::new("/sys/hypervisor/type").exists(),
        load_average: Some(system.loads[0] as f64 / LOAD_UNIT),
        no_counters_because: launcher.no_counters_because().map(ToOwned::to_owned),
    }
}

/// The name on x86. ARM processors have only numbers, which are names too.
fn processor(cpuinfo: &str) -> String {
    if let Some(name) = field(cpuinfo, "model name") {
        return name.to_owned();
    }
    match (
        field(cpuinfo, "CPU implementer"),
        field(cpuinfo, "CPU part"),
    ) {
        (Some(implementer), Some(part)) => format!("implementer {implementer}, part {part}"),
        _ => "unknown".to_owned(),
    }
}

/// Whether the hypervisor's bit of CPUID is set, which no processor sets by itself.
fn is_virtual(cpuinfo: &str) -> bool {
    field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// The value of PRETTY_NAME, which may be quoted (os-release(5)).
fn distribution(os_release: &str) -> Option<String> {
    let value = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// The word in brackets: `always [madvise] never`.
fn chosen(words: &str) -> Option<String> {
    let (_, rest) = words.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

/// `glibc 2.36`, which its `getconf` prints like that.
fn glibc(launcher: &Launcher) -> Option<String> {
    let getconf = said(launcher, "/usr/bin/env", &["getconf", "GNU_LIBC_VERSION"])?;
    let line = getconf.stdout.last_lines(1);
    (getconf.outcome.is_success() && line.starts_with("glibc ")).then_some(line)
}

/// `musl 1.2.5`, from the help that its dynamic linker prints when it gets nothing to do.
fn musl(launcher: &Launcher) -> Option<String> {
    let linker = format!("/lib/ld-musl-{ARCH}.so.1");
    let help = said(launcher, &linker, &[])?.stderr.last_lines(usize::MAX);
    let version = help
        .lines()
        .find_map(|line| line.strip_prefix("Version "))?;
    Some(format!("musl {version}"))
}

fn said(launcher: &Launcher, program: &str, arguments: &[&str]) -> Option<Finished> {
    let command = CommandLine {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        ..CommandLine::default()
    };
    let limits = Limits {
        time: Some(ANSWER_WITHIN),
        ..Limits::default()
    };
    launcher.run(&command, &limits, &[]).ok()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let machine = describe(&Launcher::new().unwrap());
        assert!(
            machine.processors > 0 && machine.memory_bytes > 64 << 20,
            "{machine:?}"
        );
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
        assert!(
            machine.load_average.is_some_and(|load| load >= 0.0),
            "{machine:?}"
        );
        assert!(
            !machine.name.is_empty() && !machine.processor.is_empty(),
            "{machine:?}"
        );
        // Tests run where Rust's standard library runs, which needs one of both.
        let libc = machine.libc.unwrap();
        let (name, version) = libc.split_once(' ').unwrap();
        assert!(["glibc", "musl"].contains(&name), "{libc}");
        assert!(
            version.starts_with(|first: char| first.is_ascii_digit()),
            "{libc}"
        );
    }

    #[test]
    fn memory_is_what_the_kernel_says_elsewhere() {
        let meminfo = read("/proc/meminfo").unwrap();
        let kib = field(&meminfo, "MemTotal").unwrap().trim_end_matches(" kB");
        let machine = describe(&Launcher::new().unwrap());
        assert_eq!(machine.memory_bytes, kib.parse::<u64>().unwrap() * 1024);
    }

    #[test]
    fn an_x86_processor_has_a_name_and_an_arm_processor_numbers() {
        let x86 = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu vme\n";
        assert_eq!(processor(x86), "Intel(R) Xeon(R)");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(processor(arm), "implementer 0x41, part 0xd0c");
        assert_eq!(processor(""), "unknown");
    }

    #[test]
    fn a_virtual_machine_is_known_by_a_flag_of_its_processor() {
        assert!(is_virtual("flags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!is_virtual("flags\t\t: fpu nohypervisor\n"));
    }

    #[test]
    fn files_are_read_as_distributions_and_kernels_write_them() {
        let debian = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(
            distribution(debian).as_deref(),
            Some("Debian GNU/Linux 12 (bookworm)")
        );
        assert_eq!(
            distribution("ID=x\nPRETTY_NAME=Plain\n").as_deref(),
            Some("Plain")
        );
        assert_eq!(distribution("ID=x\n"), None);
        assert_eq!(
            chosen("always [madvise] never\n").as_deref(),
            Some("madvise")
        );
        assert_eq!(chosen("\n"), None);
    }
}
