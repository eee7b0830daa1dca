//! `reheap image --add` and `--remove`: what other tools read, what runs, and what is refused.
//! `crates/reheap-image/tests/others.rs` has the tests of damaged images.

use crate::common::image::{in_namespace, musl_linker};
use crate::common::prebuilt::produce;
use crate::common::workshop::{File, Workshop, glibc_files, musl_files, parsed};
use crate::common::{reheap, run, run_with_input};
use reheap_image::blob::Blob;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Prints the files that are mapped into it.
const MAPS: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { char *line = malloc(4096); \
    FILE *maps = fopen(\"/proc/self/maps\", \"r\"); while (fgets(line, 4096, maps)) fputs(line, stdout); free(line); return 0; }\n";

#[test]
fn an_image_with_an_allocator_runs_with_it_and_all_tools_read_it() {
    let workshop = Workshop::new();
    workshop.made("/bin/cat --with-libraries -o base.tar");
    let added = workshop.made("--add mimalloc base.tar -o added.tar -t purge_delay=7");
    assert_eq!(added["program"], "/usr/local/bin/cat");
    assert_eq!(added["libc"], "glibc");
    assert_eq!(added["environment"]["MIMALLOC_PURGE_DELAY"], "7");
    let maps = workshop
        .podman("", "oci-archive:added.tar", "/proc/self/maps")
        .succeeded();
    assert!(
        maps.stdout.contains("/usr/lib/reheap/libmimalloc-"),
        "{maps:?}"
    );
    assert_eq!(maps.stderr, "");
    let environment = workshop
        .podman("", "oci-archive:added.tar", "/proc/self/environ")
        .succeeded()
        .stdout;
    assert!(
        environment.contains("MIMALLOC_PURGE_DELAY=7"),
        "{environment}"
    );

    assert_eq!(
        workshop.manifest_digest("oci-archive:added.tar"),
        added["digest"]
    );
    workshop.tool("skopeo copy --quiet oci-archive:added.tar oci:layout:latest");
    assert_eq!(
        workshop.manifest_digest("oci:layout:latest"),
        added["digest"]
    );
    let history = workshop
        .tool("umoci stat --image layout:latest --json")
        .stdout;
    assert!(
        history.contains("reheap image --add mimalloc -t purge_delay=7"),
        "{history}"
    );
    let storage = "buildah --storage-driver vfs --root storage --runroot storage-run";
    let id = workshop
        .tool(&format!("{storage} pull --quiet oci-archive:added.tar"))
        .stdout;
    assert_eq!(format!("sha256:{}", id.trim()), added["id"]);

    let inspected = run(reheap("inspect --json").arg(workshop.path("added.tar"))).succeeded();
    assert!(
        inspected
            .stdout
            .contains("/usr/lib/reheap/$LIB/libmimalloc-"),
        "{}",
        inspected.stdout
    );
    let again = workshop.made("--add jemalloc added.tar -o again.tar");
    assert!(
        again["removed"].as_str().unwrap().starts_with("mimalloc"),
        "{again}"
    );
    let first = workshop.made("--add jemalloc base.tar -o first.tar");
    assert_eq!(again["digest"], first["digest"]);
    let removed = workshop.made("--remove again.tar -o removed.tar");
    assert_eq!(removed["restored"], true);
    assert_eq!(
        removed["digest"].as_str().unwrap(),
        workshop.manifest_digest("oci-archive:base.tar")
    );
    let name = "`again.tar`: reheap has added nothing to it";
    workshop.write("again.tar", fs::read(workshop.path("removed.tar")).unwrap());
    run(&mut workshop.image("--remove again.tar -o x.tar"))
        .ended_with(1)
        .said(&[name]);
}

#[test]
fn an_image_of_docker_keeps_its_id() {
    let workshop = Workshop::new();
    workshop.made("/bin/cat --with-libraries --format docker -o base.tar");
    let id = |archive: &str| {
        let text = workshop
            .tool(&format!("tar xOf {archive} manifest.json"))
            .stdout;
        let manifest: Value = serde_json::from_str(&text).unwrap();
        manifest[0]["Config"].as_str().unwrap().to_owned()
    };
    workshop.made("--add mimalloc base.tar -o added.tar");
    assert_ne!(id("added.tar"), id("base.tar"));
    // As an engine passes it on, which compresses it in its own way.
    workshop.tool("skopeo copy --quiet docker-archive:added.tar docker-archive:passed.tar:app:1");
    workshop.made("--remove passed.tar -o removed.tar");
    assert_eq!(id("removed.tar"), id("base.tar"));
}

#[test]
fn a_musl_program_gets_its_library_and_glibc_programs_beside_it_are_left_alone() {
    let workshop = Workshop::new();
    workshop.compile("musl-gcc", "", "maps", MAPS);
    workshop.made("maps /bin/cat --with-libraries -o base.tar");
    let added = workshop.made("--add mimalloc base.tar -o added.tar");
    assert_eq!(added["libc"], "musl");
    let maps = workshop.podman("", "oci-archive:added.tar", "").succeeded();
    assert!(maps.stdout.contains("libmimalloc-"), "{maps:?}");
    let cat = "--entrypoint /usr/local/bin/cat";
    let maps = workshop
        .podman(cat, "oci-archive:added.tar", "/proc/self/maps")
        .succeeded();
    assert!(!maps.stdout.contains("libmimalloc-"), "{maps:?}");
    assert_eq!(maps.stderr, "");
}

#[test]
fn a_static_program_is_there_with_the_allocator_in_it() {
    let workshop = Workshop::new();
    workshop.compile("musl-gcc", "-static", "maps", MAPS);
    workshop.made("maps -o base.tar");
    let added = workshop.made("--add mimalloc base.tar -o added.tar");
    assert_eq!(added["libc"], "musl");
    assert_eq!(added["environment"], json!({}));
    let run_it = |image: &str| workshop.podman("", image, "").succeeded();
    let (before, after) = (
        run_it("oci-archive:base.tar"),
        run_it("oci-archive:added.tar"),
    );
    assert!(after.stdout.len() > before.stdout.len(), "{after:?}");
    run(reheap("inspect").arg(workshop.path("added.tar")))
        .succeeded()
        .printed(&["mimalloc", "grafted"]);
    let removed = workshop.made("--remove added.tar -o removed.tar");
    assert_eq!(removed["restored"], true);
}

#[test]
fn scripts_shells_and_init_programs_lead_to_the_program_that_counts() {
    let workshop = Workshop::new();
    workshop.compile("musl-gcc", "", "maps", MAPS);
    let read = |path: &Path| fs::read(path).unwrap();
    let mut files = [glibc_files(), musl_files()].concat();
    files.extend([
        ("bin/dash", 0o755, read(Path::new("/bin/dash"))),
        ("usr/bin/maps", 0o755, read(&workshop.path("maps"))),
        ("entry.sh", 0o755, b"#!/bin/dash\nexec \"$@\"\n".to_vec()),
        ("sbin/tini", 0o755, b"\x7fELF".to_vec()),
        ("usr/sbin/gosu", 0o755, b"\x7fELF".to_vec()),
        ("usr/sbin/mail", 0o755, b"\x7fELF".to_vec()),
        ("script", 0o644, b"exec maps\n".to_vec()),
        ("usr/sbin/maps", 0o644, b"about maps".to_vec()),
    ]);
    for (config, program) in [
        (
            json!({"Entrypoint": ["/entry.sh"], "Cmd": ["maps", "-x"]}),
            "/usr/bin/maps",
        ),
        (
            json!({"Cmd": ["dash", "-c", "A=b exec maps -x"]}),
            "/usr/bin/maps",
        ),
        (json!({"Cmd": ["dash", "-c", "echo"]}), "/bin/dash"),
        (
            json!({"Entrypoint": ["/sbin/tini", "--"], "Cmd": ["/entry.sh", "maps"]}),
            "/usr/bin/maps",
        ),
        (
            json!({"Entrypoint": ["/sbin/tini", "-e", "143", "--", "gosu", "mail", "maps"]}),
            "/usr/bin/maps",
        ),
        (
            json!({"Cmd": ["dash", "-eo", "pipefail", "-c", "maps -x"]}),
            "/usr/bin/maps",
        ),
        (json!({"Cmd": ["dash", "/script"]}), "/bin/dash"),
    ] {
        workshop.docker_archive("base.tar", &files, config);
        assert_eq!(
            workshop.made("--add mimalloc base.tar -o added.tar")["program"],
            program
        );
    }
}

#[test]
fn what_is_in_the_environment_stays_behind_the_allocator() {
    let workshop = Workshop::new();
    let mut files = glibc_files();
    files.push(("bin/cat", 0o755, fs::read("/bin/cat").unwrap()));
    let config = json!({
        "Cmd": ["cat"],
        "Env": ["LD_PRELOAD=/x.so", "LD_PRELOAD=/lib/other.so", "MALLOC_CONF=narenas:1", "A=b"],
    });
    workshop.docker_archive("base.tar", &files, config);
    let added = workshop.made("--add jemalloc base.tar -o added.tar -t narenas=2");
    let environment = &added["environment"];
    assert_eq!(environment["MALLOC_CONF"], "narenas:1,narenas:2");
    let preload = environment["LD_PRELOAD"].as_str().unwrap();
    assert!(preload.ends_with(".so:/lib/other.so"), "{preload}");
    assert!(!preload.contains("/x.so"), "{preload}");
    let configuration = workshop.configuration("docker-archive:added.tar");
    let lines = configuration["config"]["Env"].as_array().unwrap();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], format!("LD_PRELOAD={preload}"));
}

