//! `reheap image --add` and `--remove`, and images in registries: what other tools read, what runs, and what is refused.
//! `crates/reheap-image/tests/others.rs` has the tests of damaged images.

mod common;

use common::command::{Running, try_until};
use common::image::in_namespace;
use common::{Outcome, reheap, run};
use reheap_image::blob::Blob;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

/// Prints the files that are mapped into it.
const MAPS: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { char *line = malloc(4096); \
    FILE *maps = fopen(\"/proc/self/maps\", \"r\"); while (fgets(line, 4096, maps)) fputs(line, stdout); return 0; }\n";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    fn compile(&self, compiler: &str, flags: &str, name: &str, source: &str) -> PathBuf {
        let source = self.write("source.c", source);
        let mut command = Command::new(compiler);
        command.args(common::words(flags)).arg(source).arg("-o");
        run(command.arg(self.path(name))).succeeded();
        self.path(name)
    }

    /// `reheap image` in this directory.
    fn image(&self, line: &str) -> Command {
        let mut command = reheap(&format!("image {line}"));
        command
            .current_dir(self.0.path())
            .env_remove("SOURCE_DATE_EPOCH")
            .env("HOME", self.0.path())
            .env("REGISTRY_AUTH_FILE", self.path("auth.json"));
        command
    }

    /// What it prints with `--json`.
    #[track_caller]
    fn made(&self, line: &str) -> Value {
        let outcome = run(&mut self.image(&format!("{line} --json"))).succeeded();
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    fn tool(&self, line: &str) -> Outcome {
        let words = common::words(line);
        let mut command = Command::new(words[0]);
        run(command.current_dir(self.0.path()).args(&words[1..])).succeeded()
    }

    /// Runs an image, with containers of its own.
    fn podman(&self, flags: &str, image: &str, arguments: &str) -> Outcome {
        let storage = self.path("containers");
        let mut command = Command::new("podman");
        command
            .current_dir(self.0.path())
            .args(["--storage-driver", "vfs", "--runtime", "runc", "--root"])
            .arg(storage.join("root"))
            .arg("--runroot")
            .arg(storage.join("run"))
            .args(common::words("run --rm --quiet --network none"))
            .args(common::words(
                "--ulimit nofile=1024:1024 --ulimit nproc=1000:1000",
            ))
            .args(common::words(flags))
            .arg(image)
            .args(common::words(arguments));
        run(&mut command).succeeded()
    }

    fn manifest_digest(&self, image: &str) -> String {
        let manifest = self.tool(&format!("skopeo inspect --raw {image}")).stdout;
        Blob::of_bytes(manifest.into_bytes()).digest().to_string()
    }

    /// What `docker save` would write of an image with these files and this configuration.
    fn docker_archive(&self, name: &str, files: &[(&str, u32, Vec<u8>)], config: Value) {
        let mut layer = tar::Builder::new(Vec::new());
        for (path, mode, contents) in files {
            append(&mut layer, path, *mode, contents);
        }
        let layer = layer.into_inner().unwrap();
        let diff_id = Blob::of_bytes(layer.clone()).digest().to_string();
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        });
        let manifest =
            json!([{"Config": "config.json", "RepoTags": ["app:1"], "Layers": ["layer.tar"]}]);
        let mut image = tar::Builder::new(Vec::new());
        append(
            &mut image,
            "config.json",
            0o644,
            config.to_string().as_bytes(),
        );
        append(&mut image, "layer.tar", 0o644, &layer);
        append(
            &mut image,
            "manifest.json",
            0o644,
            manifest.to_string().as_bytes(),
        );
        self.write(name, image.into_inner().unwrap());
    }

    /// The names of all files, to see that nothing is left.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, contents: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(contents.len() as u64);
    archive.append_data(&mut header, path, contents).unwrap();
}

