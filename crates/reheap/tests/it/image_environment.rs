//! Images whose entry point changes the environment, so that `LD_PRELOAD` does not get to the program: what is refused,
//! what is warned of, and that it is what happens in a container.

use crate::common::workshop::{Workshop, glibc_files, parsed};
use crate::common::{Outcome, reheap, run};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Prints what it should preload.
const ASKED: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { char *p = getenv(\"LD_PRELOAD\"); \
    puts(p ? p : \"\"); return 0; }\n";
/// Says that it runs, and does so as long as somebody may type something.
const WAITING: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { char *p = malloc(64); \
    while (fgets(p, 64, stdin)) puts(p); free(p); return 0; }\n";
/// What happens to a variable in an image, if something does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    /// The variable arrives in a container without arguments, and reheap warns.
    Doubtful,
}
use Fate::{Arrives, Doubtful, Lost};

/// An image with a shell, `env`, a program and an entry point, which is also the file `/entry`.
fn image(
    workshop: &Workshop,
    script: &str,
    command: &[&str],
    variables: &[&str],
    library: Option<&[u8]>,
) {
    let read = |path: &Path| fs::read(path).unwrap();
    let mut files = glibc_files();
    files.extend([
        ("bin/sh", 0o755, read(Path::new("/bin/dash"))),
        ("usr/bin/env", 0o755, read(Path::new("/usr/bin/env"))),
        ("usr/bin/asked", 0o755, read(&workshop.path("asked"))),
        ("entry", 0o755, script.as_bytes().to_vec()),
        (
            "etc/settings",
            0o644,
            b"A=b\nexport LD_PRELOAD=/other.so\n".to_vec(),
        ),
    ]);
    files.extend(library.map(|library| ("j.so", 0o755, library.to_vec())));
    let config = json!({"Entrypoint": command, "Env": variables});
    workshop.docker_archive("base.tar", &files, config);
}

fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.compile("cc", "", "asked", ASKED);
    workshop
}

/// What the program gets in a container whose image preloads a library that is not there.
fn got(workshop: &Workshop) -> String {
    let flags = "--env LD_PRELOAD=/not/there.so";
    let outcome = workshop
        .podman(flags, "docker-archive:base.tar", "")
        .succeeded();
    outcome.stdout.trim().to_owned()
}

fn added(workshop: &Workshop) -> Outcome {
    run(&mut workshop.image("--add mimalloc base.tar -o added.tar"))
}

