//! What reads files of others, as functions that take any bytes: fuzz targets and tests call the same ones.
//!
//! `fuzz/` has one libFuzzer program for each. It needs a nightly Rust, so it is a workspace of its own. The tests here
//! need no more than other tests do: they try the seeds, and some thousand mutations of them that are the same in each
//! run. A function panics if a reader panics, or if what it read does not agree with itself.
//!
//! To add a target: a function in `targets`, a row in [`TARGETS`], its seeds in `seeds.rs`, and a program in `fuzz/`.

pub mod mutation;
mod seeds;
mod targets;

pub use seeds::Seeds;

/// Something that reads files of others.
pub struct Target {
    /// Its name, and that of its program in `fuzz/`.
    pub name: &'static str,
    /// Reads any bytes.
    pub run: fn(&[u8]),
    /// How many mutations the tests try. What takes longer gets fewer.
    pub mutations: u64,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("archive", targets::elf::archive, 4000),
    target("derive", targets::elf::derive, 150),
    target("identify", targets::elf::identify, 150),
    target("libraries", targets::elf::libraries, 10_000),
    target("locate", targets::program::locate, 1000),
    target("graft", targets::program::graft, 1000),
    target("stacks", targets::program::stacks, 300),
    target("image", targets::image::image, 1000),
    target("layout", targets::image::layout, 500),
    target("trace", targets::trace::trace, 1000),
    target("results", targets::text::results, 250),
    target("profile", targets::text::profile, 250),
    target("attacks", targets::text::attacks, 250),
    target("project", targets::text::project, 2000),
    target("manifest", targets::text::manifest, 5000),
    target("script", targets::text::script, 20_000),
    target("maps", targets::text::maps, 10_000),
];

const fn target(name: &'static str, run: fn(&[u8]), mutations: u64) -> Target {
    Target {
        name,
        run,
        mutations,
    }
}

/// Runs the target of that name.
///
/// # Panics
/// If there is none, or if it finds something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("no fuzz target is called `{name}`"));
    (target.run)(bytes);
}