#[test]
fn an_image_with_an_allocator_runs_with_it_and_all_tools_read_it() {
    let place = Place::new();
    place.made("/bin/cat --with-libraries -o base.tar");
    let added = place.made("--add mimalloc base.tar -o added.tar -t purge_delay=7");
    assert_eq!(added["program"], "/usr/local/bin/cat");
    assert_eq!(added["libc"], "glibc");
    assert_eq!(added["environment"]["MIMALLOC_PURGE_DELAY"], "7");
    let maps = place.podman("", "oci-archive:added.tar", "/proc/self/maps");
    assert!(
        maps.stdout.contains("/usr/lib/reheap/libmimalloc-"),
        "{maps:?}"
    );
    assert_eq!(maps.stderr, "");
    let environment = place
        .podman("", "oci-archive:added.tar", "/proc/self/environ")
        .stdout;
    assert!(
        environment.contains("MIMALLOC_PURGE_DELAY=7"),
        "{environment}"
    );

    assert_eq!(
        place.manifest_digest("oci-archive:added.tar"),
        added["digest"]
    );
    place.tool("skopeo copy --quiet oci-archive:added.tar oci:layout:latest");
    assert_eq!(place.manifest_digest("oci:layout:latest"), added["digest"]);
    let history = place.tool("umoci stat --image layout:latest --json").stdout;
    assert!(
        history.contains("reheap image --add mimalloc -t purge_delay=7"),
        "{history}"
    );
    let storage = "buildah --storage-driver vfs --root storage --runroot storage-run";
    let id = place
        .tool(&format!("{storage} pull --quiet oci-archive:added.tar"))
        .stdout;
    assert_eq!(format!("sha256:{}", id.trim()), added["id"]);

    let inspected = run(reheap("inspect --json").arg(place.path("added.tar"))).succeeded();
    assert!(
        inspected
            .stdout
            .contains("/usr/lib/reheap/$LIB/libmimalloc-"),
        "{}",
        inspected.stdout
    );
    let again = place.made("--add jemalloc added.tar -o again.tar");
    assert!(
        again["removed"].as_str().unwrap().starts_with("mimalloc"),
        "{again}"
    );
    let first = place.made("--add jemalloc base.tar -o first.tar");
    assert_eq!(again["digest"], first["digest"]);
    let removed = place.made("--remove again.tar -o removed.tar");
    assert_eq!(removed["restored"], true);
    assert_eq!(
        removed["digest"].as_str().unwrap(),
        place.manifest_digest("oci-archive:base.tar")
    );
    let name = "`again.tar`: reheap has added nothing to it";
    place.write("again.tar", fs::read(place.path("removed.tar")).unwrap());
    run(&mut place.image("--remove again.tar -o x.tar"))
        .ended_with(1)
        .said(&[name]);
}

#[test]
fn an_image_of_docker_keeps_its_id() {
    let place = Place::new();
    place.made("/bin/cat --with-libraries --format docker -o base.tar");
    let id = |archive: &str| {
        let text = place
            .tool(&format!("tar xOf {archive} manifest.json"))
            .stdout;
        let manifest: Value = serde_json::from_str(&text).unwrap();
        manifest[0]["Config"].as_str().unwrap().to_owned()
    };
    place.made("--add mimalloc base.tar -o added.tar");
    assert_ne!(id("added.tar"), id("base.tar"));
    // As an engine passes it on, which compresses it in its own way.
    place.tool("skopeo copy --quiet docker-archive:added.tar docker-archive:passed.tar:app:1");
    place.made("--remove passed.tar -o removed.tar");
    assert_eq!(id("removed.tar"), id("base.tar"));
}

#[test]
fn a_musl_program_gets_its_library_and_glibc_programs_beside_it_are_left_alone() {
    let place = Place::new();
    place.compile("musl-gcc", "", "maps", MAPS);
    place.made("maps /bin/cat --with-libraries -o base.tar");
    let added = place.made("--add mimalloc base.tar -o added.tar");
    assert_eq!(added["libc"], "musl");
    let maps = place.podman("", "oci-archive:added.tar", "");
    assert!(maps.stdout.contains("libmimalloc-"), "{maps:?}");
    let cat = "--entrypoint /usr/local/bin/cat";
    let maps = place.podman(cat, "oci-archive:added.tar", "/proc/self/maps");
    assert!(!maps.stdout.contains("libmimalloc-"), "{maps:?}");
    assert_eq!(maps.stderr, "");
}

