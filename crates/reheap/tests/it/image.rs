//! `reheap image` and `cargo reheap image`: what is in the images, whether other tools read them, and whether they run.
//! `crates/reheap-image` has the tests of layers and files alone.

use crate::common;
use crate::common::command::{EVENT_DEADLINE, Running, make_fifo, try_until};
use crate::common::workshop::{HELLO, Workshop, parsed};
use crate::common::{INSTALL, Outcome, cargo_reheap, files_below, reheap, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// `workloads/guest`, built and packed once for all tests.
fn guest() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
        fs::create_dir_all(&directory).unwrap();
        let text = directory.join("text");
        fs::write(&text, "packed").unwrap();
        let image = directory.join("guest.tar");
        let mut command = cargo_reheap("image --release --package guest --env GUEST=invited");
        command
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
            .arg("--target-dir")
            .arg(directory.join("target"))
            .arg(format!("--file={}:/etc/guest/", text.display()))
            .arg("-o")
            .arg(&image);
        run(&mut command).succeeded().said(&["mimalloc"]);
        image
    })
}

#[test]
fn a_rust_program_in_an_image_has_a_user_certificates_and_a_place_to_write() {
    let workshop = Workshop::new();
    let image = format!("oci-archive:{}", guest().display());
    let told = workshop.podman("", &image, "").succeeded().stdout;
    for line in [
        "user 65532:65532",
        "writes to /tmp: true",
        "writes to home: true",
        "writes to /: false",
        "has a shell: false",
        "zone of Berlin: false",
        "variable: Some(\"invited\")",
        "file: Some(\"packed\")",
    ] {
        assert!(
            told.lines().any(|found| found == line),
            "no `{line}` in {told}"
        );
    }
    let line = told.lines().last().unwrap();
    let words = common::words(line);
    let [valid, all] = [words[1], words[4]].map(|word| word.trim_end_matches(',').parse::<usize>());
    assert_eq!(valid, all, "{line}");
    assert!(
        valid.unwrap() > 50 && line.ends_with(", 0 errors"),
        "{line}"
    );
}

#[test]
fn an_image_of_a_project_says_what_it_is_and_what_it_was_made_from() {
    let workshop = Workshop::new();
    let archive = guest().display();
    let configuration = workshop.configuration(&format!("oci-archive:{archive}"));
    let labels = &configuration["config"]["Labels"];
    let of_image = |name: &str| &labels[format!("org.opencontainers.image.{name}")];
    assert_eq!(of_image("title"), "guest");
    assert_eq!(of_image("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(
        of_image("description"),
        "What a program sees inside a container image"
    );
    let manifest = workshop.manifest(&format!("oci-archive:{archive}"));
    let annotations = &manifest["annotations"];
    assert_eq!(annotations["org.opencontainers.image.title"], "guest");
    let allocators = parsed(annotations["io.github.reheap.allocators"].as_str().unwrap());
    assert_eq!(allocators["guest"]["allocator"], "mimalloc");
    let sbom = parsed(annotations["io.github.reheap.sbom"].as_str().unwrap());
    assert_eq!(sbom["bomFormat"], "CycloneDX");
    let components = sbom["components"].as_array().unwrap();
    let named = |name: &str| {
        components
            .iter()
            .find(|component| component["name"] == name)
    };
    let purl = named("rustls-native-certs").unwrap()["purl"]
        .as_str()
        .unwrap();
    assert!(
        purl.starts_with("pkg:cargo/rustls-native-certs@0.8"),
        "{purl}"
    );
    assert!(named("guest").unwrap().get("purl").is_none());
    // It is for another system, so nothing of it is in the program.
    assert!(named("schannel").is_none());

    let line = run(reheap("inspect").arg(guest())).succeeded().stdout;
    assert!(line.contains("/usr/local/bin/guest: mimalloc"), "{line}");
}

#[test]
fn a_limit_of_memory_reaches_the_program() {
    let workshop = Workshop::new();
    let image = format!("oci-archive:{}", guest().display());
    let fits = workshop.podman("--memory 64m", &image, "16").succeeded();
    assert_eq!(fits.stdout, format!("filled {} bytes\n", 16 << 20));
    let limited = workshop.podman("--memory 64m --memory-swap 64m", &image, "512");
    assert_eq!(limited.code(), Some(137), "{limited:?}"); // 128 + SIGKILL
}

#[test]
fn every_form_runs_and_other_tools_see_the_same_image() {
    let workshop = Workshop::new();
    workshop.hello();
    let made = |place: &str, more: &str| {
        let mut command = workshop.image(&format!("hello -o {place} --json {more}"));
        command.args([
            "--port",
            "8080",
            "--label",
            "a=b",
            "--entrypoint",
            "hello one two",
        ]);
        parsed(&run(&mut command).succeeded().stdout)
    };
    let archive = made("image.tar", "");
    let directory = made("image", "");
    let docker = made("docker.tar", "--format docker");
    let zstd = made("zstd.tar", "--compression zstd");
    for image in [
        "oci-archive:image.tar",
        "oci:image",
        "docker-archive:docker.tar",
        "oci-archive:zstd.tar",
    ] {
        assert_eq!(
            workshop.podman("", image, "").succeeded().stdout,
            "hello 3\n",
            "{image}"
        );
    }
    assert_eq!(archive["digest"], directory["digest"]);
    assert_eq!(
        workshop.inspected("oci-archive:image.tar")["Digest"],
        archive["digest"]
    );
    assert_eq!(
        workshop.inspected("oci:image:latest")["Digest"],
        archive["digest"]
    );
    // The contents are the same, so everything has the same ID.
    for other in [&directory, &docker, &zstd] {
        assert_eq!(other["images"][0]["id"], archive["images"][0]["id"]);
    }
    assert_eq!(docker["digest"], docker["images"][0]["id"]);
    let configuration = workshop.configuration("docker-archive:docker.tar");
    assert_eq!(
        configuration,
        workshop.configuration("oci-archive:image.tar")
    );
    assert_eq!(
        configuration["config"]["ExposedPorts"],
        serde_json::json!({"8080/tcp": {}})
    );
    assert_eq!(configuration["config"]["Labels"]["a"], "b");

    workshop.tool("skopeo copy --quiet oci-archive:image.tar oci:copy:latest");
    assert_eq!(
        workshop.inspected("oci:copy:latest")["Digest"],
        archive["digest"]
    );
    workshop.tool("umoci unpack --rootless --image image:latest bundle");
    let root = workshop.path("bundle/rootfs");
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("tmp"), mode("usr/local/bin/hello")), (0o1777, 0o755));
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(passwd.contains("nonroot:x:65532:65532:"), "{passwd}");
    let bundle = fs::read(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    for link in ["etc/ssl/cert.pem", "etc/ssl/ca-bundle.pem"] {
        assert_eq!(fs::read(root.join(link)).unwrap(), bundle, "{link}");
    }

    let lines = run(reheap("inspect --json").arg(workshop.path("zstd.tar"))).succeeded();
    assert_eq!(
        parsed(&lines.stdout)[0]["entry_point"],
        "/usr/local/bin/hello"
    );
}

