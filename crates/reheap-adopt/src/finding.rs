//! Defines a finding and the rules that it may break.

use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
    /// Which rule it breaks.
    pub rule: Rule,
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
    /// What to do, as an imperative.
    pub fix: String,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The condition in the manifest differs from the one in the code.
    ConditionDiffers,
    /// A dependency on an allocator that no code uses.
    UnusedDependency,
    /// Code uses an allocator that the manifest does not name.
    MissingDependency,
    /// Two global allocators in one program, with some features.
    TwoAllocators,
    /// A library chooses for those who use it.
    AllocatorInLibrary,
    /// An allocator that no build has.
    NeverEnabled,
    /// An allocator only on targets that CI does not build.
    UntestedTarget,
    /// One program is hardened, another one is not.
    NotAllHardened,
    /// A shared library whose allocator's thread-local storage may not fit into a running program.
    InitialExecTls,
    /// A version that is known to crash.
    KnownCrash,
    /// A feature that defines malloc, beside reheap's libc, which does.
    OverridesMalloc,
    /// A script that changes the members of `libc.a`.
    PatchedLibc,
    /// A preload that is not there.
    MissingPreload,
    /// A variable that this allocator does not read.
    IgnoredVariable,
    /// Options that are set after the allocator read them.
    LateOptions,
}

impl Rule {
    /// The name by which users know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConditionDiffers => "condition-differs",
            Self::UnusedDependency => "unused-dependency",
            Self::MissingDependency => "missing-dependency",
            Self::TwoAllocators => "two-allocators",
            Self::AllocatorInLibrary => "allocator-in-library",
            Self::NeverEnabled => "never-enabled",
            Self::UntestedTarget => "untested-target",
            Self::NotAllHardened => "not-all-hardened",
            Self::InitialExecTls => "initial-exec-tls",
            Self::KnownCrash => "known-crash",
            Self::OverridesMalloc => "overrides-malloc",
            Self::PatchedLibc => "patched-libc",
            Self::MissingPreload => "missing-preload",
            Self::IgnoredVariable => "ignored-variable",
            Self::LateOptions => "late-options",
        }
    }
}
