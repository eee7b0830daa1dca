//! What keeps one process from tracing another, and what would allow it (ptrace(2), "Ptrace access mode checking").

use reheap_proc::status::Status;
use std::fs;

/// Why a process cannot be traced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// It is a zombie.
    #[error("process {0} has ended, and only waits for its parent to notice")]
    Ended(i32),
    /// It is a thread of the kernel.
    #[error("process {0} is a part of the kernel, and executes no program")]
    Kernel(i32),
    /// It belongs to somebody else.
    #[error("process {pid} belongs to user {owner}, and reheap runs as user {own}")]
    OtherUser {
        /// The process.
        pid: i32,
        /// Its user.
        owner: u32,
        /// The user that reheap runs as.
        own: u32,
    },
    /// A debugger or strace is attached.
    #[error("process {pid} is already traced, by process {tracer}")]
    AlreadyTraced {
        /// The process.
        pid: i32,
        /// Who traces it.
        tracer: i32,
    },
    /// Another reheap watches it.
    #[error("process {pid} is already watched, by the reheap with the number {by}")]
    AlreadyWatched {
        /// The process.
        pid: i32,
        /// Who watches it.
        by: u32,
    },
    /// Yama lets only parents trace their children, only root, or nobody.
    #[error("the system lets {} trace a process (kernel.yama.ptrace_scope is {scope})", yama_lets(*scope))]
    Yama {
        /// The value.
        scope: u32,
    },
    /// The process accepts only some system calls.
    #[error("process {0} filters its system calls (seccomp), and a refused one could kill it")]
    Seccomp(i32),
    /// It made itself unreadable, or changed its user.
    #[error("process {0} protects its memory, as programs with secrets or changed users do")]
    Protected(i32),
}

impl Obstacle {
    /// What would allow it, if anything does.
    pub fn way_out(&self) -> Option<String> {
        Some(match self {
            Self::NoProcess(_) | Self::Ended(_) | Self::Kernel(_) => return None,
            Self::OtherUser { owner, .. } => format!("run reheap as user {owner}, or as root"),
            Self::AlreadyTraced { tracer, .. } => format!("end process {tracer} first"),
            Self::AlreadyWatched { by, .. } => format!("wait for it, or end it: kill {by}"),
            Self::Yama { scope: 3 } => "only a restart of the system can change that".to_owned(),
            Self::Yama { .. } => {
                "run reheap as root, or allow it until the next restart: sudo sysctl kernel.yama.ptrace_scope=0"
                    .to_owned()
            }
            Self::Seccomp(_) => "start the program by reheap profile, or without its sandbox".to_owned(),
            Self::Protected(_) => "run reheap as root".to_owned(),
        })
    }
}

fn yama_lets(scope: u32) -> &'static str {
    match scope {
        1 => "only its parent",
        2 => "only root",
        _ => "nobody",
    }
}

/// What is known to keep reheap from tracing a process, before it tries.
pub(super) fn before(pid: i32) -> Result<(), Obstacle> {
    let there = Status::of(pid).ok_or(Obstacle::NoProcess(pid))?;
    if there.has_ended() {
        return Err(Obstacle::Ended(pid));
    }
    if !there.has_memory() {
        return Err(Obstacle::Kernel(pid));
    }
    if let Some(tracer) = tracer(&there) {
        return Err(Obstacle::AlreadyTraced { pid, tracer });
    }
    let own = Status::of("self");
    if is_filtered_more(&there, own.as_ref()) {
        return Err(Obstacle::Seccomp(pid));
    }
    Ok(())
}

/// The process that traces it.
fn tracer(status: &Status) -> Option<i32> {
    status.number("TracerPid").filter(|tracer| *tracer != 0)
}

/// Containers filter the system calls of everything in them, reheap included. Only further filters are the program's.
fn is_filtered_more(there: &Status, own: Option<&Status>) -> bool {
    const FILTERS: u32 = 2; // SECCOMP_MODE_FILTER
    let mode = |status: &Status| status.number("Seccomp").unwrap_or(0);
    // Older kernels do not say how many there are.
    let filters = |status: &Status| status.number::<u32>("Seccomp_filters");
    match (mode(there), own) {
        (0, _) => false,
        (FILTERS, Some(own)) if mode(own) == FILTERS => match (filters(there), filters(own)) {
            (Some(there), Some(own)) => there > own,
            _ => false,
        },
        _ => true,
    }
}

/// Why the system refused to let reheap trace a process.
pub(super) fn after_refusal(pid: i32) -> Obstacle {
    let Some(there) = Status::of(pid) else {
        return Obstacle::NoProcess(pid);
    };
    let own = rustix::process::geteuid().as_raw();
    if let Some(tracer) = tracer(&there) {
        return Obstacle::AlreadyTraced { pid, tracer };
    }
    let owner = there.number("Uid").unwrap_or(own);
    if own != 0 && owner != own {
        return Obstacle::OtherUser { pid, owner, own };
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match scope.ok().and_then(|text| text.trim().parse().ok()) {
        Some(scope) if scope > 0 => Obstacle::Yama { scope },
        _ => Obstacle::Protected(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(seccomp: u32, filters: Option<u32>) -> Status {
        let filters = filters.map_or(String::new(), |count| {
            format!("Seccomp_filters:\t{count}\n")
        });
        let text = format!(
            "Name:\tx\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\nSeccomp:\t{seccomp}\n{filters}"
        );
        Status::parse(text.as_bytes())
    }

    #[test]
    fn only_filters_that_reheap_does_not_share_are_an_obstacle() {
        let free = status(0, Some(0));
        let contained = status(2, Some(1));
        assert!(!is_filtered_more(&free, Some(&free)));
        assert!(!is_filtered_more(&contained, Some(&contained)));
        assert!(is_filtered_more(&contained, Some(&free)));
        assert!(is_filtered_more(&status(2, Some(2)), Some(&contained)));
        assert!(is_filtered_more(&status(1, None), Some(&contained)));
    }

    #[test]
    fn each_value_of_yama_is_said_in_words() {
        let said = |scope| Obstacle::Yama { scope }.to_string();
        assert!(said(1).contains("only its parent"));
        assert!(said(2).contains("only root"));
        assert!(said(3).contains("nobody"));
        let way_out = Obstacle::Yama { scope: 1 }.way_out().unwrap();
        assert!(way_out.contains("sysctl kernel.yama.ptrace_scope=0"));
    }
}
