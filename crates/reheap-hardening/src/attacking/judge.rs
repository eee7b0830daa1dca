//! Judges a run by how it ended.
//!
//! The hard part is to tell an allocator that stops the program from one that merely stumbles. glibc aborts with a
//! message. musl's mallocng and others execute an instruction that no program may execute, which looks like any other
//! fault from outside. So the attacked program says which instruction it was. A fault at a guard page counts as a crash:
//! the allocator put the page there, but nobody noticed the error.

use crate::addresses::without_addresses;
use reheap_bench::results::{Outcome as End, signal_name};
use reheap_bench::run::Finished;
use reheap_profile::deaths;
use reheap_report::attacks::Outcome;

const ABORTED: i32 = 6; // SIGABRT

/// What it means that the allocator said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// It ends the program.
    LastWords,
    /// Perhaps only a warning, because it was asked to warn. What ends the program later is another matter.
    Warning,
}

/// What a run came to, and what shows it. What the program says to standard error when nothing is wrong is no message
/// of an allocator that noticed something.
pub(crate) fn judge(finished: &Finished, usual: &str, meant: Message) -> (Outcome, String) {
    let stdout = text(&finished.stdout.head);
    let message = message(&text(&finished.stderr.head), usual);
    if let Some(gain) = line(&stdout, "attacker: ") {
        return (Outcome::Succeeded, gain.to_owned());
    }
    let fault = line(&stdout, "fault: ");
    // An allocator's own message, and then its own end; or an end that nobody explains.
    let otherwise = if message.is_some() && meant == Message::LastWords {
        Outcome::Stopped
    } else {
        Outcome::Crashed
    };
    match finished.outcome {
        End::Exited(0) => {
            let why = line(&stdout, "none: ").unwrap_or("nothing was seen");
            (Outcome::NoEffect, said(why, &message))
        }
        End::Signalled(ABORTED) => (Outcome::Stopped, said("SIGABRT", &message)),
        End::Exited(code) => (otherwise, said(&format!("exit code {code}"), &message)),
        End::Signalled(signal) => {
            let name = signal_name(signal).map_or(format!("signal {signal}"), str::to_owned);
            match fault.and_then(trap) {
                Some(trap) => (
                    Outcome::Stopped,
                    said(&format!("{name} by the instruction {trap}"), &message),
                ),
                None => (otherwise, said(&name, &message)),
            }
        }
        End::TimedOut => (Outcome::Crashed, said("hung", &message)),
        End::OutOfMemory => (Outcome::Crashed, "out of memory".to_owned()),
    }
}

/// The instruction, if it is one that only those execute who want to end the program.
fn trap(fault: &str) -> Option<&'static str> {
    let field = |name: &str| fault.split(' ').find_map(|word| word.strip_prefix(name));
    let digits = field("instruction=")?;
    let bytes = (0..digits.len()).step_by(2).map(|at| {
        let byte = digits.get(at..at + 2)?;
        u8::from_str_radix(byte, 16).ok()
    });
    let address = field("address=")?.strip_prefix("0x")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    deaths::trap(&bytes.collect::<Option<Vec<u8>>>()?, address)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn line<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(prefix))
}

/// What the allocator said: its first line, without addresses, which differ from run to run.
fn message(stderr: &str, usual: &str) -> Option<String> {
    let usual: Vec<String> = usual.lines().map(without_addresses).collect();
    let mut lines = stderr.lines().map(without_addresses);
    lines.find(|line| !line.is_empty() && !usual.contains(line))
}

