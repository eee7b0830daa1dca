//! Layers that cover a link of the root directory, such as Debian's `/lib`: what is missing by that is said with the layer.

use crate::common::workshop::{File, Workshop, glibc_files};
use crate::common::{Outcome, glibc_linker, reheap, run};
use serde_json::json;
use std::fs;

const LINK: u32 = 0o120_777;
const DIRECTORY: u32 = 0o040_755;

/// A distribution whose `/lib` is a link to `usr/lib`, with these layers on it.
fn image(workshop: &Workshop, program: &'static str, layers: &[&[File<'_>]]) {
    let paths: Vec<(String, u32, Vec<u8>)> = glibc_files()
        .into_iter()
        .map(|(path, mode, contents)| (format!("usr/{path}"), mode, contents))
        .collect();
    let mut below: Vec<File<'_>> = paths
        .iter()
        .map(|(path, mode, contents)| (path.as_str(), *mode, contents.clone()))
        .collect();
    below.extend([
        ("lib", LINK, b"usr/lib".to_vec()),
        ("lib64", LINK, b"usr/lib64".to_vec()),
        ("bin", LINK, b"usr/bin".to_vec()),
        ("usr/bin/words", 0o755, fs::read("/bin/cat").unwrap()),
    ]);
    let layers: Vec<&[File<'_>]> = [&below[..]]
        .into_iter()
        .chain(layers.iter().copied())
        .collect();
    workshop.docker_archive_of_layers("base.tar", &layers, json!({"Cmd": [program]}));
}

fn added(workshop: &Workshop) -> Outcome {
    run(&mut workshop.image("--add mimalloc base.tar -o added.tar"))
}

#[test]
fn the_layer_that_covers_a_link_is_named_with_what_is_missing() {
    let workshop = Workshop::new();
    let note: File<'_> = ("etc/note", 0o644, Vec::new());
    let cover = |name: &'static str| -> [File<'_>; 2] {
        let file = format!("{name}/other").leak();
        [(name, DIRECTORY, Vec::new()), (file, 0o644, Vec::new())]
    };
    image(&workshop, "/usr/bin/words", &[std::slice::from_ref(&note)]);
    added(&workshop).succeeded();
    let flags = "--entrypoint /usr/bin/words";
    let archive = "docker-archive:base.tar";
    workshop.podman(flags, archive, "/etc/note").succeeded();

    let linker = glibc_linker();
    let directory = linker.split('/').nth(1).unwrap();
    image(
        &workshop,
        "/usr/bin/words",
        &[std::slice::from_ref(&note), &cover(directory)],
    );
    // No engine joins the directory with what the link led to.
    let outcome = workshop.podman(flags, archive, "/etc/note");
    assert!(!outcome.status.success(), "{outcome:?}");
    let layer = &workshop.configuration(archive)["rootfs"]["diff_ids"][2];
    let covers = format!(
        "layer 3 of 3 ({}) covers `/{directory}`, a link to `usr/{directory}` in a layer below it",
        layer.as_str().unwrap()
    );
    added(&workshop)
        .ended_with(1)
        .said(&[&format!("it lacks {linker}"), &covers]);

    image(&workshop, "/bin/words", &[&cover("bin")]);
    let covers = "layer 2 of 2 (sha256:";
    added(&workshop)
        .ended_with(1)
        .said(&["`/bin/words` is not in it", covers]);
    let mut inspect = reheap("inspect base.tar");
    run(inspect.current_dir(workshop.directory()))
        .ended_with(1)
        .said(&["`/bin/words` is not in it: layer 2 of 2 covers `/bin`, a link to `usr/bin`"]);

    // A link that was put back leads on.
    let back: [File<'_>; 1] = [(directory, LINK, format!("usr/{directory}").into_bytes())];
    image(&workshop, "/usr/bin/words", &[&cover(directory), &back]);
    added(&workshop).succeeded();
}