#[test]
fn scripts_shells_and_init_programs_lead_to_the_program_that_counts() {
    let place = Place::new();
    place.compile("musl-gcc", "", "maps", MAPS);
    let files = || {
        let read = |path: &Path| fs::read(path).unwrap();
        vec![
            ("bin/dash", 0o755, read(Path::new("/bin/dash"))),
            ("usr/bin/maps", 0o755, read(&place.path("maps"))),
            ("entry.sh", 0o755, b"#!/bin/dash\nexec \"$@\"\n".to_vec()),
            ("sbin/tini", 0o755, b"\x7fELF".to_vec()),
        ]
    };
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
    ] {
        place.docker_archive("base.tar", &files(), config);
        assert_eq!(
            place.made("--add mimalloc base.tar -o added.tar")["program"],
            program
        );
    }
}

#[test]
fn what_is_in_the_environment_stays_behind_the_allocator() {
    let place = Place::new();
    let cat = vec![("bin/cat", 0o755, fs::read("/bin/cat").unwrap())];
    let config = json!({
        "Cmd": ["cat"],
        "Env": ["LD_PRELOAD=/lib/other.so", "MALLOC_CONF=narenas:1", "A=b"],
    });
    place.docker_archive("base.tar", &cat, config);
    let added = place.made("--add jemalloc base.tar -o added.tar -t narenas=2");
    let environment = &added["environment"];
    assert_eq!(environment["MALLOC_CONF"], "narenas:1,narenas:2");
    let preload = environment["LD_PRELOAD"].as_str().unwrap();
    assert!(preload.ends_with(":/lib/other.so"), "{preload}");
}