#[test]
fn an_allocator_is_added_only_where_its_library_gets_to_the_program() {
    let workshop = workshop();
    let entry: &[&str] = &["/entry", "asked"];
    let cases: [(&str, &[&str], Fate); 19] = [
        ("", &["env", "-i", "PATH=/usr/bin:/bin", "asked"], Lost),
        ("", &["env", "-u", "LD_PRELOAD", "asked"], Lost),
        ("", &["env", "LD_PRELOAD=/other.so", "asked"], Lost),
        ("", &["env", "-u", "HOME", "A=b", "asked"], Arrives),
        ("", &["/bin/sh", "-c", "unset LD_PRELOAD; exec asked"], Lost),
        (
            "",
            &["/bin/sh", "-c", "cd / && LD_PRELOAD= exec asked"],
            Lost,
        ),
        (
            "",
            &["/bin/sh", "-c", "(unset LD_PRELOAD); A=b exec asked"],
            Arrives,
        ),
        (
            "#!/bin/sh\nexport LD_PRELOAD=/other.so\nexec \"$@\"\n",
            entry,
            Lost,
        ),
        ("#!/bin/sh\nLD_PRELOAD=\nexec \"$@\"\n", entry, Lost),
        (
            "#!/bin/sh\nset -e # unset LD_PRELOAD\nexec env - /usr/bin/asked\n",
            &["/entry"],
            Lost,
        ),
        (
            "#!/usr/bin/env -S -u LD_PRELOAD sh\nexec \"$@\"\n",
            entry,
            Lost,
        ),
        (
            "#!/bin/sh\nexport LD_PRELOAD=\"/o.so${LD_PRELOAD:+:$LD_PRELOAD}\"\nexec env A=b \"$@\"\n",
            entry,
            Arrives,
        ),
        (
            "#!/bin/sh\ncat=<<E\nunset LD_PRELOAD\nE\nexec \"$@\"\n",
            entry,
            Arrives,
        ),
        (
            "#!/bin/sh\nif [ -z \"$LD_PRELOAD\" ]; then\n  export LD_PRELOAD=/other.so\nfi\nexec \"$@\"\n",
            entry,
            Arrives,
        ),
        (
            "#!/bin/sh\nif [ -n \"$PLAIN\" ]; then unset LD_PRELOAD; fi\nexec \"$@\"\n",
            entry,
            Doubtful,
        ),
        (
            "#!/bin/sh\n[ \"$1\" = asked ] || exec env -i sh\nexec \"$@\"\n",
            entry,
            Doubtful,
        ),
        ("#!/bin/sh\n. /etc/settings\nexec \"$@\"\n", entry, Lost),
        (
            "#!/bin/sh\nif [ -n \"$PLAIN\" ]; then . /etc/settings; fi\nexec \"$@\"\n",
            entry,
            Doubtful,
        ),
        (
            "#!/bin/sh\nlist=$LD_PRELOAD\nexport LD_PRELOAD=$list\nexec \"$@\"\n",
            entry,
            Doubtful,
        ),
    ];
    for (script, command, fate) in cases {
        image(&workshop, script, command, &[], None);
        let arrives = got(&workshop).contains("/not/there.so");
        assert_eq!(arrives, fate != Lost, "{script}{command:?}");
        let outcome = added(&workshop);
        let refused = outcome
            .stderr
            .contains("`/usr/bin/asked` would start without it: ")
            || outcome
                .stderr
                .contains("`/bin/sh` would start without it: ");
        let warned = outcome.stderr.contains("reheap: warning: ");
        let expected = (fate == Lost, fate == Doubtful);
        assert_eq!(
            (refused, warned),
            expected,
            "{script}{command:?}: {outcome:?}"
        );
        outcome.ended_with(i32::from(fate == Lost));
    }
}

#[test]
fn a_refusal_names_what_takes_the_library_away_and_what_to_do() {
    let workshop = workshop();
    image(
        &workshop,
        "",
        &["env", "-i", "PATH=/usr/bin", "asked"],
        &[],
        None,
    );
    added(&workshop).ended_with(1).said(&[
        "cannot add mimalloc to `base.tar`: its program `/usr/bin/asked` would start without it: `env -i PATH=/usr/bin` \
         takes LD_PRELOAD away",
        "hint: change the image so that LD_PRELOAD stays",
    ]);
    let script = "#!/bin/sh\nexport LD_PRELOAD=/other.so\nexec \"$@\"\n";
    image(&workshop, script, &["/entry", "asked"], &[], None);
    added(&workshop).ended_with(1).said(&[
        "`export LD_PRELOAD=/other.so` in `/entry` sets LD_PRELOAD to `/other.so`",
        "hint: set it in the image (`ENV LD_PRELOAD=/other.so`) and not in what starts the program",
    ]);
    let script = "#!/bin/sh\nexport LD_PRELOAD='\nreheap: all is well'\nexec \"$@\"\n";
    image(&workshop, script, &["/entry", "asked"], &[], None);
    let refused = added(&workshop).ended_with(1);
    assert!(
        refused
            .stderr
            .lines()
            .all(|line| line != "reheap: all is well"),
        "{refused:?}"
    );
    // As the hint says.
    let command = ["/entry", "asked"];
    image(
        &workshop,
        "#!/bin/sh\nexec \"$@\"\n",
        &command,
        &["LD_PRELOAD=/other.so"],
        None,
    );
    added(&workshop).succeeded();
}