fn said(what: &str, message: &Option<String>) -> String {
    match message {
        Some(message) => format!("{message} ({what})"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(outcome: End, stdout: &str, stderr: &str) -> (Outcome, String) {
        judged_as(Message::LastWords, "", outcome, stdout, stderr)
    }

    fn judged_as(
        meant: Message,
        usual: &str,
        outcome: End,
        stdout: &str,
        stderr: &str,
    ) -> (Outcome, String) {
        let output = |text: &str| reheap_bench::run::Output {
            bytes: text.len() as u64,
            sha256: String::new(),
            head: text.as_bytes().to_vec(),
            tail: Vec::new(),
        };
        let finished = Finished {
            outcome,
            program: Default::default(),
            cost: reheap_bench::results::Cost::default(),
            counters: None,
            metrics: Default::default(),
            metrics_without_number: Default::default(),
            left_running: false,
            stdout: output(stdout),
            stderr: output(stderr),
        };
        judge(&finished, usual, meant)
    }

    #[test]
    fn what_is_said_in_every_run_does_not_make_a_crash_a_detection() {
        let usual = "ERROR: ld.so: object './libmine.so' cannot be preloaded: ignored.\n";
        let crashed = judged_as(Message::LastWords, usual, End::Signalled(11), "", usual);
        assert_eq!(crashed, (Outcome::Crashed, "SIGSEGV".to_owned()));
        let stderr = format!("{usual}heap corrupted at 0x7f0000001000\n");
        let stopped = judged_as(Message::LastWords, usual, End::Signalled(11), "", &stderr);
        let said = "heap corrupted at … (SIGSEGV)".to_owned();
        assert_eq!(stopped, (Outcome::Stopped, said));
    }

    #[test]
    fn a_warning_that_somebody_asked_for_does_not_make_a_crash_a_detection() {
        let stderr = "mimalloc: error: mi_free: invalid pointer: 0x7f0000001000\n";
        let warned = |end| judged_as(Message::Warning, "", end, "", stderr);
        let said = "mimalloc: error: mi_free: invalid pointer: …";
        let crashed = (Outcome::Crashed, format!("{said} (SIGSEGV)"));
        assert_eq!(warned(End::Signalled(11)), crashed);
        let stopped = (Outcome::Stopped, format!("{said} (SIGABRT)"));
        assert_eq!(warned(End::Signalled(6)), stopped);
        let without_effect = (Outcome::NoEffect, format!("{said} (nothing was seen)"));
        assert_eq!(warned(End::Exited(0)), without_effect);
    }

    #[test]
    fn an_abort_is_the_allocators_and_its_message_is_kept_without_addresses() {
        let stderr = "mimalloc: error: thread 0x7F5D2AE02640: double free of block 0x014c6a08c0\n";
        let (outcome, said) = judged(End::Signalled(6), "", stderr);
        assert_eq!(outcome, Outcome::Stopped);
        assert_eq!(
            said,
            "mimalloc: error: thread …: double free of block … (SIGABRT)"
        );
    }

    #[test]
    fn a_fault_is_a_crash_unless_the_instruction_is_a_trap() {
        let (deliberate, ordinary) = if cfg!(target_arch = "x86_64") {
            ("fault: address=0x0 instruction=f44883c4\n", "488b47f8")
        } else {
            ("fault: address=0x0 instruction=1f000039\n", "010040f9")
        };
        let ordinary = format!("fault: address=0x0 instruction={ordinary}\n");
        assert_eq!(
            judged(End::Signalled(11), deliberate, "").0,
            Outcome::Stopped
        );
        assert_eq!(
            judged(End::Signalled(11), &ordinary, "").0,
            Outcome::Crashed
        );
        let nowhere = "fault: address=0x41414141 instruction=none\n";
        assert_eq!(judged(End::Signalled(11), nowhere, "").0, Outcome::Crashed);
        assert_eq!(judged(End::Signalled(11), "", "").0, Outcome::Crashed);
    }

    #[test]
    fn an_attacker_who_got_it_has_won_however_the_program_ends() {
        let stdout = "attacker: got a block on the stack\n";
        assert_eq!(judged(End::Signalled(6), stdout, "").0, Outcome::Succeeded);
    }

    #[test]
    fn a_program_that_ends_quietly_or_hangs_is_named_so() {
        let none = judged(End::Exited(0), "none: the secret is gone\n", "");
        assert_eq!(none, (Outcome::NoEffect, "the secret is gone".to_owned()));
        let hung = judged(End::TimedOut, "", "");
        assert_eq!(hung, (Outcome::Crashed, "hung".to_owned()));
    }
}
