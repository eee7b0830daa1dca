//! Another allocator for a static executable that is already linked, or for its process.

use crate::workshop::Workshop;
use anyhow::Context as _;
use reheap_allocators::catalogue::{Allocator, CATALOGUE};
use reheap_allocators::graft::{ERRNO_AT, REALLOC_OF_GLIBC};
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use reheap_graft::{Contract, Graft, GraftError, Grafted, Library, LocateError, Stock};
use std::path::Path;

/// What the library has beside the functions of the family.
pub const CONTRACT: Contract<'static> = Contract {
    errno_at: ERRNO_AT,
    realloc_of_glibc: REALLOC_OF_GLIBC,
};

/// The library of the chosen allocator for this program, from the cache or built now.
pub fn library(choice: &Choice, stock: &Stock<'_>, workshop: &Workshop) -> anyhow::Result<Library> {
    // That of the program: the others are refused.
    let target = Target::new(Architecture::X86_64, Libc::Musl);
    let libc = if stock.has_glibc() {
        Libc::Glibc
    } else {
        Libc::Musl
    };
    let bytes = workshop.graft_library(choice, &target, libc)?;
    Library::parse(&bytes).context("cannot use the library with the allocator")
}

/// Why a program gets no allocator.
pub enum Ungrafted {
    /// Something of the program.
    Program(GraftError),
    /// There is no such library.
    Library(anyhow::Error),
    /// The new file is not what it should be.
    Unproved(anyhow::Error),
}

impl From<GraftError> for Ungrafted {
    fn from(error: GraftError) -> Self {
        Self::Program(error)
    }
}

/// Puts the chosen allocator into a program, and reads the result back.
pub fn graft(choice: &Choice, program: &[u8], workshop: &Workshop) -> Result<Grafted, Ungrafted> {
    check_allocator(choice.allocator).map_err(|failure| Ungrafted::Library(failure.into()))?;
    let stock = Stock::examine(program)?;
    let library = library(choice, &stock, workshop).map_err(Ungrafted::Library)?;
    let grafted = reheap_graft::graft(&stock, &library, CONTRACT)?;
    prove(program, &grafted).map_err(Ungrafted::Unproved)?;
    Ok(grafted)
}

/// Reads the new file back: the program's functions lead to the allocator, and the original can be had again.
fn prove(original: &[u8], grafted: &Grafted) -> anyhow::Result<()> {
    let found = Graft::read(&grafted.bytes)?.context("the new file has no note")?;
    anyhow::ensure!(
        found.entries == grafted.entries,
        "the new file's note says something else"
    );
    anyhow::ensure!(
        reheap_graft::undo(&grafted.bytes)? == original,
        "the original would be lost"
    );
    Ok(())
}

/// Refuses allocators that only work where a libc or a compiler helps.
pub fn check_allocator(allocator: &Allocator) -> Result<(), Failure> {
    let Some(recipe) = &allocator.build else {
        let text = "cannot graft `stock`: it is the allocator that programs already have";
        return Err(Failure::usage(text).hint("choose another: `reheap list` shows all"));
    };
    let Err(reason) = recipe.graft else {
        return Ok(());
    };
    let works = CATALOGUE.iter().filter(|row| {
        row.build
            .as_ref()
            .is_some_and(|recipe| recipe.graft.is_ok())
    });
    let names: Vec<&str> = works.map(|row| row.name).collect();
    let text = format!("cannot graft {}: {reason}", allocator.name);
    Err(Failure::usage(text).hint(format!("use {}", names.join(" or "))))
}

/// What to do about a program that gets no allocator in this way.
pub fn way_out(error: &GraftError, file: &Path) -> Option<String> {
    let file = file.display();
    match error {
        GraftError::Dynamic | GraftError::Locate(LocateError::Dynamic(_)) => {
            Some(format!("reheap run -- {file}"))
        }
        GraftError::Grafted => Some(format!("reheap graft --undo {file}")),
        // What they are made of would bring its own again, or has none.
        GraftError::Damaged(_)
        | GraftError::Packed
        | GraftError::OwnAllocator(_)
        | GraftError::UnknownMalloc
        | GraftError::Locate(LocateError::Go | LocateError::NoMalloc) => None,
        _ => Some("build it with another one: `cargo reheap build -a`, `reheap cc -a`".to_owned()),
    }
}