#[test]
fn a_program_that_no_preload_gets_into_is_refused_with_the_reason() {
    let place = Place::new();
    let own = "#include <stddef.h>\nstatic char heap[4096];\nvoid *malloc(size_t n) { return n < 4096 ? heap : 0; }\n\
        void free(void *p) { (void)p; }\nint main(void) { return malloc(1) == 0; }\n";
    let read = |path: PathBuf| fs::read(path).unwrap();
    let fixed = read(place.compile("cc", "-static", "static", MAPS));
    let dynamic = read(place.compile("cc", "", "dynamic", MAPS));
    let own = read(place.compile("cc", "-rdynamic -fno-builtin", "own", own));
    let mut foreign = dynamic.clone();
    foreign[18..20].copy_from_slice(&243_u16.to_le_bytes()); // e_machine: RISC-V
    let other = read(place.compile(
        "cc",
        "-shared -fPIC -Dmain=unused",
        "lib",
        "void *malloc(unsigned long n) { return 0; }",
    ));
    let user = json!({"Cmd": ["/app"], "User": "1000"});
    let root = json!({"Cmd": ["/app"]});
    let preloaded = json!({"Cmd": ["/app"], "Env": ["LD_PRELOAD=/lib.so"]});
    for (program, mode, config, reason) in [
        (
            &fixed,
            0o755,
            &root,
            "it is static, so no dynamic linker reads LD_PRELOAD",
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
        (
            &b"text".to_vec(),
            0o755,
            &root,
            "the image's program is damaged: `/app`",
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
        let files = [
            ("app", mode, program.clone()),
            ("lib.so", 0o755, other.clone()),
        ];
        place.docker_archive("base.tar", &files, config.clone());
        run(&mut place.image("--add mimalloc base.tar -o added.tar"))
            .ended_with(1)
            .said(&["cannot add mimalloc to `base.tar`", reason]);
        assert!(!place.path("added.tar").exists());
    }
    // Root gains nothing by a file of root's.
    let files = [("app", 0o4755, dynamic)];
    place.docker_archive("base.tar", &files, root);
    place.made("--add mimalloc base.tar -o added.tar");
}

#[test]
fn flags_that_do_not_fit_are_refused_before_anything_is_read() {
    let place = Place::new();
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
        run(&mut place.image(line)).ended_with(code).said(&[reason]);
    }
}

#[test]
fn a_program_on_a_base_has_its_libraries_settings_and_users() {
    let place = Place::new();
    place
        .made("/bin/cat --with-libraries --env A=base --env B=base --user 0 --port 80 -o base.tar");
    place.compile("cc", "", "maps", MAPS);
    place.write("file", "from a file");
    let line = "maps --base base.tar --env A=own --file file:/etc/file -o app.tar";
    let made = place.made(line);
    let layers = made["images"][0]["layers"].as_array().unwrap();
    let contents: Vec<&str> = layers
        .iter()
        .map(|layer| layer["contents"].as_str().unwrap())
        .collect();
    assert_eq!(
        contents,
        ["base", "base", "base", "files", "/usr/local/bin/maps"]
    );
    assert_eq!(place.manifest_digest("oci-archive:app.tar"), made["digest"]);
    let maps = place.podman("", "oci-archive:app.tar", "");
    assert!(maps.stdout.contains("/usr/local/bin/maps"), "{maps:?}");
    let cat = "--entrypoint /usr/local/bin/cat";
    let shown = place.podman(
        cat,
        "oci-archive:app.tar",
        "/etc/file /proc/self/environ /proc/self/status",
    );
    for text in ["from a file", "A=own", "B=base", "Uid:\t0\t"] {
        assert!(shown.stdout.contains(text), "{text}: {shown:?}");
    }
    let config = place
        .tool("skopeo inspect --config oci-archive:app.tar")
        .stdout;
    assert!(config.contains("80/tcp"), "{config}");
    // Directories of the base keep their permissions.
    let text = place
        .tool("skopeo inspect --raw oci-archive:app.tar")
        .stdout;
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let own = manifest["layers"][4]["digest"]
        .as_str()
        .unwrap()
        .replace(':', "/");
    let names =
        place.tool("tar xf app.tar").stdout + &place.tool(&format!("tar tzf blobs/{own}")).stdout;
    assert_eq!(names, "usr/local/bin/maps\n");
}

#[test]
fn a_base_that_lacks_something_is_refused() {
    let place = Place::new();
    place.made("/bin/cat --with-libraries -o base.tar");
    let sums = "#include <math.h>\n#include <stdio.h>\nint main(int n, char **v) { printf(\"%f\", cos(n)); return 0; }\n";
    place.compile("cc", "-Wl,--no-as-needed -lm", "sums", sums);
    run(&mut place.image("sums --base base.tar -o app.tar"))
        .ended_with(1)
        .said(&[
            "cannot pack `sums`: the base lacks libm.so.6, which it needs",
            "--with-libraries",
        ]);
    place.made("sums --base base.tar --with-libraries -o app.tar");
    place.compile("musl-gcc", "", "maps", MAPS);
    run(&mut place.image("maps --base base.tar -o app.tar"))
        .ended_with(1)
        .said(&["the base lacks /lib/ld-musl-"]);
    place.compile("aarch64-linux-gnu-gcc", "-static", "foreign", MAPS);
    run(&mut place.image("foreign --base base.tar -o app.tar"))
        .ended_with(1)
        .said(&["the image is not for linux/arm64"]);
    run(&mut place.image("maps --base base.tar --ca-certificates none -o app.tar")).ended_with(2);
}

/// Debian's registry on this machine, with one user.
struct Registry {
    running: Option<Running>,
    host: String,
    _place: Place,
}

impl Registry {
    fn start() -> Self {
        let place = Place::new();
        let host = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string();
        // The password is `secret`.
        let users = "user:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
        let users = place.write("users", users);
        let settings = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {host}\n\
             auth:\n  htpasswd:\n    realm: test\n    path: {}\n",
            place.path("data").display(),
            users.display()
        );
        let settings = place.write("settings.yml", settings);
        let running = Running::start(Command::new("docker-registry").arg("serve").arg(settings));
        try_until("docker-registry", running.pid(), || {
            TcpStream::connect(&host)
        });
        Self {
            running: Some(running),
            host,
            _place: place,
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let running = self.running.take().unwrap();
        let _ = kill_process(running.pid(), Signal::TERM);
        running.finish(common::command::EVENT_DEADLINE);
    }
}

#[test]
fn an_image_goes_to_a_registry_and_comes_back() {
    let place = Place::new();
    let registry = Registry::start();
    let name = format!("{}/team/cat", registry.host);
    place.made("/bin/cat --with-libraries -o base.tar");
    let line = format!("--add mimalloc base.tar --push {name}:1");
    run(&mut place.image(&line))
        .ended_with(1)
        .said(&["refuses access without a login", "docker login"]);
    let login = |auth: &str| {
        let host = &registry.host;
        place.write(
            "auth.json",
            json!({"auths": {host: {"auth": auth}}}).to_string(),
        )
    };
    login("dXNlcjp3cm9uZw=="); // user:wrong
    run(&mut place.image(&line))
        .ended_with(1)
        .said(&["refuses access to user"]);
    login("dXNlcjpzZWNyZXQ="); // user:secret
    let pushed = place.made(&line);
    assert_eq!(pushed["pushed_to"], format!("{name}:1"));
    let flags = "--tls-verify=false --creds user:secret";
    let remote = place
        .tool(&format!("skopeo inspect --raw {flags} docker://{name}:1"))
        .stdout;
    assert_eq!(
        Blob::of_bytes(remote.into_bytes()).digest().to_string(),
        pushed["digest"]
    );

    // From registry to registry, and from there into a file.
    place.made(&format!(
        "--remove docker://{name}:1 --push {name}:2 -o removed.tar"
    ));
    assert_eq!(
        place.manifest_digest("oci-archive:removed.tar"),
        place.manifest_digest("oci-archive:base.tar")
    );
    let by_digest = format!(
        "--remove {name}@{} -o by-digest.tar",
        pushed["digest"].as_str().unwrap()
    );
    assert_eq!(place.made(&by_digest)["restored"], true);
    run(&mut place.image(&format!("--remove {name}:none -o x.tar")))
        .ended_with(1)
        .said(&["has no image"]);
    place.made(&format!("/bin/cat --with-libraries --push {name}:3"));
    let other = place
        .tool(&format!("skopeo inspect --raw {flags} docker://{name}:3"))
        .stdout;
    assert!(
        other.contains("application/vnd.oci.image.manifest.v1+json"),
        "{other}"
    );
}

/// What the server of a test answers.
#[derive(Clone, Default)]
struct Answer {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
    /// Says that there is more.
    missing_bytes: usize,
    /// Keeps the connection open after that.
    stalls: bool,
}

impl Answer {
    fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            body: body.into(),
            ..Self::default()
        }
    }

    fn error(status: &'static str) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

/// A server that answers by the path of the request, and says what it was asked.
fn serve(answer: impl Fn(&str) -> Answer + Send + 'static) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (asked, paths) = mpsc::channel();
    thread::spawn(move || {
        let mut stalled = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else {
                continue;
            };
            for line in lines.by_ref() {
                if line.unwrap_or_default().is_empty() {
                    break;
                }
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = answer(&path);
            let length = answer.body.len() + answer.missing_bytes;
            let head = format!(
                "HTTP/1.1 {}\r\nContent-Length: {length}\r\nConnection: close\r\n{}\r\n",
                answer.status, answer.headers
            );
            let _ = connection.write_all(head.as_bytes());
            let _ = connection.write_all(&answer.body);
            if answer.stalls {
                stalled.push(connection);
            }
            let _ = asked.send(path); // the test may be over
        }
    });
    (host, paths)
}

/// An image in a registry that does not behave.
struct Bad {
    manifest: String,
    configuration: String,
    layer: Vec<u8>,
}

impl Bad {
    fn new() -> Self {
        let mut layer = tar::Builder::new(Vec::new());
        append(&mut layer, "a", 0o644, b"a");
        let layer = layer.into_inner().unwrap();
        let named = |media_type: &str, bytes: &[u8]| {
            let digest = Blob::of_bytes(bytes.to_vec()).digest().to_string();
            json!({"mediaType": media_type, "size": bytes.len(), "digest": digest})
        };
        let of_layer = named("application/vnd.oci.image.layer.v1.tar", &layer);
        let configuration = json!({
            "architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": [of_layer["digest"]]},
        });
        let configuration = configuration.to_string();
        let of_configuration = named(
            "application/vnd.oci.image.config.v1+json",
            configuration.as_bytes(),
        );
        let manifest =
            json!({"schemaVersion": 2, "config": of_configuration, "layers": [of_layer]});
        Self {
            manifest: manifest.to_string(),
            configuration,
            layer,
        }
    }

    fn answer(&self, path: &str) -> Answer {
        let is = |bytes: &[u8]| path.ends_with(Blob::of_bytes(bytes.to_vec()).digest().as_ref());
        match () {
            () if path == "/v2/" => Answer::ok("{}"),
            () if path.contains("/manifests/") => Answer::ok(self.manifest.clone()),
            () if is(self.configuration.as_bytes()) => Answer::ok(self.configuration.clone()),
            () if is(&self.layer) => Answer::ok(self.layer.clone()),
            () => Answer::error("404 Not Found"),
        }
    }
}

