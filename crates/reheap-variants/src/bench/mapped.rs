//! Variants of a static program: the allocator is mapped into its process before its first instruction.

use anyhow::Context as _;
use reheap_bench::run::{Preparation, Prepare};
use reheap_command::choice::Choice;
use reheap_graft::{GraftError, Library, Stock};
use reheap_profile::inject::{self, Launched, Replacement};
use reheap_subject::program::Program;
use reheap_workshop::grafting::{self, CONTRACT};
use reheap_workshop::workshop::Workshop;
use std::fmt;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

/// A static program whose allocator can be replaced.
#[derive(Clone)]
pub(crate) struct StaticProgram(Arc<Stock<'static>>);

impl StaticProgram {
    /// Examines a program; `None` if it is not static.
    pub(crate) fn examine(program: &Program) -> anyhow::Result<Option<Result<Self, GraftError>>> {
        if !program.is_static() {
            return Ok(None);
        }
        let file = &program.route.file;
        let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        // Needed until the end of reheap, because each variant of each round starts it.
        let stock = Stock::examine(bytes.leak());
        Ok(Some(stock.map(|stock| Self(Arc::new(stock)))))
    }

    /// What puts the chosen allocator into the program; `None` for its own.
    pub(crate) fn preparation(
        &self,
        choice: &Choice,
        workshop: &Workshop,
    ) -> anyhow::Result<Option<Preparation>> {
        if choice.is_stock() {
            return Ok(None);
        }
        grafting::check_allocator(choice.allocator)?;
        let mapped = MapAllocator {
            library: grafting::library(choice, &self.0, workshop)?,
            program: self.clone(),
        };
        Ok(Some(Preparation(Arc::new(mapped))))
    }
}

/// Maps an allocator into the program that a launcher starts.
struct MapAllocator {
    program: StaticProgram,
    library: Library,
}

impl Prepare for MapAllocator {
    fn start(&self, launcher: Command) -> io::Result<(Child, Duration)> {
        let replacement = Replacement {
            stock: &self.program.0,
            library: &self.library,
            contract: CONTRACT,
        };
        let launched = inject::spawn_below(launcher, &replacement);
        let Launched { launcher, stopped } = launched.map_err(io::Error::other)?;
        Ok((launcher, stopped))
    }
}

impl fmt::Debug for MapAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an allocator for a static program")
    }
}
