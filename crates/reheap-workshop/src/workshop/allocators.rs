//! Gets the allocator of a choice: its objects, its preload, or a libc with it.
//!
//! A file of the user's is checked here, on the way to whoever uses it first.

use super::{Built, Workshop, cannot_build, check_entry_of, names_a_compiler, refuse_missing};
use crate::conformance;
use crate::original;
use anyhow::Context as _;
use reheap_allocators::built::BuiltAllocator;
use reheap_allocators::graft;
use reheap_allocators::link_kind::LinkKind;
use reheap_allocators::memory::{self, BuiltMemoryFunctions, MemoryFunctions};
use reheap_allocators::preload;
use reheap_allocators::target::{Libc, Target};
use reheap_allocators::upstream;
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use std::path::{Path, PathBuf};

impl Workshop {
    /// The allocator and the memory functions for the target: prebuilt, from the cache, or built now.
    pub fn build(&self, choice: &Choice, target: &Target) -> anyhow::Result<Built> {
        refuse_missing(choice, target)?;
        refuse_misfit(choice, target, LinkKind::Executable)?;
        let found = self.find_prebuilt(|prebuilt| prebuilt.allocator(choice.allocator, target))?;
        let allocator = match found {
            Some(found) => found,
            None => self.build_allocator(choice, target)?,
        };
        let whose = choice.memory_functions;
        let found = self.find_prebuilt(|prebuilt| prebuilt.memory_functions(whose, target))?;
        let memory_functions = match found {
            Some(found) => found,
            None => self.build_memory_functions(whose, target)?,
        };
        let built = Built {
            allocator,
            memory_functions,
        };
        conformance::of_objects(choice, target, &built, self)?;
        Ok(built)
    }

    fn build_allocator(&self, choice: &Choice, target: &Target) -> anyhow::Result<BuiltAllocator> {
        let (toolchain, cache) = (self.toolchain(choice.allocator, target)?, self.cache()?);
        let kind = LinkKind::Executable;
        let is_built = upstream::is_built(choice.allocator, target, kind, &toolchain, cache);
        self.while_building(choice, target, is_built, || {
            upstream::build(choice.allocator, target, kind, &toolchain, cache)
        })
    }

    fn build_memory_functions(
        &self,
        whose: MemoryFunctions,
        target: &Target,
    ) -> anyhow::Result<Option<BuiltMemoryFunctions>> {
        let (toolchain, cache) = (self.toolchain_for_glue(target)?, self.cache()?);
        memory::build(whose, target, &toolchain, cache).map_err(|error| {
            let text = format!("{:#}", anyhow::Error::new(error));
            let failure = Failure::failed(text);
            failure
                .hint("--memory-functions stock keeps the libc's own")
                .into()
        })
    }

    /// The directory of the derived libc for a choice; `None` for the stock allocator.
    pub fn derived_directory(
        &self,
        choice: &Choice,
        target: &Target,
        original: &Path,
    ) -> anyhow::Result<Option<PathBuf>> {
        if choice.is_stock() {
            return Ok(None);
        }
        let original = original::find(original, self.search())?;
        let built = self.build(choice, target)?;
        let replacement = built.replacement(choice);
        Ok(Some(
            original.derived_directory(&replacement, self.cache()?)?,
        ))
    }

    /// The preload of the allocator for the target's libc: the user's own, prebuilt, from the cache, or built now.
    pub fn preload(&self, choice: &Choice, target: &Target) -> anyhow::Result<PathBuf> {
        let allocator = choice.allocator;
        if let Some(file) = allocator.file() {
            refuse_misfit(choice, target, LinkKind::Preload)?;
            let library = preload::copy(file, self.cache()?).map_err(cannot_build)?;
            conformance::of_library(choice, target, &library, self)?;
            return Ok(library);
        }
        if let Some(found) = self.find_prebuilt(|prebuilt| prebuilt.preload(allocator, target))? {
            return Ok(found.path);
        }
        let cache = self.cache()?;
        if !names_a_compiler(target)
            && let Some(library) = preload::find_built(allocator, target, cache)
        {
            check_entry_of(&library)?;
            return Ok(library);
        }
        let toolchain = self.toolchain(allocator, target);
        let toolchain = match self.prebuilt()? {
            Some(_) => toolchain.with_context(|| {
                format!("there is no prebuilt {} for `{target}`", allocator.name)
            })?,
            None => toolchain?,
        };
        let is_built = preload::is_built(allocator, target, &toolchain, cache);
        self.while_building(choice, target, is_built, || {
            preload::build(allocator, target, &toolchain, cache)
        })
    }

    /// The bytes of a preload with the options in it, for where no environment variable comes along.
    pub fn tuned_preload(&self, choice: &Choice, target: &Target) -> anyhow::Result<Vec<u8>> {
        let library = self.preload(choice, target)?;
        let (allocator, tuning) = (choice.allocator, &choice.tuning);
        match allocator.file() {
            Some(file) => Ok(file.bytes()?), // without a place for options
            None => Ok(preload::tuned(&library, allocator, tuning, target)?),
        }
    }
}

impl Workshop {
    /// The bytes of the library with the allocator that goes into finished executables with this libc, with the options in
    /// it. It is the same for both libcs but for its marker.
    pub fn graft_library(
        &self,
        choice: &Choice,
        target: &Target,
        libc: Libc,
    ) -> anyhow::Result<Vec<u8>> {
        refuse_missing(choice, target)?;
        let (allocator, tuning) = (choice.allocator, &choice.tuning);
        let library = match self.find_prebuilt(|prebuilt| prebuilt.graft(allocator, target))? {
            Some(found) => found.path,
            None => self.build_graft(choice, target)?,
        };
        let target = Target::new(target.arch(), libc);
        Ok(preload::tuned(&library, allocator, tuning, &target)?)
    }

    fn build_graft(&self, choice: &Choice, target: &Target) -> anyhow::Result<PathBuf> {
        let allocator = choice.allocator;
        let (toolchain, cache) = (self.toolchain(allocator, target)?, self.cache()?);
        let is_built = graft::is_built(allocator, target, &toolchain, cache);
        self.while_building(choice, target, is_built, || {
            graft::build(allocator, target, &toolchain, cache)
        })
    }
}

/// Refuses a user's own file that is for something else.
fn refuse_misfit(choice: &Choice, target: &Target, kind: LinkKind) -> Result<(), Failure> {
    let misfit = choice.allocator.file();
    let misfit = misfit.and_then(|file| file.misfit(target, kind));
    misfit.map_or(Ok(()), |misfit| {
        let name = choice.allocator.name;
        Err(Failure::failed(format!("cannot use `{name}`: {misfit}")))
    })
}