#[test]
fn a_registry_that_does_not_behave_gets_a_clear_error_and_leaves_nothing() {
    let pulled = |answer: Box<dyn Fn(&str) -> Answer + Send>| {
        let place = Place::new();
        let (host, _paths) = serve(answer);
        let outcome =
            run(&mut place.image(&format!("--remove {host}/app:1 -o out.tar"))).ended_with(1);
        assert_eq!(place.names(), [""; 0]);
        outcome
    };
    let of_blobs = |change: fn(&mut Answer)| -> Box<dyn Fn(&str) -> Answer + Send> {
        let bad = Bad::new();
        Box::new(move |path: &str| {
            let mut answer = bad.answer(path);
            if answer.body == bad.layer {
                change(&mut answer);
            }
            answer
        })
    };
    pulled(of_blobs(|_| {})).said(&["reheap has added nothing to it"]);
    pulled(of_blobs(|answer| {
        answer.body.truncate(700);
        answer.missing_bytes = 9540;
    }))
    .said(&["sent 700 of the", "bytes of sha256:"]);
    pulled(of_blobs(|answer| answer.body.truncate(700))).said(&["sent 700 of the"]);
    pulled(of_blobs(|answer| answer.body[0] ^= 1))
        .said(&["the image is damaged: what it calls sha256:"]);
    pulled(of_blobs(|answer| answer.body.extend([0; 512]))).said(&["is longer than"]);
    pulled(Box::new(|path: &str| match path {
        "/v2/" => Answer::ok("{}"),
        _ => Answer::error("404 Not Found"),
    }))
    .said(&["the registry has no image 127.0.0.1"]);
    pulled(Box::new(|_: &str| Answer::error("401 Unauthorized")))
        .said(&["refuses access without a login"]);
    pulled(Box::new(|_: &str| {
        Answer::error("500 Internal Server Error")
    }))
    .said(&["HTTP 500"]);
    pulled(Box::new(|path: &str| match path {
        "/v2/" => Answer::ok("{}"),
        _ => Answer::ok("{\"schemaVersion\":1}"),
    }))
    .said(&["schema 1"]);
}