#[test]
fn a_program_that_no_preload_gets_into_is_refused_with_the_reason() {
    let workshop = Workshop::new();
    let own = "#include <stddef.h>\nstatic char heap[4096];\nvoid *malloc(size_t n) { return n < 4096 ? heap : 0; }\n\
        void free(void *p) { (void)p; }\nint main(void) { return malloc(1) == 0; }\n";
    let read = |path: PathBuf| fs::read(path).unwrap();
    let fixed = read(workshop.compile("cc", "-static -s", "static", MAPS));
    let dynamic = read(workshop.compile("cc", "", "dynamic", MAPS));
    let own = read(workshop.compile("cc", "-rdynamic -fno-builtin", "own", own));
    let mut foreign = dynamic.clone();
    foreign[18..20].copy_from_slice(&243_u16.to_le_bytes()); // e_machine: RISC-V
    let other = read(workshop.compile(
        "cc",
        "-shared -fPIC -Dmain=unused",
        "lib",
        "void *malloc(unsigned long n) { return 0; }",
    ));
    let user = json!({"Cmd": ["/app"], "User": "1000"});
    let root = json!({"Cmd": ["/app"]});
    let preloaded = json!({"Cmd": ["/app"], "Env": ["LD_PRELOAD=/lib.so"]});
    let by_name = ["LD_PRELOAD=lib.so", "LD_LIBRARY_PATH=/none:/"];
    let by_name = json!({"Cmd": ["/app"], "Env": by_name});
    let listed = |lists: &[u8], program: &[u8]| {
        let mut files = glibc_files();
        files.push(("app", 0o755, program.to_vec()));
        files.push(("lib.so", 0o755, other.clone()));
        files.push(("etc/ld.so.preload", 0o644, lists.to_vec()));
        workshop.docker_archive("base.tar", &files, root.clone());
        run(&mut workshop.image("--add mimalloc base.tar -o added.tar")).ended_with(1)
    };
    listed(b"/x.so # a comment\n/lib.so\n", &dynamic).said(&["/etc/ld.so.preload names `/lib.so`"]);
    listed(&b"/x.so\n".repeat(33), &dynamic).said(&["the image preloads more than 32 libraries"]);
    listed(b"/lib.so", &fixed).said(&["it is stripped"]);
    for (program, mode, config, reason) in [
        (
            &fixed,
            0o755,
            &root,
            "it is stripped, and without symbols reheap does not know all of glibc's malloc",
        ),
        (
            &dynamic,
            0o4755,
            &user,
            "it has more rights than its caller (setuid)",
        ),
        (&own, 0o755, &root, "malloc"),
        (
            &foreign,
            0o755,
            &root,
            "it is for riscv64, and reheap has libraries for x86_64 and aarch64",
        ),
        (&dynamic, 0o755, &preloaded, "LD_PRELOAD names `/lib.so`"),
        (&dynamic, 0o755, &by_name, "LD_PRELOAD names `lib.so`"),
        (
            &b"text".to_vec(),
            0o755,
            &root,
            "its program `/app` is neither ELF nor a script",
        ),
        (
            &fixed,
            0o755,
            &json!({}),
            "neither an entry point nor a command",
        ),
        (
            &fixed,
            0o755,
            &json!({"Cmd": ["/none"]}),
            "`/none` is not in it",
        ),
    ] {
        let mut files = glibc_files();
        files.push(("app", mode, program.clone()));
        files.push(("lib.so", 0o755, other.clone()));
        workshop.docker_archive("base.tar", &files, config.clone());
        run(&mut workshop.image("--add mimalloc base.tar -o added.tar"))
            .ended_with(1)
            .said(&["cannot add mimalloc to `base.tar`", reason]);
        assert!(!workshop.path("added.tar").exists());
    }
    // Its name makes no line of its own in the error.
    let forged = "a\nreheap: all is well";
    let files = [(forged, 0o755, fixed.clone())];
    workshop.docker_archive("base.tar", &files, json!({"Cmd": [format!("/{forged}")]}));
    let refused = run(&mut workshop.image("--add mimalloc base.tar -o added.tar"));
    let said = refused.ended_with(1).stderr;
    assert!(said.contains("`/a\\nreheap: all is well`"), "{said}");
    // Root gains nothing by a file of root's.
    let mut files = glibc_files();
    files.push(("app", 0o4755, dynamic));
    workshop.docker_archive("base.tar", &files, root);
    workshop.made("--add mimalloc base.tar -o added.tar");
}