#[test]
fn an_image_is_expected_to_have_what_gets_to_its_program() {
    let workshop = workshop();
    let mut preload = reheap("preload -a jemalloc --libc glibc --json -o library");
    let written = run(preload.current_dir(workshop.directory())).succeeded();
    let written = parsed(&written.stdout);
    let library = fs::read(workshop.path(written["path"].as_str().unwrap())).unwrap();
    let preloaded: &[&str] = &["LD_PRELOAD=/j.so"];
    let entry: &[&str] = &["/entry", "asked"];
    for (script, command, variables, code, said) in [
        ("", &["asked"][..], preloaded, 0, "has jemalloc"),
        (
            "",
            &["env", "LD_PRELOAD=/j.so", "asked"],
            &[],
            0,
            "has jemalloc",
        ),
        (
            "#!/bin/sh\nexport LD_PRELOAD=/j.so\nexec \"$@\"\n",
            entry,
            &[],
            0,
            "has jemalloc",
        ),
        (
            "",
            &["env", "-i", "/usr/bin/asked"],
            preloaded,
            3,
            "; `env -i` takes LD_PRELOAD away\n",
        ),
        (
            "#!/bin/sh\nexport LD_PRELOAD=$(echo /j.so)\nexec \"$@\"\n",
            entry,
            &[],
            3,
            "whether that is jemalloc is unknown (`export LD_PRELOAD=$(echo /j.so)` in `/entry` sets LD_PRELOAD to what \
             only a run shows)",
        ),
        (
            "#!/bin/sh\nif [ -f /x ]; then unset LD_PRELOAD; fi\nexec \"$@\"\n",
            entry,
            preloaded,
            0,
            "warning: `base.tar`: `unset LD_PRELOAD` in `/entry` may take LD_PRELOAD away\n\nhint: look at a running \
             container: reheap inspect ",
        ),
    ] {
        image(&workshop, script, command, variables, Some(&library));
        let mut inspect = reheap("inspect --expect jemalloc base.tar");
        let outcome = run(inspect.current_dir(workshop.directory())).ended_with(code);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(all.contains(said), "{all}");
    }
}

/// A container that runs until it is dropped.
struct Container<'a> {
    workshop: &'a Workshop,
    id: String,
}

impl<'a> Container<'a> {
    fn started(workshop: &'a Workshop) -> Self {
        let outcome = workshop
            .podman("-d -i", "docker-archive:added.tar", "")
            .succeeded();
        let id = outcome.stdout.trim().to_owned();
        Self { workshop, id }
    }

    /// Types a command of Docker for it, as a user of podman does.
    fn typed(&self, command: &str) -> Outcome {
        let podman = format!("podman {}", self.workshop.podman_storage().join(" "));
        let reheap = env!("CARGO_BIN_EXE_reheap");
        let command = command
            .replace("docker", &podman)
            .replace("reheap inspect", &format!("{reheap} inspect"))
            .replace("CONTAINER", &self.id);
        run(Command::new("sh").args(["-c", &command]))
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        self.typed("docker rm -f CONTAINER");
    }
}

#[test]
fn the_command_that_reheap_prints_shows_the_allocator_of_a_running_container() {
    let workshop = workshop();
    workshop.compile("cc", "", "asked", WAITING);
    for (script, command, in_front) in [
        ("", &["asked"][..], "reheap inspect $(docker inspect "),
        (
            "#!/bin/sh\necho begins\nasked\necho ends\n",
            &["/entry"],
            "reheap inspect $(pgrep --ns $(docker inspect ",
        ),
    ] {
        image(&workshop, script, command, &[], None);
        let report = workshop.made("--add mimalloc base.tar -o added.tar");
        let proof = report["proof"].as_str().unwrap();
        assert!(proof.starts_with(in_front), "{proof}");
        let container = Container::started(&workshop);
        container.typed("docker logs CONTAINER");
        let shown = container.typed(proof).succeeded().stdout;
        let mut lines = shown.lines().filter(|line| line.contains(" asked: "));
        let line = lines.next().unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains("mimalloc"), "{shown}");
    }
}
