//! A static program: the allocator is mapped into its process before its first instruction.

use super::{RunArguments, Verdict, become_program, check};
use anyhow::Context as _;
use reheap_command::choice::Choice;
use reheap_command::exit;
use reheap_command::ui::{self, Failure};
use reheap_graft::{GraftError, Stock};
use reheap_profile::inject::{self, InjectError, Replacement};
use reheap_subject::program::{Obstacle, Program};
use reheap_workshop::grafting::{self, CONTRACT};
use reheap_workshop::workshop::Workshop;
use std::fs;
use std::process::ExitCode;

/// Becomes the program, unless something is in the way.
pub(super) fn run(
    program: &Program,
    choice: &Choice,
    arguments: &RunArguments,
    workshop: &Workshop,
) -> anyhow::Result<ExitCode> {
    let file = &program.route.file;
    let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let stock = Stock::examine(&bytes);
    let verdict = verdict(program, choice, &stock);
    if arguments.check {
        return check(program, choice, verdict, arguments);
    }
    verdict.heed(program, choice)?;
    if arguments.verify {
        let text = "cannot verify a static program: --verify looks for the library of a preload";
        return Err(Failure::usage(text)
            .hint(format!("reheap run --check -- {}", file.display()))
            .into());
    }
    let stock = stock?;
    let library = grafting::library(choice, &stock, workshop)?;
    let replacement = Replacement {
        stock: &stock,
        library: &library,
        contract: CONTRACT,
    };
    let failure = |error: &InjectError| {
        let (file, name) = (file.display(), choice.allocator.name);
        let text = format!("cannot run `{file}` with {name}: {error}");
        Failure::failed(ui::printable(text))
            .hint(format!("put it into the file: reheap graft {file}"))
    };
    let report = |error: &InjectError| {
        ui::report(&failure(error).into());
    };
    inject::wait_for_exec(&replacement, exit::FAILED.into(), report)
        .map_err(|error| failure(&error))?;
    become_program(program, &arguments.command, &[])
}

/// Whether the program will have the allocator.
fn verdict(program: &Program, choice: &Choice, stock: &Result<Stock<'_>, GraftError>) -> Verdict {
    if let Err(failure) = grafting::check_allocator(choice.allocator) {
        return Verdict::Refused {
            reason: failure.to_string(),
            way_out: None,
        };
    }
    if let Err(error) = stock {
        return Verdict::Refused {
            reason: error.to_string(),
            way_out: grafting::way_out(error, &program.route.file),
        };
    }
    let mut obstacles = program.obstacles().into_iter();
    match obstacles.find(|obstacle| !matches!(obstacle, Obstacle::Static(_))) {
        Some(Obstacle::Privileged(privilege)) => Verdict::Refused {
            reason: format!(
                "it has more rights than its caller ({privilege}), which the system gives to no program that reheap changes"
            ),
            way_out: None,
        },
        obstacle => Verdict::given(program, choice, obstacle, false),
    }
}