/// Puts a library into prebuilt files in the place of mimalloc's.
fn replace_mimalloc(package: &Path, library: &[u8]) {
    let manifest = package.join("manifest.json");
    let mut text = parsed(&fs::read_to_string(&manifest).unwrap());
    let mut files = text["files"].as_array_mut().unwrap().iter_mut();
    let of_mimalloc = |file: &&mut Value| {
        let path = file["path"].as_str().unwrap();
        path.starts_with("preloads/") && path.contains("linux-gnu/libmimalloc-2")
    };
    let file = files.find(of_mimalloc).unwrap();
    let digest = Blob::of_bytes(library.to_vec()).digest().to_string();
    file["sha256"] = json!(digest.strip_prefix("sha256:").unwrap());
    file["size"] = json!(library.len());
    fs::write(package.join(file["path"].as_str().unwrap()), library).unwrap();
    fs::write(manifest, text.to_string()).unwrap();
}

#[test]
fn an_image_that_lacks_what_the_allocators_library_needs_is_refused_with_its_name() {
    let workshop = Workshop::new();
    let package = workshop.path("prebuilt");
    produce(&package);
    // As one for glibc 2.17 needs them.
    let flags = "-shared -fPIC -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2";
    let library = workshop.compile("cc", flags, "library.so", "int nothing;\n");
    replace_mimalloc(&package, &fs::read(library).unwrap());
    let added = |layers: &[&[File<'_>]]| {
        let config = json!({"Cmd": ["/app"]});
        workshop.docker_archive_of_layers("base.tar", layers, config);
        let mut command = workshop.image("--add mimalloc base.tar -o added.tar");
        run(command.env("REHEAP_PREBUILT", &package))
    };
    let read = |program: PathBuf| fs::read(program).unwrap();
    let mut files = glibc_files();
    files.push(("app", 0o755, read(workshop.compile("cc", "", "app", MAPS))));
    added(&[&files]).succeeded();
    let removed = [("lib/.wh.libdl.so.2", 0o644, Vec::new())];
    added(&[&files, &removed]).ended_with(1).said(&[
        "cannot add mimalloc to `base.tar`: it lacks libdl.so.2, which the allocator's library needs",
    ]);
    let removed = [("lib/.wh..wh..opq", 0o644, Vec::new())];
    added(&[&files, &removed])
        .ended_with(1)
        .said(&["it lacks libpthread.so.0 and libdl.so.2 and libc.so.6, which"]);
    let mut files = musl_files();
    files.push((
        "app",
        0o755,
        read(workshop.compile("musl-gcc", "", "app", MAPS)),
    ));
    added(&[&files]).succeeded();
    let linker = musl_linker();
    added(&[&files[1..]]).ended_with(1).said(&[&format!(
        "it lacks {linker}, which the allocator's library needs"
    )]);
}

/// What is said about `base.tar`.
fn inspected(workshop: &Workshop) -> String {
    let base = workshop.path("base.tar");
    run(reheap("inspect").arg(base)).succeeded().stdout
}

#[test]
fn inspect_says_which_allocator_the_configuration_of_an_image_preloads() {
    let workshop = Workshop::new();
    let line = |preload: &str, program: &Path| {
        let mut files = glibc_files();
        files.push(("app", 0o755, fs::read(program).unwrap()));
        let config = json!({"Cmd": ["/app"], "Env": [format!("LD_PRELOAD={preload}")]});
        workshop.docker_archive("base.tar", &files, config);
        inspected(&workshop)
    };
    let dynamic = workshop.compile("cc", "", "dynamic", MAPS);
    let said = line("/lib/libx.so:libdl.so.2", &dynamic);
    assert!(said.contains(": stock glibc"), "{said}");
    assert!(
        said.contains("LD_PRELOAD names `/lib/libx.so`, which is not in the image"),
        "{said}"
    );
    assert!(!said.contains("libdl"), "{said}");
    let fixed = workshop.compile("cc", "-static", "static", MAPS);
    let said = line("/lib/libx.so", &fixed);
    assert!(
        said.contains("`/lib/libx.so`, which a static program ignores"),
        "{said}"
    );

    line("", &dynamic);
    workshop.made("--add mimalloc base.tar -o added.tar");
    let added = workshop.path("added.tar");
    let said = run(reheap("inspect").arg(&added)).succeeded().stdout;
    assert!(said.contains("app: mimalloc 2"), "{said}");
    assert!(
        said.contains(" through LD_PRELOAD; dynamic, glibc"),
        "{said}"
    );
    assert!(!said.contains("not in the image"), "{said}");
    // Of a command that a shell starts, it is the same program.
    let mut files = glibc_files();
    files.push(("app", 0o755, fs::read(&dynamic).unwrap()));
    files.push(("bin/sh", 0o755, fs::read(&fixed).unwrap()));
    let config = json!({"Cmd": ["/bin/sh", "-c", "exec /app"]});
    workshop.docker_archive("base.tar", &files, config);
    workshop.made("--add mimalloc base.tar -o added.tar");
    let of_shell = run(reheap("inspect").arg(&added)).succeeded().stdout;
    assert_eq!(of_shell, said);
    let said = run(reheap("inspect --verbose").arg(&added))
        .succeeded()
        .stdout;
    assert!(
        said.contains("  preload     /usr/lib/reheap/$LIB/libmimalloc-2"),
        "{said}"
    );
}

#[test]
fn inspect_reads_the_file_by_which_an_image_preloads_an_allocator() {
    let workshop = Workshop::new();
    let mut command = reheap("preload -a mimalloc --libc glibc --json -o .");
    let written = run(command.current_dir(workshop.directory())).succeeded();
    let library = workshop.path(parsed(&written.stdout)["path"].as_str().unwrap());
    let read = |path: &Path| fs::read(path).unwrap();
    let line = |preload: &str, program: &Path| {
        let mut files = [glibc_files(), musl_files()].concat();
        files.push(("app", 0o755, read(program)));
        files.push(("lib.so", 0o755, read(&library)));
        let list = b"# /x.so\n/lib.so:/none.so".to_vec();
        files.push(("etc/ld.so.preload", 0o644, list));
        // The last one counts.
        let variables = [
            "LD_PRELOAD=/lib.so".to_owned(),
            format!("LD_PRELOAD={preload}"),
            "LD_LIBRARY_PATH=/none:/".to_owned(),
        ];
        let config = json!({"Cmd": ["/app"], "Env": variables});
        workshop.docker_archive("base.tar", &files, config);
        inspected(&workshop)
    };
    let dynamic = workshop.compile("cc", "", "dynamic", MAPS);
    let said = line("", &dynamic);
    assert!(said.contains("app: mimalloc 2"), "{said}");
    assert!(said.contains(" through /etc/ld.so.preload;"), "{said}");
    assert!(
        said.contains("/etc/ld.so.preload names `/none.so`, which is not in the image"),
        "{said}"
    );
    assert!(!said.contains("/x.so"), "{said}");
    for name in ["/lib.so", "lib.so"] {
        let said = line(name, &dynamic);
        assert!(said.contains(" through LD_PRELOAD;"), "{said}");
    }
    for (compiler, flags) in [("musl-gcc", ""), ("cc", "-static")] {
        let said = line("", &workshop.compile(compiler, flags, "other", MAPS));
        assert!(said.contains(": stock "), "{said}");
        assert!(!said.contains("/etc/ld.so.preload"), "{said}");
    }
}

#[test]
fn flags_that_do_not_fit_are_refused_before_anything_is_read() {
    let workshop = Workshop::new();
    for (line, code, reason) in [
        ("--add mimalloc a.tar -o b.tar --port 80", 2, "--port"),
        ("--add mimalloc --remove a.tar -o b.tar", 2, "--remove"),
        (
            "--add mimaloc a.tar -o b.tar",
            2,
            "did you mean `-a mimalloc`?",
        ),
        ("--add stock a.tar -o b.tar", 2, "the libc's own allocator"),
        ("--add mimalloc a.tar b.tar -o c.tar", 2, "give one image"),
        ("--add mimalloc a.tar", 2, "--output"),
        ("a.tar -t a=b -o b.tar", 2, "--add"),
        (
            "--add mimalloc a.tar -o no/b.tar",
            1,
            "there is no directory `no`",
        ),
        ("--add mimalloc a.tar -o b.tar", 1, "there is no such file"),
        ("--add mimalloc debian -o b.tar", 1, "docker://debian"),
        (
            "--add mimalloc a.tar --push localhost/A",
            1,
            "does not name an image",
        ),
    ] {
        run(&mut workshop.image(line))
            .ended_with(code)
            .said(&[reason]);
    }
}

#[test]
fn a_program_on_a_base_has_its_libraries_settings_and_users() {
    let workshop = Workshop::new();
    workshop
        .made("/bin/cat --with-libraries --env A=base --env B=base --user 0 --port 80 -o base.tar");
    workshop.compile("cc", "", "maps", MAPS);
    workshop.write("file", "from a file");
    let line = "maps --base base.tar --env A=own --file file:/etc/file -o app.tar";
    let made = workshop.made(line);
    let layers = made["images"][0]["layers"].as_array().unwrap();
    let contents: Vec<&str> = layers
        .iter()
        .map(|layer| layer["contents"].as_str().unwrap())
        .collect();
    assert_eq!(
        contents,
        ["base", "base", "base", "files", "/usr/local/bin/maps"]
    );
    assert_eq!(
        workshop.manifest_digest("oci-archive:app.tar"),
        made["digest"]
    );
    let maps = workshop.podman("", "oci-archive:app.tar", "").succeeded();
    assert!(maps.stdout.contains("/usr/local/bin/maps"), "{maps:?}");
    let cat = "--entrypoint /usr/local/bin/cat";
    let shown = workshop
        .podman(
            cat,
            "oci-archive:app.tar",
            "/etc/file /proc/self/environ /proc/self/status",
        )
        .succeeded();
    for text in ["from a file", "A=own", "B=base", "Uid:\t0\t"] {
        assert!(shown.stdout.contains(text), "{text}: {shown:?}");
    }
    let config = workshop
        .tool("skopeo inspect --config oci-archive:app.tar")
        .stdout;
    assert!(config.contains("80/tcp"), "{config}");
    // Directories of the base keep their permissions.
    let text = workshop
        .tool("skopeo inspect --raw oci-archive:app.tar")
        .stdout;
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let own = manifest["layers"][4]["digest"]
        .as_str()
        .unwrap()
        .replace(':', "/");
    let names = workshop.tool("tar xf app.tar").stdout
        + &workshop.tool(&format!("tar tzf blobs/{own}")).stdout;
    assert_eq!(names, "usr/local/bin/maps\n");
}

#[test]
fn an_image_may_come_through_a_pipe() {
    let workshop = Workshop::new();
    workshop.made("/bin/cat --with-libraries --format docker -o base.tar");
    workshop.tool("gzip --keep base.tar");
    let expected = workshop.made("--add mimalloc base.tar -o added.tar");
    for file in ["base.tar", "base.tar.gz"] {
        let mut image = workshop.image("--add mimalloc /dev/stdin -o again.tar --json");
        let bytes = fs::read(workshop.path(file)).unwrap();
        let made = run_with_input(&mut image, &bytes).succeeded();
        assert_eq!(parsed(&made.stdout)["id"], expected["id"], "{file}");
    }
    for file in ["/dev/null", "/bin/cat"] {
        run(&mut workshop.image(&format!("--add mimalloc {file} -o again.tar")))
            .ended_with(1)
            .said(&["it is no container image"]);
    }
}

#[test]
fn a_program_of_the_base_may_start_the_one_on_it() {
    let workshop = Workshop::new();
    workshop.made("/usr/bin/env --with-libraries -o base.tar");
    workshop.compile("cc", "-static", "static", MAPS);
    for (command, starts) in [
        ("env", "/usr/local/bin/env"),
        ("/usr/local/bin/env", "/usr/local/bin/env"),
        ("static", "/usr/local/bin/static"),
    ] {
        let line = format!("static --base base.tar -o app.tar --entrypoint {command}");
        let made = workshop.made(&line);
        assert_eq!(made["images"][0]["entry_point"], json!([starts]));
    }
    run(&mut workshop.image("static --base base.tar -o app.tar --entrypoint none"))
        .ended_with(2)
        .said(&["cannot start `none` in the image: it is not in it"]);
}

#[test]
fn a_base_that_lacks_something_is_refused() {
    let workshop = Workshop::new();
    workshop.made("/bin/cat --with-libraries -o base.tar");
    let sums = "#include <math.h>\n#include <stdio.h>\nint main(int n, char **v) { printf(\"%f\", cos(n)); return 0; }\n";
    workshop.compile("cc", "-Wl,--no-as-needed -lm", "sums", sums);
    run(&mut workshop.image("sums --base base.tar -o app.tar"))
        .ended_with(1)
        .said(&[
            "cannot pack `sums`: the base lacks libm.so.6, which it needs",
            "--with-libraries",
        ]);
    workshop.made("sums --base base.tar --with-libraries -o app.tar");
    workshop.compile("musl-gcc", "", "maps", MAPS);
    run(&mut workshop.image("maps --base base.tar -o app.tar"))
        .ended_with(1)
        .said(&["the base lacks /lib/ld-musl-"]);
    workshop.compile("aarch64-linux-gnu-gcc", "-static", "foreign", MAPS);
    run(&mut workshop.image("foreign --base base.tar -o app.tar"))
        .ended_with(1)
        .said(&["the image is not for linux/arm64"]);
    run(&mut workshop.image("maps --base base.tar --ca-certificates none -o app.tar"))
        .ended_with(2);
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let workshop = Workshop::new();
    workshop.made("/bin/cat --with-libraries -o base.tar");
    workshop.compile("cc", "", "maps", MAPS);
    let script = "mkdir \"$1/small\"; mount -t tmpfs -o size=400k none \"$1/small\"; cd \"$1/small\"; echo old > out.tar
        ! \"$REHEAP\" image --add mimalloc ../base.tar -o out.tar; cat out.tar; ls -A
        ! \"$REHEAP\" image ../maps --base ../base.tar -o out.tar; cat out.tar; ls -A";
    let outcome = in_namespace(script, &[workshop.directory()]).succeeded();
    assert_eq!(outcome.stdout, "old\nout.tar\nold\nout.tar\n");
    let said = outcome.stderr.matches("No space left on device").count();
    assert_eq!(said, 2, "{}", outcome.stderr);
}