#[test]
fn a_registry_without_time_is_asked_again() {
    let bad = Bad::new();
    let refused = std::sync::atomic::AtomicUsize::new(0);
    let (host, _paths) = serve(move |path| {
        let is_early = refused.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1;
        match is_early {
            true => Answer::error("429 Too Many Requests"),
            false => bad.answer(path),
        }
    });
    let place = Place::new();
    run(&mut place.image(&format!("--remove {host}/app:1 -o out.tar")))
        .ended_with(1)
        .said(&["reheap has added nothing to it"]);
}

#[test]
fn ctrl_c_ends_a_pull_and_leaves_nothing() {
    let bad = Bad::new();
    let (host, paths) = serve(move |path| {
        let mut answer = bad.answer(path);
        if answer.body == bad.layer {
            answer.body.truncate(700);
            answer.missing_bytes = 9540;
            answer.stalls = true;
        }
        answer
    });
    let place = Place::new();
    let running = Running::start(&mut place.image(&format!("--remove {host}/app:1 -o out.tar")));
    // The login, the manifest, the configuration, the layer.
    for _ in 0..4 {
        paths
            .recv_timeout(common::command::EVENT_DEADLINE)
            .expect("it asks for all parts");
    }
    kill_process(running.pid(), Signal::INT).unwrap();
    let outcome = running.finish(common::command::EVENT_DEADLINE);
    outcome.ended_with(130).said(&["interrupted"]);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let place = Place::new();
    place.made("/bin/cat --with-libraries -o base.tar");
    let script = "mkdir \"$1/small\"; mount -t tmpfs -o size=400k none \"$1/small\"; cd \"$1/small\"; echo old > out.tar
        ! \"$REHEAP\" image --add mimalloc ../base.tar -o out.tar; cat out.tar; ls -A";
    let outcome = in_namespace(script, &[place.0.path()]).succeeded();
    assert_eq!(outcome.stdout, "old\nout.tar\n");
    outcome.said(&["No space left on device"]);
}