#[test]
fn the_same_programs_give_the_same_bytes_on_any_day_and_anywhere() {
    let (one, other) = (Workshop::new(), Workshop::new());
    one.hello();
    for directory in [&one, &other] {
        directory.write("data/b/text", "text");
        directory.write("data/a", "a");
    }
    fs::copy(one.path("hello"), other.path("hello")).unwrap();
    fs::set_permissions(other.path("data/a"), fs::Permissions::from_mode(0o600)).unwrap();
    let bytes = |workshop: &Workshop, time: Option<&str>| {
        let mut command =
            workshop.image("hello --label b=1 --label a=2 --label c=3 --port 1 --port 2");
        command.args(["--file", "data:/data", "-o", "image.tar"]);
        command.envs(time.map(|time| ("SOURCE_DATE_EPOCH", time)));
        run(&mut command).succeeded();
        fs::read(workshop.path("image.tar")).unwrap()
    };
    let first = bytes(&one, None);
    assert!(first == bytes(&other, None));
    let dated = bytes(&one, Some("1700000000"));
    assert!(dated == bytes(&other, Some("1700000000")) && dated != first);
    let created = &one.configuration("oci-archive:image.tar")["created"];
    assert_eq!(created, "2023-11-14T22:13:20Z");
    let mut wrong = one.image("hello -o image.tar");
    run(wrong.env("SOURCE_DATE_EPOCH", "yesterday"))
        .ended_with(1)
        .said(&["SOURCE_DATE_EPOCH"]);
    assert!(fs::read(one.path("image.tar")).unwrap() == bytes(&one, Some("1700000000")));
}

#[test]
fn programs_for_two_processors_are_one_image_for_two_platforms() {
    let (here, cross) = match std::env::consts::ARCH {
        "aarch64" => ("arm64", "x86_64-linux-gnu-gcc"),
        _ => ("amd64", "aarch64-linux-gnu-gcc"),
    };
    let workshop = Workshop::new();
    workshop.compile("cc", "-static", "here/hello", HELLO);
    workshop.compile(cross, "-static", "there/hello", HELLO);
    let made = workshop.made("here/hello there/hello -o image.tar");
    let platforms: Vec<&str> = made["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["platform"].as_str().unwrap())
        .collect();
    assert_eq!(platforms, ["linux/amd64", "linux/arm64"]);
    let index = workshop.manifest("oci-archive:image.tar");
    assert_eq!(
        index["mediaType"],
        "application/vnd.oci.image.index.v1+json"
    );
    for architecture in ["amd64", "arm64"] {
        let line = format!("skopeo --override-arch {architecture} inspect oci-archive:image.tar");
        let image = parsed(&workshop.tool(&line).stdout);
        assert_eq!(image["Architecture"], architecture);
    }
    let platform = format!("--platform=linux/{here}");
    assert_eq!(
        workshop
            .podman(&platform, "oci-archive:image.tar", "")
            .succeeded()
            .stdout,
        "hello 1\n"
    );

    run(&mut workshop.image("here/hello there/hello --format docker -o docker.tar"))
        .ended_with(2)
        .said(&["several platforms", "use --format oci"]);
    run(&mut workshop.image("here/hello --platform linux/s390x -o other.tar"))
        .ended_with(2)
        .said(&[&format!("the programs are for linux/{here}")]);
    run(&mut workshop.image("here/hello here/hello -o other.tar"))
        .ended_with(2)
        .said(&["both are hello"]);
}

#[test]
fn a_dynamic_program_is_refused_with_what_it_needs_or_packed_with_it() {
    let workshop = Workshop::new();
    workshop.compile("cc", "", "glibc", HELLO);
    workshop.compile("musl-gcc", "", "musl", HELLO);
    // Found only beside the program, and so not in an image.
    workshop.write("extra.c", "int extra(void) { return 0; }\n");
    workshop.tool("cc -shared -fPIC extra.c -o libextra.so");
    workshop.compile(
        "cc",
        &format!(
            "-Wl,--no-as-needed -L{0} -lextra -Wl,-rpath,$ORIGIN",
            workshop.directory().display()
        ),
        "origin",
        HELLO,
    );

    run(&mut workshop.image("glibc -o image.tar"))
        .ended_with(1)
        .said(&[
            "it is dynamic and needs",
            common::glibc_linker(),
            "libc.so.6",
            "--with-libraries",
        ]);
    assert!(!workshop.path("image.tar").exists());
    for name in ["glibc", "musl", "origin"] {
        let archive = format!("{name}.tar");
        run(&mut workshop.image(&format!("{name} --with-libraries -o {archive}"))).succeeded();
        let outcome = workshop.podman("", &format!("oci-archive:{archive}"), "");
        assert_eq!(outcome.succeeded().stdout, "hello 1\n", "{name}");
    }
    fs::remove_file(workshop.path("libextra.so")).unwrap();
    run(&mut workshop.image("origin --with-libraries -o image.tar"))
        .ended_with(1)
        .said(&["this machine does not have libextra.so"]);
}

#[test]
fn a_library_from_roots_home_is_found_by_every_user() {
    let workshop = Workshop::new();
    workshop.write("extra.c", "int extra(void) { return 0; }\n");
    workshop.write("hello.c", HELLO);
    let script = "home=/root; mount -t tmpfs -o mode=700 none $home; cd \"$1\"; \
        cc -shared -fPIC extra.c -o $home/libextra.so; \
        cc -Wl,--no-as-needed hello.c -L$home -lextra -Wl,-rpath,$home -o hello; \
        \"$REHEAP\" image hello --with-libraries -o image.tar >&2";
    common::image::in_namespace(script, &[workshop.directory()]).succeeded();
    for user in ["", "--user 0"] {
        let outcome = workshop.podman(user, "oci-archive:image.tar", "");
        assert_eq!(outcome.succeeded().stdout, "hello 1\n", "{user}");
    }
}

#[test]
fn musls_own_allocator_is_worth_a_warning_with_the_way_out() {
    let workshop = Workshop::new();
    let allocates = "#include <stdlib.h>\nint main(void) { return malloc(1) == 0; }\n";
    workshop.compile("musl-gcc", "-static", "stock", allocates);
    run(&mut workshop.image("stock -o image.tar"))
        .succeeded()
        .said(&["musl's own allocator", "reheap cc"]);
    workshop.hello();
    run(&mut workshop.image("hello -o image.tar"))
        .succeeded()
        .did_not_say("allocator");
}

#[test]
fn what_cannot_be_packed_is_refused_before_anything_is_written() {
    let workshop = Workshop::new();
    workshop.hello();
    workshop.write("script", "#!/bin/sh\n");
    workshop.write("data/file", "text");
    workshop.write("not-certificates.pem", "text");
    workshop.write("kept.txt", "text");
    workshop.write("kept/file", "text");
    make_fifo(&workshop.path("data/fifo"));
    let before = files_below(workshop.directory());
    for (line, code, said) in [
        ("script -o image.tar", 1, "it is not ELF but a script"),
        ("missing -o image.tar", 1, "there is no such file"),
        ("data -o image.tar", 1, "it is a directory, not a file"),
        ("hello -o kept.txt", 1, "it is a file"),
        ("hello -o kept", 1, "it is not an OCI image layout"),
        ("hello -o image.tar.gz", 1, "only a name that ends in .tar"),
        ("hello -o none/image.tar", 1, "there is no directory `none`"),
        (
            "hello -o image --format docker",
            2,
            "a file, not a directory",
        ),
        (
            "hello -o image.tar --file data:/data",
            1,
            "it is a named pipe",
        ),
        ("hello -o image.tar --file data", 2, "is not SRC:DST"),
        ("hello -o image.tar --file none:/x", 1, "cannot read `none`"),
        (
            "hello -o image.tar --file data/file:/a/../b",
            1,
            "without `..`",
        ),
        (
            "hello -o image.tar --file data/file:/tmp",
            1,
            "`/tmp` would be twice",
        ),
        (
            "hello -o image.tar --file data/file:/usr/local/bin/hello",
            1,
            "would be twice",
        ),
        (
            "hello -o image.tar --file data/file:/tmp/a --file data/file:/tmp/a/b",
            1,
            "a file and a directory",
        ),
        (
            "hello -o data/image.tar --file data:/data",
            2,
            "which --file packs",
        ),
        (
            "hello -o image.tar --ca-certificates not-certificates.pem",
            1,
            "cannot take certificates",
        ),
        (
            "hello -o image.tar --entrypoint /bin/sh",
            2,
            "it is not in it",
        ),
        (
            "hello -o image.tar --file kept:/data --entrypoint /data/none",
            2,
            "it is not in it",
        ),
        (
            "hello -o image.tar --file kept:/data --entrypoint /data/file",
            2,
            "`kept/file` is not an executable file",
        ),
        ("hello -o image.tar --env GUEST", 2, "is not KEY=VALUE"),
        ("hello -o image.tar --user nobody", 2, "is not a number"),
        ("hello -o image.tar --port http", 2, "is not a port"),
    ] {
        let outcome = run(&mut workshop.image(line));
        assert!(outcome.stderr.contains(said), "{line}: {outcome:?}");
        outcome.ended_with(code);
        assert_eq!(files_below(workshop.directory()), before, "{line}");
    }
}

#[test]
fn a_full_disk_leaves_the_image_that_was_there() {
    let workshop = Workshop::new();
    workshop.hello();
    workshop.write("noise", noise(3 << 20));
    let script = "mount -t tmpfs -o size=2m none \"$1\"; cd \"$2\"; \"$REHEAP\" image hello -o \"$1/image.tar\" >&2; \
        cp \"$1/image.tar\" before; ! \"$REHEAP\" image hello --file noise:/noise -o \"$1/image.tar\"; \
        cmp before \"$1/image.tar\"; ls -A \"$1\"; ! \"$REHEAP\" image hello --file noise:/noise -o \"$1/image\"; ls -A \"$1\"";
    fs::create_dir(workshop.path("disk")).unwrap();
    let outcome =
        common::image::in_namespace(script, &[&workshop.path("disk"), workshop.directory()]);
    let outcome = outcome.succeeded().said(&["No space left on device"]);
    assert_eq!(outcome.stdout, "image.tar\nimage.tar\n");
}

/// Bytes that no compressor makes smaller (a linear congruential generator).
fn noise(bytes: usize) -> Vec<u8> {
    let step = |state: &mut u64| {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat_n((), bytes)
        .scan(1, |state, ()| step(state))
        .collect()
}

#[test]
fn ctrl_c_while_layers_are_made_leaves_nothing() {
    let workshop = Workshop::new();
    workshop.hello();
    let sparse = fs::File::create(workshop.path("sparse")).unwrap();
    sparse.set_len(20 << 30).unwrap();
    let before = files_below(workshop.directory());
    let running = Running::start(&mut workshop.image("hello --file sparse:/sparse -o image.tar"));
    let pid = running.pid();
    try_until("opening the file that is packed", pid, || {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| error.to_string())?;
        let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        if targets.any(|target| target.ends_with("sparse")) {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    });
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let outcome = running.finish(EVENT_DEADLINE).ended_with(130);
    outcome.said(&["interrupted before `image.tar` was written"]);
    assert_eq!(files_below(workshop.directory()), before);
}

#[test]
fn time_zones_and_mozillas_certificates_are_there_when_asked_for() {
    let workshop = Workshop::new();
    workshop.hello();
    let made = workshop.made("hello --tzdata --user 1000 -o image");
    let layers = made["images"][0]["layers"].as_array().unwrap();
    let contents: Vec<&str> = layers
        .iter()
        .map(|layer| layer["contents"].as_str().unwrap())
        .collect();
    assert_eq!(
        contents,
        [
            "users, /tmp, CA certificates",
            "time zones",
            "/usr/local/bin/hello"
        ]
    );
    assert_eq!(
        workshop.configuration("oci:image")["config"]["User"],
        "1000:1000"
    );
    workshop.tool("umoci unpack --rootless --image image:latest bundle");
    let zone = |root: &str| fs::read(Path::new(root).join("usr/share/zoneinfo/Europe/Berlin"));
    let here = zone("/").unwrap_or_else(|error| panic!("no time zones: {error}; {INSTALL}"));
    let packed = zone(workshop.path("bundle/rootfs").to_str().unwrap()).unwrap();
    assert_eq!(packed, here);

    let none = workshop.made("hello --ca-certificates none -o image");
    assert_eq!(none["images"][0]["certificates"], Value::Null);
    let script =
        "mount -t tmpfs none /etc/ssl; cd \"$1\"; \"$REHEAP\" image hello --json -o mozilla.tar";
    let outcome = common::image::in_namespace(script, &[workshop.directory()]).succeeded();
    let certificates = &parsed(&outcome.stdout)["images"][0]["certificates"];
    assert!(certificates["count"].as_u64() > Some(50), "{certificates}");
    assert_eq!(certificates["from"], Value::Null);
}

#[test]
fn a_pipe_gets_the_archive_and_nothing_else() {
    let workshop = Workshop::new();
    workshop.hello();
    let script = "\"$0\" image hello --format docker -o /proc/self/fd/1 | cat > piped.tar";
    let mut shell = Command::new("sh");
    shell
        .current_dir(workshop.directory())
        .args(["-euc", script, env!("CARGO_BIN_EXE_reheap")]);
    run(&mut shell).succeeded().said(&["/usr/local/bin/hello"]);
    assert_eq!(
        workshop
            .podman("", "docker-archive:piped.tar", "")
            .succeeded()
            .stdout,
        "hello 1\n"
    );
}

#[test]
fn what_cargo_auditable_left_in_a_program_is_the_images_sbom() {
    let workshop = Workshop::new();
    workshop.hello();
    let script = "import zlib; open('list', 'wb').write(zlib.compress(b'{\"packages\": [{\"name\": \"one\", \
        \"version\": \"1.0.0\", \"source\": \"crates.io\"}]}'))";
    let mut python = Command::new("python3");
    run(python
        .current_dir(workshop.directory())
        .args(["-c", script]))
    .succeeded();
    workshop.tool("objcopy --add-section .dep-v0=list hello");
    let made = run(&mut workshop.image("hello -o image.tar")).succeeded();
    assert!(!made.stdout.contains("without an SBOM"), "{}", made.stdout);
    let manifest = workshop.manifest("oci-archive:image.tar");
    let sbom = parsed(
        manifest["annotations"]["io.github.reheap.sbom"]
            .as_str()
            .unwrap(),
    );
    assert_eq!(sbom["components"][0]["purl"], "pkg:cargo/one@1.0.0");
}

#[test]
fn of_a_projects_programs_the_one_starts_that_cargo_run_would_start() {
    let project = common::Project::new(common::HELLO);
    project.write("src/bin/another.rs", common::HELLO);
    let image = |flags: &str| {
        let mut command = project.cargo_reheap(&format!("image {flags} -o image.tar --json"));
        run(command.arg("--compression=zstd"))
    };
    let starts =
        |outcome: Outcome| parsed(&outcome.succeeded().stdout)["images"][0]["entry_point"].clone();
    assert_eq!(starts(image("")), serde_json::json!(["/usr/local/bin/app"]));
    assert_eq!(
        starts(image("--entrypoint another")),
        serde_json::json!(["/usr/local/bin/another"])
    );
    assert_eq!(
        starts(image("--bin another")),
        serde_json::json!(["/usr/local/bin/another"])
    );
    project.write("src/bin/third.rs", common::HELLO);
    image("--bin another --bin third")
        .ended_with(2)
        .said(&["cannot choose which program starts: another, third"]);
    project.write("src/main.rs", "this is not Rust");
    image("").ended_with(101);
}
